"""Deadlines of threads other than the main one: exceptions set from outside.

`PyThreadState_SetAsyncExc` only marks the thread: the exception is made and raised
when the thread next looks, at a bytecode boundary, in the function that then runs. It
carries no arguments, so it finds its deadline through the thread's number.

That next look may be at the very first instruction of `Deadline.__exit__`, when a call
that released the interpreter ended the block late. Then the block is left by the right
exception, but without its `__exit__`. So the exception is kept, and before a deadline
is raised again its traceback tells whether the block is over.

All functions here run in the timer thread or under its lock (see `_timer`), except
where the exception is made.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
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
        for other in list(_watch.ACTIVE):
            if other.ident == ident and other.due <= now:
                other.postpone()
        if deadline is not None and deadline in _watch.ACTIVE:
            _raised[deadline] = self

    def __reduce__(self) -> tuple[type[DeadlineExceeded], tuple[str]]:
        """Travel as the plain exception."""
        return DeadlineExceeded, (str(self),)


Raised.__name__ = Raised.__qualname__ = DeadlineExceeded.__name__
Raised.__module__ = DeadlineExceeded.__module__


def fire(ident: int, due: list[Deadline]) -> None:
    """Have one of the thread's deadlines that are due raised there."""
    alive = ident in sys._current_frames()  # noqa: SLF001 - documented for this use
    for deadline in due:
        if not alive or is_over(deadline):
            _watch.ACTIVE.discard(deadline)
            forget(deadline)
            deadline.end()
    due = [d for d in due if d in _watch.ACTIVE]
    if _busy(ident):
        for deadline in due:
            deadline.next = time.monotonic() + _SOON
        return
    first = _watch.fire(due)
    if first is None:
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


def forget(deadline: Deadline) -> None:
    """Drop what is known of a deadline, and its exception if not yet raised."""
    _raised.pop(deadline, None)
    if _sent.get(deadline.ident) is deadline:
        del _sent[deadline.ident]
        _clear_exc(deadline.ident, None)


def _after_fork() -> None:
    _sent.clear()
    _raised.clear()


os.register_at_fork(after_in_child=_after_fork)
