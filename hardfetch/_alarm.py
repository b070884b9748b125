"""Deadlines of the main thread: SIGALRM, and whoever had it before.

One timer serves all deadlines; it stands at the earliest. What it displaced, a handler
with perhaps a running timer, is a `_Layer`: its time is kept, its handler called when
it is due, and both are put back when the last deadline above leaves. Foreign code
inside a block may displace us in turn; a deadline entered then starts a layer of its
own, and one whose timer was taken away is fired by the private signal, which has the
same handler.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hardfetch import _watch
from hardfetch.errors import DeadlineExceeded

if TYPE_CHECKING:
    from types import FrameType

    from hardfetch.guard import Deadline

_SOON = 0.001  # seconds until another try where an exception must not land
_AT_ONCE = 1e-6  # the shortest time that does not turn a timer off


@dataclass(eq=False)
class _Layer:
    """A handler and timer that stood before, while deadlines stand in their place."""

    handler: Any
    due: float | None  # monotonic seconds, None = no timer ran
    interval: float  # seconds, 0 = once
    users: int = 0

    def run_next(self, now: float) -> None:
        """Move due past now; times that were missed are missed, as in the kernel."""
        if self.due is not None and self.interval:
            missed = (now - self.due) // self.interval
            self.due += (missed + 1) * self.interval
        else:
            self.due = None


_deadlines: dict[Deadline, _Layer | None] = {}  # None: SIGALRM is C code's
_layers: list[_Layer] = []


def enter(deadline: Deadline) -> None:
    """Start a deadline. Main thread only."""
    kick = _watch.kick_signal()
    if signal.getsignal(kick) is not on_signal:
        signal.signal(kick, on_signal)
    layer = _take_alarm()
    if layer is not None:
        layer.users += 1
    _deadlines[deadline] = layer
    _set_timer()


def leave(deadline: Deadline) -> None:
    """End a deadline and put back what it displaced; one that isn't there: nothing."""
    layer = _deadlines.pop(deadline, None)
    if layer is None:
        return
    layer.users -= 1
    if layer.users:
        _set_timer()
    else:
        _give_back(layer)


def _take_alarm() -> _Layer | None:
    handler = signal.getsignal(signal.SIGALRM)
    if handler is on_signal:
        return _layers[-1]
    if handler is None:  # installed by C code: Python could not put it back
        return None
    left, interval = signal.setitimer(signal.ITIMER_REAL, 0)
    layer = _Layer(handler, time.monotonic() + left if left else None, interval)
    try:
        signal.signal(
            signal.SIGALRM, on_signal
        )  # runs what is pending, which may raise
    except BaseException:
        signal.setitimer(signal.ITIMER_REAL, left, interval)
        raise
    _layers.append(layer)
    return layer


def _give_back(layer: _Layer) -> None:
    top = _layers[-1] is layer
    _layers.remove(layer)
    if not top or signal.getsignal(signal.SIGALRM) is not on_signal:
        _set_timer()
        return  # somebody took over inside the block: it is theirs
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, layer.handler)
    if layer.due is not None:
        left = max(_AT_ONCE, layer.due - time.monotonic())
        signal.setitimer(signal.ITIMER_REAL, left, layer.interval)


def _set_timer(at_least: float = _AT_ONCE) -> None:
    """Set the timer to the earliest of all. Only while the handler is ours."""
    if signal.getsignal(signal.SIGALRM) is not on_signal:
        return
    times = [d.next for d in _deadlines]
    times += [layer.due for layer in _layers if layer.due is not None]
    left = max(at_least, min(times) - time.monotonic()) if times else 0.0
    signal.setitimer(signal.ITIMER_REAL, left)


def on_signal(_signum: int, frame: FrameType | None) -> None:
    """Raise the earliest deadline that is due; run displaced handlers on their time."""
    if _watch.in_critical(frame):
        _set_timer(at_least=_SOON)
        return
    try:
        _run_displaced(frame)
        _raise_due()
    finally:
        _set_timer()


def _run_displaced(frame: FrameType | None) -> None:
    now = time.monotonic()
    for layer in [x for x in _layers if x.due is not None and x.due <= now]:
        layer.run_next(now)
        if callable(layer.handler):
            layer.handler(signal.SIGALRM, frame)
        elif layer.handler == signal.SIG_DFL:  # it would have ended the process
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGALRM)


def _raise_due() -> None:
    now = time.monotonic()
    due = [d for d in _deadlines if d.next <= now]
    first = _watch.fire(due)
    if first is None:
        return
    for deadline in due:  # those that were cancelled say it themselves, later
        if deadline.is_here:
            deadline.postpone()
    raise DeadlineExceeded(first.message)


def _after_fork() -> None:
    main = threading.get_ident() == threading.main_thread().ident
    if _layers and main and signal.getsignal(signal.SIGALRM) is on_signal:
        signal.signal(signal.SIGALRM, _layers[0].handler)
    _layers.clear()
    _deadlines.clear()


_watch.CRITICAL.add(on_signal.__code__)  # a handler in a handler would tear its work
os.register_at_fork(after_in_child=_after_fork)
