"""The application of the Celery tests; broker and results are folders."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from typing import Any

from celery import Celery

from hardfetch.celery import FetchTask

# mypy: disable-error-code=untyped-decorator

LIBC = ctypes.PyDLL(None)  # its calls hold the interpreter's lock
FOLDER = os.environ.get("HARDFETCH_TEST_FOLDER", ".")

app = Celery("celery_tasks", broker="filesystem://", backend=f"file://{FOLDER}/results")
app.conf.update(
    broker_transport_options={
        "data_folder_in": f"{FOLDER}/queue",
        "data_folder_out": f"{FOLDER}/queue",
        "control_folder": f"{FOLDER}/control",
    },
    worker_prefetch_multiplier=1,
    worker_lost_wait=0.5,
    broker_connection_retry_on_startup=True,
)
task: Any = app.task


@task(base=FetchTask, bind=True, timeout=1, hard_timeout=2)
def crawl(self: Any, url: str) -> dict[str, Any]:
    return {"pid": os.getpid(), **self.fetch(url).to_dict()}


@task(base=FetchTask, timeout=0.5, hard_timeout=1)
def sleep(seconds: float) -> None:
    time.sleep(seconds)


@task(base=FetchTask, timeout=0.5, hard_timeout=1)
def stuck() -> None:
    """A call into C that never returns and ignores signals."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    mutex = ctypes.create_string_buffer(64)
    LIBC.pthread_mutex_lock(mutex)
    LIBC.pthread_mutex_lock(mutex)


@task(base=FetchTask, soft_time_limit=1)
def celerys_limit() -> None:
    time.sleep(30)


@task(base=FetchTask, bind=True, soft_time_limit=1)
def celerys_limit_in_fetch(self: Any, url: str) -> dict[str, Any]:
    return dict(self.fetch(url).to_dict())


@task(base=FetchTask, timeout=5, hard_timeout=1)
def wrong_limits() -> None:
    pass
