"""What SIGINT, SIGTERM and SIGHUP do to a run.

The first one stops admission and lets fetches in flight end within the drain time; the
second one aborts them. What is finished is still written, unless nobody reads it: then
the process ends without. With a list of proxies in a file, SIGHUP reads it again; where
it is ignored, as under nohup, it stays so.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Protocol

from hardfetch.cli import console, early, exits

if TYPE_CHECKING:
    from types import FrameType, TracebackType

_LAST_WORD = 2.0  # seconds from the second signal to the end, whatever waits


class _Input(Protocol):
    def stop(self) -> None: ...


class _Engine(Protocol):
    def stop(self, drain: float) -> None: ...
    def reload_proxies(self) -> None: ...


class Interrupts:
    """Handles the signals as long as the context is open. Thread: main."""

    def __init__(
        self, source: _Input, engine: _Engine, drain: float, *, reloads: bool = False
    ) -> None:
        """Take what is to be stopped; drain is seconds.

        With `reloads` SIGHUP has the proxies read again and ends nothing.
        """
        self.count = 0  # signals so far
        self._source = source
        self._engine = engine
        self._drain = drain
        self._reloads = reloads
        self._before: dict[int, signal._HANDLER] = {}

    def __enter__(self) -> Interrupts:
        """Put the handlers in place."""
        for number in early.SIGNALS:
            self._before[number] = signal.signal(number, self._handle)
        if self._reloads or signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            handler = self._hang_up if self._reloads else self._handle
            self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, handler)
        early.check()  # from here on none can be missed
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Put the handlers that stood before back."""
        for number, before in self._before.items():
            signal.signal(number, before)

    def _hang_up(self, _number: int, _frame: FrameType | None) -> None:
        self._engine.reload_proxies()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.count += 1
        self._source.stop()
        if self.count == 1:
            self._engine.stop(self._drain)
            console.say(
                f"hardfetch: {signal.Signals(number).name}: fetches in flight may end "
                f"within {self._drain:g} s; a second signal aborts them"
            )
            return
        self._engine.stop(0.0)
        if self.count == 2:
            timer = threading.Timer(_LAST_WORD, os._exit, (exits.INTERRUPTED,))
            timer.daemon = True
            timer.start()
