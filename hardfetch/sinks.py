"""Where records go: descriptors the core writes to itself, and everything else."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import select
import stat
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeAlias

from hardfetch.errors import OptionError, SinkError
from hardfetch.outfile import (
    FdOut,
    claim,
    cut_torn_line,
    mend_lines,
    refuse_removed,
)
from hardfetch.packing import packing_of
from hardfetch.parts import SYNC_SECONDS, FileShelf, LineSink, Policy
from hardfetch.shelves import (
    URL,
    PartShelf,
    RemoteShelf,
    Template,
    next_number,
    parts_of,
    remote_parts,
)
from hardfetch.sink import Sink

if TYPE_CHECKING:
    from collections.abc import Callable

    from hardfetch.packing import Packing

    class _RawWriter(Protocol):
        """What an `NdjsonWriter` is to a run: it takes whole lines."""

        def write_raw(self, lines: bytes, /) -> object: ...

    class _Writable(Protocol):
        """A binary file, as far as a run needs one."""

        def write(self, data: Any, /) -> object: ...

    SinkLike: TypeAlias = (
        str | os.PathLike[str] | int | IO[str] | IO[bytes] | _RawWriter | _Writable
    )


_READER_SECONDS = 0.02  # between two looks whether a FIFO has a reader


class FdSink(Sink):
    """A descriptor: a file's, a pipe's, stdout's."""

    def __init__(
        self, fd: int, name: str, policy: Policy, owner: io.FileIO | None = None
    ) -> None:
        """`owner`: closes fd with the sink, even one that is torn out of its use."""
        super().__init__(name)
        self.fd: int | None = fd
        self._owner = owner
        self._policy = policy
        status = os.fstat(fd)
        self._regular = stat.S_ISREG(status.st_mode)
        # A file that the caller has opened may well be without a name.
        self._named = owner is not None and self._regular and status.st_nlink > 0
        self._out: FdOut | None = None
        self._synced = time.monotonic()
        self._finished = False

    def write(self, data: bytes) -> None:
        """Write data from here; the core does it by itself."""
        self._opened().write(data)

    def write_view(self, view: memoryview) -> None:
        """Write without a copy."""
        self._opened().write(view)

    def _opened(self) -> FdOut:
        if self._out is None:
            if self.fd is None:
                raise SinkError(errno.EBADF, "the sink is closed", self.name)
            self._out = FdOut(self.fd, self._is_given_up)
        return self._out

    def tick(self) -> None:
        """Sync each second, if that is the policy; look whether the file is there."""
        self._look()
        if self._policy.fsync == "interval" and self._regular and self.fd is not None:
            now = time.monotonic()
            if now - self._synced >= SYNC_SECONDS:
                os.fsync(self.fd)
                self._synced = now

    def finish(self) -> None:
        """Sync, if that is the policy."""
        self._finished = True
        self._look()
        if self._policy.fsync != "never" and self._regular and self.fd is not None:
            os.fsync(self.fd)

    def _look(self) -> None:
        if self._named and self.fd is not None:
            refuse_removed(self.fd)

    def close(self) -> None:
        """Close a descriptor opened here; without finish, cut what is half a line."""
        if self.fd is None:
            return
        if not self._finished:
            cut_torn_line(self.fd)
        if self._out is not None:
            self._out.close()
        self.fd = None
        if self._owner is not None:
            self._owner.close()


class FileSink(Sink):
    """Any object with `write`, text or binary."""

    def __init__(self, target: Any, *, text: bool) -> None:
        super().__init__(str(getattr(target, "name", type(target).__name__)))
        self._target = target
        self.whole_lines = text  # a cut inside a character could not be decoded

    def write(self, data: bytes) -> None:
        """Write data; a raw file may take less than all at once."""
        if self.whole_lines:
            self._target.write(data.decode())
            return
        view = memoryview(data)
        while view and not self.given_up():
            taken = self._target.write(view)
            if not isinstance(taken, int):
                return
            if not 0 <= taken <= len(view):
                reason = f"write() said {taken} of {len(view)} bytes"
                raise SinkError(errno.EIO, reason, self.name)
            view = view[taken:]

    def finish(self) -> None:
        """Flush, where the object can."""
        flush = getattr(self._target, "flush", None)
        if flush is not None:
            flush()


class LinesSink(Sink):
    """An `NdjsonWriter`: takes whole lines, from other threads as well."""

    whole_lines = True

    def __init__(self, target: _RawWriter) -> None:
        super().__init__(str(getattr(target, "name", type(target).__name__)))
        self._target = target

    def write(self, data: bytes) -> None:
        """Hand over whole lines."""
        self._target.write_raw(data)


def _never() -> bool:
    return False


def open_sink(
    sink: Any,
    *,
    append: bool = False,
    alone: bool = False,
    policy: Policy = Policy(),  # noqa: B008 - frozen
    given_up: Callable[[], bool] = _never,
) -> Sink:
    """Return the Sink for a path, URL, descriptor, file object or `NdjsonWriter`.

    A path with `{part}` is that of rotated parts, one ending in .gz or .zst is packed.
    Without `append` a file is emptied first; with it, half a line at its end is cut.
    With `alone` a file is refused that another run writes to.
    A FIFO is waited for until somebody reads it, or until `given_up` says True.
    Raises SinkError when it cannot be written to, OptionError for what is no sink.
    """
    if isinstance(sink, (str, os.PathLike)):
        name = os.fspath(sink)
        path = os.fsdecode(name)
        if not _is_plain(path, policy):
            return _open_parts(path, append=append, policy=policy)
        packing = packing_of(path)  # which may lack its library
        file = _open_file(path, append=append, alone=alone, given_up=given_up)
        return _plain_sink(file, path, packing, append=append, policy=policy)
    if policy.rotate_size is not None or policy.rotate_time is not None:
        raise _no_parts(policy, "only a path with {part} can be rotated")
    return _open_object(sink, policy)


def _no_parts(policy: Policy, remedy: str) -> OptionError:
    name = "rotate_time" if policy.rotate_size is None else "rotate_size"
    return OptionError(f"{name}: {remedy}")


def _open_object(sink: Any, policy: Policy) -> Sink:
    if isinstance(sink, int) and not isinstance(sink, bool):
        return FdSink(_writable(sink), f"descriptor {sink}", policy)
    if hasattr(sink, "write_raw"):
        return LinesSink(sink)
    if not hasattr(sink, "write"):
        kind = type(sink).__name__
        raise OptionError(f"sink: give a path, descriptor or file, not {kind}")
    if getattr(sink, "closed", False):
        raise SinkError(errno.EBADF, "the sink is closed")
    fd = _plain_fd(sink)
    if fd is not None:
        name = str(getattr(sink, "name", fd))
        return FdSink(_writable(fd), name, policy)
    text = isinstance(sink, io.TextIOBase) or hasattr(sink, "encoding")
    return FileSink(sink, text=text)


def _writable(fd: int) -> int:
    try:
        mode = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE
    except OSError as exc:
        raise SinkError(exc.errno, exc.strerror, f"descriptor {fd}") from None
    if mode == os.O_RDONLY:
        raise SinkError(errno.EBADF, "not open for writing", f"descriptor {fd}")
    return fd


def _plain_fd(sink: Any) -> int | None:
    """Return the descriptor below a file object that adds nothing to its bytes."""
    raw = sink
    if type(raw) is io.TextIOWrapper:
        if (raw.encoding or "").lower().replace("_", "-") not in ("utf-8", "utf8"):
            return None
        raw = raw.buffer
    if type(raw) not in (io.BufferedWriter, io.BufferedRandom, io.FileIO):
        return None
    if isinstance(raw, io.BufferedWriter) and type(raw.raw) is not io.FileIO:
        return None
    try:
        sink.flush()
        return int(raw.fileno())
    except OSError as exc:
        raise SinkError(
            exc.errno, exc.strerror, str(getattr(sink, "name", ""))
        ) from None


def status_of(sink: Any) -> os.stat_result | None:
    """Return the status of the file that a sink is, if it is there and is a file."""
    try:
        if isinstance(sink, (str, os.PathLike)):
            return Path(os.fsdecode(sink)).stat()
        if isinstance(sink, int):
            return os.fstat(sink)
        return os.fstat(sink.fileno())
    except (AttributeError, OSError, TypeError, ValueError):
        return None


def _is_plain(name: str, policy: Policy) -> bool:
    """Return whether it is the path of one file. Raises OptionError: of none."""
    if not name:
        raise OptionError("sink: the path is empty")
    if Template.of(name) is not None:
        return False
    if policy.rotate_size or policy.rotate_time:
        raise _no_parts(policy, "give {part} in the output's name")
    return not URL.match(name)


def _open_parts(name: str, *, append: bool, policy: Policy) -> Sink:
    template, packing = Template.of(name), packing_of(name)
    if template is None or URL.match(name):
        return LineSink(_remote(name, template, append=append), packing, policy)
    whole, cut = parts_of(template)
    if (whole or cut) and not append:
        raise OptionError(
            f"sink: parts of an earlier run are there, as {(whole + cut)[0]}; "
            "resume, or remove them"
        )
    shelf = PartShelf(template, next_number(template, *whole, *cut))
    return LineSink(shelf, packing, policy)


def _plain_sink(
    file: io.FileIO, name: str, packing: Packing | None, *, append: bool, policy: Policy
) -> Sink:
    if append:
        (mend_lines if packing is None else packing.mend)(file.fileno())
    if packing is None:
        return FdSink(file.fileno(), name, policy, file)
    fd = os.dup(file.fileno())
    file.close()
    return LineSink(FileShelf(name, fd), packing, policy)


def _remote(url: str, template: Template | None, *, append: bool) -> RemoteShelf:
    if template is None:
        if append:
            raise OptionError(
                f"sink: {url} cannot be appended to; give {{part}} in its name"
            )
        return RemoteShelf(url, None)
    parts = remote_parts(template)
    if parts and not append:
        raise OptionError(
            f"sink: parts of an earlier run are there, as {parts[0]}; "
            "resume, or remove them"
        )
    return RemoteShelf(url, template, next_number(template, *parts))


def _open_file(
    name: str, *, append: bool, alone: bool, given_up: Callable[[], bool]
) -> io.FileIO:
    try:
        if Path(name).is_fifo():
            return io.FileIO(_open_fifo(name, given_up), "wb")
        return _append_to(name, empty=not append, alone=alone)
    except OSError as exc:
        raise SinkError(exc.errno, exc.strerror, name) from None
    except ValueError as exc:  # a NUL in the name
        raise SinkError(errno.EINVAL, str(exc), name) from None


def _append_to(name: str, *, empty: bool, alone: bool) -> io.FileIO:
    # Opened by the file object, so that no exception can come between the two. All
    # writes go to the end, wherever that is: somebody may cut the file meanwhile.
    file = io.FileIO(name, "ab")
    status = os.fstat(file.fileno())
    regular = stat.S_ISREG(status.st_mode)
    if alone and regular:
        claim(file.fileno())
    if empty and regular and status.st_size:
        file.truncate(0)
    return file


def _open_fifo(name: str, given_up: Callable[[], bool]) -> int:
    """Open a FIFO as soon as it has a reader.

    A plain open would wait through every signal whose handler does not raise.
    """
    flags = os.O_NONBLOCK | os.O_CLOEXEC
    while not given_up():
        try:
            fd = os.open(name, os.O_WRONLY | flags)
        except OSError as exc:
            if exc.errno != errno.ENXIO:
                raise
            time.sleep(_READER_SECONDS)
        else:
            os.set_blocking(fd, True)
            return fd
    # Open at both ends: nothing will be written, and the run ends as any other.
    return os.open(name, os.O_RDWR | flags)


def warn(text: str) -> None:
    """Write one line on stderr, unless that would block."""
    try:
        fd = sys.stderr.fileno()
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        if any(event & select.POLLOUT for _, event in poll.poll(0)):
            # A pipe that polls writable takes PIPE_BUF bytes at once.
            os.write(fd, f"hardfetch: {text}\n".encode()[: select.PIPE_BUF])
    except (AttributeError, OSError, ValueError):
        return
