"""The fault site as a process: it prints its addresses and serves until a signal."""

from __future__ import annotations

import json
import resource
import signal
import sys
import threading
from typing import TYPE_CHECKING

from hardfetch.testing.catalogue import CATALOGUE
from hardfetch.testing.site import FaultSite

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def raise_descriptor_limit() -> None:
    """Lifts the soft limit of open descriptors to the hard one: each fault listens."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def fault_table() -> str:
    """The catalogue as text: name, group and what happens, one fault a line."""
    rows = [spec.fault for spec in CATALOGUE.values()]
    width = max(len(fault.name) for fault in rows)
    return "".join(
        f"{fault.name:<{width}}  {fault.group:<12}  {fault.description}\n"
        for fault in rows
    )


def run_faultsite(
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    linger: float = 60.0,
    as_json: bool = False,
    say: Callable[[str], object] = sys.stdout.write,
) -> None:
    """Serves until SIGINT or SIGTERM; call it from the main thread.

    First `say` gets one line: with `as_json` an object with every address, else the
    page server's. `port` 0 takes a free one. Raises OSError when it can't listen and
    ValueError for a host that is not loopback.
    """
    raise_descriptor_limit()
    ended = threading.Event()

    def end(_signal: int, _frame: FrameType | None) -> None:
        ended.set()

    before = {number: signal.signal(number, end) for number in _ENDS}
    try:
        with FaultSite(host, port, linger=linger) as site:
            if as_json:
                say(json.dumps(site.as_dict(), separators=(",", ":")) + "\n")
            else:
                say(f"serving {site.http}/ and {site.https}/ (CA: {site.cafile})\n")
            sys.stdout.flush()
            ended.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_ENDS = (signal.SIGINT, signal.SIGTERM)

if __name__ == "__main__":
    # What the gauntlet starts: addresses as JSON; the argument is the linger time.
    run_faultsite(as_json=True, linger=float(sys.argv[1]) if sys.argv[1:] else 60.0)
