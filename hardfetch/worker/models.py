"""What goes into a task and what comes out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

__all__ = ["Status", "TaskPayload", "TaskResult", "explain"]

Status = Literal["success", "timeout", "failed"]

Seconds = Annotated[float, Field(gt=0, le=31e6)]  # a year, as any limit of ours
Name = Annotated[str, Field(min_length=1, max_length=1000)]

_ERRORS_SHOWN = 5


class _Model(BaseModel):
    """Strict: nothing is converted, nothing unknown is passed over."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, allow_inf_nan=False
    )


class TaskPayload(_Model):
    """One task. Times are seconds.

    `target_function` is the name of a registered task, never a path to import.
    `timeout` limits it; None leaves that to whoever runs it. `duration` is how long the
    work is meant to take, for functions that want to know: it goes to the function in
    front of `args`, or as the keyword `duration` when `args` is an object.
    """

    task_id: Name
    target_function: Name
    timeout: Seconds | None = None
    duration: Seconds | None = None
    args: list[Any] | dict[str, Any] = Field(default_factory=list)

    def call_arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Return positional and keyword arguments for the function."""
        given = [] if self.duration is None else [self.duration]
        if isinstance(self.args, list):
            return [*given, *self.args], {}
        named = {} if self.duration is None else {"duration": self.duration}
        return [], {**named, **self.args}


class TaskResult(_Model):
    """How a task ended. `elapsed_time` is seconds; `value` is set on success only."""

    task_id: str
    status: Status
    message: str
    elapsed_time: Annotated[float, Field(ge=0)]
    value: Any = None


def explain(error: ValidationError) -> str:
    """Return Pydantic's findings in one line, without the input's values."""
    parts = [
        ": ".join(filter(None, [".".join(map(str, found["loc"])), found["msg"]]))
        for found in error.errors(include_url=False, include_input=False)
    ]
    more = len(parts) - _ERRORS_SHOWN
    shown = "; ".join(parts[:_ERRORS_SHOWN])
    return f"{shown}; and {more} more" if more > 0 else shown
