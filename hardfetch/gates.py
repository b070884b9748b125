"""How long a host's whole queue waits after it said 429 or 503.

One refusal closes the gate for everybody who wants that host; refusals of requests that
had left before the gate closed do not make the wait grow. After it one probe goes first
(the scheduler's work); only if that is refused too, the next wait is twice as long: a
probe that passes proves that the wait was long enough.
"""

from __future__ import annotations

import math
import random
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hardfetch.outcome import CloseGate

if TYPE_CHECKING:
    from hardfetch.outcome import Failure

__all__ = ["Gates"]

_EPSILON = 1e-3
_QUIET = 10  # times the last wait without a refusal: the next one starts anew


@dataclass(slots=True)
class _Gate:
    level: int = 0  # probes refused in a row
    closed_at: float = -math.inf
    until: float = 0.0


class Gates:
    """The waits per host; the ``max_hosts`` hosts that refused last are remembered."""

    def __init__(
        self,
        base: float = 1.0,
        cap: float = 60.0,
        max_hosts: int = 100_000,
        rng: random.Random | None = None,
    ) -> None:
        """``base``: first wait in seconds; ``cap``: longest without ``Retry-After``."""
        self.base = base
        self.cap = cap
        self.max_hosts = max_hosts
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._gates: OrderedDict[str, _Gate] = OrderedDict()

    def until(self, host: str) -> float:
        """Return until when the host's gate is closed, 0 when it never was."""
        gate = self._gates.get(host)
        return 0.0 if gate is None else gate.until

    def close(
        self, failure: Failure, now: float, retry_after_cap: float
    ) -> CloseGate | None:
        """Return the order to close, None when the gate is closed for longer already.

        The wait is half fixed and half random, so that it is never nothing, and at
        least what ``Retry-After`` asks for, clamped to [0, retry_after_cap], plus up to
        a tenth, so that crawlers do not come back all at once.
        """
        gate = self._gates.get(failure.host) or _Gate()
        started = now - failure.elapsed
        asked = min(max(failure.retry_after or 0.0, 0.0), retry_after_cap)
        asked *= 1 + self._rng.random() / 10
        if started < gate.closed_at:
            wait = asked  # from before: it may ask for more, but is no new refusal
        else:
            if failure.probe:
                gate.level += 1
            elif now - gate.until > _QUIET * (gate.until - gate.closed_at):
                gate.level = 0
            wait = min(self.cap, self.base * 2.0 ** min(gate.level, 30))
            wait = max(wait * self._rng.uniform(0.5, 1.0), asked)
            gate.closed_at = now
        if now + wait <= gate.until + _EPSILON or wait <= 0:
            return None
        gate.until = now + wait
        self._gates[failure.host] = gate
        self._gates.move_to_end(failure.host)
        if len(self._gates) > self.max_hosts:
            self._gates.popitem(last=False)
        return CloseGate(failure.host, gate.until, wait)
