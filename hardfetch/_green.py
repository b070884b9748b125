"""Green threads are refused: none but the whole process waits while the core does.

After gevent's or eventlet's monkey patching a thread is a greenlet, and a call into the
core that waits for a record keeps all of them from running, the caller's too.
"""

from __future__ import annotations

import sys

from hardfetch.errors import EngineError


def threads_are_green() -> bool:
    """Tell whether gevent or eventlet has taken the place of threads."""
    gevent = sys.modules.get("gevent.monkey")
    eventlet = sys.modules.get("eventlet.patcher")
    return bool(
        (gevent and gevent.is_module_patched("threading"))
        or (eventlet and eventlet.is_monkey_patched("thread"))
    )


def refuse_green_threads() -> None:
    """Raise EngineError where threads are none."""
    if threads_are_green():
        raise EngineError(
            "gevent and eventlet are not supported: their patched threads cannot wait "
            "for the core; use real threads, processes or asyncio"
        )
