"""The writer's thread: from the engine's rings to a sink, its time spent in C."""

from __future__ import annotations

import errno
import os
import threading
import time
from typing import TYPE_CHECKING

from hardfetch import _ffi
from hardfetch.errors import ClosedError, HardfetchError, SinkError
from hardfetch.sinks import warn
from hardfetch.summary import Stats

if TYPE_CHECKING:
    from collections.abc import Callable

    from hardfetch.sinks import Sink

_TURN = 0.5  # seconds of one call into the core
_BUFFER = 256 << 10
_ERRNO = {os.strerror(number): number for number in errno.errorcode}


class Writer(threading.Thread):
    """Drains one engine into one sink until the last record, a failure or `give_up`.

    `failure` is set before `failed` is called, in this thread.
    """

    def __init__(
        self, engine: _ffi.Engine, sink: Sink, failed: Callable[[], None]
    ) -> None:
        super().__init__(name="hardfetch-writer", daemon=True)
        self._engine = engine
        self._sink = sink
        self._failed = failed
        self._given_up = False
        self.failure: Exception | None = None
        sink.given_up = lambda: self._given_up

    def give_up(self) -> None:
        """Stop writing at the next chance; what waits stays unwritten."""
        self._given_up = True

    def run(self) -> None:
        """Write until the end. Never raises."""
        try:
            if self._sink.fd is not None:
                self._drain(self._sink.fd)
            else:
                self._copy()
        except ClosedError:
            return
        except OSError as exc:
            self.failure = self._told(exc.errno, exc.strerror or str(exc))
        except Exception as exc:  # noqa: BLE001 - a sink of the caller's may raise all
            self.failure = exc
        if self.failure is not None:
            self._failed()

    def _told(self, number: int | None, text: str) -> SinkError:
        return SinkError(number or errno.EIO, text, self._sink.name)

    def _drain(self, fd: int) -> None:
        while not self._given_up:
            rc = self._engine.drain(fd, _TURN)
            if rc == _ffi.END:
                return
            if rc == _ffi.PIPE:
                raise self._told(errno.EPIPE, os.strerror(errno.EPIPE))
            if rc == _ffi.IO:
                text = self._engine.drain_error()
                number = _ERRNO.get(text.rpartition(": ")[2], errno.EIO)
                raise self._told(number, os.strerror(number))

    def _copy(self) -> None:
        buffer = bytearray(_BUFFER)
        carry = b""
        while not self._given_up:
            rc = self._engine.read(buffer, _TURN)
            if rc == _ffi.END:
                break
            if rc <= 0:
                continue
            data = bytes(memoryview(buffer)[:rc])
            if self._sink.whole_lines:
                data = carry + data
                cut = data.rfind(b"\n") + 1
                carry, data = data[cut:], data[:cut]
            if data:
                self._sink.write(data)
        self._sink.finish()


class StallWatch(threading.Thread):
    """Says on stderr when records wait unread, and when they flow again."""

    def __init__(self, engine: _ffi.Engine, name: str, patience: float) -> None:
        super().__init__(name="hardfetch-stall-watch", daemon=True)
        self._engine = engine
        self._name = name
        self._patience = patience
        self._end = threading.Event()

    def end(self) -> None:
        """End the watch, with a last look for the last word."""
        self._end.set()
        self.join(_TURN)

    def run(self) -> None:
        """Look every quarter of the patience. Never raises."""
        drained, since, told, pause = 0, time.monotonic(), False, self._patience
        ended = False
        while not ended:
            ended = self._end.wait(self._patience / 4)
            try:
                stats = Stats.of(self._engine.stats())
            except HardfetchError:
                return
            now = time.monotonic()
            waiting = stats.ring_used_now > 0 or stats.parked_now > 0
            if stats.bytes_drained != drained or not waiting:
                if told:
                    warn(f"{self._name} is read again after {now - since:.1f} s")
                drained, since, told = stats.bytes_drained, now, False
                pause = self._patience
            elif now - since >= pause:
                told, pause = True, pause * 2
                warn(
                    f"{self._name} has not been read for {now - since:.1f} s; "
                    f"{stats.ring_used_now} bytes and {stats.parked_now} finished "
                    "fetches wait"
                )
