"""The world of the simulator: sites with limits and moods, exits that die in many ways.

Everything is drawn from one seeded source; times are virtual seconds.
"""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["DEAD_WAYS", "ExitModel", "Reply", "SiteModel", "Timeouts", "fixed_scheme"]

ExitWay = Literal[
    "ok",
    "refuse",
    "silent_connect",
    "silent_proxy",
    "silent_tls",
    "silent_answer",
    "auth",
    "bad_gateway",
    "garbage",
    "tls_garbage",
]

DEAD_WAYS: tuple[ExitWay, ...] = (
    "refuse",
    "silent_connect",
    "silent_proxy",
    "silent_tls",
    "auth",
    "bad_gateway",
    "garbage",
    "tls_garbage",
)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits of one attempt in seconds."""

    connect: float = 5.0
    total: float = 10.0


@dataclass(frozen=True, slots=True)
class Reply:
    """What an attempt comes to, ``after`` seconds from now."""

    after: float
    error: str = ""
    origin: str = "site"
    phase: str = "body"
    status: int = 0
    retry_after: float | None = None
    sent: bool = True


@dataclass(slots=True)
class SiteModel:
    """One host. ``limit`` requests per second are served, the rest get 429."""

    latency: float = 0.1  # median
    spread: float = 0.3  # sigma of the log-normal
    limit: float = 0.0  # per second; 0 = none
    burst: float = 1.0  # of the token bucket
    window: float = 0.0  # above 0: a fixed window of so many seconds instead
    retry_after: float | None = None  # sent with 429 and 503
    errors: float = 0.0  # share of answers that are 500
    stalls: float = 0.0  # share of requests that never get an answer
    outages: Sequence[tuple[float, float]] = ()  # from, until: refuses connections
    maintenance: Sequence[tuple[float, float]] = ()  # from, until: 503
    served: int = 0
    refused: int = 0
    _tokens: float = math.nan
    _at: float = 0.0

    def draw_latency(self, rng: random.Random) -> float:
        """Return seconds from the request to the whole answer."""
        return self.latency * math.exp(self.spread * rng.gauss(0.0, 1.0))

    def reply(self, now: float, rng: random.Random, timeouts: Timeouts) -> Reply:
        """Answer a request that arrives now; ``after`` counts from now."""
        if any(start <= now < end for start, end in self.outages):
            return Reply(0.0, "connect_refused", phase="connect", sent=False)
        if any(start <= now < end for start, end in self.maintenance):
            return Reply(0.0, status=503, retry_after=self.retry_after)
        if self.stalls and rng.random() < self.stalls:
            return Reply(timeouts.total, "timeout", phase="first_byte")
        if not self._admits(now):
            self.refused += 1
            return Reply(0.0, status=429, retry_after=self.retry_after)
        self.served += 1
        if self.errors and rng.random() < self.errors:
            return Reply(0.0, status=500)
        return Reply(0.0, status=200)

    def _admits(self, now: float) -> bool:
        if not self.limit:
            return True
        if self.window:
            if math.isnan(self._tokens) or now // self.window > self._at // self.window:
                self._tokens = self.limit * self.window
        elif math.isnan(self._tokens):
            self._tokens = self.burst
        else:
            gained = (now - self._at) * self.limit
            self._tokens = min(self.burst, self._tokens + gained)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


@dataclass(frozen=True, slots=True)
class ExitModel:
    """One proxy: how it fails, and when."""

    way: ExitWay = "ok"
    latency: float = 0.02  # added to each request
    broken: tuple[tuple[float, float], ...] = ((0.0, math.inf),)  # from, until

    def failure(self, now: float, timeouts: Timeouts) -> Reply | None:
        """Return how a request that starts now dies here, None when it passes."""
        if self.way == "ok" or not any(a <= now < b for a, b in self.broken):
            return None
        return _deaths(self.way, timeouts)


def _deaths(way: ExitWay, timeouts: Timeouts) -> Reply:
    connect, total = timeouts.connect, timeouts.total
    table = {
        "refuse": Reply(0.001, "connect_refused", "proxy", "connect", sent=False),
        "silent_connect": Reply(
            connect, "connect_timeout", "proxy", "connect", sent=False
        ),
        "silent_proxy": Reply(connect, "proxy_timeout", "proxy", "proxy", sent=False),
        # Silence after a good tunnel looks like the site's.
        "silent_tls": Reply(connect, "tls_timeout", "site", "tls", sent=False),
        "silent_answer": Reply(total, "timeout", "site", "first_byte"),
        "auth": Reply(0.02, "proxy_auth", "proxy", "proxy", sent=False),
        "bad_gateway": Reply(0.02, "proxy_refused", "proxy", "proxy", sent=False),
        "garbage": Reply(0.02, "proxy_protocol", "proxy", "proxy", sent=False),
        "tls_garbage": Reply(0.03, "tls_error", "proxy", "tls", sent=False),
    }
    return table[way]


def fixed_scheme(
    count: int,
    exits: Mapping[str, ExitModel],
    *,
    processes: int,
    latency: float = 0.1,
    spawn: float = 0.3,
    connect_timeout: float = 10.0,
    read_timeout: float = 15.0,
    tries: int = 3,
    seed: int = 0,
) -> float:
    """Return URLs per second of what many crawls do today, for comparison.

    One process per request, fixed time-outs, a random proxy each time, no memory of
    which ones are dead. ``spawn`` is what starting Python and importing a client costs.
    """
    rng = random.Random(seed)  # noqa: S311 - a simulation
    names = sorted(exits)
    timeouts = Timeouts(connect_timeout, read_timeout)
    free = [0.0] * processes
    done, end = 0, 0.0
    for _ in range(count):
        now = heapq.heappop(free)
        for _ in range(tries):
            model = exits[rng.choice(names)]
            death = model.failure(now, timeouts)
            now += spawn
            if death is None:
                now += model.latency + latency
                done += 1
                break
            now += death.after
        heapq.heappush(free, now)
        end = max(end, now)
    return done / end
