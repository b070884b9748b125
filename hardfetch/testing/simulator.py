"""A simulator of crawls: virtual time, one seed, the real policy.

Sites and exits are models (``simworld``); ``Policy``, ``ProxyPool`` and ``Hosts`` are
the code that runs in a crawl. The scheduler here does what the compiled one does: hosts
take turns, each within its limits, and a failure waits for its verdict. A simulated day
takes seconds, and the same seed gives the same day.

The simulator also keeps watch: it counts for itself what was in flight, when requests
started and which gates were closed, and lists what broke a promise in ``violations``.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hardfetch.outcome import CloseGate, Failure
from hardfetch.proxies import NoExit, ProxyPool
from hardfetch.testing.simworld import ExitModel, Reply, SiteModel, Timeouts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hardfetch.hosts import Admission, Hosts
    from hardfetch.outcome import Verdict
    from hardfetch.policy import Policy

__all__ = ["Report", "Simulation"]

_EPSILON = 1e-9


@dataclass(slots=True)
class Report:
    """What a run came to; times in virtual seconds."""

    records: Counter[str] = field(default_factory=Counter)  # by status or error
    first_attempts: int = 0
    retries: int = 0
    site_retries: Counter[str] = field(default_factory=Counter)  # by host
    ended_at: float = 0.0  # the last record
    max_queue: float = 0.0  # longest wait of a request for its first start
    max_attempts: int = 0
    deadline_overrun: float = 0.0
    violations: list[str] = field(default_factory=list)
    # (when, host, status or error) of each attempt, where it was asked for
    log: list[tuple[float, str, str]] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Records in all."""
        return self.records.total()


@dataclass(slots=True)
class _Job:
    seq: int
    host: str
    accepted: float
    attempt: int = 1
    exit: int = -1
    started: float = -1.0
    waiting_exit: float = -1.0  # since when
    deadline: float = math.inf


class Simulation:
    """One crawl. Feed it with ``submit``, then ``run``."""

    def __init__(
        self,
        sites: Mapping[str, SiteModel],
        policy: Policy,
        hosts: Hosts,
        *,
        exits: Mapping[str, ExitModel] | None = None,
        concurrency: int = 256,
        timeouts: Timeouts | None = None,
        deadline: float = math.inf,
        seed: int = 0,
        log: bool = False,
    ) -> None:
        """``exits``: by the proxy's host, for a pool; ``deadline``: seconds per job."""
        self.now = 0.0
        self.report = Report()
        self._sites = sites
        self._policy = policy
        self._pool: ProxyPool | None = policy.pool
        self._hosts = hosts
        self._exits = exits or {}
        self._concurrency = concurrency
        self._timeouts = timeouts or Timeouts()
        self._deadline = deadline
        self._rng = random.Random(seed)  # noqa: S311 - a simulation
        self._log = log
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._tie = 0
        self._seq = 0
        self._queues: dict[str, deque[_Job]] = {}
        self._ready: deque[str] = deque()
        self._is_ready: set[str] = set()
        self._alarms: dict[str, float] = {}  # when a host may be tried again
        self._no_exit: deque[str] = deque()
        self._in_flight = 0
        self._host_flight: Counter[str] = Counter()
        self._host_first: Counter[str] = Counter()
        self._last_start: dict[str, float] = {}
        self._gates: dict[str, float] = {}
        policy.take_orders()

    # Feeding

    def submit(self, host: str, count: int = 1, at: float = 0.0) -> None:
        """Let ``count`` requests for the host arrive at a time."""
        self._at(at, self._arrive, host, count)

    def stream(self, host: str, every: float, until: float, start: float = 0.0) -> None:
        """Let a request for the host arrive every so many seconds."""
        self._at(start, self._arrive_again, host, every, until)

    def _arrive(self, host: str, count: int) -> None:
        queue = self._queues.setdefault(host, deque())
        for _ in range(count):
            job = _Job(self._seq, host, self.now, deadline=self.now + self._deadline)
            queue.append(job)
            self._seq += 1
            if self._deadline < math.inf:
                self._at(job.deadline, self._wake, host)
        self._wake(host)

    def _arrive_again(self, host: str, every: float, until: float) -> None:
        self._arrive(host, 1)
        if self.now + every < until:
            self._at(self.now + every, self._arrive_again, host, every, until)

    # The clock

    def run(self, until: float = math.inf) -> Report:
        """Run until nothing is left to do, or to a time."""
        while self._events and self._events[0][0] <= until:
            self.now, _, action, arguments = heapq.heappop(self._events)
            action(*arguments)
            self._dispatch()
        return self.report

    @property
    def waiting(self) -> int:
        """Requests accepted that have no record yet."""
        return self._seq - self.report.total

    def first_attempts(self, host: str) -> int:
        """Return how many requests of the host have had a first attempt."""
        return self._host_first[host]

    def _at(self, when: float, action: Callable[..., None], *arguments: Any) -> None:
        self._tie += 1
        heapq.heappush(self._events, (when, self._tie, action, arguments))

    # The scheduler

    def _wake(self, host: str) -> None:
        if host not in self._is_ready and self._queues.get(host):
            self._is_ready.add(host)
            self._ready.append(host)

    def _ring(self, host: str) -> None:
        self._alarms.pop(host, None)
        self._wake(host)

    def _dispatch(self) -> None:
        while self._ready and self._in_flight < self._concurrency:
            host = self._ready.popleft()
            self._is_ready.discard(host)
            if self._queues[host] and self._try(host):
                self._wake(host)

    def _try(self, host: str) -> bool:
        """Do one thing for the host. Returns False when it has to wait."""
        queue = self._queues[host]
        job = queue[0]
        if self.now >= job.deadline:
            queue.popleft()
            self._record("deadline")
            return True
        if self._pool is not None and not self._give_exit(job):
            return self._wait_for_exit(job)
        admission = self._hosts.admit(host, self.now)
        if admission.answer == "refuse":
            queue.popleft()
            self._record("host_unavailable")
            return True
        if admission.answer == "wait":
            if self._alarms.get(host, math.inf) > admission.until:
                self._alarms[host] = admission.until
                self._at(admission.until, self._ring, host)
            return False
        queue.popleft()
        self._start(job, admission)
        self._wake_exitless()
        return True

    def _give_exit(self, job: _Job) -> bool:
        assert self._pool is not None
        if job.attempt > 1 and self._pool.is_up(job.exit):
            return True
        found = self._pool.choose(job.host, self.now, again=job.attempt > 1)
        if isinstance(found, NoExit):
            job.exit = -1
            self._exit_until = found.until
            return False
        job.exit = found.number
        return True

    def _wait_for_exit(self, job: _Job) -> bool:
        assert self._pool is not None
        if job.waiting_exit < 0:
            job.waiting_exit = self.now
        limit = job.waiting_exit + self._pool.options.wait_limit
        if self._pool.empty() or self.now >= limit:
            self._queues[job.host].popleft()
            self._record("no_proxy_available")
            return True
        self._no_exit.append(job.host)
        self._at(min(self._exit_until, limit), self._wake, job.host)
        return False

    # An attempt

    def _start(self, job: _Job, admission: Admission) -> None:
        self._watch_start(job, admission)
        self._in_flight += 1
        self._host_flight[job.host] += 1
        job.started = self.now
        job.waiting_exit = -1.0
        if job.attempt == 1:
            self.report.first_attempts += 1
            self._host_first[job.host] += 1
            self.report.max_queue = max(self.report.max_queue, self.now - job.accepted)
        else:
            self.report.retries += 1
        site = self._sites[job.host]
        latency = site.draw_latency(self._rng)
        if self._pool is not None:
            proxy = self._pool.get(job.exit)
            assert proxy is not None
            self._pool.start(job.exit, self.now)
            model = self._exits[proxy.host]
            death = model.failure(self.now, self._timeouts)
            if death is not None:
                self._end_at(self.now + death.after, job, admission, death)
                return
            latency += model.latency
        if self.now + latency / 2 > job.deadline:
            self._end_at(math.inf, job, admission, Reply(0.0))
            return
        self._at(self.now + latency / 2, self._reach, job, admission, latency / 2)

    def _reach(self, job: _Job, admission: Admission, back: float) -> None:
        reply = self._sites[job.host].reply(self.now, self._rng, self._timeouts)
        end = self.now + (back if reply.error != "timeout" else 0.0) + reply.after
        end = max(self.now, min(end, job.started + self._timeouts.total))
        self._end_at(end, job, admission, reply)

    def _end_at(
        self, when: float, job: _Job, admission: Admission, reply: Reply
    ) -> None:
        if when > job.deadline:
            when, reply = job.deadline, Reply(0.0, "deadline", "local")
        self._at(when, self._end, job, admission, reply)

    def _end(self, job: _Job, admission: Admission, reply: Reply) -> None:
        self._in_flight -= 1
        self._host_flight[job.host] -= 1
        elapsed = self.now - job.started
        if self._pool is not None:
            self._pool.end(job.exit)
        event = self._event(job, admission, reply, elapsed)
        self._hosts.finish(
            job.host,
            admission,
            self.now,
            error=reply.error,
            origin=reply.origin,
            status=reply.status,
            elapsed=elapsed,
            via_proxy=job.exit >= 0,
        )
        if self._log:
            what = reply.error or str(reply.status)
            self.report.log.append((self.now, job.host, what))
        verdicts = self._policy.handle(
            [event], self.now, requests=self.report.first_attempts
        )
        for order in self._policy.take_orders():
            if isinstance(order, CloseGate):
                self._gates[order.host] = order.until
                self._hosts.close_gate(order.host, order.until, self.now)
        self._follow(job, reply, verdicts[0] if verdicts else None)
        self._wake(job.host)
        self._wake_exitless()

    def _event(
        self, job: _Job, admission: Admission, reply: Reply, elapsed: float
    ) -> Failure:
        left = job.deadline - self.now
        return Failure(
            seq=job.seq,
            host=job.host,
            error=reply.error,
            origin=reply.origin,
            phase=reply.phase,
            status=reply.status,
            attempt=job.attempt,
            proxy=job.exit,
            elapsed=elapsed,
            since=self.now - job.accepted,
            left=left if left < math.inf else None,
            retry_after=reply.retry_after,
            sent=reply.sent,
            probe=admission.probe,
            host_alive=self._hosts.is_alive(job.host, job.started),
            host_requests=self._host_first[job.host],
        )

    def _follow(self, job: _Job, reply: Reply, verdict: Verdict | None) -> None:
        self.report.max_attempts = max(self.report.max_attempts, job.attempt)
        if verdict is None or not verdict.retry:
            self._record(reply.error or str(reply.status))
            return
        if reply.origin == "site" or not reply.error:
            self.report.site_retries[job.host] += 1
        if self.now + verdict.delay > job.deadline:
            self.report.violations.append(f"retry past the deadline of {job.seq}")
        job.attempt += 1
        if verdict.proxy_number >= 0:
            job.exit = verdict.proxy_number
        self._at(self.now + verdict.delay, self._return, job)

    def _wake_exitless(self) -> None:
        """Wake one host that waits for an exit; if it gets one, it wakes the next."""
        if self._no_exit:
            self._wake(self._no_exit.popleft())

    def _return(self, job: _Job) -> None:
        self._queues[job.host].appendleft(job)
        self._wake(job.host)

    def _record(self, what: str) -> None:
        self.report.records[what] += 1
        self.report.ended_at = self.now

    # Keeping watch

    def _watch_start(self, job: _Job, admission: Admission) -> None:
        host, limits = job.host, self._hosts.limits.lookup(job.host)
        wrong = []
        if limits.max_per_host and self._host_flight[host] >= limits.max_per_host:
            wrong.append("in flight")
        if self._in_flight >= self._concurrency:
            wrong.append("concurrency")
        if self.now < self._gates.get(host, 0.0) - _EPSILON:
            wrong.append("gate")
        pause = max(limits.delay, 1 / limits.rate if limits.rate else 0.0)
        last = self._last_start.get(host, -math.inf)
        if self.now - last < pause - _EPSILON:
            wrong.append("rate")
        if admission.probe and self._host_flight[host] and limits.max_per_host == 1:
            wrong.append("probe")
        self._last_start[host] = self.now
        for what in wrong:
            self.report.violations.append(f"{what}: {host} at {self.now}")
