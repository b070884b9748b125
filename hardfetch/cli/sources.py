"""SOURCE arguments as one stream of input lines."""

from __future__ import annotations

import io
import os
import re
import select
import stat
import threading
from typing import TYPE_CHECKING

from hardfetch import jsonio, values
from hardfetch.packing import Unpacked, packing_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import WriteableBuffer

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f]")


def _open_at_once(name: str, flags: int) -> int:
    """Open a FIFO without waiting for its writer, who is polled for like data."""
    return os.open(name, flags | os.O_NONBLOCK)


class SourceError(ValueError):
    """A SOURCE that can't be read; the message names it."""


def _line_of_url(url: str) -> bytes:
    # As JSON it stays one input, whatever it holds: a URL with a line feed inside is
    # one invalid request and not two inputs.
    line = os.fsencode(url)
    if _UNPRINTABLE.search(url):
        line = jsonio.dumps({"url": line.decode("utf-8", "replace")})
    return line + b"\n"


class Sources(io.RawIOBase):
    """The sources one after the other, each ending with a line feed.

    All files are opened at once, so that a missing one is told before anything is
    fetched.

    Thread: one reader; `position`, `size` and `stop` are for any thread.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """Open the sources; none at all means stdin.

        Raises:
            SourceError: one is neither a URL with a scheme nor a file that can be read.
        """
        super().__init__()
        self.position = 0  # bytes read
        self.size: int | None = 0  # bytes in all; None while that can't be known
        self.ended = False  # all was read, or stop() was called
        self._parts: list[io.FileIO | io.BytesIO | Unpacked] = []
        self._begins: list[int] = []  # of each part: stdin may stand anywhere
        self._next = 0  # number of the part that is being read
        self._at_line_end = True
        self._stopped = threading.Event()
        self._wake = os.pipe()
        try:
            for name in names or ("-",):
                self._parts.append(self._open(name))
            if self.size is not None:
                self._begins = [part.tell() for part in self._parts]
        except BaseException:
            self.close()
            raise

    def _open(self, name: str) -> io.FileIO | io.BytesIO | Unpacked:
        if name != "-" and _URL.match(name):
            line = _line_of_url(name)
            self._grow(len(line))
            return io.BytesIO(line)
        try:
            if name == "-":
                part = io.FileIO(0, closefd=False)
            else:
                part = io.FileIO(name, opener=_open_at_once)
            status = os.fstat(part.fileno())
        except IsADirectoryError:
            raise SourceError(f"{name!r} is a folder") from None
        except OSError as error:
            hint = ""
            if isinstance(error, FileNotFoundError):
                hint = "; a URL starts with http:// or https://"
            reason = error.strerror or str(error)
            shown = values.masked(repr(name))
            raise SourceError(f"{shown} can't be read: {reason}{hint}") from None
        regular = stat.S_ISREG(status.st_mode)
        packing = packing_of(name) if regular else None
        if packing is not None:
            self._grow(None)
            return Unpacked(part, packing)
        self._grow(status.st_size if regular else None)
        return part

    def _grow(self, size: int | None) -> None:
        self.size = None if size is None or self.size is None else self.size + size

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read what one read of the present source brings; 0 at the end of the last."""
        view = memoryview(buffer).cast("B")
        while self._next < len(self._parts):
            part = self._parts[self._next]
            if isinstance(part, io.FileIO):
                self._wait(part.fileno())
            if self._stopped.is_set():
                break
            count = part.readinto(view)
            if count is None:
                continue  # someone made it non-blocking, and another reader was faster
            if count > 0:
                self.position += count
                self._at_line_end = view[count - 1] == 0x0A
                return count
            self._next += 1
            if not self._at_line_end:
                self._at_line_end = True
                view[:1] = b"\n"
                return 1
        self.ended = True
        return 0

    def seekable(self) -> bool:
        """Tell whether all sources are regular files or URLs, which can be reread."""
        return self.size is not None

    def tell(self) -> int:
        """Return how many bytes were read."""
        return self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Begin again from the start: no other place can be gone to."""
        if offset != 0 or whence != io.SEEK_SET or not self.seekable():
            raise io.UnsupportedOperation("sources can only be read from their start")
        for part, begin in zip(self._parts, self._begins, strict=True):
            part.seek(begin)
        self._next, self._at_line_end = 0, True
        self.position, self.ended = 0, self._stopped.is_set()
        return 0

    def holds(self, status: os.stat_result) -> bool:
        """Tell whether a file with that status is one of the sources."""
        return any(
            os.path.samestat(status, os.fstat(part.fileno()))
            for part in self._parts
            if not isinstance(part, io.BytesIO)
        ) and stat.S_ISREG(status.st_mode)

    def stop(self) -> None:
        """End the input here, also for a read that waits now. Safe in a handler."""
        self._stopped.set()
        os.write(self._wake[1], b".")

    def _wait(self, fd: int) -> None:
        # A read that waits for stdin would be taken up again after a signal.
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        poller.register(self._wake[0], select.POLLIN)
        poller.poll()

    def close(self) -> None:
        """Close all files; stdin stays open."""
        if not self.closed:
            for part in self._parts:
                part.close()
            self._parts = []
            for fd in self._wake:
                os.close(fd)
        super().close()
