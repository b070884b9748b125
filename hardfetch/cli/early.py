"""SIGINT and SIGTERM while no run is there to be stopped: from the first import on.

Both end the process with the code of an interrupt, and without a traceback. A run has
handlers of its own, see `interrupts`. What comes before Python reads its first line of
ours ends the process as ever: nothing has been touched by then.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from hardfetch.cli import exits

if TYPE_CHECKING:
    from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM)

_seen = False


class Interrupted(KeyboardInterrupt):
    """A signal that ends the command.

    No plain KeyboardInterrupt: where one leaves an `exec`, as of a dataclass that is
    being made, CPython remembers it, and at its end kills itself by SIGINT.
    """


class Signals:
    """Makes both signals an Interrupted as long as the context is open."""

    def __enter__(self) -> Signals:
        """Put the handlers in place, where that is possible: in the main thread."""
        global _seen  # noqa: PLW0603 - as handlers are, one for the process
        _seen = False
        self._code: int | None = None
        self._before: dict[int, signal._HANDLER] = {}
        self._told = sys.unraisablehook
        sys.unraisablehook = self._unheard
        with suppress(ValueError):
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Put back what stood before, unless the process ends now anyway."""
        if self._code is None:
            sys.unraisablehook = self._told
            for number, before in self._before.items():
                signal.signal(number, before)

    @property
    def seen(self) -> bool:
        """Whether one has come."""
        return _seen

    def decided(self, code: int) -> None:
        """Say how the process will end: a signal ends it so, and at once."""
        self._code = code

    def _unheard(self, what: sys.UnraisableHookArgs) -> None:
        # Python prints what leaves a destructor or a weak reference's callback, such as
        # that of an import's lock, and goes on. `check` raises it again.
        if not isinstance(what.exc_value, Interrupted):
            self._told(what)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        global _seen  # noqa: PLW0603
        if self._code is not None:
            os._exit(self._code)
        if _seen:  # the way out from the first takes its time, or nobody heard it
            os._exit(exits.INTERRUPTED)
        _seen = True
        raise Interrupted


def check() -> None:
    """Raise again what was raised where nobody hears it."""
    if _seen:
        raise Interrupted
