"""Starting threads from one that a signal's handler may tear out of any line.

`Thread.start` waits for the new thread with a lock of Python's own kind. An exception
that comes while it takes that lock leaves it locked, and then the new thread waits for
ever, with all that it holds. So `start` is called where no exception comes, and the
caller waits for a plain lock. Exceptions set from outside (`_asyncexc`) are kept off:
while a thread is being made it goes by the number of the one that makes it, and such an
exception would find it first.
"""

from __future__ import annotations

import _thread
from typing import TYPE_CHECKING

from hardfetch.errors import EngineError

if TYPE_CHECKING:
    import threading


def start(thread: threading.Thread) -> None:
    """Start a thread. Raises EngineError when the system has none left."""
    failed: list[BaseException] = []
    done = _thread.allocate_lock()
    done.acquire()

    def go() -> None:
        try:
            thread.start()
        except BaseException as exc:  # noqa: BLE001 - raised again by who asked
            failed.append(exc)
        done.release()

    try:
        _thread.start_new_thread(go, ())
        done.acquire()
        if failed:
            raise failed[0]
    except RuntimeError as exc:
        remedy = "allow more processes or memory (ulimit -u, -v)"
        raise EngineError(f"{exc}; {remedy}") from None
