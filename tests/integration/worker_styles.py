"""The task of the worker style tests, for processes that import it by name."""

from __future__ import annotations

import time

# By their names: these load here and not under the first task's deadline.
from hardfetch import DeadlineExceeded, deadline, fetch

LIMIT = 0.6  # seconds: the deadline around a task

REFUSED = ("connect_refused", "host_unavailable")  # the latter once the breaker is open


def run_task(url: str) -> tuple[str, float]:
    """Tell how a fetch that may hang ended under a deadline, and after how long."""
    start = time.monotonic()
    try:
        with deadline(LIMIT):
            error = fetch(url, timeout=30).error
            outcome = "refused" if error and error.type in REFUSED else "?"
    except DeadlineExceeded:
        outcome = "late"
    return outcome, time.monotonic() - start
