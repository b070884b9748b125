"""Waits for other threads; counts what is left open, and what the machine delays."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LIMIT = 30.0  # seconds that no test needs


def wait_for(condition: Callable[[], object], limit: float = LIMIT) -> None:
    """Wait until condition() is true. Fails after limit seconds."""
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.002)


def descriptors() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def sockets_and_others() -> tuple[int, int]:
    """How many of them are sockets, and how many are not."""
    sockets = others = 0
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            is_socket = str(entry.readlink()).startswith("socket:")
            sockets += is_socket
            others += not is_socket
    return sockets, others


def starved() -> float:
    """Seconds since boot in which something here waited for a processor.

    What grows between two looks is what a bound in time may be missed by through no
    fault of ours. 0 where the kernel does not count it.
    """
    with suppress(OSError):
        found = re.search(r"some .*total=(\d+)", Path("/proc/pressure/cpu").read_text())
        if found:
            return int(found[1]) / 1e6
    return 0.0
