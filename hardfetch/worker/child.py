"""A worker process: one task after the other from a pipe, one result each back."""

from __future__ import annotations

import importlib
import os
import signal
from typing import TYPE_CHECKING

from hardfetch import jsonio
from hardfetch.worker import builtin as _builtin  # noqa: F401 - registers its tasks
from hardfetch.worker.models import TaskPayload, TaskResult
from hardfetch.worker.tasks import UnknownTaskError, get_task, run_task

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

READY = b"ready"


def main(pipe: Connection, modules: tuple[str, ...], grace: float) -> None:
    """Import the task modules, then work until the pipe ends."""
    # The parent decides what Ctrl-C means; it reaches the whole process group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)  # what a task prints must not come between the results
    for name in modules:
        importlib.import_module(name)
    try:
        pipe.send_bytes(READY)
        while True:
            pipe.send_bytes(run_line(pipe.recv_bytes(), grace))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the parent has gone


def run_line(line: bytes, grace: float) -> bytes:
    """Run one payload and return its result, both as JSON."""
    payload = TaskPayload.model_validate(jsonio.loads(line))
    try:
        function = get_task(payload.target_function)
    except UnknownTaskError as exc:
        return encode(_failed(payload, str(exc), 0.0))
    result = run_task(payload, function, grace=grace, on_stuck="exit")
    try:
        return encode(result)
    except jsonio.JsonEncodeError as exc:
        message = f"its value has no JSON form: {exc}"
        return encode(_failed(payload, message, result.elapsed_time))


def encode(result: TaskResult) -> bytes:
    """Return a result as one JSON object. Raises JsonEncodeError for its value."""
    return jsonio.dumps({name: getattr(result, name) for name in _FIELDS})


_FIELDS = tuple(TaskResult.model_fields)


def _failed(payload: TaskPayload, message: str, elapsed: float) -> TaskResult:
    return TaskResult(
        task_id=payload.task_id, status="failed", message=message, elapsed_time=elapsed
    )
