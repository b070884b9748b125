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
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from hardfetch import _alarm, _asyncexc, _timer, _watch, values
from hardfetch.errors import DeadlineExceeded, OptionError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["EXIT_STUCK", "Deadline", "deadline"]

#: What the process exits with when on_stuck="exit" had to end it (EX_SOFTWARE).
EXIT_STUCK = 70

GRACE = 1.0

_P = ParamSpec("_P")
_R = TypeVar("_R")


def deadline(
    seconds: float | str,
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
        seconds: the limit, above 0; or text, as "300ms".
        grace: seconds past the limit, above 0, after which a thread that still could
            not run Python counts as stuck: all stacks go to stderr.
        on_stuck: "raise" waits for the stuck call to return and raises then; "exit"
            ends the process with exit code 70, for a supervisor to restart.

    Raises:
        OptionError: seconds or grace is not a positive number, on_stuck is unknown.

    A forked child starts without its parent's deadlines, as with every POSIX timer.
    """
    return Deadline(seconds, grace=grace, on_stuck=on_stuck)


class Deadline:
    """One limit, made by `deadline()`. A block at a time; as a decorator any number.

    `expired` tells whether the limit has passed with the block unfinished.
    """

    def __init__(
        self, seconds: float | str, *, grace: float = GRACE, on_stuck: str = "raise"
    ) -> None:
        """Check the values; nothing runs before the block is entered."""
        self.seconds = values.seconds("deadline", seconds)
        self.grace = values.seconds("grace", grace)
        if on_stuck not in ("raise", "exit"):
            raise OptionError(f'on_stuck: "raise" or "exit", not {on_stuck!r}')
        self.on_stuck = on_stuck
        self.expired = False
        self.due = math.inf  # monotonic seconds of the limit
        self.next = math.inf  # the same of the next exception: due, then every grace
        self.stuck_at = math.inf  # the same of the end of patience
        self.ident = 0  # of the thread that is in the block
        self.in_main = False
        self.task: asyncio.Task[Any] | None = None  # that is in the block
        self.watch = 0  # number of the watch in C; 0 = not in a block
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
        return self.watch != 0

    @property
    def message(self) -> str:
        """What the exception says."""
        return f"deadline of {self.seconds:g} s exceeded"

    def __enter__(self) -> Deadline:
        if self.watch and _asyncexc.is_over(self):
            self._leave()
        if self.watch:
            raise RuntimeError("this deadline is in use; make one for each block")
        self.expired = self._cancelled = False
        self.task = _current_task()
        self.ident = threading.get_ident()
        self.in_main = self.ident == threading.main_thread().ident
        self.due = self.next = time.monotonic() + self.seconds
        self.stuck_at = self.due + self.grace
        exits = self.on_stuck == "exit"
        self.watch = _watch.arm(self.seconds, self.grace, exits=exits)
        try:
            _timer.add(self)
            if self.in_main:
                _alarm.enter(self)
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
        # A call that the kick ended early must not pass for one that was done in time.
        late = time.monotonic() >= self.due
        while self.watch:
            try:
                self._leave()
            except _asyncexc.Raised:  # set by the timer thread while we were leaving
                late = True
        self.expired |= late
        if not self.expired:
            return
        if kind is None:
            raise DeadlineExceeded(self.message)
        if self._cancelled and kind.__name__ == "CancelledError":
            _uncancel()
            raise DeadlineExceeded(self.message) from exc

    def _leave(self) -> None:
        """End the block's limit. May be done again where an exception broke in."""
        if self.in_main:
            _alarm.leave(self)
        _timer.remove(self)
        self.end()

    def end(self) -> None:
        """Take the watch off: the block is over."""
        _watch.disarm(self.watch)
        self.due = self.next = self.stuck_at = math.inf
        self.task = None
        self.watch = 0

    @property
    def is_here(self) -> bool:
        """Whether the block is what its thread runs now, and not a task that waits."""
        if self.task is None:
            return True
        loop = self.task.get_loop()
        return bool(sys.modules["asyncio"].current_task(loop) is self.task)

    def fire(self, *, here: bool) -> None:
        """Note that the limit has passed. Cancel the task if the block isn't `here`.

        An exception would hit another task then.
        """
        self.expired = True
        self.next = time.monotonic() + self.grace
        if self.task is not None and not here:
            with suppress(RuntimeError):  # the loop is closed: the task never runs on
                self.task.get_loop().call_soon_threadsafe(self.cancel, self.task)

    def postpone(self) -> None:
        """Say that the thread runs: the next exception comes a grace later."""
        self.next = time.monotonic() + self.grace
        self.stuck_at = self.next + self.grace
        _watch.ack(self.watch, self.grace)

    def cancel(self, task: asyncio.Task[Any]) -> None:
        """Cancel the task that holds the block, unless it has left it."""
        if self.task is task:
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


#: Where no exception of ours may land, or the bookkeeping would be torn.
_watch.CRITICAL.update(
    function.__code__
    for function in (Deadline.__enter__, Deadline.__exit__, Deadline.cancel)
)
