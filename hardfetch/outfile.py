"""Bytes into descriptors: all of them, stoppable, and never half a line left behind."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hardfetch import jsonio

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

_PATIENCE_MS = 200  # how long a stop may go unnoticed while nobody reads
_PIECE = 1 << 20  # bytes of one write to what may make it wait
_WHOLE = 1 << 30  # and to a file: each write has to wait for the interpreter's lock
_BLOCK = 64 << 10
_MOMENTS = 2.0  # seconds that a run may take to let go of its output
TAKEN = "another run is writing to it"
REMOVED = "it was removed while it was written"


class FdOut:
    """Writes to a descriptor, which stays the caller's.

    A pipe, a FIFO or a terminal is written through an open file description of its own,
    so that it can be non-blocking here without being so for those who share it.
    """

    def __init__(self, fd: int, given_up: Callable[[], bool]) -> None:
        """Take fd; given_up is asked while a write waits for a reader."""
        self._fd = fd
        self._own = -1
        self._socket: socket.socket | None = None
        self._given_up = given_up
        mode = os.fstat(fd).st_mode
        self.regular = stat.S_ISREG(mode)
        self._waits = not (self.regular or stat.S_ISBLK(mode))
        self._piece = _PIECE if self._waits else _WHOLE
        if stat.S_ISSOCK(mode):
            import socket  # hardly ever needed

            self._socket = socket.socket(fileno=os.dup(fd))
        elif self._waits:
            self._reopen()

    def _reopen(self) -> None:
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        try:
            self._own = os.open(f"/proc/self/fd/{self._fd}", flags)
            self._fd = self._own
        except OSError:
            # A pipe that polls writable takes this much without blocking.
            self._piece = select.PIPE_BUF

    def write(self, data: bytes | memoryview) -> None:
        """Write all of data, unless it is given up. Raises OSError."""
        view = memoryview(data)
        while view and not (self._waits and self._given_up()):
            try:
                view = view[self._write_some(view[: self._piece]) :]
            except BlockingIOError:
                self._wait()

    def _write_some(self, view: memoryview) -> int:
        if self._socket is not None:
            import socket

            flags = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
            return self._socket.send(view, flags)
        if self._own < 0 and self._waits and not self._wait():
            return 0
        return os.write(self._fd, view)

    def _wait(self) -> bool:
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        for _, event in poll.poll(_PATIENCE_MS):
            if event & select.POLLERR and not event & select.POLLOUT:
                raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
            return True
        return False

    def close(self) -> None:
        """Give up what was opened here."""
        if self._own >= 0:
            os.close(self._own)
            self._own = -1
        if self._socket is not None:
            self._socket.close()


def claim(fd: int) -> None:
    """Keep other runs from a file as long as fd is open. Raises OSError: one has it.

    Where a file system knows no locks, nothing is kept and nothing raised.
    """
    _lock(fd, fcntl.LOCK_EX)


def is_claimed(fd: int) -> bool:
    """Return whether a run writes to the file; fd is to be closed soon."""
    try:
        _lock(fd, fcntl.LOCK_SH)
    except OSError:
        return True
    return False


def _lock(fd: int, how: int) -> None:
    """Take a lock. A run that has just been torn or killed lets go within moments."""
    end = time.monotonic() + _MOMENTS
    while True:
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise OSError(errno.EBUSY, TAKEN) from None
            time.sleep(0.02)
            continue
        except OSError:
            pass
        return


def refuse_removed(fd: int) -> None:
    """Raise OSError when the file has no name any more: nobody will find it."""
    if os.fstat(fd).st_nlink == 0:
        raise OSError(errno.ENOENT, REMOVED)


def sync_folder(path: str) -> None:
    """Make a rename or a new name in the folder of path durable."""
    folder = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # some file systems know no such thing
            os.fsync(folder)
    finally:
        os.close(folder)


def line_end(fd: int, size: int) -> int:
    """Return where the last whole line of the first size bytes of fd ends."""
    end = size
    while end > 0:
        start = max(0, end - _BLOCK)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def cut_torn_line(fd: int) -> None:
    """Cut a file behind its last whole line, if fd wrote what stands last in it.

    Half a line is left where a full disk or a stop ended a write. Raises nothing: the
    failure that led here is the one to tell.
    """
    with suppress(OSError):
        status = os.fstat(fd)
        at = os.lseek(fd, 0, os.SEEK_CUR)
        if not stat.S_ISREG(status.st_mode) or at != status.st_size or at == 0:
            return
        reader = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            end = line_end(reader, status.st_size)
        finally:
            os.close(reader)
        if end < status.st_size:
            os.ftruncate(fd, end)
            os.lseek(fd, end, os.SEEK_SET)


def mend_lines(fd: int) -> None:
    """Make a file fit to be appended to.

    A last line without its end gets one if it is a JSON text, and is cut otherwise.
    Raises OSError.
    """
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
        return
    file = os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
    try:
        size = status.st_size
        if os.pread(file, 1, size - 1) == b"\n":
            return
        end = line_end(file, size)
        try:
            jsonio.loads(os.pread(file, size - end, end))
        except ValueError:
            os.ftruncate(file, end)
        else:
            os.pwrite(file, b"\n", size)
    finally:
        os.close(file)
