"""Where records go: descriptors the core writes to itself, and everything else."""

from __future__ import annotations

import errno
import fcntl
import importlib
import io
import os
import select
import sys
import zlib
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeAlias

from hardfetch.errors import OptionError, SinkError

if TYPE_CHECKING:
    from collections.abc import Callable

    class _RawWriter(Protocol):
        """What an `NdjsonWriter` is to a run: it takes whole lines."""

        def write_raw(self, lines: bytes, /) -> object: ...

    class _Writable(Protocol):
        """A binary file, as far as a run needs one."""

        def write(self, data: Any, /) -> object: ...

    SinkLike: TypeAlias = (
        str | os.PathLike[str] | int | IO[str] | IO[bytes] | _RawWriter | _Writable
    )

_PATIENCE_MS = 500


class Sink:
    """One output. With `fd` the core writes to it; else `write` is called with bytes.

    `write` may be given any piece of the stream unless `whole_lines` is set. `finish`
    ends the format (a compressor's tail), `close` gives up what was opened here.
    """

    fd: int | None = None
    whole_lines = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.given_up: Callable[[], bool] = lambda: False  # asked while a write waits

    def write(self, data: bytes) -> None:
        """Write all of data. Raises OSError."""
        raise NotImplementedError

    def finish(self) -> None:
        """Write what the format needs at its end. Raises OSError."""

    def close(self) -> None:
        """Close what was opened here."""


class FdSink(Sink):
    """A descriptor: a file's, a pipe's, stdout's."""

    def __init__(self, fd: int, name: str, *, owned: bool) -> None:
        super().__init__(name)
        self.fd: int | None = fd
        self._owned = owned

    def close(self) -> None:
        """Close the descriptor when it was opened here; errors count as lost data."""
        if self._owned and self.fd is not None:
            fd, self.fd = self.fd, None
            os.close(fd)


class CompressedSink(Sink):
    """A compressed file. Data goes through `compressor` in the writer's thread."""

    def __init__(self, fd: int, name: str, compressor: Any) -> None:
        super().__init__(name)
        self._fd = fd
        self._compressor = compressor

    def write(self, data: bytes) -> None:
        """Compress data and write what comes out."""
        self._write(self._compressor.compress(data))

    def finish(self) -> None:
        """Write the compressor's tail."""
        self._write(self._compressor.flush())

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        while view and not self.given_up():
            if poll.poll(_PATIENCE_MS):  # a FIFO may be full; a file never is
                view = view[os.write(self._fd, view[:65536]) :]


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
            view = view[taken if isinstance(taken, int) else len(view) :]

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


def open_sink(sink: Any, *, append: bool = False) -> Sink:
    """Return the Sink for a path, descriptor, file object or `NdjsonWriter`.

    Raises SinkError when it cannot be written to, OptionError for what is no sink.
    """
    if isinstance(sink, int) and not isinstance(sink, bool):
        return FdSink(_writable(sink), f"descriptor {sink}", owned=False)
    if isinstance(sink, (str, os.PathLike)):
        return _open_path(os.fspath(sink), append=append)
    if hasattr(sink, "write_raw"):
        return LinesSink(sink)
    if not hasattr(sink, "write"):
        kind = type(sink).__name__
        raise OptionError(f"sink: give a path, descriptor or file, not {kind}")
    if getattr(sink, "closed", False):
        raise SinkError(errno.EBADF, "the sink is closed")
    fd = _plain_fd(sink)
    if fd is not None:
        return FdSink(_writable(fd), str(getattr(sink, "name", fd)), owned=False)
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


def _open_path(path: Any, *, append: bool) -> Sink:
    name = os.fsdecode(path)
    compressor: Any = None
    if name.endswith(".gz"):
        compressor = zlib.compressobj(6, zlib.DEFLATED, 31)
    elif name.endswith(".zst"):
        compressor = _zstd()
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    try:
        fd = os.open(path, flags | (os.O_APPEND if append else os.O_TRUNC), 0o666)
    except OSError as exc:
        raise SinkError(exc.errno, exc.strerror, name) from None
    except ValueError as exc:  # a NUL in the name
        raise SinkError(errno.EINVAL, str(exc), name) from None
    if compressor is not None:
        return CompressedSink(fd, name, compressor)
    return FdSink(fd, name, owned=True)


def _zstd() -> Any:
    """Return a zstd compressor of whichever library is there."""
    for module in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(module).ZstdCompressor(level=3)
        except ImportError:
            continue
    try:
        return (
            importlib.import_module("zstandard").ZstdCompressor(level=3).compressobj()
        )
    except ImportError:
        raise OptionError(
            "sink: .zst needs the zstandard package; install hardfetch[zstd]"
        ) from None


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
