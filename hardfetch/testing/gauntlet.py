"""The gauntlet: every fault that tries a deadline, against hardfetch and others.

The fault site and each client run in processes of their own, so that none can disturb
the clock of another, and a client that never returns is killed.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from threading import Event, Thread, Timer
from typing import TYPE_CHECKING, Any

from hardfetch.testing.model import OK
from hardfetch.testing.runners import CURL_CFFI

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TOLERANCE = 0.25
"""Seconds beyond the limit within which a row still counts as in time."""
AGAINST = {"curl_cffi": tuple(CURL_CFFI)}
HARDFETCH = "hardfetch"
_TICK = 0.02  # seconds
STARVED = TOLERANCE / 5
"""Seconds that a timer may be late on a machine whose rows can be trusted."""
LIMITED = {
    "dns_timeout", "connect_timeout", "proxy_timeout", "tls_timeout",
    "first_byte_timeout", "idle_timeout", "timeout", "hard_timeout", "engine_stalled",
}  # fmt: skip
"""Errors that say a limit ended the fetch."""


@dataclass(frozen=True, slots=True)
class Row:
    """One client against one fault; times in seconds."""

    fault: str
    client: str
    limit: float
    elapsed: float
    outcome: str
    """A status, an exception's name, or an error type."""
    ok: bool
    """It ended in time and, for hardfetch, with an error that tells the truth."""


@dataclass(frozen=True, slots=True)
class Report:
    """All rows, and how far hardfetch's went past their limit."""

    rows: list[Row]
    overrun: dict[str, float | None]
    """p50, p99 and max in seconds, over hardfetch's rows that a limit ended."""
    descriptors: dict[str, int]
    """hardfetch's open descriptors, before and after."""
    missing: list[str] = field(default_factory=list)
    """hardfetch's faults without a row, or with more than one."""
    late: float = 0.0
    """Seconds that a timer of the runner's own, which only waits, was late at most."""

    @property
    def starved(self) -> bool:
        """The machine gave nobody the processor in time: late rows may be its own."""
        return self.late > STARVED

    @property
    def ok(self) -> bool:
        """Every fault has one row of hardfetch's, in time, and nothing leaked."""
        mine = [row for row in self.rows if row.client == HARDFETCH]
        leaked = self.descriptors.get("after", 0) - self.descriptors.get("before", 0)
        return all(row.ok for row in mine) and not self.missing and leaked <= 0

    def as_dict(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        return asdict(self)


@contextmanager
def _site(linger: float) -> Iterator[dict[str, Any]]:
    """A fault site in another process; its addresses."""
    command = [sys.executable, "-m", "hardfetch.testing.serve", str(linger)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:  # noqa: S603
        try:
            line = server.stdout.readline() if server.stdout else b""
            if not line:
                raise RuntimeError("the fault site did not start")
            yield json.loads(line)
        finally:
            server.terminate()


def gauntlet_faults(names: Sequence[str] = ()) -> list[str]:
    """The names of the faults to meet: those asked for, else all of the gauntlet's.

    Raises KeyError for an unknown name.
    """
    from hardfetch.testing.catalogue import CATALOGUE

    if names:
        return [CATALOGUE[name].fault.name for name in names]
    return [name for name, spec in CATALOGUE.items() if spec.fault.gauntlet]


def run_gauntlet(
    *,
    against: Sequence[str] = (),
    hardfetch: bool = True,
    limit: float = 1.0,
    cap: float = 8.0,
    faults: Sequence[str] = (),
    progress: Callable[[Row], object] = lambda _row: None,
) -> Report:
    """Meets the faults with hardfetch and with the clients of each library `against`.

    `limit` is the deadline that every client is asked to hold; one that has not
    returned after `cap` seconds is killed. `progress` sees each row as it is made.
    Raises ValueError for an unknown library, KeyError for an unknown fault.
    """
    unknown = set(against) - set(AGAINST)
    if unknown:
        raise ValueError(f"no clients for {', '.join(sorted(unknown))}")
    names = gauntlet_faults(faults)
    clients = [client for library in against for client in AGAINST[library]]
    with _site(linger=cap + 30) as addresses, _Lateness() as lateness:
        job = {
            "faults": [addresses["faults"][name] for name in names],
            "limit": limit,
            "cap": cap,
            "cafile": addresses["cafile"],
            "warm_up": addresses["http"] + "/1k",
        }
        runs = [_Run(client, job) for client in ([HARDFETCH] * hardfetch + clients)]
        for run in runs:
            run.meet(progress)
    order = {name: at for at, name in enumerate(names)}
    rows = [
        row
        for run in runs
        for row in sorted(run.rows, key=lambda row: order[row.fault])
    ]
    mine = next((run for run in runs if run.client == HARDFETCH), None)
    if mine is None:
        return Report(rows, percentiles([]), {}, late=lateness.most)
    return Report(
        rows,
        percentiles(mine.overruns),
        mine.descriptors,
        mine.missing(),
        lateness.most,
    )


class _Lateness:
    """How late a short timer fires at most while the block runs."""

    def __init__(self) -> None:
        self.most = 0.0  # seconds
        self._over = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Lateness:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        due = time.monotonic() + _TICK
        while not self._over.wait(_TICK):
            now = time.monotonic()
            self.most = max(self.most, now - due)
            due = now + _TICK


class _Run:
    """One client's process."""

    def __init__(self, client: str, job: dict[str, Any]) -> None:
        self.client = client
        self.job = job
        self.faults = {fault["name"]: fault for fault in job["faults"]}
        self.rows: list[Row] = []
        self.overruns: list[float] = []
        self.descriptors: dict[str, int] = {}

    def meet(self, progress: Callable[[Row], object]) -> None:
        """Runs the process to its end, or kills it when it is long overdue."""
        command = [sys.executable, "-m", "hardfetch.testing.runners", self.client]
        rounds = math.ceil(len(self.faults) / 16) + 1
        patience = rounds * (self.job["cap"] + 1) + 20
        with subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment()
        ) as child:
            alarm = _kill_after(child, patience)
            try:
                if child.stdin and child.stdout:
                    child.stdin.write(json.dumps(self.job).encode())
                    child.stdin.close()
                    for line in child.stdout:
                        self._take(json.loads(line), progress)
            finally:
                alarm.cancel()
                child.kill()

    def _take(self, said: dict[str, Any], progress: Callable[[Row], object]) -> None:
        if "descriptors" in said:
            before, after = said["descriptors"]
            self.descriptors = {"before": before, "after": after}
            return
        limit, elapsed, outcome = self.job["limit"], said["elapsed"], said["outcome"]
        good = elapsed <= limit + TOLERANCE and outcome != "crashed"
        if self.client == HARDFETCH:
            expect = self.faults[said["fault"]]["expect"]
            good = good and (OK if outcome.isdigit() else outcome) in expect
            if outcome in LIMITED:
                self.overruns.append(said["overrun"] or 0.0)
        row = Row(said["fault"], self.client, limit, elapsed, outcome, good)
        self.rows.append(row)
        progress(row)

    def missing(self) -> list[str]:
        """Faults that have no row, or more than one."""
        got = [row.fault for row in self.rows]
        return [name for name in self.faults if got.count(name) != 1]


def _environment() -> dict[str, str]:
    """Ours, without proxies: curl_cffi reads them and would leave loopback."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy")
    }


def _kill_after(child: subprocess.Popen[bytes], seconds: float) -> Any:
    timer = Timer(seconds, child.kill)
    timer.daemon = True
    timer.start()
    return timer


def percentiles(values: Sequence[float]) -> dict[str, float | None]:
    """p50, p99 (nearest rank) and max; None for each when there are no values."""
    if not values:
        return {"p50": None, "p99": None, "max": None}
    ordered = sorted(values)

    def rank(share: float) -> float:
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

    return {"p50": rank(0.5), "p99": rank(0.99), "max": ordered[-1]}
