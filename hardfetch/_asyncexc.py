"""Deadlines of threads other than the main one: exceptions set from a timer thread.

`PyThreadState_SetAsyncExc` only marks the thread: the exception is made and raised
when the thread next looks, at a bytecode boundary, in the function that then runs. It
carries no arguments, so it finds its deadline through the thread's number.

That next look may be at the very first instruction of `Deadline.__exit__`, when a call
that released the interpreter ended the block late. Then the block is left by the right
exception, but without its `__exit__`. So the exception is kept, and before a deadline
is raised again its traceback tells whether the block is over.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from hardfetch import _watch
from hardfetch.errors import DeadlineExceeded

if TYPE_CHECKING:
    from hardfetch.guard import Deadline

_SOON = 0.001  # seconds until another try where an exception must not land

_set_exc = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_exc.argtypes = (ctypes.c_ulong, ctypes.py_object)
_set_exc.restype = ctypes.c_int
_clear_exc = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)(
    ("PyThreadState_SetAsyncExc", ctypes.pythonapi)
)


_lock = threading.Lock()  # a plain one: taking it can't be torn by an exception
_deadlines = _watch.IN_THREADS
_sent: dict[int, Deadline] = {}  # by thread: set, and not yet raised there
_raised: dict[Deadline, Raised] = {}  # raised in its block, which has not yet been left


class Raised(DeadlineExceeded):
    """DeadlineExceeded as it is raised in a thread; goes by that name."""

    def __init__(self) -> None:
        """Run in the late thread, when the exception is made there."""
        ident = threading.get_ident()
        deadline = _sent.pop(ident, None)
        super().__init__(deadline.message if deadline else "deadline exceeded")
        now = time.monotonic()
        for other in list(_deadlines):
            if other.ident == ident and other.due <= now:
                other.postpone()
        if deadline is not None and deadline in _deadlines:
            _raised[deadline] = self

    def __reduce__(self) -> tuple[type[DeadlineExceeded], tuple[str]]:
        """Travel as the plain exception."""
        return DeadlineExceeded, (str(self),)


Raised.__name__ = Raised.__qualname__ = DeadlineExceeded.__name__
Raised.__module__ = DeadlineExceeded.__module__


def enter(deadline: Deadline) -> None:
    """Start a deadline of the calling thread."""
    with _lock:
        _deadlines.add(deadline)
    _timer.look_again()


def leave(deadline: Deadline) -> None:
    """End a deadline. One that isn't there is passed over."""
    with _lock:
        _deadlines.discard(deadline)
        _raised.pop(deadline, None)
        if _sent.get(deadline.ident) is deadline:
            del _sent[deadline.ident]
            _clear_exc(deadline.ident, None)


class _Timer:
    """The thread that waits for the earliest deadline and fires it."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._stopped = False
        self._wake = threading.Lock()  # released = look again; no Condition: see _lock
        self._wake.acquire()

    def look_again(self) -> None:
        """Start the thread, or have it look at the deadlines anew."""
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(
                    target=self._run, name="hardfetch-deadline", daemon=True
                )
                thread.start()
                atexit.register(self.stop)
                self._thread = thread
        self._signal()

    def _signal(self) -> None:
        with suppress(RuntimeError):  # it was told already
            self._wake.release()

    def stop(self) -> None:
        """End the thread before the interpreter goes."""
        self._stopped = True
        self._signal()
        if self._thread is not None:
            self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stopped:
            with _lock:
                _fire_due()
                soonest = min((d.next for d in _deadlines), default=None)
            if soonest is None:
                self._wake.acquire()
            else:
                self._wake.acquire(timeout=max(0.0, soonest - time.monotonic()))


def _fire_due() -> None:
    now = time.monotonic()
    threads: dict[int, list[Deadline]] = {}
    for deadline in _deadlines:
        if deadline.next <= now:
            threads.setdefault(deadline.ident, []).append(deadline)
    for ident, due in threads.items():
        _fire_thread(ident, sorted(due, key=lambda d: d.due))


def _fire_thread(ident: int, due: list[Deadline]) -> None:
    alive = ident in sys._current_frames()  # noqa: SLF001 - documented for this use
    for deadline in due:
        if not alive or is_over(deadline):
            _drop(deadline)
    due = [d for d in due if d in _deadlines]
    if not due:
        return
    if _busy(ident):
        for deadline in due:
            deadline.next = time.monotonic() + _SOON
        return
    first, *others = due
    for other in others:  # their blocks are inside, or will be reached by the first
        other.next = time.monotonic() + other.grace
    if not first.fire():
        return
    _sent[ident] = first
    _set_exc(ident, Raised)
    # The interpreter may have switched threads between the look and the act.
    if ident in _sent and _busy(ident):
        del _sent[ident]
        _clear_exc(ident, None)
        first.next = time.monotonic() + _SOON


def _busy(ident: int) -> bool:
    frame = sys._current_frames().get(ident)  # noqa: SLF001
    return _watch.in_critical(frame)


def is_over(deadline: Deadline) -> bool:
    """Tell whether the exception left the block through the start of its __exit__."""
    exc = _raised.get(deadline)
    trace = exc.__traceback__ if exc is not None else None
    code = type(deadline).__exit__.__code__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code is code and frame.f_locals.get("self") is deadline:
            return True
        trace = trace.tb_next
    return False


def _drop(deadline: Deadline) -> None:
    _deadlines.discard(deadline)
    _raised.pop(deadline, None)
    deadline.forget()


_timer = _Timer()


def _after_fork() -> None:
    global _lock, _timer  # noqa: PLW0603 - the parent's may be locked for ever
    _lock = threading.Lock()
    _timer = _Timer()
    _deadlines.clear()
    _sent.clear()
    _raised.clear()


os.register_at_fork(after_in_child=_after_fork)
