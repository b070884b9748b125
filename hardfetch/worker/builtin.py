"""Tasks that every worker knows."""

from __future__ import annotations

import time
from typing import Any

import hardfetch
from hardfetch.worker.tasks import task


@task("sleep")
def sleep(duration: float) -> None:
    """Do nothing for that many seconds."""
    time.sleep(duration)


@task("fetch")
def fetch(url: str, **options: Any) -> dict[str, Any]:
    """Fetch a URL and return its record. Options are those of `hardfetch.fetch`."""
    return hardfetch.fetch(url, **options).to_dict()
