"""The rate that a host bears, found by additive increase, multiplicative decrease.

Starts slow and grows by a share per second until the host first complains; from then on
it falls to a share of what was too much and climbs by a constant per second. The
constant is a small share of the rate, so that a host of 1/s and one of 100/s are both
tested about twice a minute. Only good answers, and only while the rate is what holds us
back, raise it: errors never speed it up. Floats and three calls, so that it can run in
C.
"""

from __future__ import annotations

import math

__all__ = ["AdaptiveRate"]

_GROWTH = 0.35  # per second before the first complaint: doubles in two seconds
_FIRST_CUT = 0.65  # the growth overshot
_CUT = 0.88
_CLIMB = 0.005  # of the rate that was too much, per second: a test twice a minute
_CLIMB_SLOW = 0.0012  # times the rate: of slow hosts, a test in a hundred requests
_PATIENCE = 12  # times the wait that the last test cost, until the next one
_MAX_STEP = 1.0  # seconds of growth that one answer can bring
_SLOW = 3.0  # times the best latency: the host is queueing our requests
_SLACK = 0.1  # seconds beyond that, which are noise
_SMOOTH = 0.1
_FALL = 0.05
_RISE = 0.002


class AdaptiveRate:
    """Requests per second to one host; times in seconds."""

    __slots__ = (
        "_best",
        "_climb",
        "_cut_at",
        "_paused",
        "_raised_at",
        "_smooth",
        "maximum",
        "rate",
    )

    MINIMUM = 1 / 60

    def __init__(self, maximum: float = math.inf, start: float = 2.0) -> None:
        self.maximum = maximum or math.inf
        self.rate = min(start, self.maximum)
        self._climb = 0.0  # per second; 0 = never cut yet
        self._paused = 0.0
        self._raised_at = -math.inf
        self._cut_at = -math.inf
        self._best = 0.0  # latency
        self._smooth = 0.0

    def answered(self, latency: float, now: float, *, limited: bool) -> None:
        """Take a good answer (2xx, 3xx).

        ``limited``: requests were waiting for the rate; without that, a higher rate
        would be a guess that nobody tested.
        """
        # A low quantile, since one lucky answer would hold the minimum down; it drifts
        # up, so that a host that has become slow is not throttled for ever.
        step = _FALL if latency < self._best else _RISE
        self._best += step * (latency - self._best) if self._best else latency
        self._smooth += _SMOOTH * (latency - self._smooth) if self._smooth else latency
        if self._smooth > _SLOW * self._best + _SLACK:
            self.complained(now - latency, now)
            return
        step = min(now - self._raised_at, _MAX_STEP)
        self._raised_at = now
        if limited and step > 0:
            gain = self._climb or _GROWTH * self.rate
            self.rate = min(self.rate + gain * step, self.maximum)

    def complained(self, started: float, now: float) -> None:
        """Take a 429, a 503 or a time-out of an attempt that began at ``started``.

        What had left before the last cut does not cut again.
        """
        if started <= self._cut_at:
            return
        cut = _CUT if self._climb else _FIRST_CUT
        share = min(_CLIMB, _CLIMB_SLOW * self.rate)
        self._climb = max(share * self.rate, 1e-6)
        self.rate = max(self.rate * cut, min(self.MINIMUM, self.maximum))
        self._cut_at = self._raised_at = now
        self._smooth = self._paused = 0.0

    def paused(self, wait: float) -> None:
        """Take into account that a refusal has closed the gate for ``wait`` seconds.

        The longer it costs to find out, the more rarely it is tried.
        """
        self._paused += wait
        if self._climb and self._paused:
            slowest = (1 - _CUT) * self.rate / (_PATIENCE * self._paused)
            self._climb = min(self._climb, slowest)
