"""A limit in time on the caller's own code: `with deadline(seconds)`.

Three things act, each where the one before cannot:

1. In the main thread `setitimer` and SIGALRM: the handler raises DeadlineExceeded. In
   other threads, where Python runs no signal handlers, the exception is set from a
   timer thread and surfaces at the next bytecode (`PyThreadState_SetAsyncExc`).
2. A thread in C (csrc/guard.c) ends the late thread's blocking system calls with a
   private real-time signal, again and again. It needs no timer of Python's, so it also
   works where other code took SIGALRM away.
3. `grace` seconds later, when Python still could not run, the same thread prints all
   stacks to stderr and, with on_stuck="exit", ends the process with `EXIT_STUCK`.

What nobody can do: in a thread other than the main one, Python's own blocking calls
(`time.sleep`, locks, sockets) go on after EINTR without a look at asynchronous
exceptions. There the exception comes when the call returns, and only step 3 is left
before that. hardfetch's own calls return.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from hardfetch import _alarm, _asyncexc, _watch
from hardfetch.errors import DeadlineExceeded, OptionError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["EXIT_STUCK", "Deadline", "deadline"]

#: What the process exits with when on_stuck="exit" had to end it (EX_SOFTWARE).
EXIT_STUCK = 70

GRACE = 1.0
_LONGEST = 10 * 365 * 86400.0  # what still fits every timer below

_P = ParamSpec("_P")
_R = TypeVar("_R")


def deadline(
    seconds: float,
    *,
    grace: float = GRACE,
    on_stuck: Literal["raise", "exit"] = "raise",
) -> Deadline:
    """Limit a block or a function to `seconds`; fractions count.

    Use it as `with deadline(0.3):` or as `@deadline(0.3)`, on functions and coroutine
    functions. Past the limit DeadlineExceeded (a TimeoutError) is raised in the block:
    in blocking code where it stands, in a coroutine that awaits by cancelling its task.
    Code that swallows it meets it again every `grace` seconds, and at the end of the
    block. Deadlines nest; the earliest fires, and an earlier handler or timer of
    SIGALRM is kept, runs on time, and is put back with its remaining time.

    Args:
        seconds: the limit, above 0.
        grace: seconds past the limit, above 0, after which a thread that still could
            not run Python counts as stuck: all stacks go to stderr.
        on_stuck: "raise" waits for the stuck call to return and raises then; "exit"
            ends the process with exit code 70, for a supervisor to restart.

    Raises:
        OptionError: seconds or grace is not a positive number, on_stuck is unknown.

    A forked child starts without its parent's deadlines, as with every POSIX timer.
    """
    return Deadline(seconds, grace=grace, on_stuck=on_stuck)


def _positive(name: str, value: float) -> float:
    number = math.nan if isinstance(value, bool) else float(value)
    if not 0 < number <= _LONGEST:
        raise OptionError(f"{name}: a positive number of seconds, not {value!r}")
    return number


class Deadline:
    """One limit, made by `deadline()`. A block at a time; as a decorator any number.

    `expired` tells whether the limit has passed with the block unfinished.
    """

    def __init__(
        self, seconds: float, *, grace: float = GRACE, on_stuck: str = "raise"
    ) -> None:
        """Check the values; nothing runs before the block is entered."""
        self.seconds = _positive("deadline", seconds)
        self.grace = _positive("grace", grace)
        if on_stuck not in ("raise", "exit"):
            raise OptionError(f'on_stuck: "raise" or "exit", not {on_stuck!r}')
        self.on_stuck = on_stuck
        self.expired = False
        self.due = math.inf  # monotonic seconds of the limit
        self.next = math.inf  # the same of the next exception: due, then every grace
        self.ident = 0  # of the thread that is in the block
        self._watch = 0  # number of the watch in C; 0 = not in a block
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False

    def __repr__(self) -> str:
        return f"deadline({self.seconds:g}, grace={self.grace:g})"

    @property
    def remaining(self) -> float:
        """Seconds left, never below 0; infinite outside a block."""
        return max(0.0, self.due - time.monotonic())

    @property
    def active(self) -> bool:
        """Whether a block is being limited."""
        return self._watch != 0

    @property
    def message(self) -> str:
        """What the exception says."""
        return f"deadline of {self.seconds:g} s exceeded"

    def __enter__(self) -> Deadline:
        if self._watch and _asyncexc.is_over(self):
            self._leave()
        if self._watch:
            raise RuntimeError("this deadline is in use; make one for each block")
        self.expired = self._cancelled = False
        self._task = _current_task()
        self.ident = threading.get_ident()
        self.due = self.next = time.monotonic() + self.seconds
        exits = self.on_stuck == "exit"
        self._watch = _watch.arm(self.seconds, self.grace, exits=exits)
        try:
            _home(self.ident).enter(self)
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._watch:
            try:
                self._leave()
            except _asyncexc.Raised:  # set by the timer thread while we were leaving
                self.expired = True
        if not self.expired:
            return
        if kind is None:
            raise DeadlineExceeded(self.message)
        if self._cancelled and kind.__name__ == "CancelledError":
            _uncancel()
            raise DeadlineExceeded(self.message) from exc

    def _leave(self) -> None:
        """End the block's limit. May be done again where an exception broke in."""
        _home(self.ident).leave(self)
        self.forget()

    def forget(self) -> None:
        """Take the watch off: the block is over."""
        _watch.disarm(self._watch)
        self.due = self.next = math.inf
        self._task = None
        self._watch = 0

    def fire(self) -> bool:
        """Note that the limit has passed. Returns whether to raise in the thread.

        False when the block is in a coroutine that is not running now: an exception
        would hit another task, so its own task is cancelled instead.
        """
        self.expired = True
        self.next = time.monotonic() + self.grace
        task = self._task
        if task is None:
            return True
        loop = task.get_loop()
        if sys.modules["asyncio"].current_task(loop) is task:
            return True
        loop.call_soon_threadsafe(self.cancel, task)
        return False

    def postpone(self) -> None:
        """Say that the thread runs: the next exception comes a grace later."""
        self.next = time.monotonic() + self.grace
        _watch.ack(self._watch, self.grace)

    def cancel(self, task: asyncio.Task[Any]) -> None:
        """Cancel the task that holds the block, unless it has left it."""
        if self._task is task:
            self._cancelled = True
            self.postpone()
            task.cancel()

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Limit each call of a function, or each run of a coroutine function."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(
            function
        ):
            raise TypeError(
                "deadline: a generator runs in pieces, between which its caller's time "
                "passes; put the deadline around the loop"
            )
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def limited_async(*args: _P.args, **kwargs: _P.kwargs) -> Any:
                with self._again():
                    return await function(*args, **kwargs)

            return limited_async  # type: ignore[return-value] # R is the coroutine

        @functools.wraps(function)
        def limited(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with self._again():
                return function(*args, **kwargs)

        return limited

    def _again(self) -> Deadline:
        return Deadline(self.seconds, grace=self.grace, on_stuck=self.on_stuck)


def _current_task() -> asyncio.Task[Any] | None:
    asyncio_ = sys.modules.get("asyncio")  # not loaded: nothing of it can run
    try:
        return asyncio_.current_task() if asyncio_ else None
    except RuntimeError:  # no loop runs in this thread
        return None


def _uncancel() -> None:
    """Take back our own request, so that the task's owner doesn't see it as theirs."""
    task = _current_task()
    if task is not None and sys.version_info >= (3, 11):
        task.uncancel()


def _home(ident: int) -> Any:
    return _alarm if ident == threading.main_thread().ident else _asyncexc


#: Where no exception of ours may land, or the bookkeeping would be torn.
_watch.CRITICAL.update(
    function.__code__
    for function in (Deadline.__enter__, Deadline.__exit__, Deadline.cancel)
)
