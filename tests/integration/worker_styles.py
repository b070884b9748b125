"""The task of the worker style tests, for processes that import it by name."""

from __future__ import annotations

import time

# By their names: these load here and not under the first task's deadline.
from hardfetch import DeadlineExceeded, deadline, fetch

LIMIT = 0.6  # seconds: the deadline around a task that hangs
AMPLE = 20.0  # the same around one that does not, on a busy machine too


def run_task(url: str) -> tuple[str, float]:
    """Tell how a fetch that may hang ended under a deadline, and after how long."""
    start = time.monotonic()
    try:
        with deadline(LIMIT if "/silent/" in url else AMPLE):
            result = fetch(url, timeout=30)
            outcome = "done" if result.ok else "?"
    except DeadlineExceeded:
        outcome = "late"
    return outcome, time.monotonic() - start
