"""The policy thread: outcomes out of the engine, verdicts and orders back into it.

All decisions are `hardfetch.policy`'s; this is the thread with the clock and the I/O
that it does without. It sleeps in C while nothing fails.
"""

from __future__ import annotations

import copy
import math
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hardfetch._ffi import ffi
from hardfetch._threads import start
from hardfetch.bodies import Expressions
from hardfetch.classify import ORIGINS, PHASES, TYPES
from hardfetch.errors import HardfetchError
from hardfetch.outcome import AvoidExit, CloseGate, Failure, ProxyUpdate, Verdict
from hardfetch.policy import Policy
from hardfetch.proxies import ProxyPool
from hardfetch.proxy_loader import ProxyLoader
from hardfetch.retry_after import parse_retry_after
from hardfetch.sinks import warn

if TYPE_CHECKING:
    from hardfetch._ffi import Engine
    from hardfetch.options import Options
    from hardfetch.outcome import ProxyRow
    from hardfetch.proxy_health import ProxyHealth
    from hardfetch.proxy_source import ProxySource
    from hardfetch.robots_gate import RobotsGate
    from hardfetch.tally import HostTrouble

__all__ = ["Judge"]

_BATCH = 256  # events taken at once
_TURN = 0.5  # seconds of one call into the core
_LOOK = 0.25  # seconds between two looks at the proxies' file and at what C counts
_JOIN_SECONDS = 2.0

# HF_EV_… of csrc/api.h.
_REUSED, _SENT, _IDEMPOTENT, _FRESH, _PROBE, _MATCHED, _ALIVE, _NEWS, _HOP, _OPENED = (
    1 << bit for bit in range(10)
)
_STATES = {"up": 0, "benched": 1, "dead": 2, "gone": 2}  # HF_EXIT_…
_LEASES = {"": 0, "request": 1, "session": 2}  # HF_LEASE_…


def _make_policy(options: Options, source: ProxySource | None) -> Policy:
    pool = None
    if source is not None:
        pool = ProxyPool(source.load(), options.pool)
    return Policy(options.retry, pool=pool)


class Judge:
    """The thread. It ends with the engine's last request, or with the engine."""

    def __init__(
        self,
        engine: Engine,
        options: Options,
        gate: RobotsGate | None = None,
    ) -> None:
        """Make the policy that the options ask for. Raises OptionError: a bad proxy.

        `gate`: says where redirects may lead to.
        """
        # A copy: others that use the same options look at the file by themselves.
        source = copy.copy(options.proxies)
        self.policy = _make_policy(options, source)
        self._gate = gate
        self._engine = engine
        self._loader = ProxyLoader(source) if source is not None else None
        self._expressions = Expressions(options.retry_on_body)
        self._lock = threading.Lock()  # over policy: the thread, and health()
        self._complained = False
        self._looked = 0.0
        self._thread = threading.Thread(
            target=self._run, name="hardfetch-policy", daemon=True
        )

    def start(self) -> None:
        """Hand the first table of proxies over and start to judge."""
        if self.policy.pool is not None:
            self._send_orders(time.monotonic())
            self._engine.resume()
        start(self._thread)

    def stop(self) -> None:
        """Wait for the thread, which ends with the engine's last request.

        What is then not answered is cut off: the run was torn.
        """
        with suppress(HardfetchError):
            self._engine.stop(0.0)
        if threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_SECONDS)

    def reload(self) -> None:
        """Load the proxies again within `_TURN`. Fit for a signal handler."""
        if self._loader is not None:
            self._loader.ask()

    def report(self) -> dict[str, Any]:
        """Return what policy did, for a summary; no credentials in it."""
        with self._lock:
            stats, pool = self.policy.stats, self.policy.pool
            proxies = pool.health(time.monotonic()) if pool is not None else []
            hosts = self.policy.hosts.worst()
        return {
            "retries": stats.retries,
            "silent_retries": stats.silent,
            "gates": stats.gates,
            "denied": dict(stats.denied),
            "wasted": round(stats.wasted, 3),
            "proxies": [_plain(line) for line in proxies],
            "hosts": [_plain(line) for line in hosts],
        }

    def _run(self) -> None:
        events = ffi.new("hf_event[]", _BATCH)
        with suppress(HardfetchError):
            while (count := self._engine.events(events, _TURN)) is not None:
                now = time.monotonic()
                taken = [events[i] for i in range(count)]
                try:
                    self._judge(taken, now)
                    self._look(now)
                except HardfetchError:
                    raise
                except Exception:  # noqa: BLE001 - whoever waits must not wait for ever
                    self._complain()
                    final = [Verdict(event.seq, retry=False) for event in taken]
                    self._engine.verdicts(final)
            if self.policy.pool is not None:  # the last figures, for the summary
                with self._lock:
                    self._observe(self.policy.pool, time.monotonic())

    def _complain(self) -> None:
        if not self._complained:
            self._complained = True
            warn(f"the retry policy failed: {_trace()}")

    def _judge(self, events: list[Any], now: float) -> None:
        self._let_hop([event for event in events if event.flags & _HOP])
        self._note_opened([event for event in events if event.flags & _OPENED])
        events = [event for event in events if not event.flags & (_HOP | _OPENED)]
        if not events:
            return
        bad = self._find_bad(events)
        failures = [
            replace(failure, matched=True) if failure.seq in bad else failure
            for failure in map(_failure, events)
        ]
        news = {event.seq for event in events if event.flags & _NEWS}
        started = self._engine.stats()
        requests = int(started.started) - int(started.retries)
        verdicts: list[Verdict] = []
        with self._lock:
            for failure, event in zip(failures, events, strict=True):
                # Its own time, not ours: of answers and failures that come to a late
                # policy in one batch, `exit_quiet` tells which came first.
                verdicts += self._ask(failure, event.at / 1e6, requests)
        answers = [
            replace(verdict, content=True) if verdict.seq in bad else verdict
            for verdict in verdicts
            if verdict.seq not in news
        ]
        asked = {f.seq for f in failures} - news
        # Whatever policy had nothing to say about is final as it is.
        silent = asked - {verdict.seq for verdict in answers}
        answers += [Verdict(seq, retry=False) for seq in silent]
        # Gates first: a retry must not slip through before its host is closed.
        self._send_orders(now)
        self._engine.verdicts(answers)

    def _find_bad(self, events: list[Any]) -> set[int]:
        """Return the seqs of answers in whose body an expression was found."""
        bad = set()
        for event in events:
            body = self._engine.take_body(event)
            try:
                if body and self._expressions.match(body):
                    bad.add(int(event.seq))
            except Exception:  # noqa: BLE001 - an expression too deep for its engine
                self._complain()
        return bad

    def _let_hop(self, events: list[Any]) -> None:
        for event in events:
            url = self._engine.take_url(event)
            if self._gate is not None:
                self._gate.settle(event.seq, url)

    def _note_opened(self, events: list[Any]) -> None:
        with self._lock:
            for event in events:
                self.policy.hosts.opened(_text(event.host))

    def _ask(self, failure: Failure, now: float, requests: int) -> list[Verdict]:
        try:
            return self.policy.handle([failure], now, requests=requests)
        except Exception:  # noqa: BLE001 - a slip in a user's policy must not hang the run
            self._complain()
            return [Verdict(failure.seq, retry=False, denied="policy_error")]

    def _send_orders(self, now: float) -> None:
        with self._lock:
            orders = self.policy.take_orders()
        for order in orders:
            if isinstance(order, CloseGate):
                self._engine.gate(order.host, max(0.0, order.until - now))
            elif isinstance(order, AvoidExit):
                wait = max(0.0, order.until - now)
                self._engine.avoid(order.host, order.number, order.tier, wait)
            elif isinstance(order, ProxyUpdate) and self.policy.pool is not None:
                pool = self.policy.pool
                rows = [_row(row, now, pool) for row in order.rows]
                options = pool.options
                self._engine.exits(rows, options.wait_limit, options.sticky_ttl)

    def _look(self, now: float) -> None:
        pool, loader = self.policy.pool, self._loader
        if pool is None or loader is None:
            return
        if now - self._looked < _LOOK and not loader.asked:
            return
        self._looked = now
        with self._lock:
            self._observe(pool, now)
            found = loader.look(now, live=bool(pool.live()))
            if found is not None:
                pool.replace(found, now)
        self._send_orders(now)

    def _observe(self, pool: ProxyPool, now: float) -> None:
        for number, in_flight, answered, latency in self._engine.exit_stats():
            pool.observe(number, in_flight, latency, now, answered=answered)


def _plain(line: ProxyHealth | HostTrouble) -> dict[str, Any]:
    values = {name: getattr(line, name) for name in line.__slots__}
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in values.items()}


def _trace() -> str:
    import traceback  # hardly ever needed

    return traceback.format_exc()


def _text(field: Any) -> str:
    return bytes(ffi.string(field)).decode("latin-1")


def _failure(event: Any) -> Failure:
    flags = event.flags
    asked = _text(event.retry_after)
    wait = None
    if asked:
        wait = parse_retry_after(
            asked.split("\n"), wall_now=time.time(), date=_text(event.date) or None
        )
    of_exit = ORIGINS[event.origin] == "proxy"  # it is the proxy that said so
    return Failure(
        seq=event.seq,
        host=_text(event.host),
        error=TYPES[event.type],
        origin=ORIGINS[event.origin],
        phase=PHASES[event.phase],
        status=event.status,
        curl_code=event.curl_code,
        attempt=event.attempt,
        proxy=event.proxy,
        elapsed=event.elapsed / 1e6,
        since=event.since / 1e6,
        left=None if event.left < 0 else event.left / 1e6,
        retry_after=None if of_exit else wait,
        exit_retry_after=wait if of_exit else None,
        reused=bool(flags & _REUSED),
        sent=bool(flags & _SENT),
        idempotent=bool(flags & _IDEMPOTENT),
        fresh=bool(flags & _FRESH),
        matched=bool(flags & _MATCHED),
        session=_text(event.session),
        probe=bool(flags & _PROBE),
        host_alive=bool(flags & _ALIVE),
        host_requests=event.host_requests,
        pair_failures=event.pair_failures if event.proxy >= 0 else -1,
        exit_quiet=math.inf if event.exit_quiet < 0 else event.exit_quiet / 1e6,
    )


def _row(row: ProxyRow, now: float, pool: ProxyPool) -> dict[str, Any]:
    options = pool.options
    return {
        "number": row.number,
        "tier": row.tier,
        "state": _STATES[row.state],
        "exclusive": _LEASES[options.exclusive],
        # Pointless where it is the only one.
        "unproven": options.unproven_limit if len(pool) > 1 else 0,
        "weight": row.weight,
        "until": max(0, round((row.until - now) * 1e6)),
        "url": row.url.encode(),
    }
