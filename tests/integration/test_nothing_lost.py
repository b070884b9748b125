"""Slow, absent and failing readers: every record once, in whole lines, on time."""

from __future__ import annotations

import errno
import fcntl
import gzip
import json
import os
import pty
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hardfetch.testing import FaultSite

LIMIT = 60
SLEEP = 5.0  # seconds that the reader sleeps
TIMEOUT = 1.0


def lines(data: bytes) -> list[dict[str, Any]]:
    assert data == b"" or data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


class TestSlowReader:
    @pytest.mark.parametrize("stderr", ["read", "unread"])
    def test_a_reader_that_sleeps_loses_nothing_and_delays_no_deadline(
        self, site: FaultSite, tmp_path: Path, stderr: str
    ) -> None:
        hanging = site.fault("silent-after-accept").url
        inputs = [site.url("/200k")] * 300 + [hanging] * 8
        (tmp_path / "urls").write_text("\n".join(inputs[300:] + inputs[:300]))
        summary = tmp_path / "summary"
        command = [
            *(sys.executable, "-m", "hardfetch", "fetch", str(tmp_path / "urls")),
            *("--timeout", str(TIMEOUT), "--retries", "0", "--max-per-host", "0"),
            *("--ring-bytes", "1M", "-c", "64", "--summary", str(summary)),
            *("--stall-warning", "0.1"),
        ]
        # A pipe of one page, so that a stderr that nobody reads is full at once.
        read, write = os.pipe()
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        got: list[bytes] = []
        with (
            os.fdopen(read, "rb") as error,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=write) as process,
        ):
            os.close(write)
            reader = threading.Thread(target=lambda: got.append(error.read()))
            if stderr == "read":
                reader.start()
            time.sleep(SLEEP)
            assert process.poll() is None
            assert process.stdout is not None
            found = lines(process.stdout.read())
            assert process.wait(LIMIT) == 0
            if stderr == "read":
                reader.join(LIMIT)
                assert b"has not been read for" in got[0]
                assert b"is read again after" in got[0]
        assert sorted(record["seq"] for record in found) == list(range(308))
        late = [record for record in found if record["seq"] < 8]
        for record in late:
            assert record["error"]["type"] == "timeout"
            assert record["limits"]["overrun"] < 0.25
        ring = json.loads(summary.read_bytes())["ring"]
        assert ring["full"] > 0
        assert ring["lost_wakeups"] == 0


#: Fetches argv[1] (hangs, 50 times) and argv[2] (1,000 times) into argv[3] and leaves.
SCRIPT = """
import os, signal, sys, threading, time, hardfetch
hanging, quick, out = sys.argv[1:4]
def inputs():
    yield from [hanging] * 50
    yield from [quick] * 1000
    while True:
        time.sleep(0.01)
        yield quick
f = hardfetch.Fetcher(timeout=50, max_concurrency=100, max_per_host=0)
def run():
    try:
        f.run(inputs(), out)
    except Exception as exc:
        print(type(exc).__name__, exc, file=sys.stderr)
threading.Thread(target=run, daemon=True).start()
while f.stats().records < 1000:
    time.sleep(0.005)
"""
WAYS = {
    "end of file": "",
    "sys.exit": "sys.exit(0)",
    "exception": "raise RuntimeError('on purpose')",
    "SIGINT": "os.kill(os.getpid(), signal.SIGINT); time.sleep(9)",
    "SIGTERM": (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)"
    ),
}


class TestExit:
    @pytest.mark.parametrize("suffix", ["", ".gz"])
    @pytest.mark.parametrize("way", WAYS)
    def test_an_exit_without_close_flushes_whole_lines(
        self, site: FaultSite, tmp_path: Path, way: str, suffix: str
    ) -> None:
        out = tmp_path / f"out{suffix}"
        hanging = site.fault("silent-after-accept").url
        code = SCRIPT + "print(time.monotonic(), flush=True)\n" + WAYS[way]
        process = subprocess.Popen(
            [sys.executable, "-c", code, hanging, site.url("/1k"), str(out)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        began = float(process.stdout.readline())
        _, err = process.communicate(timeout=LIMIT)
        assert time.monotonic() - began < 3
        assert process.returncode in {0, 1, 5, -signal.SIGINT}, err
        data = out.read_bytes()
        if suffix:
            data = gzip.decompress(data)
        found = lines(data)
        assert len(found) >= 1000
        assert len({record["seq"] for record in found}) == len(found)

    def test_killed_by_sigterm_only_the_last_line_can_be_cut(
        self, site: FaultSite, tmp_path: Path
    ) -> None:
        out = tmp_path / "out"
        hanging = site.fault("silent-after-accept").url
        code = SCRIPT + "os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)"
        done = subprocess.run(
            [sys.executable, "-c", code, hanging, site.url("/1k"), str(out)],
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == -signal.SIGTERM
        data = out.read_bytes()
        assert len(lines(data[: data.rfind(b"\n") + 1])) > 0


class TestFullDisk:
    @pytest.mark.parametrize("name", ["out", "out.gz", "out-{part}"])
    def test_no_half_line_is_left(
        self, site: FaultSite, tmp_path: Path, name: str
    ) -> None:
        (tmp_path / "urls").write_text(f"{site.url('/bytes/65536')}\n" * 200)
        folder = tmp_path / "o"
        folder.mkdir()

        def small_files() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        done = subprocess.run(
            [
                *(sys.executable, "-m", "hardfetch", "fetch", str(tmp_path / "urls")),
                *("-o", str(folder / name), "--no-progress", "--max-per-host", "0"),
            ],
            stderr=subprocess.PIPE,
            preexec_fn=small_files,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 4
        assert os.strerror(errno.EFBIG).encode() in done.stderr
        assert done.stderr.count(b"\n") == 1
        for path in folder.iterdir():
            data = path.read_bytes()
            if name.endswith("gz"):
                data = gzip.decompress(data) if data else b""
            lines(data)
            assert data or name != "out"


def test_a_terminal_that_goes_away_ends_the_run(site: FaultSite) -> None:
    master, slave = pty.openpty()
    url = site.url("/1k")
    command = [sys.executable, "-m", "hardfetch", "fetch", "-", "-q"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=slave, stderr=subprocess.PIPE
    ) as process:
        os.close(slave)
        assert process.stdin is not None
        process.stdin.write(f"{url}\n".encode())
        process.stdin.flush()
        assert os.read(master, 1) == b"{"
        os.close(master)
        _, error = process.communicate(f"{url}\n".encode() * 50, timeout=LIMIT)
    assert process.returncode == 4
    # By a write's EIO, or, where poll tells first, in silence, as for any reader gone.
    why = os.strerror(errno.EIO)
    assert error in (b"", f"hardfetch: descriptor 1: {why}\n".encode())


class TestSoak:
    def test_a_long_run_with_faults_leaks_nothing(self, tmp_path: Path) -> None:
        soak = Path(__file__).parents[1] / "soak.py"
        done = subprocess.run(
            [sys.executable, str(soak), "50000", "--folder", str(tmp_path)],
            stdout=subprocess.PIPE,
            timeout=600,
            check=False,
        )
        told = json.loads(done.stdout)
        assert done.returncode == 0, told
        assert told["records"] == told["expected"] >= 50_000
        assert sum(told["errors"].values()) > 1000
