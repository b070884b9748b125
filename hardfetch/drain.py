"""The writer's thread: from the engine's rings to a sink, its time spent in C."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hardfetch import _ffi
from hardfetch.errors import ClosedError, HardfetchError, SinkError
from hardfetch.summary import Stats

if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable

    from hardfetch.sink import Sink

_TURN = 0.5  # seconds of one call into the core
_BUFFER = 256 << 10
_ERRNO = {os.strerror(number): number for number in errno.errorcode}


class Writer(threading.Thread):
    """Drains one engine into one sink until the last record, a failure or `give_up`.

    `failure` is set before what `failed` refers to is called, in this thread.
    """

    def __init__(
        self, engine: _ffi.Engine, sink: Sink, failed: weakref.WeakMethod[Any]
    ) -> None:
        super().__init__(name="hardfetch-writer", daemon=True)
        self._engine = engine
        self._sink = sink
        self._failed = failed
        self._given_up = False
        self._lock = threading.Lock()  # over the next two
        self._closes = False
        self._over = True  # until it runs
        self.failure: BaseException | None = None
        sink.given_up = lambda: self._given_up

    def give_up(self) -> None:
        """Stop writing at the next chance; what waits stays unwritten."""
        self._given_up = True

    def takes_over(self) -> bool:
        """Have the sink closed here when the writing has ended; False if it has."""
        with self._lock:
            self._closes = not self._over
            return self._closes

    def start(self) -> None:
        """Start to write."""
        self._over = False
        super().start()

    def run(self) -> None:
        """Write until the end. Never raises."""
        self._write()
        with self._lock:
            self._over = True
            closes = self._closes
        if closes:
            with suppress(OSError):
                self._sink.close()

    def _write(self) -> None:
        try:
            if self._sink.fd is not None:
                self._drain(self._sink.fd)
            else:
                self._copy()
        except ClosedError:
            return
        except OSError as exc:
            self.failure = self._told(exc.errno, exc.strerror or str(exc))
        except BaseException as exc:  # noqa: BLE001 - a sink of the caller's raises all
            self.failure = exc
        tell = self._failed()
        if self.failure is not None and tell is not None:
            tell()

    def _told(self, number: int | None, text: str) -> SinkError:
        return SinkError(number or errno.EIO, text, self._sink.name)

    def _drain(self, fd: int) -> None:
        while not self._given_up:
            rc = self._engine.drain(fd, _TURN)
            if rc == _ffi.END:
                self._sink.finish()
                return
            if rc == _ffi.PIPE:
                raise self._told(errno.EPIPE, os.strerror(errno.EPIPE))
            if rc == _ffi.IO:
                text = self._engine.drain_error()
                number = _ERRNO.get(text.rpartition(": ")[2], errno.EIO)
                raise self._told(number, os.strerror(number))
            self._sink.tick()

    def _copy(self) -> None:
        buffer = bytearray(_BUFFER)
        carry: list[bytes] = []  # a line whose end is still to come
        while not self._given_up:
            rc = self._engine.read(buffer, _TURN)
            if rc == _ffi.END:
                self._sink.finish()
                return
            if rc > 0:
                data = bytes(memoryview(buffer)[:rc])
                if self._sink.whole_lines:
                    data = _whole_lines(carry, data)
                if data:
                    self._sink.write(data)
            self._sink.tick()


def _whole_lines(carry: list[bytes], data: bytes) -> bytes:
    """Return the whole lines of carry and data; what is left becomes the carry."""
    cut = data.rfind(b"\n") + 1
    if cut == 0:
        carry.append(data)
        return b""
    whole = b"".join([*carry, data[:cut]])
    carry[:] = [data[cut:]]
    return whole


def look_at(engine: _ffi.Engine) -> Callable[[], tuple[int, bool, str] | None]:
    """Return what a `StallWatch` of an engine's output looks at."""

    def look() -> tuple[int, bool, str] | None:
        try:
            stats = Stats.of(engine.stats())
        except HardfetchError:
            return None
        waits = stats.ring_used_now > 0 or stats.parked_now > 0
        what = (
            f"{stats.ring_used_now} bytes and {stats.parked_now} finished fetches wait"
        )
        return stats.bytes_drained, waits, what

    return look
