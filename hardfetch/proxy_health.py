"""What is known about one exit of the pool, and what it costs to use it.

The cost is Finagle's and Tower's peak EWMA: latency that jumps up at once and comes
down slowly, times the requests in flight. Ejection is Envoy's outlier detection:
benched for a time that grows with each ejection, then one probe.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hardfetch.errors import OptionError
from hardfetch.outcome import ProxyRow

if TYPE_CHECKING:
    from hardfetch.proxy import Proxy

__all__ = ["ExitState", "PoolOptions", "ProxyHealth"]


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """How the pool judges and lends; times in seconds."""

    failures: int = 3  # in a row until an exit is benched
    bench: float = 30.0  # times the number of ejections
    bench_max: float = 300.0
    # Share of the pool; one of two or more always may be, and the only one never:
    # there is nothing better, and behind one address there may be a whole gateway.
    max_ejected: float = 0.8
    unproven_limit: int = 4  # in flight over an exit that never answered; 0 = no limit
    exclusive: Literal["", "request", "session"] = ""  # an exit serves one at a time
    sticky_ttl: float = 600.0  # from the first use of a session
    wait_limit: float = 30.0  # for an exit, then no_proxy_available
    pair_failures: int = 2  # of (exit, host) in a row until the pair is avoided
    pair_bench: float = 60.0
    tier_failures: int = 3  # refusals by a host until it starts one tier up
    tier_ttl: float = 600.0
    max_pairs: int = 100_000  # (exit, host) pairs, hosts and sessions remembered, each
    decay: float = 10.0  # time constant of the latency average
    default_latency: float = 1.0  # of an exit that was never measured

    def __post_init__(self) -> None:
        """Refuse values that can't work."""
        whole = (self.failures, self.pair_failures, self.tier_failures, self.max_pairs)
        if min(whole) < 1 or self.unproven_limit < 0:
            raise OptionError("pool: counts must be at least 1")
        times = (self.bench, self.bench_max, self.sticky_ttl, self.decay)
        if not all(0 < t < math.inf for t in times) or not self.wait_limit >= 0:
            raise OptionError("pool: times must be above 0")
        if not 0 <= self.max_ejected <= 1:
            raise OptionError("pool: max_ejected is a share, from 0 to 1")


@dataclass(frozen=True, slots=True)
class ProxyHealth:
    """One line of a summary; holds no credentials."""

    number: int
    proxy: str
    state: str
    in_flight: int
    successes: int
    failures: int  # charged to the proxy
    ejections: int
    latency: float  # seconds, moving average
    wasted: float  # seconds that charged failures took


class ExitState:
    """One exit. The pool owns it; all times are the caller's ``now``."""

    __slots__ = (
        "benched_at",
        "dead",
        "ejections",
        "failed_at",
        "failures",
        "healed_at",
        "in_flight",
        "last_ok",
        "latency",
        "measured_at",
        "number",
        "owner",
        "owner_until",
        "probing",
        "proxy",
        "streak",
        "successes",
        "total_ejections",
        "until",
        "wasted",
    )

    def __init__(self, number: int, proxy: Proxy) -> None:
        """Make an exit about which nothing is known yet."""
        self.number = number
        self.proxy = proxy
        self.in_flight = 0
        self.latency = 0.0
        self.measured_at = -math.inf
        self.last_ok = -math.inf
        self.failed_at = -math.inf  # last charged failure
        self.streak = 0  # charged failures in a row
        self.until = 0.0  # 0 = not benched
        self.benched_at = -math.inf
        self.healed_at = -math.inf
        self.probing = False
        self.dead = False  # its credentials were refused
        self.ejections = 0  # by which the next bench grows
        self.total_ejections = 0
        self.successes = 0
        self.failures = 0
        self.wasted = 0.0
        self.owner = ""  # session that holds it
        self.owner_until = -math.inf

    @property
    def live(self) -> bool:
        """Neither benched nor dead."""
        return not self.until and not self.dead

    @property
    def proven(self) -> bool:
        """It has answered at least once."""
        return self.successes > 0

    def cost(self, now: float, options: PoolOptions) -> float:
        """Return what one more request would cost: seconds in flight per weight."""
        latency, fade = options.default_latency, 1.0
        if self.measured_at > -math.inf:
            # Without news an old peak fades, or the exit would never be tried again.
            fade = math.exp(-(now - self.measured_at) / options.decay)
            latency = max(self.latency * fade, 1e-3)
        # A streak that the share of the pool keeps in service still costs.
        load = (self.in_flight + 1) * (1 + self.streak * fade)
        return latency * load / self.proxy.weight

    def measure(self, latency: float, now: float, options: PoolOptions) -> None:
        """Take one latency in seconds into the average: up at once, down slowly."""
        if latency >= self.latency or self.measured_at == -math.inf:
            self.latency = latency
        else:
            keep = math.exp(-(now - self.measured_at) / options.decay)
            self.latency = self.latency * keep + latency * (1 - keep)
        self.measured_at = now

    def succeeded(self, started: float, now: float) -> bool:
        """Note an answer. Returns True when that ends a bench."""
        self.successes += 1
        self.streak = 0
        self.last_ok = now
        # An answer from before the bench proves nothing about now.
        if not self.until or started < self.benched_at:
            return False
        self.until = 0.0
        self.probing = False
        self.healed_at = now
        return True

    def heard(self, when: float) -> None:
        """Note that an answer came through at a time."""
        self.last_ok = max(self.last_ok, when)
        if when > self.failed_at:
            self.streak = 0
        self.successes = max(self.successes, 1)

    def failed(self, started: float, elapsed: float) -> bool:
        """Note a charged failure. Returns True when it counts towards a bench."""
        self.failures += 1
        self.wasted += elapsed
        if self.until and started < self.until:
            return False  # from before the bench ended: it is paid for
        if self.last_ok > started:
            return False  # it has answered since this attempt began
        self.streak += 1
        self.failed_at = started + elapsed
        return True

    def eject(self, now: float, jitter: float, options: PoolOptions) -> None:
        """Bench it; ``jitter`` in [0, 1) spreads the returns by up to a tenth."""
        if self.healed_at > -math.inf:
            quiet = int((now - self.healed_at) / options.bench_max)
            self.ejections = max(0, self.ejections - quiet)
        self.ejections += 1
        self.total_ejections += 1
        bench = min(options.bench * self.ejections, options.bench_max)
        self.benched_at = now
        self.until = now + bench * (1 + jitter / 10)
        self.probing = False

    def rest(self, now: float, seconds: float, jitter: float) -> None:
        """Bench it for as long as it asked for; that is no ejection."""
        self.benched_at = now
        self.until = now + seconds * (1 + jitter / 10)
        self.probing = False

    def row(self, *, gone: bool = False) -> ProxyRow:
        """Return its line of the table from which C picks."""
        proxy = self.proxy
        state = "up" if self.live else "dead" if self.dead else "benched"
        return ProxyRow(
            self.number,
            proxy.url,
            proxy.weight,
            proxy.tier,
            "gone" if gone else state,  # type: ignore[arg-type]  # mypy joins to str
            self.until,
        )

    def health(self, now: float) -> ProxyHealth:
        """Return a copy for people."""
        state = "up" if self.live else "dead" if self.dead else "benched"
        if state == "benched" and self.until <= now:
            state = "probe"
        return ProxyHealth(
            self.number,
            str(self.proxy),
            state,
            self.in_flight,
            self.successes,
            self.failures,
            self.total_ejections,
            self.latency,
            self.wasted,
        )
