"""The thread beside all deadlines: fires those of other threads, tells of stuck ones.

It needs the interpreter's lock for both. While a stuck thread holds that, the watch in
C tells by itself (see `hf_guard_tell`): nothing runs Python then, so it may look.
"""

from __future__ import annotations

import atexit
import math
import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from hardfetch import _asyncexc, _watch

if TYPE_CHECKING:
    from hardfetch.guard import Deadline

_SOON = 0.005  # seconds until another try to tell
_TRY_FOR = 0.1  # seconds of trying
_JOIN_SECONDS = 1.0

_lock = threading.Lock()  # a plain one: taking it can't be torn by an exception


class _Timer:
    """The thread, started with the first deadline."""

    def __init__(self) -> None:
        self.soonest = math.inf  # monotonic seconds at which the thread looks again
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._wake = threading.Lock()  # released = look again
        self._wake.acquire()

    def look_at(self, when: float) -> None:
        """Have the thread look at the deadlines by then. The lock is held."""
        if self._thread is None:
            thread = threading.Thread(
                target=self._run, name="hardfetch-deadline", daemon=True
            )
            thread.start()
            atexit.register(self.stop)
            self._thread = thread
        if when < self.soonest:
            self._signal()

    def _signal(self) -> None:
        with suppress(RuntimeError):  # it was told already
            self._wake.release()

    def stop(self) -> None:
        """End the thread before the interpreter goes."""
        self._stopped = True
        self._signal()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        while not self._stopped:
            with _lock:
                stuck = _look()
                self.soonest = min(map(_next_look, _watch.ACTIVE), default=math.inf)
            for deadline in stuck:
                _tell(deadline)
            if self.soonest == math.inf:
                self._wake.acquire()
            else:
                self._wake.acquire(timeout=max(0.0, self.soonest - time.monotonic()))


def add(deadline: Deadline) -> None:
    """Take a deadline that starts."""
    with _lock:
        _watch.ACTIVE.add(deadline)
        _timer.look_at(_next_look(deadline))


def remove(deadline: Deadline) -> None:
    """Forget a deadline; one that isn't there is passed over."""
    with _lock:
        _watch.ACTIVE.discard(deadline)
        _asyncexc.forget(deadline)


def _next_look(deadline: Deadline) -> float:
    if deadline.in_main:  # fired by a signal
        return deadline.stuck_at
    return min(deadline.next, deadline.stuck_at)


def _look() -> list[Deadline]:
    """Fire what is due; return the deadlines whose threads are stuck."""
    now = time.monotonic()
    threads: dict[int, list[Deadline]] = {}
    for deadline in _watch.ACTIVE:
        if not deadline.in_main and deadline.next <= now:
            threads.setdefault(deadline.ident, []).append(deadline)
    for ident, due in threads.items():
        _asyncexc.fire(ident, due)
    stuck = [d for d in _watch.ACTIVE if d.stuck_at <= now]
    for deadline in stuck:
        # The watch's own clock decides; it may be a moment behind.
        late = now - deadline.due - deadline.grace
        deadline.stuck_at = now + _SOON if late < _TRY_FOR else math.inf
    return stuck


def _tell(deadline: Deadline) -> None:
    with suppress(OSError, MemoryError):  # then the watch tells by itself
        if _watch.tell(deadline.watch):
            deadline.stuck_at = math.inf


_timer = _Timer()


def _after_fork() -> None:
    global _lock, _timer  # noqa: PLW0603 - the parent's may be locked for ever
    _lock = threading.Lock()
    _timer = _Timer()
    _watch.ACTIVE.clear()


os.register_at_fork(after_in_child=_after_fork)
