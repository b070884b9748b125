"""Going on where an earlier run ended: its output is the log.

Three steps, in this order, so that a refusal changes nothing: `read_output` finds what
is answered, `prove` shows that the inputs are those of then, `Earlier.mend` cuts what a
kill has left half written.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from hardfetch._ffi import CODES, OK, error_text, ffi, lib
from hardfetch.errors import OptionError, SinkError
from hardfetch.outfile import TAKEN, is_claimed
from hardfetch.packing import packing_of
from hardfetch.shelves import (
    INCOMPLETE,
    URL,
    Template,
    parts_of,
    remote_fs,
    remote_parts,
    visible,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hardfetch.options import Options
    from hardfetch.packing import Packing

_CHUNK = 1 << 20
_PACKED = 128 << 10  # it grows when it is unpacked
_MEMBER_MOST = 256 << 20  # bytes of lines in one member; ours hold less
_LINE_MOST = 1 << 30
_ERR = 512


class Proved(Exception):  # noqa: N818 - ends the reading, never leaves the package
    """Every input that has a record was seen."""


class Earlier:
    """What an earlier output holds, and the engine side of a `Feeder` that checks."""

    def __init__(self) -> None:
        handle = lib.hf_resume_new()
        if handle == ffi.NULL:
            raise MemoryError
        self._handle = ffi.gc(handle, lib.hf_resume_free)
        self._used = ffi.new("size_t *")
        self._err = ffi.new("char[]", _ERR)
        self._cuts: list[tuple[str, int]] = []

    @property
    def count(self) -> int:
        """How many records there are."""
        return int(lib.hf_resume_count(self._handle))

    def skip(self) -> tuple[bytes, int]:
        """Return the bitmap of inputs that are answered, and its length in bits."""
        end = int(lib.hf_resume_end(self._handle))
        out = ffi.new("uint8_t[]", (end + 7) // 8 + 1)
        lib.hf_resume_bitmap(self._handle, out)
        return bytes(ffi.buffer(out, (end + 7) // 8)), end

    # The output.

    def records(self, data: bytes | memoryview, name: str) -> int:
        """Take the whole lines of data; return their bytes. Raises OptionError."""
        rc = lib.hf_resume_records(
            self._handle,
            ffi.from_buffer("uint8_t[]", data),
            len(data),
            self._used,
            self._err,
            _ERR,
        )
        if rc != OK:
            _fail(rc, f"{name}: nothing can be proved: {error_text(self._err)}")
        return int(self._used[0])

    def cut(self, path: str, size: int) -> None:
        """Note that a file is to be cut to size by `mend`."""
        self._cuts.append((path, size))

    def mend(self) -> None:
        """Cut half lines; let hidden parts appear. Raises SinkError."""
        for path, size in self._cuts:
            try:
                os.truncate(path, size)
                if path.endswith(INCOMPLETE):
                    if size > 0:
                        Path(path).rename(visible(path))
                    else:
                        Path(path).unlink()
            except OSError as exc:
                raise SinkError(exc.errno, exc.strerror, path) from None

    # The inputs, as a Feeder gives them to an engine.

    def submit_lines(self, data: bytes, start: int = 0) -> tuple[int, int]:
        """Compare lines from data[start:]. Returns (code, bytes taken)."""
        rc = lib.hf_resume_lines(
            self._handle,
            ffi.from_buffer("uint8_t[]", data) + start,
            len(data) - start,
            self._used,
        )
        self.expect()
        return _checked(rc), int(self._used[0])

    def submit(self, frames: bytes, start: int = 0) -> tuple[int, int, int]:
        """Compare packed requests. Returns (code, bytes taken, 0)."""
        data = ffi.from_buffer("uint8_t[]", frames) + start
        rc = lib.hf_resume_frames(self._handle, data, len(frames) - start)
        self.expect()
        return _checked(rc), len(frames) - start, 0

    def expect(self) -> None:
        """Raise Proved when there is nothing to compare (any more)."""
        if lib.hf_resume_seen(self._handle) >= lib.hf_resume_end(self._handle):
            raise Proved

    def wait_room(self, seconds: float) -> bool:
        """Return True: there is always room."""
        del seconds
        return True

    def finish(self) -> None:
        """Do nothing: `verdict` is asked."""

    def verdict(self) -> None:
        """Raise OptionError unless the inputs seen are those of the records."""
        rc = lib.hf_resume_verdict(self._handle, self._err, _ERR)
        if rc != OK:
            _fail(rc, error_text(self._err))


def _checked(rc: int) -> int:
    if CODES.get(rc) is MemoryError:
        raise MemoryError
    return int(rc)


def _fail(rc: int, text: str) -> None:
    _checked(rc)
    raise OptionError(f"resume: {text}")


def missing_fields(options: Options) -> list[str]:
    """Return what records of these options lack for a later run to go on from them."""
    kept = options.fields
    return [] if kept is None else [n for n in ("seq", "input") if n not in kept]


# --- the output -------------------------------------------------------------------


def read_output(sink: Any, options: Options) -> Earlier:
    """Read the output that sink names; without one, nothing is answered.

    Raises OptionError when it tells too little to go on, SinkError when it cannot be
    read.
    """
    if not isinstance(sink, (str, os.PathLike)):
        raise OptionError("resume: give the path of the output (-o)")
    lacking = missing_fields(options)
    if lacking:
        raise OptionError(
            "resume: needs the fields seq and input in the records, and --fields "
            f"leaves out {' and '.join(lacking)}"
        )
    name = os.fsdecode(os.fspath(sink))
    packing = packing_of(name)
    earlier = Earlier()
    template = Template.of(name)
    try:
        if URL.match(name):
            _read_remote(earlier, name, template, packing)
        elif template is None:
            _read_file(earlier, name, packing, may_be_cut=True)
        else:
            whole, cut = parts_of(template)
            for path in whole:
                _read_file(earlier, path, packing, may_be_cut=False)
            for path in cut:
                _read_file(earlier, path, packing, may_be_cut=True)
    except SinkError:
        raise
    except OSError as exc:
        raise SinkError(exc.errno, exc.strerror or str(exc), name) from None
    return earlier


def _read_remote(
    earlier: Earlier, url: str, template: Template | None, packing: Packing | None
) -> None:
    if template is None:
        raise OptionError(f"resume: {url} cannot be appended to; give {{part}} in it")
    for part in remote_parts(template):
        fs, path = remote_fs(part)
        with fs.open(path, "rb") as file:
            _read(earlier, file, part, packing, may_be_cut=False)


def _read_file(
    earlier: Earlier, path: str, packing: Packing | None, *, may_be_cut: bool
) -> None:
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        return
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        # Before it is opened: nobody may be at the other end of a FIFO.
        raise OptionError(f"resume: {path} is no regular file")
    with Path(path).open("rb", 0) as file:
        if is_claimed(file.fileno()):
            raise OptionError(f"resume: {path}: {TAKEN}")
        status = os.fstat(file.fileno())
        end = _read(earlier, file, path, packing, may_be_cut=may_be_cut)
        if end < status.st_size or path.endswith(INCOMPLETE):
            earlier.cut(path, end)


def _read(
    earlier: Earlier,
    file: IO[bytes],
    name: str,
    packing: Packing | None,
    *,
    may_be_cut: bool,
) -> int:
    """Read one file. Returns where its last whole line, or member, ends."""
    if packing is None:
        end, size = _read_lines(earlier, file, name)
    else:
        chunks: Iterator[bytes] = iter(lambda: file.read(_PACKED), b"")
        counted = _Counted(chunks)
        end = _read_members(earlier, packing.decode(counted), name)
        size = counted.total + sum(map(len, chunks))
    if end < size and not may_be_cut:
        raise OptionError(f"resume: {name}: nothing can be proved: its end is broken")
    return end


class _Counted:
    """Passes chunks on and counts their bytes."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.total = 0
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.total += len(chunk)
            yield chunk


def _read_lines(earlier: Earlier, file: Any, name: str) -> tuple[int, int]:
    # Into one buffer: fresh memory for each piece costs more than the reading.
    end, kept, buffer = 0, 0, bytearray(_CHUNK)
    while count := file.readinto(memoryview(buffer)[kept:]):
        kept += count
        used = earlier.records(memoryview(buffer)[:kept], name)
        end += used
        buffer[: kept - used] = buffer[used:kept]
        kept -= used
        if kept == len(buffer):
            if kept >= _LINE_MOST:
                raise OptionError(f"resume: {name}: nothing can be proved: no line end")
            buffer.extend(bytes(kept))
    return end, end + kept


def _read_members(
    earlier: Earlier, pieces: Iterable[tuple[bytes, int]], name: str
) -> int:
    """Take the lines of whole members only: a cut one is fetched again."""
    end, held, size = 0, [], 0
    for data, member_end in pieces:
        held.append(data)
        size += len(data)
        if size > _MEMBER_MOST:
            raise OptionError(
                f"resume: {name}: nothing can be proved: it was packed elsewhere"
            )
        if member_end:
            lines = b"".join(held)
            if earlier.records(lines, name) < len(lines):
                raise OptionError(
                    f"resume: {name}: nothing can be proved: a line is cut"
                )
            end, held, size = member_end, [], 0
    return end
