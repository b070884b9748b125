"""The brain of the policy thread: failures in, verdicts and orders out.

``Policy`` joins what each part decides alone: the retry policy says whether and when,
the pool over which exit, budgets and the deadline whether it may be, gates how long the
whole host waits. It does no I/O and has no clock; the thread around it hands over
batches of events with ``now`` and passes on what comes back. Memory is bounded in every
part.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hardfetch.budget import HostBudgets, RetryBudget
from hardfetch.classify import GATE_STATUSES, TYPES, Mark, host_mark, proxy_mark
from hardfetch.gates import Gates
from hardfetch.outcome import Final, ProxyUpdate, Retry, Verdict
from hardfetch.proxies import Choice, NoExit
from hardfetch.retry import RetryPolicy, RetryTable
from hardfetch.tally import HostTally, HostTrouble

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hardfetch.outcome import Failure, Order
    from hardfetch.proxies import ProxyPool

__all__ = ["Policy", "PolicyStats"]

_MAX_TRIED = 16  # exits of one job that are told apart

# A site that refuses an exit says so with these: the exit is well, the pair is not.
_BLOCKED = frozenset({403, 429})


@dataclass(slots=True)
class PolicyStats:
    """Counts for the summary."""

    retries: int = 0
    silent: int = 0
    gates: int = 0
    denied: dict[str, int] = field(default_factory=dict)  # by reason
    wasted: float = 0.0  # seconds of attempts that were tried again


@dataclass(slots=True)
class _Job:
    """A request that is being tried again."""

    silent: int = 0
    tried: list[int] = field(default_factory=list)
    # (exit, start, elapsed) of attempts that may have been the proxy's fault
    suspects: list[tuple[int, float, float]] = field(default_factory=list)


class Policy:
    """Answers failures. One thread at a time."""

    def __init__(
        self,
        retry: RetryPolicy | None = None,
        *,
        pool: ProxyPool | None = None,
        budget: RetryBudget | None = None,
        host_budgets: HostBudgets | None = None,
        gates: Gates | None = None,
        max_jobs: int = 100_000,
    ) -> None:
        """Join the parts; each has its default. No pool: direct, or one proxy.

        ``max_jobs`` bounds the requests between two attempts that are remembered.
        """
        self.retry = retry or RetryPolicy()
        self.pool = pool
        self.budget = budget or RetryBudget()
        self.host_budgets = host_budgets or HostBudgets()
        self.gates = gates or Gates(rng=self.retry.rng)
        self.stats = PolicyStats()
        self.hosts = HostTally()
        self._max_jobs = max_jobs
        self._jobs: OrderedDict[int, _Job] = OrderedDict()
        self._orders: list[Order] = []
        self._requests = 0

    def table(self) -> RetryTable:
        """Return the outcomes about which the engine must ask.

        Gates need 429 and 503 and the pool needs its failures even if nothing is
        retried.
        """
        table = self.retry.table()
        types = set(table.types)
        if self.pool is not None:
            for name in TYPES[1:]:
                if proxy_mark(name, "site") is Mark.SUSPECT or name.startswith(
                    "proxy_"
                ):
                    types.add(name)
        return RetryTable(frozenset(types), table.statuses | GATE_STATUSES, table.body)

    def handle(
        self, events: Iterable[Failure], now: float, *, requests: int | None = None
    ) -> list[Verdict]:
        """Return a verdict for each event that waits for one.

        Args:
            events: as they came; good news among them gets no verdict.
            now: seconds.
            requests: first attempts that the run has started so far. Without it only
                those count that failed, and the budgets are smaller than they could be.
        """
        if requests is not None:
            self.budget.count(max(0, requests - self._requests), now)
            self._requests = max(requests, self._requests)
        verdicts = []
        for event in events:
            if event.attempt == 1:
                if requests is None:
                    self.budget.count(1, now)
                if event.host_requests < 0:
                    self.host_budgets.seen(event.host)
            if event.host_requests >= 0:
                self.host_budgets.count(event.host, event.host_requests)
            verdict = self._handle(event, now)
            if verdict is not None:
                verdicts.append(verdict)
        return verdicts

    def take_orders(self) -> list[Order]:
        """Return what the engine must be told besides verdicts, since the last call."""
        orders = self._orders
        self._orders = []
        if self.pool is not None:
            orders += self.pool.take_avoided()
            rows = self.pool.take_rows()
            if rows:
                orders.append(ProxyUpdate(rows))
        return orders

    # One event

    def _handle(self, event: Failure, now: float) -> Verdict | None:
        job = self._jobs.get(event.seq)
        if job is not None:
            event = replace(event, silent=job.silent)
        quiet = event.exit_quiet
        if self.pool is not None and quiet is not None and quiet < math.inf:
            self.pool.heard(event.proxy, now - quiet)
        if self._is_good(event):
            self._jobs.pop(event.seq, None)
            self._heal(event, job, now)
            return None
        trouble = self._blame(event)
        if event.status in GATE_STATUSES and not event.error:
            self._close_gate(event, trouble, now)
        if self.retry.is_stale(event):
            suspicion = False  # an idle connection was closed: nobody's fault
        else:
            suspicion = self._judge_exit(event, now)
        decision = self._decide(event, job, now)
        if isinstance(decision, Final):
            self._jobs.pop(event.seq, None)
            if decision.reason:
                count = self.stats.denied.get(decision.reason, 0)
                self.stats.denied[decision.reason] = count + 1
            return Verdict(event.seq, retry=False, denied=decision.reason)
        self._note(event, decision, now, suspicion=suspicion)
        if trouble is not None and not decision.silent:
            trouble.retries += 1
        return decision

    def _close_gate(
        self, event: Failure, trouble: HostTrouble | None, now: float
    ) -> None:
        order = self.gates.close(event, now, self.retry.retry_after_cap)
        if order is not None:
            self.stats.gates += 1
            self._orders.append(order)
            if trouble is not None:
                trouble.gates += 1

    def _blame(self, event: Failure) -> HostTrouble | None:
        """Count what a host did, or may have done through an exit."""
        if host_mark(event.error, event.origin) is Mark.NONE:
            return None
        what = event.error or ("content" if event.matched else str(event.status))
        return self.hosts.failed(event.host, event.host_requests, what)

    def _is_good(self, event: Failure) -> bool:
        if event.error or event.matched or event.status in GATE_STATUSES:
            return False
        return self.retry.rule(event) is None

    def _heal(self, event: Failure, job: _Job | None, now: float) -> None:
        if self.pool is None:
            return
        if event.proxy >= 0:
            self.pool.succeeded(event.proxy, event.host, event.elapsed, now)
        if job is None:
            return
        # The site answers over this exit, so it was not the site that failed before.
        for number, started, elapsed in job.suspects:
            if number != event.proxy:
                self.pool.charge(number, started, elapsed, now)

    def _judge_exit(self, event: Failure, now: float) -> bool:
        """Tell the pool. Returns whether the exit is only suspected so far."""
        if self.pool is None or event.proxy < 0:
            return False
        mark = proxy_mark(event.error, event.origin, event.status)
        if event.matched or (not event.error and event.status in _BLOCKED):
            self.pool.blocked(event.proxy, event.host, now, event.pair_failures)
        if mark is Mark.HEAL:
            self.pool.succeeded(event.proxy, event.host, event.elapsed, now)
            return False
        if mark is Mark.SUSPECT and event.host_alive:
            mark = Mark.HURT
        self.pool.failed(
            event.proxy,
            event.host,
            event.elapsed,
            now,
            mark=mark,
            error=event.error,
            pair_failures=event.pair_failures,
        )
        asked = self._asked_by_exit(event)
        if asked > 0:
            self.pool.rest(event.proxy, asked, now)
        return mark is Mark.SUSPECT

    def _decide(self, event: Failure, job: _Job | None, now: float) -> Verdict | Final:
        decision: object = self.retry.decide(event)  # of anybody's class
        if isinstance(decision, Final):
            return decision
        if not isinstance(decision, Retry):
            name = type(self.retry).__name__
            raise TypeError(f"{name}.decide: give a Retry or a Final, not {decision!r}")
        found = self._find_exit(event, decision, job, now)
        if isinstance(found, Verdict):
            found = self._wait_for_refuser(event, found)
        if isinstance(found, Final):
            return found
        verdict = self._wait_for_gate(event, found, now)
        if (
            event.left is not None
            and verdict.delay + self.retry.min_attempt > event.left
        ):
            return Final("deadline")
        if not decision.silent:
            # A request that died at the proxy cost the site nothing.
            at_site = event.origin == "site" or not event.error
            if at_site and self.host_budgets.balance(event.host) < 1:
                self.host_budgets.denied += 1
                return Final("host_budget")
            if not self.budget.take(now):
                return Final("budget")
            if at_site:
                self.host_budgets.take(event.host)
        return verdict

    def _asked_by_exit(self, event: Failure) -> float:
        """Return the seconds for which its proxy does not want to be asked."""
        asked = max(event.exit_retry_after or 0.0, 0.0)
        return min(asked, self.retry.retry_after_cap)

    def _wait_for_refuser(self, event: Failure, verdict: Verdict) -> Verdict | Final:
        """Give the proxy its time where there is no other than the one that asked."""
        wait = self._asked_by_exit(event)
        if verdict.proxy_number != event.proxy or wait <= verdict.delay:
            return verdict
        if self.pool is not None and wait > self.pool.options.wait_limit:
            return Final("no_exit")
        return replace(verdict, delay=wait)

    def _wait_for_gate(self, event: Failure, verdict: Verdict, now: float) -> Verdict:
        wait = self.gates.until(event.host) - now
        return replace(verdict, delay=wait) if wait > verdict.delay else verdict

    def _find_exit(
        self, event: Failure, decision: Retry, job: _Job | None, now: float
    ) -> Verdict | Final:
        verdict = Verdict(
            event.seq,
            retry=True,
            delay=decision.delay,
            fresh=decision.fresh,
            silent=decision.silent,
        )
        pool = self.pool
        if pool is None or event.proxy < 0:
            if decision.exit == "only_other":
                return Final("no_other_exit")
            # Behind one address may be many exits: a new connection can be another.
            return replace(verdict, fresh=decision.fresh or bool(event.error))
        same = pool.get(event.proxy) if decision.exit == "same" else None
        if same is not None and pool.is_up(event.proxy):
            return replace(verdict, proxy=same.url, proxy_number=event.proxy)
        found = self._choose(pool, event, decision, job, now)
        if isinstance(found, Choice):
            fresh = decision.fresh or found.number == event.proxy
            proxy = found.proxy.url
            return replace(verdict, proxy=proxy, proxy_number=found.number, fresh=fresh)
        if decision.exit == "only_other" and found.number in {event.proxy, -1}:
            return Final("no_other_exit")
        return self._wait_for_exit(pool, verdict, found, now)

    @staticmethod
    def _wait_for_exit(
        pool: ProxyPool, verdict: Verdict, found: NoExit, now: float
    ) -> Verdict | Final:
        wait = found.until - now
        proxy = pool.get(found.number)
        if proxy is None or wait > pool.options.wait_limit:
            return Final("no_exit")
        return replace(
            verdict,
            delay=max(verdict.delay, wait),
            proxy=proxy.url,
            proxy_number=found.number,
            fresh=True,
        )

    @staticmethod
    def _choose(
        pool: ProxyPool,
        event: Failure,
        decision: Retry,
        job: _Job | None,
        now: float,
    ) -> Choice | NoExit:
        """Choose an exit: an untried one, else another, else any that is up."""
        tier = pool.tier_of(event.proxy) + 1 if decision.exit == "higher" else 0
        steps: list[set[int]] = [{event.proxy, *(job.tried if job else ())}]
        if steps[0] != {event.proxy}:
            steps.append({event.proxy})
        if decision.exit != "only_other":
            steps.append(set())
        found: Choice | NoExit = NoExit(math.inf)
        for exclude in steps:
            found = pool.choose(
                event.host,
                now,
                session=event.session,
                exclude=exclude,
                tier=tier,
                again=True,
            )
            if isinstance(found, Choice):
                break
        return found

    def _note(
        self, event: Failure, verdict: Verdict, now: float, *, suspicion: bool
    ) -> None:
        """Remember an attempt that will be followed by another."""
        job = self._jobs.setdefault(event.seq, _Job())
        self._jobs.move_to_end(event.seq)
        if len(self._jobs) > self._max_jobs:
            self._jobs.popitem(last=False)
        if verdict.silent:
            job.silent += 1
            self.stats.silent += 1
        else:
            self.stats.retries += 1
            self.stats.wasted += event.elapsed
        if event.proxy >= 0 and event.proxy not in job.tried:
            job.tried = [*job.tried[1 - _MAX_TRIED :], event.proxy]
        if suspicion:
            entry = (event.proxy, now - event.elapsed, event.elapsed)
            job.suspects = [*job.suspects[1 - _MAX_TRIED :], entry]
