"""Small records from many threads to one file, by three writers.

    python bench/writers.py [--threads 8] [--records 200000] [--rounds 5]

lock: one lock is held while a record is encoded, written to an ordinary file object and
flushed, so each record is with the kernel before the lock is free: the pattern of the
crawler that froze when its output was a full pipe. queue: threads put records into a
queue.Queue, and one thread encodes them and writes them buffered. NdjsonWriter:
hardfetch's. Each encodes by orjson.

The records are made beforehand: only writing is measured. Every run starts a new
process; the figure is records per second from the first write until the file is
complete.
"""

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import orjson

from hardfetch import NdjsonWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WRITERS = ("lock", "queue", "NdjsonWriter")


DISTINCT = 100  # records that a thread writes again and again


def _records(thread: int, each: int) -> list[dict[str, Any]]:
    record = {"thread": thread, "url": "http://example.com/page", "ok": True}
    made = [{**record, "n": n} for n in range(DISTINCT)]
    return made * (each // DISTINCT)


def _in_threads(threads: int, work: Callable[[int], None]) -> None:
    running = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def by_lock(path: Path, threads: int, each: int) -> None:
    lock = threading.Lock()
    with path.open("wb") as file:
        write, flush, dumps = file.write, file.flush, orjson.dumps

        def work(k: int) -> None:
            for record in _records(k, each):
                with lock:
                    write(dumps(record, option=orjson.OPT_APPEND_NEWLINE))
                    flush()

        _in_threads(threads, work)


def by_queue(path: Path, threads: int, each: int) -> None:
    records: queue.Queue[dict[str, Any] | None] = queue.Queue(10_000)

    def write() -> None:
        with path.open("wb") as file:
            while (record := records.get()) is not None:
                file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))

    put = records.put

    def work(k: int) -> None:
        for record in _records(k, each):
            put(record)

    writer = threading.Thread(target=write)
    writer.start()
    _in_threads(threads, work)
    records.put(None)
    writer.join()


def by_ndjson_writer(path: Path, threads: int, each: int) -> None:
    with NdjsonWriter(path) as writer:
        write = writer.write

        def work(k: int) -> None:
            for record in _records(k, each):
                write(record)

        _in_threads(threads, work)


RUN = {"lock": by_lock, "queue": by_queue, "NdjsonWriter": by_ndjson_writer}


def one(name: str, threads: int, records: int) -> tuple[float, float]:
    """Run one writer in this process; return records per second and CPU µs of each."""
    each = records // threads // DISTINCT * DISTINCT
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records"
        start, cpu = time.perf_counter(), time.process_time()
        RUN[name](path, threads, each)
        taken, cpu = time.perf_counter() - start, time.process_time() - cpu
        lines = path.read_bytes().splitlines()
    if len(lines) != each * threads or any(line[-1:] != b"}" for line in lines):
        raise SystemExit(f"{name} wrote {len(lines)} lines, not {each * threads}")
    return each * threads / taken, cpu / (each * threads) * 1e6


def measure(name: str, threads: int, records: int) -> tuple[float, float]:
    """Do `one` in a process of its own, far from this folder."""
    words = ["--one", name, "--threads", str(threads), "--records", str(records)]
    done = subprocess.run(
        [sys.executable, Path(__file__).resolve(), *words],
        cwd=tempfile.gettempdir(),
        capture_output=True,
        check=True,
        timeout=300,
    )
    rate, micros = json.loads(done.stdout)
    return rate, micros


def rates(
    threads: int, records: int, rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the medians of records per second and of CPU µs, over rounds in turn."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in WRITERS}
    for _ in range(rounds):
        for name in WRITERS:
            found[name].append(measure(name, threads, records))
    return (
        {name: median(rate for rate, _ in runs) for name, runs in found.items()},
        {name: median(micros for _, micros in runs) for name, runs in found.items()},
    )


def table(threads: int, records: int, rounds: int) -> Iterator[str]:
    """Measure all, as lines of a table."""
    yield f"### writers: small records to a file, {threads} threads"
    yield ""
    yield "| writer | records/s | / lock | CPU µs/record |"
    yield "| --- | ---: | ---: | ---: |"
    found, micros = rates(threads, records, rounds)
    for name, rate in found.items():
        ratio = rate / found["lock"]
        yield f"| {name} | {rate:,.0f} | {ratio:.1f} | {micros[name]:.2f} |"
    yield ""
    yield f"{rounds} rounds."
    yield ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", choices=WRITERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one, options.threads, options.records)))
        return
    print("\n".join(table(options.threads, options.records, options.rounds)))


if __name__ == "__main__":
    main()
