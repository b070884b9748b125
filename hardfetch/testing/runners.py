"""A process that meets faults with one client: `python -m hardfetch.testing.runners`.

It reads one JSON job on stdin (see `Job`) and writes one JSON line per fault:
`{"fault", "elapsed", "outcome", "overrun"}`, times in seconds. A last line tells
the process's open descriptors before and after.

curl_cffi meets each fault in a child of its own, made by fork, that is killed at the
cap: some of its calls never return. hardfetch meets all of them at once, in one engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import selectors
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PARALLEL = 16
MEMORY = 512 << 20
"""Bytes that a child may allocate beyond what it has: endless bodies are kept whole."""
ALARM_FACTOR = 4
"""The alarm rings at the limit; libcurl's own timeout is so many times longer."""

ENDING = 2.0
"""Seconds that threads may take to end once their engine is closed."""

Fault = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """What to do: the faults (`Fault.as_dict`), seconds asked, seconds to the kill."""

    faults: list[Fault]
    limit: float
    cap: float
    cafile: str
    warm_up: str
    """URL of a healthy page."""


def say(**row: Any) -> None:
    """Writes one line of results."""
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


def descriptors() -> int:
    """Open descriptors of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def descriptors_left(before: int) -> int:
    """Open descriptors once the threads that are on their way out have given theirs."""
    end = time.monotonic() + ENDING
    while (left := descriptors()) > before and time.monotonic() < end:
        time.sleep(0.01)
    return left


# curl_cffi.


def _curl_options(fault: Fault, job: Job) -> dict[str, Any]:
    from curl_cffi import CurlOpt

    options: dict[Any, Any] = {CurlOpt.PROXY_CAINFO: job.cafile.encode()}
    if fault["dns_server"]:
        options[CurlOpt.DNS_SERVERS] = fault["dns_server"].encode()
    return {"verify": job.cafile, "curl_options": options, "trust_env": False}


def _arguments(fault: Fault, timeout: float) -> dict[str, Any]:
    body = fault["body"]
    return {
        "method": fault["method"],
        "url": fault["url"],
        "proxy": fault["proxy"],
        "data": body.encode() if body else None,
        "timeout": timeout,
    }


def _sync(fault: Fault, job: Job, timeout: float) -> str:
    from curl_cffi import Session

    with Session(**_curl_options(fault, job)) as session:
        return str(session.request(**_arguments(fault, timeout)).status_code)


def sync(fault: Fault, job: Job) -> str:
    """`Session.get(timeout=…)`."""
    return _sync(fault, job, job.limit)


class AlarmError(Exception):
    """Raised by the handler of SIGALRM."""


def sync_alarm(fault: Fault, job: Job) -> str:
    """The remedy in use: an alarm around a call that has a longer timeout."""

    def ring(_signal: int, _frame: object) -> None:
        raise AlarmError

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, job.limit)
    try:
        return _sync(fault, job, job.limit * ALARM_FACTOR)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def asynchronous(fault: Fault, job: Job) -> str:
    """`await AsyncSession.get(timeout=…)`."""

    async def main() -> str:
        from curl_cffi import AsyncSession

        async with AsyncSession(**_curl_options(fault, job)) as session:
            answer = await session.request(**_arguments(fault, job.limit))
            return str(answer.status_code)

    return asyncio.run(main())


def async_stream(fault: Fault, job: Job) -> str:
    """The same with `stream=True`; the body is read and thrown away."""

    async def main() -> str:
        from curl_cffi import AsyncSession

        async with AsyncSession(**_curl_options(fault, job)) as session:
            wanted = _arguments(fault, job.limit)
            answer = await session.request(**wanted, stream=True)
            async for _ in answer.aiter_content():
                pass
            return str(answer.status_code)

    return asyncio.run(main())


def _in_child(client: Callable[[Fault, Job], str], fault: Fault, job: Job) -> bytes:
    """One fault, in this process; the row as JSON."""
    status = Path("/proc/self/statm").read_text().split()
    now = int(status[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    began = time.monotonic()
    try:
        outcome = client(fault, job)
    except BaseException as error:  # noqa: BLE001 - whatever it raises is the outcome
        code = getattr(error, "code", None)
        outcome = type(error).__name__ + (f" ({int(code)})" if code else "")
    row = {"elapsed": time.monotonic() - began, "outcome": outcome}
    return json.dumps(row).encode()


def _fork(client: Callable[[Fault, Job], str], fault: Fault, job: Job) -> _Child:
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        # Only this fault's row may leave the child, whatever its client prints.
        quiet = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(quiet, number)
        with contextlib.suppress(BaseException):
            os.write(write_end, _in_child(client, fault, job))
        os._exit(0)
    os.close(write_end)
    return _Child(fault, pid, read_end, time.monotonic())


@dataclass(frozen=True, eq=False)
class _Child:
    """A process that meets one fault."""

    fault: Fault
    pid: int
    pipe: int
    began: float

    def finish(self, job: Job) -> None:
        """Takes its row, or kills it and makes one; then reaps it."""
        overdue = time.monotonic() - self.began
        data = b"" if overdue >= job.cap else os.read(self.pipe, 65536)
        if data:
            row = json.loads(data)
        elif overdue >= job.cap:
            row = {"elapsed": overdue, "outcome": f"never, killed at {job.cap:g} s"}
        else:
            row = {"elapsed": overdue, "outcome": "crashed"}
        # A child that has answered may still hang in its own clean-up.
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.pipe)
        say(fault=self.fault["name"], overrun=None, **row)


def run_curl_cffi(client: Callable[[Fault, Job], str], job: Job) -> None:
    """Meets each fault in a child of its own, some at a time."""
    import curl_cffi  # noqa: F401 - loaded once, here: the children inherit it

    waiting = list(reversed(job.faults))
    with selectors.DefaultSelector() as selector:
        live: set[_Child] = set()
        while waiting or live:
            while waiting and len(live) < PARALLEL:
                child = _fork(client, waiting.pop(), job)
                live.add(child)
                selector.register(child.pipe, selectors.EVENT_READ, child)
            next_kill = min(child.began for child in live) + job.cap
            ready = selector.select(max(0.0, next_kill - time.monotonic()))
            over = {key.data for key, _ in ready}
            now = time.monotonic()
            over |= {child for child in live if now - child.began >= job.cap}
            for child in over:
                selector.unregister(child.pipe)
                child.finish(job)
            live -= over


# hardfetch.


def run_hardfetch(job: Job) -> None:
    """Meets all faults at once in one engine (one for each name server)."""
    by_server: dict[str, list[Fault]] = {}
    for fault in job.faults:
        by_server.setdefault(fault["dns_server"] or "", []).append(fault)
    for server, faults in by_server.items():
        _meet(faults, server, job)


def _meet(faults: list[Fault], server: str, job: Job) -> None:
    from hardfetch import Fetcher

    began: dict[str, float] = {}
    warm = threading.Event()

    def inputs() -> Iterator[dict[str, Any]]:
        # The clock of the rows must not hold the start of an engine.
        yield {"id": "", "url": job.warm_up}
        warm.wait(job.cap)
        for fault in faults:
            began[fault["name"]] = time.monotonic()
            yield _input(fault)

    more: dict[str, Any] = {"dns_server": server} if server else {}
    with Fetcher(
        timeout=job.limit,
        hard_timeout=job.limit,
        connect_timeout=job.limit,
        retries=0,
        cacert=job.cafile,
        max_per_host=0,
        **more,
    ) as fetcher:
        for result in fetcher.map(inputs()):
            now = time.monotonic()
            name = result.id
            if not name:
                warm.set()
                continue
            error = result.error
            say(
                fault=name,
                elapsed=now - began[name],
                outcome=error.type if error else f"{result.status_code}",
                overrun=result.record["limits"]["overrun"],
            )


def _input(fault: Fault) -> dict[str, Any]:
    row = {"id": fault["name"], "url": fault["url"], "method": fault["method"]}
    if fault["proxy"]:
        row["proxy"] = fault["proxy"]
    if fault["body"]:
        row["body"] = fault["body"]
    return row


CURL_CFFI: dict[str, Callable[[Fault, Job], str]] = {
    "sync": sync,
    "sync+SIGALRM": sync_alarm,
    "async": asynchronous,
    "async stream": async_stream,
}
"""Ways to use curl_cffi, by the names of the rows."""


def main() -> None:
    """Reads the job, meets the faults with the client named on the command line."""
    job = Job(**json.load(sys.stdin))
    before = descriptors()
    name = sys.argv[1]
    if name == "hardfetch":
        run_hardfetch(job)
    else:
        run_curl_cffi(CURL_CFFI[name], job)
    say(descriptors=[before, descriptors_left(before)])


if __name__ == "__main__":
    main()
