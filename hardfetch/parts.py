"""Whole lines into files that are packed, rotated or far away.

What is written here is cut at record ends only. A rotated part stands under a hidden
name until it is complete, and appears under its own by a rename.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hardfetch.errors import SinkError
from hardfetch.outfile import REMOVED, FdOut, sync_folder
from hardfetch.sink import Sink

if TYPE_CHECKING:
    from collections.abc import Callable

    from hardfetch.packing import Encoder, Packing

MEMBER_BYTES = 4 << 20  # of lines in one gzip member or zstd frame
MEMBER_SECONDS = 5.0  # and how long one stays open: a kill costs no more
SYNC_SECONDS = 1.0  # between two fsync of the policy "interval"
_PIECE = 64 << 10


@dataclass(frozen=True)
class Policy:
    """How an output is kept: durability and the size and age of parts."""

    fsync: str = "never"  # never, interval (each second) or close
    rotate_size: int | None = None  # bytes
    rotate_time: float | None = None  # seconds


class Out(Protocol):
    """One file that grows."""

    size: int  # bytes, compressed

    def write(self, data: bytes, /) -> None:
        """Append data. Raises OSError."""

    def mark(self) -> None:
        """What was written so far is whole lines, and can be read."""

    def sync(self) -> None:
        """Make it durable."""

    def commit(self) -> None:
        """Close it and give it its name."""

    def abandon(self) -> None:
        """Close it with what was marked; without anything, remove it."""


class Shelf(Protocol):
    """Gives one file after the other."""

    name: str
    rotates: bool  # whether there can be more than one

    def next(self, given_up: Callable[[], bool], policy: Policy) -> Out:
        """Open the next file. Raises OSError."""


class LocalOut:
    """A file of this machine. With `final` it is a part under a hidden name."""

    def __init__(
        self,
        fd: int,
        path: str,
        final: str | None,
        given_up: Callable[[], bool],
        policy: Policy,
    ) -> None:
        self.size = os.fstat(fd).st_size
        self._fd = fd
        self._path = path
        self._final = final
        self._policy = policy
        self._out = FdOut(fd, given_up)
        self._good = self.size

    def write(self, data: bytes) -> None:
        """Append data."""
        self._out.write(data)
        self.size += len(data)

    def mark(self) -> None:
        """Note that all so far is whole lines."""
        self._good = self.size

    def sync(self) -> None:
        """Call fsync on a file; a pipe knows no such thing."""
        if self._out.regular:
            os.fsync(self._fd)

    def commit(self) -> None:
        """Close, and rename a part."""
        if self._policy.fsync != "never":
            self.sync()
        removed = self._out.regular and os.fstat(self._fd).st_nlink == 0
        self._out.close()
        os.close(self._fd)
        if removed:
            raise OSError(errno.ENOENT, REMOVED)
        if self._final is not None:
            os.rename(self._path, self._final)  # noqa: PTH104 - bytes stay as given
            if self._policy.fsync != "never":
                sync_folder(self._final)

    def abandon(self) -> None:
        """Cut what is not whole, then commit; an empty part disappears."""
        if self._out.regular:
            os.ftruncate(self._fd, self._good)
        if self._final is not None and self._good == 0:
            self._out.close()
            os.close(self._fd)
            os.unlink(self._path)  # noqa: PTH108 - bytes stay as given
            return
        self.commit()


class FileShelf:
    """One local file, appended to where it stands."""

    rotates = False

    def __init__(self, path: str, fd: int) -> None:
        """Take an open descriptor, which is closed with the file."""
        self.name = path
        self._fd = fd

    def next(self, given_up: Callable[[], bool], policy: Policy) -> LocalOut:
        """Return the one file."""
        return LocalOut(self._fd, self.name, None, given_up, policy)


class LineSink(Sink):
    """Lines into the files of a shelf, packed or not. Thread: one, the writer's."""

    whole_lines = True

    def __init__(self, shelf: Shelf, packing: Packing | None, policy: Policy) -> None:
        """Open the first file. Raises SinkError."""
        super().__init__(shelf.name)
        self._shelf = shelf
        self._packing = packing
        self._policy = policy
        self._out: Out | None = None
        self._encoder: Encoder | None = None
        self._in_member = 0  # bytes of lines
        self._written = False  # something is in this file
        self._dirty = False  # something may not be durable
        self._opened = self._member_since = self._synced = time.monotonic()
        self._open()

    def write(self, data: bytes) -> None:
        """Write whole lines. Raises OSError."""
        size = self._policy.rotate_size
        start = 0
        while start < len(data):
            out = self._out or self._open()
            end = len(data)
            if size is not None:
                end = self._end_of_piece(data, start, size - out.size)
            if end == start:
                self._rotate()
                continue
            self._put(out, data[start:end])
            start = end
            if size is not None and out.size >= size:
                self._rotate()

    def _end_of_piece(self, data: bytes, start: int, room: int) -> int:
        """Return how far data goes into the present file; start when it is full."""
        if self._packing is not None:
            room = _PIECE  # what it comes to is seen afterwards
        if len(data) - start <= room:
            return len(data)
        end = data.rfind(b"\n", start, start + max(0, room)) + 1
        if end > start:
            return end
        if self._packing is None and self._written:
            return start
        return data.index(b"\n", start) + 1  # one line alone is longer

    def _put(self, out: Out, data: bytes) -> None:
        self._written = self._dirty = True
        if self._packing is None:
            out.write(data)
            out.mark()
            return
        if self._encoder is None:
            self._encoder = self._packing.encoder()
            self._member_since = time.monotonic()
        self._in_member += len(data)
        self._emit(out, self._encoder.compress(data))
        most = self._policy.rotate_size or MEMBER_BYTES
        if self._in_member >= min(MEMBER_BYTES, max(_PIECE, most)):
            self._end_member(out)

    def _emit(self, out: Out, data: bytes) -> None:
        try:
            out.write(data)
        except BaseException:
            self._encoder = None  # its member is broken, and is cut off
            raise

    def _end_member(self, out: Out) -> None:
        if self._encoder is not None:
            self._emit(out, self._encoder.flush())
            self._encoder = None
            self._in_member = 0
            out.mark()

    def _open(self) -> Out:
        try:
            self._out = self._shelf.next(self._is_given_up, self._policy)
        except SinkError:
            raise
        except OSError as exc:
            raise SinkError(exc.errno, exc.strerror or str(exc), self.name) from None
        self._opened = time.monotonic()
        self._written = self._out.size > 0
        return self._out

    def _rotate(self) -> None:
        out = self._out
        if out is not None:
            self._end_member(out)
            self._out = None
            out.commit()
        self._written = False

    def tick(self) -> None:
        """Do what time asks for: end members, sync, rotate. Raises OSError."""
        now, out, policy = time.monotonic(), self._out, self._policy
        if out is None:
            return
        if self._encoder is not None and now - self._member_since >= MEMBER_SECONDS:
            self._end_member(out)
        age = policy.rotate_time
        if age is not None and self._written and now - self._opened >= age:
            self._rotate()
        elif policy.fsync == "interval" and now - self._synced >= SYNC_SECONDS:
            self._synced = now
            if self._dirty:
                self._end_member(out)
                out.sync()
                self._dirty = False

    def finish(self) -> None:
        """End the last file. Raises OSError."""
        out = self._out
        if out is None:
            return
        if not self._written and self._shelf.rotates:
            self._out = None
            out.abandon()
            return
        if not self._written and self._packing is not None:
            # Even nothing has a form: an empty file is no gzip file.
            self._encoder = self._packing.encoder()
        self._end_member(out)
        self._out = None
        out.commit()

    def close(self) -> None:
        """End what finish did not, with whole lines only: after a failure or a stop."""
        out = self._out
        if out is None:
            return
        with suppress(OSError):
            self._end_member(out)
        self._out = None
        out.abandon()
