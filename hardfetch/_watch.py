"""The watch in C behind a deadline, and where its exceptions must not land."""

from __future__ import annotations

import atexit
import faulthandler
import os
import signal
import threading
import time
from typing import TYPE_CHECKING

from hardfetch import _threads
from hardfetch._ffi import check, lib
from hardfetch.errors import EngineError, OptionError

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from hardfetch.guard import Deadline

#: Functions that neither they nor what they call may be left by an exception of ours.
#: What finds one of them running comes again a moment later.
CRITICAL: set[CodeType] = {_threads.start.__code__}

#: Environment variable with the number of the signal that ends blocking calls.
SIGNAL_VARIABLE = "HARDFETCH_GUARD_SIGNAL"

#: All deadlines whose blocks run.
ACTIVE: set[Deadline] = set()

_SHORTEST_WAIT = 0.005
_lock = threading.Lock()
_kick = 0


def kick_signal() -> int:
    """Return the private signal, chosen and set up at the first call.

    Raises OptionError for a bad number in the environment, EngineError when the system
    has no signal left.
    """
    global _kick  # noqa: PLW0603 - chosen once for the process
    if _kick:
        return _kick
    with _lock:
        if not _kick:
            _kick = _set_up()
        return _kick


def _set_up() -> int:
    dump = lib.hf_guard_free_signal(0)
    kick = _asked() or lib.hf_guard_free_signal(dump)
    if kick == dump:
        dump = lib.hf_guard_free_signal(kick)
    if not kick or not dump:
        raise EngineError("deadline: every real-time signal is in use")
    # Runs at C level and takes no lock, so it works while the interpreter is stuck.
    # Descriptor 2, as sys.stderr may be closed or not be a file.
    faulthandler.register(dump, file=2, all_threads=True, chain=False)
    check(lib.hf_guard_signals(kick, dump))
    # Before the interpreter takes its handlers down: then our signals would kill it.
    atexit.register(lib.hf_guard_stop)
    return int(kick)


def _asked() -> int:
    text = os.environ.get(SIGNAL_VARIABLE, "")
    if not text:
        return 0
    number = int(text) if text.isdecimal() else 0
    if not signal.SIGRTMIN < number < signal.SIGRTMAX:
        raise OptionError(
            f"{SIGNAL_VARIABLE}: a signal number between {signal.SIGRTMIN + 1} and "
            f"{signal.SIGRTMAX - 1}, not {text!r}"
        )
    return number


def arm(seconds: float, grace: float, *, exits: bool) -> int:
    """Watch the calling thread. Returns the watch's number."""
    kick_signal()
    return check(lib.hf_guard_arm(_us(seconds), _us(grace), exits))


def ack(number: int, seconds: float) -> None:
    """Say that Python runs; the thread is late again in `seconds`."""
    lib.hf_guard_ack(number, _us(seconds))


def disarm(number: int) -> None:
    """End a watch; one that has ended is passed over."""
    lib.hf_guard_disarm(number)


def tell(number: int) -> bool:
    """Have all stacks told if the watched thread is stuck; False when it isn't."""
    # Into memory first: stderr may block, and the dump holds the interpreter's lock.
    with os.fdopen(os.memfd_create("stacks"), "w+b") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        text = file.read()
    return bool(lib.hf_guard_tell(number, text, len(text)) == 1)


def fire(due: list[Deadline]) -> Deadline | None:
    """Fire deadlines of one thread that are due; return the one to raise there, if any.

    Of plain code, as of one task, only the outermost: the others' blocks are inside it.
    """
    chosen = None
    owners = set()
    for deadline in sorted(due, key=lambda d: d.due):
        here = deadline.is_here
        if deadline.task in owners or (here and chosen is not None):
            deadline.next = time.monotonic() + deadline.grace
            continue
        owners.add(deadline.task)
        deadline.fire(here=here)
        if here:
            chosen = deadline
    return chosen


def patience() -> float | None:
    """Return the seconds that a wait of Python's may last in this thread; None: any.

    Outside the main thread such a wait (a lock, a queue) can't be interrupted. One that
    ends when a deadline is due and begins anew lets the exception in between.
    """
    if not ACTIVE:
        return None
    ident = threading.get_ident()
    times = [d.next for d in list(ACTIVE) if d.ident == ident and not d.in_main]
    return max(_SHORTEST_WAIT, min(times) - time.monotonic()) if times else None


def in_critical(frame: FrameType | None) -> bool:
    """Tell whether one of CRITICAL is on the stack of frame."""
    while frame is not None:
        if frame.f_code in CRITICAL:
            return True
        frame = frame.f_back
    return False


def _us(seconds: float) -> int:
    return max(1, round(seconds * 1e6))
