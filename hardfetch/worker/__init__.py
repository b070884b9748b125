"""Tasks under a deadline: a validated task in, a structured result out.

    @task("resize")
    def resize(path: str, *, width: int) -> str: ...

    payload = TaskPayload(task_id="1", target_function="resize", timeout=5,
                          args={"path": "a.png", "width": 80})
    result = run_task(payload, resize)             # in this process
    with WorkerPool(8, modules=["mytasks"]) as pool:
        for result in pool.map(payloads):          # in processes that can be replaced
            ...

`python -m hardfetch.worker --import mytasks` does the latter from JSON lines on stdin
to JSON lines on stdout. Needs the extra `hardfetch[worker]` (Pydantic).
"""

from __future__ import annotations

try:
    import pydantic as _pydantic  # noqa: F401 - asked for here, to say it in one sentence
except ImportError as exc:
    if exc.name != "pydantic":
        raise
    raise ImportError(
        "hardfetch.worker needs Pydantic: pip install 'hardfetch[worker]'",
        name="pydantic",
    ) from None

from hardfetch.worker.models import TaskPayload, TaskResult
from hardfetch.worker.pool import PoolError, WorkerPool
from hardfetch.worker.tasks import UnknownTaskError, get_task, run_task, task

__all__ = [
    "PoolError",
    "TaskPayload",
    "TaskResult",
    "UnknownTaskError",
    "WorkerPool",
    "get_task",
    "run_task",
    "task",
]
