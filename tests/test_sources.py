"""Sources: bytes in chunks, and a stop that wakes a silent one."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hardfetch.errors import OptionError
from hardfetch.packed import MAX_LINE
from hardfetch.packing import packing_of
from hardfetch.request import Request
from hardfetch.sources import Stop, chunks

DATA = b"http://a/\nhttp://b/\xff\n"


@pytest.fixture
def stop() -> Iterator[Stop]:
    stop = Stop()
    yield stop
    stop.close()


def read(source: Any, stop: Stop) -> bytes:
    with ExitStack() as stack:
        found = chunks(source, stop, stack)
        assert found is not None
        return b"".join(found)


def test_paths_and_files_of_all_kinds_give_their_bytes(
    tmp_path: Path, stop: Stop
) -> None:
    path = tmp_path / "urls.txt"
    path.write_bytes(DATA)
    assert read(path, stop) == DATA
    assert read(str(path), stop) == DATA
    with path.open("rb") as file:
        assert read(file, stop) == DATA
    with path.open(encoding="utf-8", errors="surrogateescape") as text:
        assert read(text, stop) == DATA
    assert read(io.BytesIO(DATA), stop) == DATA
    assert read(io.StringIO("http://é/\n"), stop) == "http://é/\n".encode()


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_packed_paths_are_unpacked(suffix: str, tmp_path: Path, stop: Stop) -> None:
    packing = packing_of(suffix)
    assert packing is not None
    path = tmp_path / f"urls{suffix}"
    data = DATA * 100_000
    with path.open("wb") as file:
        for piece in (data[:1_000_000], data[1_000_000:]):
            encoder = packing.encoder()
            file.write(encoder.compress(piece) + encoder.flush())
    assert read(path, stop) == data


@pytest.mark.parametrize("zeros", [1, 511, 100_000])
def test_nuls_behind_gzip_members_are_passed_over(
    zeros: int, tmp_path: Path, stop: Stop
) -> None:
    path = tmp_path / "urls.gz"
    pad = bytes(zeros)
    one, other = gzip.compress(DATA), gzip.compress(DATA * 10_000)
    for packed, plain in (
        (one + pad, DATA),
        (one + pad + other + pad, DATA * 10_001),
        (one + one + pad, DATA * 2),
    ):
        path.write_bytes(packed)
        assert read(path, stop) == plain
    for broken in (pad, pad + one, one + pad + b"x"):
        path.write_bytes(broken)
        with pytest.raises(OSError, match="cut or broken"):
            read(path, stop)


def test_nuls_behind_a_member_of_an_output_are_no_part_of_it(tmp_path: Path) -> None:
    path = tmp_path / "out.gz"
    whole = gzip.compress(DATA)
    path.write_bytes(whole + bytes(4096))
    packing = packing_of(path.name)
    assert packing is not None
    with path.open("r+b") as file:
        packing.mend(file.fileno())
    assert path.read_bytes() == whole


def test_what_a_buffered_file_has_read_ahead_is_not_lost(
    tmp_path: Path, stop: Stop
) -> None:
    path = tmp_path / "urls.txt"
    path.write_bytes(DATA)
    with path.open("rb") as file:
        assert file.readline() == b"http://a/\n"
        assert read(file, stop) == b"http://b/\xff\n"


def test_a_reader_over_a_raw_of_ones_own_is_read(stop: Stop) -> None:
    class Raw(io.RawIOBase):
        def __init__(self) -> None:
            self.parts = [b"", b"http://a/\n"]

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            part = self.parts.pop()
            buffer[: len(part)] = part
            return len(part)

    assert read(io.BufferedReader(Raw()), stop) == b"http://a/\n"


def test_a_line_without_end_comes_in_pieces(stop: Stop) -> None:
    with ExitStack() as stack:
        found = chunks(io.StringIO("x" * (2 * MAX_LINE + 5)), stop, stack)
        assert found is not None
        assert [len(chunk) for chunk in found] == [MAX_LINE, MAX_LINE, 5]


def test_a_stop_wakes_a_reader_of_a_silent_pipe(stop: Stop) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as file, ExitStack() as stack:
        found = chunks(file, stop, stack)
        assert found is not None
        os.write(writer, b"http://a/\n")
        assert next(found) == b"http://a/\n"
        threading.Timer(0.05, stop.set).start()
        assert next(found, None) is None
    os.close(writer)
    assert stop.is_set()


def test_iterables_are_left_to_the_caller(stop: Stop) -> None:
    with ExitStack() as stack:
        for source in (["http://a/"], iter(()), {"http://a/"}):
            assert chunks(source, stop, stack) is None


@pytest.mark.parametrize(
    "source", [b"http://a/", {"url": "x"}, Request("http://a/"), 5, None, "http://a/"]
)
def test_what_is_no_source_is_refused(source: Any, stop: Stop) -> None:
    with ExitStack() as stack, pytest.raises(OptionError, match="^source: "):
        chunks(source, stop, stack)


def test_a_missing_file_is_an_os_error_at_once(tmp_path: Path, stop: Stop) -> None:
    with ExitStack() as stack, pytest.raises(FileNotFoundError):
        chunks(tmp_path / "none", stop, stack)


def test_stdin_itself_is_read_below_its_text_layer() -> None:
    code = (
        "import sys; from contextlib import ExitStack\n"
        "from hardfetch.sources import Stop, chunks\n"
        "with ExitStack() as stack:\n"
        "    sys.stdout.buffer.write(b''.join(chunks(sys.stdin, Stop(), stack)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=DATA, stdout=subprocess.PIPE, check=True,
        timeout=60,
    )  # fmt: skip
    assert done.stdout == DATA


def test_a_stop_may_be_set_twice_and_after_close() -> None:
    stop = Stop()
    stop.set()
    stop.set()
    stop.close()
    stop.set()
    stop.close()
    assert stop.is_set()
