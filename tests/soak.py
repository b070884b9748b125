"""A long run with faults: does anything grow, get lost or come twice?

    python tests/soak.py [REQUESTS] [--folder DIR] [--faults SHARE] [--url URL]

Runs REQUESTS (1,000,000) in this process against a fault site in another one, or
against URL, with a share of faults (0.05) among them, in one `Fetcher.run` into a file,
after a warm-up of 100,000 or a fifth in the same run. Prints figures as JSON, and ends
with 1 when a promise is broken: inputs = records = lines, none twice; less than 1 KB
of memory per 1,000 requests, or, in a run too short to tell that from the steps of an
allocator, less than 2 MB in all; no wake-up that came by time alone. Of descriptors,
connections that are kept for reuse come and go with what is in flight, but stay about
as many; all others stay the same; and when the fetcher is closed none is left.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from watching import descriptors, sockets_and_others

from hardfetch import Fetcher

#: Faults that end by themselves or by the soft limit, which is short here.
FAULTS = (
    "reset-before-status-line",
    "close-after-accept",
    "reset-mid-body",
    "close-mid-chunk",
    "short-body",
    "chunk-size-letters",
    "answer-noise",
    "header-301k",
    "gzip-bad-crc",
    "location-bad-port",
    "silent-mid-headers",
)
TIMEOUT = 0.25
IN_FLIGHT = 64
SAMPLES = 50
WARM_UP = 100_000
LONG = 1_000_000  # requests in which an allocator's steps no longer count
STEPS = 2 << 20  # bytes: a few large heads at once, and it gives them back late
SITE = """
import json, sys
from hardfetch.testing import FaultSite
with FaultSite() as site:
    faults = {name: site.fault(name).url for name in sys.argv[1:]}
    print(json.dumps({"page": site.url("/1k"), "faults": faults}), flush=True)
    sys.stdin.read()
"""


def resident() -> int:
    """Return this process's resident bytes."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGESIZE")


def slope(points: list[tuple[int, int]]) -> float:
    """Return the rise of y per x by least squares."""
    n = len(points)
    mean_x = sum(x for x, _ in points) / n
    mean_y = sum(y for _, y in points) / n
    above = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return above / (sum((x - mean_x) ** 2 for x, _ in points) or 1.0)


def inputs(count: int, share: float, page: str, faults: list[str]) -> Iterator[str]:
    """Give URLs, faults spread evenly among them."""
    every = round(1 / share) if share > 0 else count + 1
    for n in range(count):
        yield f"{page}?{n}" if n % every else faults[n // every % len(faults)]


class Point(NamedTuple):
    """What was held after so many records."""

    records: int
    resident: int  # bytes
    sockets: int
    others: int  # descriptors of all else


class Sampler(threading.Thread):
    """Notes memory and descriptors as the records grow in number."""

    def __init__(self, fetcher: Fetcher, count: int) -> None:
        super().__init__(daemon=True)
        self.points: list[Point] = []
        self._fetcher = fetcher
        self._step = max(1, count // SAMPLES)
        self._end = threading.Event()

    def run(self) -> None:
        """Sample until `end`."""
        while not self._end.wait(0.02):
            records = self._fetcher.stats().records
            if records >= len(self.points) * self._step:
                held = sockets_and_others()
                self.points.append(Point(records, resident(), *held))

    def end(self) -> None:
        """Stop sampling."""
        self._end.set()
        self.join()


def unique_lines(path: Path, count: int) -> tuple[int, int]:
    """Return the lines of an output, and how many different seq they have."""
    seen = bytearray(count)
    lines = 0
    with path.open("rb") as file:
        for line in file:
            lines += 1
            seen[json.loads(line)["seq"]] = 1
    return lines, sum(seen)


def soak(count: int, share: float, folder: Path, url: str | None) -> dict[str, Any]:
    """Run it and return the figures."""
    warm_up = max(WARM_UP, count // 5)
    total = warm_up + count
    site = subprocess.Popen(
        [sys.executable, "-c", SITE, *FAULTS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert site.stdin is not None
    assert site.stdout is not None
    out = folder / "soak.ndjson"
    before = descriptors()
    try:
        told = json.loads(site.stdout.readline())
        page, faults = url or told["page"], list(told["faults"].values())
        with Fetcher(
            timeout=TIMEOUT,
            retries=0,
            max_concurrency=IN_FLIGHT,
            max_per_host=0,
            body="none",
            breaker=0,
        ) as fetcher:
            sampler = Sampler(fetcher, total)
            sampler.start()
            began = time.monotonic()
            summary = fetcher.run(inputs(total, share, page, faults), out)
            took = time.monotonic() - began
            sampler.end()
        left_open = descriptors() - before
    finally:
        site.stdin.close()
        site.wait()
    lines, different = unique_lines(out, total)
    out.unlink()
    warm = [p for p in sampler.points if p[0] >= warm_up]
    part = max(1, len(warm) // 3)
    first, last = warm[:part], warm[-part:]
    return {
        "expected": total,
        "inputs": summary.inputs,
        "records": summary.records,
        "lines": lines,
        "different": different,
        "errors": summary.errors,
        "lost_wakeups": summary.stats.lost_wakeups,
        "loops_leaked": summary.stats.loops_leaked,
        "bytes_per_1000": round(slope([p[:2] for p in warm]) * 1000, 1),
        "grown": median(p.resident for p in last) - median(p.resident for p in first),
        "resident": max(p.resident for p in warm),
        "sockets": median(p.sockets for p in last),
        "sockets_grown": median(p.sockets for p in last)
        - median(p.sockets for p in first),
        "sockets_most": max(p.sockets for p in warm),
        "others_grown": median(p.others for p in last)
        - median(p.others for p in first),
        "left_open": left_open,
        "requests_per_s": round(total / took),
    }


def main() -> None:
    """Run it as a program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("requests", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--faults", type=float, default=0.05)
    parser.add_argument("--url")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        told = soak(options.requests, options.faults, Path(folder), options.url)
    sys.stdout.write(json.dumps(told, indent=1) + "\n")
    counts = ("expected", "inputs", "records", "lines", "different")
    grows = told["bytes_per_1000"] >= 1024
    if options.requests < LONG:
        grows = grows and told["grown"] >= STEPS
    sys.exit(
        grows
        or len({told[name] for name in counts}) > 1
        or told["lost_wakeups"] > 0
        or told["sockets_grown"] > IN_FLIGHT
        or told["others_grown"] > 0
        or told["left_open"] > 0
    )


if __name__ == "__main__":
    main()
