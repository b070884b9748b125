"""Where inputs come from: bytes of lines in chunks, or items one by one."""

from __future__ import annotations

import functools
import io
import os
import select
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from hardfetch.errors import OptionError
from hardfetch.packed import MAX_LINE
from hardfetch.packing import Unpacked, packing_of
from hardfetch.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import ExitStack

    Input: TypeAlias = str | bytes | Mapping[str, Any] | Request
    Source: TypeAlias = str | os.PathLike[str] | IO[str] | IO[bytes] | Iterable[Input]

CHUNK = 256 << 10


class Stop:
    """A flag that any thread or signal handler sets, and that wakes a poll."""

    def __init__(self) -> None:
        # In a file object, which closes it too where an exception tears the owner.
        flags = os.EFD_CLOEXEC | os.EFD_NONBLOCK
        self._file = io.FileIO(os.eventfd(0, flags), "r+")
        self._fd = self._file.fileno()
        self._set = False

    def fileno(self) -> int:
        """Return a descriptor that is readable once the flag is set."""
        return self._fd

    def is_set(self) -> bool:
        """Tell whether the flag is set."""
        return self._set

    def set(self) -> None:
        """Set the flag; more than once does no harm."""
        self._set = True
        fd = self._fd
        if fd >= 0:
            os.eventfd_write(fd, 1)

    def close(self) -> None:
        """Give the descriptor back."""
        self._fd = -1
        self._file.close()


def is_path(source: object) -> bool:
    """Tell whether source names a file; a str that looks like a URL does not."""
    return isinstance(source, os.PathLike) or (
        isinstance(source, str) and "://" not in source
    )


def is_same_file(source: Any, status: os.stat_result | None) -> bool:
    """Tell whether a path or file object is the regular file with that status."""
    if status is None or not stat.S_ISREG(status.st_mode):
        return False
    try:
        own = Path(source).stat() if is_path(source) else os.fstat(source.fileno())
    except (AttributeError, OSError, TypeError, ValueError):
        return False  # not there, or no file at all
    return os.path.samestat(own, status)


def rewinder(source: Any) -> Callable[[], None] | None:
    """Return what makes `chunks` give the same bytes again; None where nothing does."""
    if is_path(source):
        return None if not Path(source).is_file() else lambda: None
    if source is sys.stdin and hasattr(source, "buffer"):
        source = source.buffer
    if isinstance(source, (io.BufferedReader, io.BufferedRandom)):
        with suppress(OSError, ValueError):
            if source.seekable():
                return functools.partial(_seek, source, source.tell())
    return None


def _seek(source: io.BufferedReader | io.BufferedRandom, at: int) -> None:
    source.seek(at)


def chunks(source: Any, stop: Stop, stack: ExitStack) -> Iterator[bytes] | None:
    """Return the bytes of a path or file object; None for an iterable of items.

    Files ending in .gz and .zst are unpacked.
    Descriptors are polled together with stop, so that a silent stdin delays nothing.
    Raises OSError when a path cannot be opened, OptionError for what is no source.
    """
    if isinstance(source, str) and not is_path(source):
        raise OptionError("source: a single URL goes into a list, or to fetch()")
    if is_path(source):
        packing = packing_of(os.fsdecode(source)) if Path(source).is_file() else None
        if packing is not None:
            unpacked = stack.enter_context(Unpacked(io.FileIO(source), packing))
            return _read(lambda: unpacked.read(CHUNK), -1, stop)
        # A FIFO opens at once, and then its writer is polled for like data.
        fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        stack.callback(os.close, fd)
        return _read(lambda: os.read(fd, CHUNK), fd, stop)
    if source is sys.stdin and hasattr(source, "buffer"):
        source = source.buffer  # its text layer would block unseen
    if isinstance(source, (io.BufferedReader, io.BufferedRandom)):
        reader: io.BufferedReader | io.BufferedRandom = source
        try:
            fd = source.fileno()
        except (OSError, ValueError):  # no file below: a socket's or a test's own raw
            fd = -1
        return _read(lambda: reader.read1(CHUNK), fd, stop)
    if hasattr(source, "read") and hasattr(source, "readline"):
        return _batched(source, stop)
    if isinstance(source, (bytes, dict, Request)) or not isinstance(source, Iterable):
        kind = type(source).__name__
        raise OptionError(f"source: give a path, a file or an iterable, not {kind}")
    return None


def _read(read: Any, fd: int, stop: Stop) -> Iterator[bytes]:
    poll = select.poll()
    poll.register(stop.fileno(), select.POLLIN)
    pollable = fd >= 0
    if pollable:
        poll.register(fd, select.POLLIN)
    while not stop.is_set():
        # A regular file always polls readable; POLLHUP and POLLERR come unasked.
        if pollable and not any(ready == fd for ready, _ in poll.poll(1000)):
            continue
        try:
            data = read()
        except BlockingIOError:
            continue
        if data is None:
            continue
        if not data:
            return
        yield data


def _batched(source: Any, stop: Stop) -> Iterator[bytes]:
    """Give the lines of any other file object as they come, one chunk a line.

    readline has a bound, so that a line without end cannot eat the memory.
    """
    while not stop.is_set():
        line = source.readline(MAX_LINE)
        if not line:
            return
        yield line.encode("utf-8", "surrogateescape") if isinstance(line, str) else line
