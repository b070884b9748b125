"""Says on stderr when an output is not read, and when it flows again."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from hardfetch.sinks import warn

if TYPE_CHECKING:
    from collections.abc import Callable

_JOIN_SECONDS = 0.5


class StallWatch(threading.Thread):
    """Watches one output.

    `look` returns the bytes drained so far, whether something waits, and what waits in
    words; None when there is nothing to watch any more. `patience` is seconds; the
    warnings come at growing intervals.
    """

    def __init__(
        self,
        look: Callable[[], tuple[int, bool, str] | None],
        name: str,
        patience: float,
    ) -> None:
        super().__init__(name="hardfetch-stall-watch", daemon=True)
        self._look = look
        self._output = name
        self._patience = patience
        self._end = threading.Event()

    def end(self) -> None:
        """End the watch, with a last look for the last word."""
        self._end.set()
        if self.ident is not None:  # an exception may have come before its start
            self.join(_JOIN_SECONDS)

    def run(self) -> None:
        """Look every quarter of the patience. Never raises."""
        drained, since, told, pause = 0, time.monotonic(), False, self._patience
        ended = False
        while not ended:
            ended = self._end.wait(self._patience / 4)
            seen = self._look()
            if seen is None:
                return
            count, waits, what = seen
            now = time.monotonic()
            if count != drained or not waits:
                if told:
                    warn(f"{self._output} is read again after {now - since:.1f} s")
                drained, since, told = count, now, False
                pause = self._patience
            elif now - since >= pause:
                told, pause = True, pause * 2
                late = f"has not been read for {now - since:.1f} s"
                warn(f"{self._output} {late}; {what}")
