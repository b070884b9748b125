"""Tasks for the worker tests, imported by worker processes."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from typing import Any

from hardfetch.worker import task

LIBC = ctypes.PyDLL(None)  # its calls hold the interpreter's lock


@task("echo")
def echo(*args: Any, **kwargs: Any) -> Any:
    return {"args": args, "kwargs": kwargs, "pid": os.getpid()}


@task("for_ever")
def for_ever() -> None:
    while True:
        time.sleep(3600)


@task("stuck")
def stuck() -> None:
    """A call into C that never returns and ignores signals."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    mutex = ctypes.create_string_buffer(64)
    LIBC.pthread_mutex_lock(mutex)
    LIBC.pthread_mutex_lock(mutex)


@task("swallow")
def swallow() -> None:
    for _ in range(3):
        try:
            time.sleep(30)
        except Exception:  # noqa: BLE001 - what careless code does
            continue


@task("fail")
def fail(text: str) -> None:
    raise ValueError(text)


@task("leave")
def leave(code: int) -> None:
    sys.exit(code)


@task("crash")
def crash(number: int) -> None:
    os.kill(os.getpid(), number)


@task("blob")
def blob() -> bytes:
    return b"\0"


@task("say")
def say(text: str) -> str:
    print(text, flush=True)  # noqa: T201 - must not come between the results
    return text


@task("big")
def big(size: int) -> str:
    return "x" * size


@task("gather")
async def gather(n: int) -> int:
    import asyncio

    return sum(await asyncio.gather(*(asyncio.sleep(0.001, i) for i in range(n))))
