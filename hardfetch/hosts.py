"""Politeness per host, as the scheduler enforces it: the reference model.

In flight, rate, delay, gate and breaker of each host, together and however many exits
there are. The compiled scheduler does the same with the same parameters; the simulator
runs this one. State is bounded: the hosts used least recently are forgotten once
nothing holds them (no request in flight, no wait running).
"""

from __future__ import annotations

import math
import random
from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

from hardfetch.adaptive import AdaptiveRate
from hardfetch.classify import GATE_STATUSES, TIMEOUTS, Mark, host_mark
from hardfetch.limits import Limits, LimitTable

__all__ = ["Admission", "HostHealth", "Hosts"]

_PROBE_AGAIN = 1.0  # seconds until the next probe when one told nothing


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a request to a host may start now.

    ``wait``: try again at ``until``, or after the next end when it is infinite.
    ``refuse``: the breaker is open; the record is ``host_unavailable``.
    """

    answer: Literal["go", "wait", "refuse"]
    until: float = 0.0
    probe: bool = False
    limited: bool = False  # others had to wait for the rate


@dataclass(frozen=True, slots=True)
class HostHealth:
    """One line of a summary."""

    host: str
    requests: int
    failures: int
    gates: int
    opened: int
    rate: float  # adaptive, else 0


@dataclass(slots=True)
class _Host:
    limits: Limits
    adaptive: AdaptiveRate | None
    in_flight: int = 0
    next_at: float = 0.0
    held: bool = False  # somebody was told to wait for next_at
    gate_until: float = 0.0  # 0 = open
    streak: int = 0  # failures in a row
    open_until: float = 0.0  # breaker; 0 = closed
    probing: bool = False
    robots_delay: float = 0.0  # a robots.txt asked for it
    last_ok: float = -math.inf
    requests: int = 0
    failures: int = 0
    gates: int = 0
    opened: int = 0

    def idle(self, now: float) -> bool:
        """Nothing would be lost but statistics and a learned rate."""
        waits = max(self.next_at, self.gate_until, self.open_until)
        return not self.in_flight and waits <= now


class Hosts:
    """All hosts with their state. One thread at a time."""

    def __init__(
        self,
        limits: LimitTable | None = None,
        *,
        max_hosts: int = 100_000,
        rng: random.Random | None = None,
    ) -> None:
        """``limits``: by host; ``max_hosts``: how many are kept beside busy ones."""
        self.limits = limits or LimitTable()
        self._max_hosts = max_hosts
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._hosts: OrderedDict[str, _Host] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of hosts in memory."""
        return len(self._hosts)

    def admit(self, host: str, now: float) -> Admission:
        """Ask for one start. "go" takes the slot; ``finish`` gives it back."""
        state = self._state(host, now)
        limits = state.limits
        if state.open_until > now:
            return Admission("refuse", state.open_until)
        closed = bool(state.open_until or state.gate_until)
        if state.gate_until > now:
            return Admission("wait", state.gate_until)
        if closed and state.probing:
            return Admission("wait", math.inf)
        if limits.max_per_host and state.in_flight >= limits.max_per_host:
            return Admission("wait", math.inf)
        if state.next_at > now:
            state.held = True
            return Admission("wait", state.next_at)
        limited, state.held = state.held, False
        state.in_flight += 1
        state.requests += 1
        state.probing = closed
        state.next_at = now + self._pause(state)
        return Admission("go", now, probe=closed, limited=limited)

    def finish(  # what an attempt came to
        self,
        host: str,
        admission: Admission,
        now: float,
        *,
        error: str = "",
        origin: str = "site",
        status: int = 0,
        elapsed: float = 0.0,
        via_proxy: bool = False,
    ) -> None:
        """Give the slot back and learn from the outcome."""
        state = self._state(host, now)
        state.in_flight = max(0, state.in_flight - 1)
        started = now - elapsed
        mark = host_mark(error, origin)
        # Requests of before the last answer say nothing about now: a page may stall, or
        # an exit, while the host serves all others.
        outdated = started < state.last_ok
        if mark is Mark.HEAL:
            state.last_ok = now
            state.streak = 0
            state.open_until = 0.0 if admission.probe else state.open_until
        elif mark is Mark.HURT:
            state.failures += 1
            if not outdated or admission.probe:
                self._hurt(state, admission, now)
        if admission.probe:
            state.probing = False
            self._end_probe(state, mark, status, now)
        if state.adaptive is None:
            return
        refused = not error and status in GATE_STATUSES
        # Silence through a proxy may be the proxy's; a host that is too slow shows in
        # the latency of what does get through.
        silent = error in TIMEOUTS and mark is Mark.HURT and not via_proxy
        if refused and admission.probe:
            return  # still the old refusal: the gate waits longer, the rate is not new
        if refused or silent:
            state.adaptive.complained(started, now)
        elif not error and status < 400:
            state.adaptive.answered(elapsed, now, limited=admission.limited)

    def close_gate(self, host: str, until: float, now: float) -> None:
        """Let nobody through before ``until``, then one probe."""
        state = self._state(host, now)
        state.gates += 1
        if state.adaptive is not None:
            state.adaptive.paused(max(0.0, until - max(now, state.gate_until)))
        state.gate_until = max(state.gate_until, until)

    def set_delay(self, host: str, delay: float, now: float) -> None:
        """Space starts by ``delay`` seconds at least, as a robots.txt asks."""
        self._state(host, now).robots_delay = delay

    def is_alive(self, host: str, since: float) -> bool:
        """Tell whether the host has answered after ``since``."""
        state = self._hosts.get(host)
        return state is not None and state.last_ok > since

    def requests(self, host: str) -> int:
        """Return the starts granted so far, -1 when the host is not in memory."""
        state = self._hosts.get(host)
        return -1 if state is None else state.requests

    def rate(self, host: str) -> float:
        """Return the present rate per second, 0 when there is none."""
        state = self._hosts.get(host)
        if state is None:
            return 0.0
        return state.adaptive.rate if state.adaptive else state.limits.rate

    def worst(self, count: int = 10) -> list[HostHealth]:
        """Return the hosts with most failures and gates, for a summary."""
        lines = [
            HostHealth(
                name,
                state.requests,
                state.failures,
                state.gates,
                state.opened,
                state.adaptive.rate if state.adaptive else 0.0,
            )
            for name, state in self._hosts.items()
            if state.failures or state.gates
        ]
        lines.sort(key=lambda line: (-line.failures - line.gates, line.host))
        return lines[:count]

    # Inside

    def _hurt(self, state: _Host, admission: Admission, now: float) -> None:
        state.streak += 1
        limits = state.limits
        if not limits.breaker_failures:
            return
        half_open = admission.probe and state.open_until
        if half_open or (
            state.streak >= limits.breaker_failures and not state.open_until
        ):
            state.open_until = now + limits.breaker_open
            state.opened += 1

    @staticmethod
    def _end_probe(state: _Host, mark: Mark, status: int, now: float) -> None:
        if mark is Mark.HEAL:
            # A refusal closes the gate anew; that order comes from policy. So does a
            # late refusal that asked for more while the probe was out: that holds.
            if status not in GATE_STATUSES and state.gate_until <= now:
                state.gate_until = 0.0
        elif state.gate_until:
            state.gate_until = max(state.gate_until, now + _PROBE_AGAIN)

    def _pause(self, state: _Host) -> float:
        limits = state.limits
        pause = limits.delay
        if pause:
            pause *= 1 + limits.jitter * self._rng.random()
        rate = state.adaptive.rate if state.adaptive else limits.rate
        return max(pause, state.robots_delay, 1 / rate if rate else 0.0)

    def _state(self, host: str, now: float) -> _Host:
        state = self._hosts.get(host)
        if state is not None:
            self._hosts.move_to_end(host)
            return state
        limits = self.limits.lookup(host)
        adaptive = AdaptiveRate(limits.rate) if limits.adaptive else None
        state = self._hosts[host] = _Host(limits, adaptive)
        self._forget(state, now)
        return state

    def _forget(self, newest: _Host, now: float) -> None:
        """Drop idle hosts over the maximum; look at a few, so that no call is long."""
        for _ in range(4):
            if len(self._hosts) <= self._max_hosts:
                return
            host, state = next(iter(self._hosts.items()))
            if state is newest:
                return
            if state.idle(now):
                del self._hosts[host]
            else:
                self._hosts.move_to_end(host)
