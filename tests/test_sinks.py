"""Sinks: which way records take, and what is refused before a run."""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from hardfetch import sinks
from hardfetch.errors import OptionError, SinkError
from hardfetch.sinks import open_sink

LINES = [b'{"a":1}\n', '{"b":"é"}\n'.encode()]


def written(sink: sinks.Sink) -> None:
    for line in LINES:
        if sink.fd is not None:
            os.write(sink.fd, line)
        else:
            sink.write(line)
    sink.finish()
    sink.close()


def test_a_path_is_emptied_first_or_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "out.ndjson"
    path.write_bytes(b"old\n")
    written(open_sink(path))
    assert path.read_bytes() == b"".join(LINES)
    written(open_sink(str(path), append=True))
    assert path.read_bytes() == b"".join(LINES) * 2


def test_gzip_is_chosen_by_suffix_and_appends_a_member(tmp_path: Path) -> None:
    path = tmp_path / "out.ndjson.gz"
    written(open_sink(path))
    assert gzip.decompress(path.read_bytes()) == b"".join(LINES)
    written(open_sink(path, append=True))
    assert gzip.decompress(path.read_bytes()) == b"".join(LINES) * 2


def test_zstd_without_its_library_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("compression.zstd", "backports.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    path = tmp_path / "out.zst"
    with pytest.raises(OptionError, match="zstandard"):
        open_sink(path)
    assert not path.exists()


def test_zstd_is_written_where_its_library_is(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    path = tmp_path / "out.ndjson.zst"
    written(open_sink(path))
    with zstandard.open(path, "rb") as reader:
        assert reader.read() == b"".join(LINES)


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("/no/such/folder/out", errno.ENOENT),
        ("/", errno.EISDIR),
        ("a\0b", errno.EINVAL),
    ],
)
def test_a_path_that_cannot_be_written_is_a_sink_error(path: str, number: int) -> None:
    with pytest.raises(SinkError) as caught:
        open_sink(path)
    assert caught.value.errno == number


def test_a_descriptor_must_be_open_for_writing(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("")
    fd = os.open(path, os.O_RDONLY)
    with pytest.raises(SinkError, match="not open for writing"):
        open_sink(fd)
    os.close(fd)
    with pytest.raises(SinkError) as caught:
        open_sink(fd)
    assert caught.value.errno == errno.EBADF


def test_a_descriptor_is_left_open(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "x", os.O_WRONLY | os.O_CREAT)
    written(open_sink(fd))
    os.fstat(fd)
    os.close(fd)


def test_plain_files_are_written_by_descriptor_behind_what_they_hold(
    tmp_path: Path,
) -> None:
    for mode, head in (("wb", b"head\n"), ("w", "head\n")):
        path = tmp_path / mode
        with open(path, mode, encoding=None if "b" in mode else "utf-8") as file:  # noqa: PTH123
            file.write(head)
            sink = open_sink(file)
            assert sink.fd == file.fileno()
            written(sink)
        assert path.read_bytes() == b"head\n" + b"".join(LINES)


def test_files_that_change_their_bytes_are_written_through(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    with gzip.open(path, "wb") as file:
        sink = open_sink(file)
        assert sink.fd is None
        written(sink)
    assert gzip.decompress(path.read_bytes()) == b"".join(LINES)

    utf16 = tmp_path / "utf16"
    with utf16.open("w", encoding="utf-16") as text:
        sink = open_sink(text)
        assert sink.fd is None
        assert sink.whole_lines
        written(sink)
    assert utf16.read_text("utf-16") == b"".join(LINES).decode()


@pytest.mark.parametrize("kind", [io.BytesIO, io.StringIO])
def test_memory_files_are_written(kind: Any) -> None:
    target = kind()
    written(open_sink(target))
    got = target.getvalue()
    assert (got if isinstance(got, bytes) else got.encode()) == b"".join(LINES)


def test_a_raw_file_may_take_less_than_all() -> None:
    class Narrow:
        def __init__(self) -> None:
            self.got = b""

        def write(self, data: memoryview) -> int:
            self.got += bytes(data[:3])
            return min(3, len(data))

    target = Narrow()
    written(open_sink(target))
    assert target.got == b"".join(LINES)


def test_a_writer_of_lines_gets_whole_lines() -> None:
    class Lines:
        name = "lines"

        def __init__(self) -> None:
            self.got: list[bytes] = []

        def write_raw(self, lines: bytes) -> None:
            self.got.append(lines)

    target = Lines()
    sink = open_sink(target)
    assert sink.whole_lines
    assert sink.name == "lines"
    written(sink)
    assert target.got == LINES


@pytest.mark.parametrize("thing", [None, 1.5, True, object(), b"path"])
def test_what_is_no_sink_is_refused(thing: Any) -> None:
    with pytest.raises(OptionError, match="sink: give a path"):
        open_sink(thing)


def test_a_closed_file_is_refused() -> None:
    file = io.BytesIO()
    file.close()
    with pytest.raises(SinkError):
        open_sink(file)


def test_a_warning_never_waits_for_an_unread_stderr(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, b"x" * 65536)
    os.set_blocking(write, True)
    with os.fdopen(write, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        sinks.warn("nobody reads this")
        os.read(read, 1 << 20)
        sinks.warn("somebody reads this")
        assert os.read(read, 1 << 20) == b"hardfetch: somebody reads this\n"
    os.close(read)
