"""Sinks: which way records take, and what is refused before a run."""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hardfetch import sinks
from hardfetch.errors import OptionError, SinkError
from hardfetch.outfile import claim
from hardfetch.packing import packing_of
from hardfetch.parts import Policy
from hardfetch.shelves import Template, parts_of
from hardfetch.sink import Sink
from hardfetch.sinks import open_sink

LINES = [b'{"a":1}\n', '{"b":"é"}\n'.encode()]


def written(sink: Sink) -> None:
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


def test_members_stand_alone_and_a_torn_one_is_cut_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hardfetch.parts.MEMBER_BYTES", 1)
    for suffix in (".gz", ".zst"):
        path = tmp_path / f"out{suffix}"
        sink = open_sink(path)
        for n in range(3):
            sink.write(b"%d" % n * 70000 + b"\n")
        whole = path.read_bytes()
        sink.finish()
        sink.close()
        path.write_bytes(whole[:-5])
        written(open_sink(path, append=True))
        packing = packing_of(path.name)
        assert packing is not None
        data = b"".join(out for out, _ in packing.decode([path.read_bytes()]))
        assert data == b"0" * 70000 + b"\n" + b"1" * 70000 + b"\n" + b"".join(LINES)


def test_a_member_is_not_held_open_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hardfetch.parts.MEMBER_SECONDS", 0.0)
    path = tmp_path / "out.gz"
    sink = open_sink(path)
    sink.write(LINES[0])
    sink.tick()
    assert gzip.decompress(path.read_bytes()) == LINES[0]
    sink.write(LINES[1])
    sink.close()  # as after a failure: what is whole stays
    assert gzip.decompress(path.read_bytes()) == b"".join(LINES)


def test_nothing_is_a_valid_packed_file(tmp_path: Path) -> None:
    sink = open_sink(tmp_path / "out.gz")
    sink.finish()
    sink.close()
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()) == b""


class TestParts:
    def test_parts_are_cut_at_record_ends_and_appear_when_complete(
        self, tmp_path: Path
    ) -> None:
        name = str(tmp_path / "out-{part:05d}.ndjson")
        sink = open_sink(name, policy=Policy(rotate_size=50))
        assert [p.name for p in tmp_path.iterdir()] == [".out-00000.ndjson.incomplete"]
        lines = [b"x" * n + b"\n" for n in (20, 28, 10, 200, 49, 1)]
        sink.write(b"".join(lines[:3]))
        assert (tmp_path / "out-00000.ndjson").read_bytes() == b"".join(lines[:2])
        sink.write(b"".join(lines[3:]))
        sink.finish()
        sink.close()
        parts = sorted(tmp_path.iterdir())
        assert [p.name for p in parts] == [f"out-0000{n}.ndjson" for n in range(5)]
        assert b"".join(p.read_bytes() for p in parts) == b"".join(lines)
        for part in parts:
            data = part.read_bytes()
            assert data.endswith(b"\n")
            assert len(data) <= 50 or data.count(b"\n") == 1

    def test_parts_are_cut_by_time_even_when_nothing_comes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = 1000.0
        monkeypatch.setattr("hardfetch.parts.time.monotonic", lambda: now)
        sink = open_sink(tmp_path / "o{part}", policy=Policy(rotate_time=60))
        sink.write(b"1\n")
        now += 59
        sink.tick()
        assert not (tmp_path / "o0").exists()
        now += 1
        sink.tick()
        assert (tmp_path / "o0").read_bytes() == b"1\n"
        now += 60
        sink.tick()
        sink.write(b"2\n")
        sink.close()
        assert sorted(p.name for p in tmp_path.iterdir()) == ["o0", "o1"]

    @pytest.mark.parametrize("suffix", [".gz", ".zst"])
    def test_packed_parts_hold_all_lines(self, tmp_path: Path, suffix: str) -> None:
        name = str(tmp_path / ("out-{part}" + suffix))
        sink = open_sink(name, policy=Policy(rotate_size=20_000))
        lines = [os.urandom(300).hex().encode() + b"\n" for _ in range(400)]
        for n in range(0, 400, 100):
            sink.write(b"".join(lines[n : n + 100]))
        sink.finish()
        sink.close()
        packing = packing_of(suffix)
        assert packing is not None
        got = b""
        whole, cut = parts_of(Template("" + str(tmp_path) + "/out-", 0, suffix))
        assert len(whole) > 1
        assert not cut
        for part in whole:
            data = b"".join(d for d, _ in packing.decode([Path(part).read_bytes()]))
            assert data.endswith(b"\n")
            got += data
        assert got == b"".join(lines)

    def test_no_record_makes_no_part(self, tmp_path: Path) -> None:
        sink = open_sink(tmp_path / "o{part}")
        sink.finish()
        sink.close()
        assert list(tmp_path.iterdir()) == []

    def test_parts_of_an_earlier_run_are_neither_mixed_nor_lost(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "o7").write_bytes(b"old\n")
        with pytest.raises(OptionError, match="earlier run"):
            open_sink(tmp_path / "o{part}")
        written(open_sink(tmp_path / "o{part}", append=True))
        assert sorted(p.name for p in tmp_path.iterdir()) == ["o7", "o8"]

    @pytest.mark.parametrize("name", ["{part}/x", "a{part}{part}", "a{part!r}"])
    def test_a_wrong_template_is_refused(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(OptionError, match="part"):
            open_sink(tmp_path / name)

    def test_rotation_needs_a_template(self, tmp_path: Path) -> None:
        for sink in (tmp_path / "x", io.BytesIO()):
            with pytest.raises(OptionError, match=r"^rotate_size: .*\{part\}"):
                open_sink(sink, policy=Policy(rotate_size=5))
            with pytest.raises(OptionError, match=r"^rotate_time: .*\{part\}"):
                open_sink(sink, policy=Policy(rotate_time=5))

    def test_a_template_knows_its_own_names(self) -> None:
        template = Template.of("a/b-{part:03d}.gz")
        assert template is not None
        assert template.name(7) == "a/b-007.gz"
        assert template.name(12345) == "a/b-12345.gz"
        assert template.number("a/b-007.gz") == 7
        for other in ("a/b-07.gz", "a/b-0007.gz", "a/b-x.gz", "a/b-007", "a/b-+07.gz"):
            assert template.number(other) is None


class TestFsync:
    @pytest.mark.parametrize("name", ["out", "out.gz", "o{part}"])
    @pytest.mark.parametrize(("policy", "least"), [("never", 0), ("close", 1)])
    def test_close_syncs_once_and_never_does_not(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        name: str,
        policy: str,
        least: int,
    ) -> None:
        calls: list[int] = []
        monkeypatch.setattr(os, "fsync", calls.append)
        written(open_sink(tmp_path / name, policy=Policy(fsync=policy)))
        assert len(calls) >= least
        assert bool(calls) == bool(least)

    @pytest.mark.parametrize("name", ["out", "out.gz"])
    def test_interval_syncs_each_second(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        calls: list[int] = []
        now = 1000.0
        monkeypatch.setattr(os, "fsync", calls.append)
        monkeypatch.setattr("hardfetch.parts.time.monotonic", lambda: now)
        sink = open_sink(tmp_path / name, policy=Policy(fsync="interval"))
        sink.write(LINES[0])
        sink.tick()
        assert len(calls) == 0
        now += 1.1
        sink.tick()
        assert len(calls) == 1
        sink.tick()
        assert len(calls) == 1
        sink.close()


class TestHalfLines:
    @pytest.mark.parametrize("kind", ["path", "descriptor"])
    def test_a_failed_write_leaves_no_half_line(
        self, tmp_path: Path, kind: str
    ) -> None:
        path = tmp_path / "out"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT)
        sink = open_sink(fd if kind == "descriptor" else path)
        sink.write(b"1\n2\n3")  # as where the disk was full
        sink.close()
        assert path.read_bytes() == b"1\n2\n"
        os.close(fd)

    def test_lines_of_others_are_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "out"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT)
        sink = open_sink(fd)
        sink.write(b"1\n")
        with path.open("ab") as other:
            other.write(b"no line")
        sink.close()
        assert path.read_bytes() == b"1\nno line"
        os.close(fd)


class TestRemote:
    @pytest.fixture(autouse=True)
    def _memory(self) -> Iterator[Any]:
        fsspec = pytest.importorskip("fsspec")
        yield fsspec.filesystem("memory").store.clear()
        fsspec.filesystem("memory").store.clear()

    def test_an_object_appears_when_it_is_complete(self) -> None:
        fsspec = pytest.importorskip("fsspec")
        sink = open_sink("memory://b/out.ndjson.gz")
        sink.write(LINES[0])
        sink.finish()
        sink.close()
        with fsspec.open("memory://b/out.ndjson.gz") as file:
            assert gzip.decompress(file.read()) == LINES[0]
        with pytest.raises(OptionError, match="appended"):
            open_sink("memory://b/out.ndjson.gz", append=True)

    def test_parts_are_objects(self) -> None:
        fsspec = pytest.importorskip("fsspec")
        name = "memory://b/o-{part:02d}"
        sink = open_sink(name, policy=Policy(rotate_size=8))
        sink.write(b"1234567\n2\n")
        sink.finish()
        sink.close()
        assert fsspec.open("memory://b/o-00").open().read() == b"1234567\n"
        with pytest.raises(OptionError, match="earlier run"):
            open_sink(name)
        written(open_sink(name, append=True))
        assert fsspec.open("memory://b/o-02").open().read() == b"".join(LINES)

    def test_an_unknown_scheme_is_a_clear_error(self) -> None:
        with pytest.raises(OptionError, match="nosuch"):
            open_sink("nosuch://b/o")

    def test_without_its_library_the_remedy_is_told(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "fsspec.core", None)
        with pytest.raises(OptionError, match=r"hardfetch\[s3\]"):
            open_sink("s3://b/o")


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


def test_a_run_waits_a_moment_for_the_one_before_to_let_go(tmp_path: Path) -> None:
    before = (tmp_path / "out").open("ab")
    claim(before.fileno())
    threading.Timer(0.2, before.close).start()
    with (tmp_path / "out").open("ab") as after:
        claim(after.fileno())
        assert before.closed
