"""The registry of tasks, and one task run under its limit."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from hardfetch import values
from hardfetch.errors import HardfetchError, OptionError
from hardfetch.guard import GRACE, deadline
from hardfetch.worker.models import Status, TaskPayload, TaskResult

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["UnknownTaskError", "get_task", "run_task", "task"]

_F = TypeVar("_F", bound="Callable[..., Any]")

_registry: dict[str, Callable[..., Any]] = {}


class UnknownTaskError(HardfetchError, LookupError):
    """No task is registered under the name."""


def task(name: str) -> Callable[[_F], _F]:
    """Register a function as the target of tasks: `@task("name")`.

    Raises OptionError when another function has the name.
    """

    def register(function: _F) -> _F:
        known = _registry.get(name)
        if known is not None and _place(known) != _place(function):
            raise OptionError(f"task {name!r} is registered already: {_place(known)}")
        _registry[name] = function
        return function

    return register


def _place(function: Callable[..., Any]) -> str:
    # Not identity: a module may be loaded twice, as __main__ and by its name.
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)


def get_task(name: str) -> Callable[..., Any]:
    """Return the function of a task. Raises UnknownTaskError."""
    try:
        return _registry[name]
    except KeyError:
        hint = values.near_miss(name, _registry)
        raise UnknownTaskError(f"no task is registered as {name!r}{hint}") from None


# What a function ends with; what others end it with, as KeyboardInterrupt, passes.
_ENDS = (Exception, SystemExit, GeneratorExit, asyncio.CancelledError)


def run_task(
    payload: TaskPayload,
    function: Callable[..., Any],
    *,
    timeout: float | None = None,
    grace: float = GRACE,
    on_stuck: Literal["raise", "exit"] = "raise",
) -> TaskResult:
    """Call function with the payload's arguments and tell how it ended.

    Times are seconds. `timeout` wins over the payload's own; `grace` and `on_stuck` are
    those of `hardfetch.deadline`, which holds the limit. A coroutine is run to its end.
    Whatever the function raises is in the result, except KeyboardInterrupt.

    Raises OptionError when neither names a timeout.
    """
    limit = payload.timeout if timeout is None else timeout
    if limit is None:
        raise OptionError("run_task: give a timeout, here or in the payload")
    guard = deadline(limit, grace=grace, on_stuck=on_stuck)
    args, kwargs = payload.call_arguments()
    value = None
    status: Status = "success"
    message = "done"
    start = time.monotonic()
    try:
        with guard:
            value = function(*args, **kwargs)
            if inspect.iscoroutine(value):
                value = asyncio.run(value)
    except _ENDS as exc:
        status, message = "failed", values.described(exc)
    elapsed = time.monotonic() - start
    if guard.expired:
        value = None
        status, message = "timeout", f"timed out after {limit:g} s"
    return TaskResult(
        task_id=payload.task_id,
        status=status,
        message=message,
        elapsed_time=elapsed,
        value=value,
    )
