"""`NdjsonWriter`: each accepted record once, in whole lines, whatever threads do."""

from __future__ import annotations

import datetime as dt
import errno
import io
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from watching import LIMIT

from hardfetch import NdjsonWriter, jsonio
from hardfetch.errors import ClosedError, OptionError, SinkError


def lines(path: Path) -> list[Any]:
    data = path.read_bytes()
    assert data == b"" or data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


def in_threads(count: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()


class TestLines:
    def test_threads_lose_nothing_and_keep_their_order(self, tmp_path: Path) -> None:
        path = tmp_path / "out.ndjson"
        with NdjsonWriter(path) as writer:

            def work(thread: int) -> None:
                for n in range(5000):
                    writer.write({"thread": thread, "n": n})

            in_threads(8, work)
        found = lines(path)
        assert len(found) == 40_000
        for thread in range(8):
            mine = [line["n"] for line in found if line["thread"] == thread]
            assert mine == list(range(5000))

    def test_a_small_capacity_blocks_and_drops_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "out.ndjson"
        with NdjsonWriter(path, capacity=200) as writer:

            def work(thread: int) -> None:
                for n in range(200):
                    writer.write([thread, n, "x" * 90])

            in_threads(4, work)
        found = lines(path)
        assert sorted((t, n) for t, n, _ in found) == [
            (t, n) for t in range(4) for n in range(200)
        ]

    def test_bytes_are_taken_as_one_line(self, tmp_path: Path) -> None:
        path = tmp_path / "out.ndjson"
        with NdjsonWriter(path) as writer:
            writer.write(b'{"a":1}')
            writer.write(b'{"a":2}\n')
            for bad in (b"", b"\n", b"1\n2", b"1\n\n"):
                with pytest.raises(ValueError, match="one line"):
                    writer.write(bad)
            writer.write_raw(b"3\n4\n")
            with pytest.raises(ValueError, match="no end"):
                writer.write_raw(b"5\n6")
        assert path.read_bytes() == b'{"a":1}\n{"a":2}\n3\n4\n'

    def test_an_offset_that_rounds_to_an_hour_is_written_as_one(self) -> None:
        zone = dt.timezone(dt.timedelta(hours=1, minutes=59, seconds=45))
        sink = io.BytesIO()
        with NdjsonWriter(sink) as writer:
            writer.write({"at": dt.datetime(2026, 1, 2, tzinfo=zone), "text": ":60"})
            writer.write({"at": "12:60", "none": None})
            with pytest.raises(TypeError):
                writer.write({"at": "12:60", "none": float("nan")})
        assert sink.getvalue().splitlines() == [
            b'{"at":"2026-01-02T00:00:00+02:00","text":":60"}',
            b'{"at":"12:60","none":null}',
        ]

    def test_its_argument_has_a_name(self) -> None:
        sink = io.BytesIO()
        with NdjsonWriter(sink) as writer:
            writer.write(obj={"a": 1})
            NdjsonWriter.write(writer, obj={"a": 2})
            for args, names in (
                ((), {}), ((1, 2), {}), ((1,), {"obj": 2}), ((), {"record": 1}),
                ((), {"obj": 1, "x": 2}), ((), {"ob\ud800j": 1}),
            ):  # fmt: skip
                with pytest.raises(TypeError, match="one argument"):
                    writer.write(*args, **names)
        assert sink.getvalue() == b'{"a":1}\n{"a":2}\n'

    @pytest.mark.parametrize(
        "bad", [float("nan"), {"x": [float("inf")]}, {1, 2}, {"x": "\ud800"}, {1: 2}]
    )
    def test_one_bad_object_is_its_callers_error_alone(
        self, tmp_path: Path, bad: Any
    ) -> None:
        path = tmp_path / "out.ndjson"
        with NdjsonWriter(path) as writer:
            writer.write({"n": 0})
            with pytest.raises(jsonio.JsonEncodeError):
                writer.write(bad)
            writer.write({"n": None, "big": 1 << 70})
        assert lines(path) == [{"n": 0}, {"n": None, "big": 1 << 70}]

    def test_it_works_without_orjson(self, tmp_path: Path) -> None:
        code = (
            "import sys; sys.modules['orjson'] = None\n"
            "import hardfetch\n"
            "with hardfetch.NdjsonWriter(sys.argv[1]) as w:\n"
            "    w.write({'a': 'é', 'n': None})\n"
            "    try: w.write(float('nan'))\n"
            "    except TypeError: w.write('refused')\n"
        )
        path = tmp_path / "out.ndjson"
        subprocess.run([sys.executable, "-c", code, str(path)], check=True)
        assert lines(path) == [{"a": "é", "n": None}, "refused"]


class TestSinks:
    def test_a_file_is_appended_to_and_its_torn_end_cut(self, tmp_path: Path) -> None:
        path = tmp_path / "out.ndjson"
        path.write_bytes(b'{"n":0}\n{"n":1')
        with NdjsonWriter(path) as writer:
            writer.write({"n": 2})
        assert lines(path) == [{"n": 0}, {"n": 2}]
        path.write_bytes(b'{"n":3}')
        with NdjsonWriter(path) as writer:
            writer.write({"n": 4})
        assert lines(path) == [{"n": 3}, {"n": 4}]
        with NdjsonWriter(path, append=False):
            pass
        assert lines(path) == []

    @pytest.mark.parametrize("kind", [io.BytesIO, io.StringIO])
    def test_memory_files_are_written(self, kind: Any) -> None:
        target = kind()
        with NdjsonWriter(target) as writer:
            writer.write(["é"])
        got = target.getvalue()
        assert (got if isinstance(got, str) else got.decode()) == '["é"]\n'

    def test_an_idle_writer_writes_a_single_record_soon(self) -> None:
        read, write = os.pipe()
        with NdjsonWriter(write) as writer:
            time.sleep(0.3)  # it sleeps by now
            began = time.monotonic()
            writer.write(1)
            assert os.read(read, 10) == b"1\n"
            assert time.monotonic() - began < 0.4
        os.close(read)
        os.close(write)

    def test_flush_waits_until_it_is_written(self, tmp_path: Path) -> None:
        path = tmp_path / "out.ndjson"
        with NdjsonWriter(path) as writer:
            for n in range(100):
                writer.write(n)
                assert writer.flush(timeout=LIMIT)
                assert len(lines(path)) == n + 1

    @pytest.mark.parametrize("wrong", [{"capacity": 0}, {"fsync": "often"}])
    def test_wrong_options_are_refused(self, tmp_path: Path, wrong: Any) -> None:
        with pytest.raises(OptionError):
            NdjsonWriter(tmp_path / "x", **wrong)
        with NdjsonWriter(tmp_path / "x") as writer, pytest.raises(OptionError):
            NdjsonWriter(writer)


class TestFailures:
    def test_one_that_has_failed_is_not_watched_any_more(self) -> None:
        def watches() -> set[threading.Thread]:
            return {t for t in threading.enumerate() if t.name.endswith("stall-watch")}

        before = watches()
        writer = NdjsonWriter("/dev/full", stall_warning=0.1)
        (watch,) = watches() - before
        writer.write(1)
        with pytest.raises(SinkError):
            writer.flush(LIMIT)
        watch.join(LIMIT)
        assert not watch.is_alive()
        with pytest.raises(SinkError):
            writer.close()

    def test_a_full_disk_is_told_to_every_caller(self) -> None:
        writer = NdjsonWriter("/dev/full")

        def write_much() -> None:
            for _ in range(1_000_000):
                writer.write({"n": 1})

        with pytest.raises(SinkError) as caught:
            write_much()
        assert caught.value.errno == errno.ENOSPC
        with pytest.raises(SinkError):
            writer.write({"n": 1})
        with pytest.raises(SinkError):
            writer.close()

    def test_a_reader_that_goes_away_ends_it(self) -> None:
        read, write = os.pipe()
        writer = NdjsonWriter(write)
        os.close(read)
        writer.write({"n": 1})
        with pytest.raises(SinkError) as caught:
            writer.close()
        assert caught.value.errno == errno.EPIPE
        os.close(write)

    def test_a_sink_that_raises_anything_is_a_sink_error(self) -> None:
        class Broken(io.RawIOBase):
            def writable(self) -> bool:
                return True

            def write(self, data: Any) -> int:
                raise ZeroDivisionError(f"{len(data)} bytes")

        writer = NdjsonWriter(Broken())
        writer.write(1)
        with pytest.raises(SinkError, match="ZeroDivisionError"):
            writer.close()

    def test_a_sink_may_raise_what_has_no_text(self) -> None:
        class Mute(BaseException):
            def __str__(self) -> str:
                raise ValueError("no text")

        class Broken(io.BytesIO):
            def write(self, data: Any) -> int:
                raise Mute(len(data))

        writer = NdjsonWriter(Broken())
        writer.write(1)
        with pytest.raises(SinkError, match="Mute"):
            writer.close()

    def test_after_close_nothing_is_taken(self, tmp_path: Path) -> None:
        writer = NdjsonWriter(tmp_path / "x")
        writer.write(1)
        writer.close()
        writer.close()
        with pytest.raises(ClosedError):
            writer.write(2)
        with pytest.raises(ClosedError):
            writer.write_raw(b"2\n")
        assert lines(tmp_path / "x") == [1]

    def test_what_is_accepted_while_another_thread_closes_is_written(
        self, tmp_path: Path
    ) -> None:
        for round_ in range(30):
            path = tmp_path / f"{round_}"
            writer = NdjsonWriter(path)
            accepted = [0] * 4
            begun = threading.Barrier(5)

            def work(thread: int) -> None:
                begun.wait()  # noqa: B023
                try:
                    while True:
                        writer.write([thread, accepted[thread]])  # noqa: B023
                        accepted[thread] += 1  # noqa: B023
                except ClosedError:
                    pass

            threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
            for thread in threads:
                thread.start()
            begun.wait()
            writer.close()
            for thread in threads:
                thread.join(LIMIT)
            found = lines(path)
            for thread_number in range(4):
                mine = [n for t, n in found if t == thread_number]
                assert mine == list(range(accepted[thread_number]))

    def test_an_unread_pipe_blocks_the_producer_until_it_is_read(self) -> None:
        read, write = os.pipe()
        writer = NdjsonWriter(write, capacity=4096)
        done = threading.Event()

        def produce() -> None:
            for n in range(3000):
                writer.write([n, "x" * 100])
            done.set()

        thread = threading.Thread(target=produce)
        thread.start()
        assert not done.wait(0.5)
        got = b""
        with os.fdopen(read, "rb") as output:
            while got.count(b"\n") < 3000:
                got += output.read1(1 << 16)
        thread.join(LIMIT)
        writer.close()
        os.close(write)
        assert [json.loads(line)[0] for line in got.splitlines()] == list(range(3000))

    def test_a_signal_ends_the_wait_of_a_producer(self) -> None:
        code = (
            "import os, sys, hardfetch, signal\n"
            "read, write = os.pipe()\n"
            "w = hardfetch.NdjsonWriter(write, capacity=1000)\n"
            "try:\n"
            "    while True:\n"
            "        w.write('x' * 1000); print('.', flush=True)\n"
            "except KeyboardInterrupt:\n"
            "    print('interrupted', flush=True)\n"
            "    os._exit(0)\n"
        )
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], LIMIT)[0], "it never began"
        while select.select([process.stdout], [], [], 1.0)[0]:
            assert os.read(process.stdout.fileno(), 1 << 16)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=LIMIT)
        assert out.endswith(b"interrupted\n")

    def test_an_unread_sink_is_told_on_stderr(self) -> None:
        code = (
            "import sys, hardfetch\n"
            "with hardfetch.NdjsonWriter(1, capacity='1M', stall_warning=0.2) as w:\n"
            "    for _ in range(2000): w.write('x' * 1000)\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stderr is not None
        assert b"has not been read for" in process.stderr.readline()
        out, err = process.communicate(timeout=LIMIT)
        assert out.count(b"\n") == 2000
        assert b"is read again after" in err
        assert process.returncode == 0


EXITS = {
    "end of file": "pass",
    "sys.exit": "sys.exit(0)",
    "exception": "raise RuntimeError('on purpose')",
    "SIGINT": "os.kill(os.getpid(), signal.SIGINT); time.sleep(9)",
}


class TestExit:
    @pytest.mark.parametrize("way", EXITS)
    def test_what_was_accepted_is_written_without_close(
        self, tmp_path: Path, way: str
    ) -> None:
        code = (
            "import os, signal, sys, threading, time, hardfetch\n"
            "w = hardfetch.NdjsonWriter(sys.argv[1])\n"
            "def more():\n"
            "    for n in range(20000): w.write([1, n])\n"
            "t = threading.Thread(target=more); t.start(); t.join()\n"
            "for n in range(20000): w.write([0, n])\n"
        ) + EXITS[way]
        path = tmp_path / "out"
        began = time.monotonic()
        subprocess.run(
            [sys.executable, "-c", code, str(path)],
            stderr=subprocess.DEVNULL,
            timeout=LIMIT,
            check=False,
        )
        assert time.monotonic() - began < 20
        assert len(lines(path)) == 40_000

    def test_a_reader_that_sleeps_does_not_hold_the_exit_for_ever(self) -> None:
        code = (
            "import os, hardfetch\n"
            "read, write = os.pipe()\n"
            "w = hardfetch.NdjsonWriter(write)\n"
            "for n in range(20000): w.write('x' * 100)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            stderr=subprocess.PIPE,
            timeout=LIMIT,
            check=True,
        )
        assert b"bytes are lost" in done.stderr

    def test_a_child_made_by_fork_gets_a_clear_error(self, tmp_path: Path) -> None:
        code = (
            "import os, sys, hardfetch\n"
            "w = hardfetch.NdjsonWriter(sys.argv[1])\n"
            "w.write('parent')\n"
            "if os.fork() == 0:\n"
            "    try: w.write('child')\n"
            "    except hardfetch.ForkError: w.close(); os._exit(7)\n"
            "print(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        )
        path = tmp_path / "out"
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code, str(path)],
            stdout=subprocess.PIPE,
            timeout=LIMIT,
            check=True,
        )
        assert done.stdout == b"7\n"
        assert lines(path) == ["parent"]
