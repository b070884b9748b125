"""Careless paths: what is read is not written over, and nothing waits for ever."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import hardfetch
from hardfetch.testing import FaultSite

HARDFETCH = (sys.executable, "-m", "hardfetch", "fetch", "-q")
LIMIT = 30  # seconds for any one command


@pytest.fixture
def urls(site: FaultSite, tmp_path: Path) -> Path:
    path = tmp_path / "urls.txt"
    path.write_text("".join(f"{site.url('/1k')}?{n}\n" for n in range(20)))
    return path


def run(*arguments: object) -> tuple[int, str]:
    done = subprocess.run(
        [*HARDFETCH, *map(str, arguments)],
        capture_output=True,
        timeout=LIMIT,
        check=False,
    )
    return done.returncode, done.stderr.decode()


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def is_ready(pid: int) -> bool:
    """Whether the process has its handlers of signals in place."""
    caught = Path(f"/proc/{pid}/status").read_text().partition("SigCgt:\t")[2]
    return bool(int(caught[:16], 16) & (1 << (signal.SIGTERM - 1)))


def test_the_source_is_never_appended_to_through_stdout(urls: Path) -> None:
    before = urls.read_bytes()
    with urls.open("ab") as out:
        done = subprocess.run(
            [*HARDFETCH, str(urls)],
            stdout=out,
            stderr=subprocess.PIPE,
            timeout=LIMIT,
            check=False,
        )
    assert done.returncode == 2
    assert b"also a SOURCE" in done.stderr
    assert urls.read_bytes() == before


def test_the_summary_never_replaces_the_source(urls: Path, tmp_path: Path) -> None:
    before = urls.read_bytes()
    link = tmp_path / "link"
    link.hardlink_to(urls)
    for path in (urls, link):
        code, text = run(urls, "-o", tmp_path / "out", "--summary", path)
        assert code == 2
        assert "summary" in text
    assert urls.read_bytes() == before


@pytest.mark.parametrize("there", [False, True])
def test_the_summary_never_replaces_the_records(
    urls: Path, tmp_path: Path, there: bool
) -> None:
    out = tmp_path / "out"
    if there:
        out.write_bytes(b"{}\n")
    code, text = run(urls, "-o", out, "--summary", tmp_path / "." / "out")
    assert code == 2
    assert "summary" in text
    assert out.exists() is there


def test_a_run_never_empties_its_own_source(urls: Path) -> None:
    before = urls.read_bytes()
    with hardfetch.Fetcher() as fetcher:
        with pytest.raises(hardfetch.OptionError, match="also the source"):
            fetcher.run(urls, urls)
        with urls.open("rb") as lines, pytest.raises(hardfetch.OptionError):
            fetcher.run(lines, str(urls))
        with urls.open("ab") as out, pytest.raises(hardfetch.OptionError):
            fetcher.run(urls, out)
    assert urls.read_bytes() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_the_wait_for_a_fifos_reader(
    urls: Path, tmp_path: Path, number: int
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [*HARDFETCH, str(urls), "-o", str(fifo)], stderr=subprocess.PIPE
    )
    try:
        wait_until(lambda: is_ready(process.pid))
        process.send_signal(number)
        _, text = process.communicate(timeout=LIMIT)
        assert process.returncode == 3
        assert b"Traceback" not in text
    finally:
        process.kill()
        process.wait()


def test_a_fifo_gets_every_record_once_it_has_a_reader(
    urls: Path, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = subprocess.Popen([*HARDFETCH, str(urls), "-o", str(fifo)])
    try:
        wait_until(lambda: is_ready(process.pid))
        assert len(fifo.read_bytes().splitlines()) == 20
        assert process.wait(LIMIT) == 0
    finally:
        process.kill()
        process.wait()


def test_stop_ends_the_wait_for_a_fifo_at_both_ends(urls: Path, tmp_path: Path) -> None:
    silent = tmp_path / "silent"
    os.mkfifo(silent)
    out = tmp_path / "out"
    for source, sink in ((silent, out), (urls, silent)):
        with hardfetch.Fetcher() as fetcher:
            timer = threading.Timer(0.2, fetcher.stop, (0.0,))
            timer.start()
            began = time.monotonic()
            summary = fetcher.run(source, sink)
            timer.join()
        assert summary.interrupted
        assert summary.records == 0
        assert time.monotonic() - began < 3


@pytest.mark.parametrize(
    ("option", "prefix"), [("data", "@"), ("proxy-file", ""), ("limits", "")]
)
def test_a_file_without_end_is_refused_by_its_options_name(
    urls: Path, option: str, prefix: str
) -> None:
    code, text = run(urls, f"--{option}", f"{prefix}/dev/zero")
    assert code == 2
    assert f"--{option}" in text or "proxy file" in text
    assert "it holds more than" in text
    assert "Traceback" not in text


def test_an_output_that_is_removed_is_told_at_once(urls: Path, tmp_path: Path) -> None:
    for name in ("out", "out.gz"):
        out, fifo = tmp_path / name, tmp_path / f"{name}.in"
        os.mkfifo(fifo)
        process = subprocess.Popen(
            [*HARDFETCH, str(fifo), "-o", str(out)], stderr=subprocess.PIPE
        )
        try:
            with fifo.open("w") as lines:
                wait_until(out.exists)
                out.unlink()
                lines.write(urls.read_text())
            _, text = process.communicate(timeout=LIMIT)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 4
        told = f"hardfetch: {out}: it was removed while it was written\n"
        assert text.decode() == told


def test_what_the_caller_opened_may_have_no_name(urls: Path, tmp_path: Path) -> None:
    with tempfile.TemporaryFile(dir=tmp_path) as out, hardfetch.Fetcher() as fetcher:
        fetcher.run(urls, out.fileno())
        fetcher.run(urls, f"/proc/self/fd/{out.fileno()}")
        out.seek(0)
        assert len(out.readlines()) == 20


@pytest.mark.parametrize("name", ["out", "out.gz"])
def test_two_runs_never_share_an_output(urls: Path, tmp_path: Path, name: str) -> None:
    out, fifo = tmp_path / name, tmp_path / "in"
    os.mkfifo(fifo)
    process = subprocess.Popen([*HARDFETCH, str(fifo), "-o", str(out)])
    try:
        with fifo.open("w") as lines:
            wait_until(lambda: is_locked(out))
            for options, exit_code in (((), 4), (("--resume",), 2)):
                code, text = run(urls, "-o", out, *options)
                assert code == exit_code
                assert "another run is writing to it" in text
            lines.write(urls.read_text())
        assert process.wait(LIMIT) == 0
    finally:
        process.kill()
        process.wait()
    assert run(urls, "-o", out, "--resume")[0] == 0  # it is free again
    data = out.read_bytes()
    data = gzip.decompress(data) if name.endswith("gz") else data
    assert len(data.splitlines()) == 20


def is_locked(path: Path) -> bool:
    """Whether a process holds a lock of the file; without touching it."""
    if not path.exists():
        return False
    return f":{path.stat().st_ino} " in Path("/proc/locks").read_text()


def test_resume_does_not_wait_for_a_fifo(urls: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    code, text = run(urls, "-o", fifo, "--resume")
    assert code == 2
    assert "no regular file" in text


def test_an_output_without_a_name_is_a_wrong_option(urls: Path) -> None:
    code, text = run(urls, "-o", "")
    assert code == 2
    assert "the path is empty" in text
