"""Retry budgets: how many retries may be made beside the first attempts.

The global one is Finagle's (``RetryBudget.scala``): within any ``ttl`` seconds, a share
of the first attempts plus a floor per second. The one per host has no clock: a share of
the host's first attempts plus a floor in all. Requests are counted when they are sent,
not when they end, or a stall would starve the budget just when it is needed.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from hardfetch.errors import OptionError

__all__ = ["HostBudgets", "RetryBudget"]


class RetryBudget:
    """Retries of a whole run: ``ratio`` of the requests plus ``floor`` per second.

    Over any T seconds at most ``ratio * requests + floor * (T + ttl)`` are granted,
    where requests are those of the T seconds and of the ttl before.
    """

    def __init__(
        self, ratio: float = 0.2, floor: float = 10.0, ttl: float = 10.0
    ) -> None:
        """``ratio``: retries per request; ``floor``: per second; ``ttl``: seconds."""
        if not (ratio >= 0 and floor >= 0 and ttl > 0):
            raise OptionError("retry budget: numbers must not be negative")
        self.ratio = ratio
        self.floor = floor
        self.ttl = ttl
        self.granted = 0
        self.denied = 0
        self._slot = ttl / 10
        # (slot, requests, retries): at most 11 entries
        self._window: deque[list[int]] = deque()

    def _current(self, now: float) -> list[int]:
        slot = int(now / self._slot)
        while self._window and self._window[0][0] <= slot - 10:
            self._window.popleft()
        if not self._window or self._window[-1][0] < slot:
            self._window.append([slot, 0, 0])
        return self._window[-1]

    def count(self, requests: int, now: float) -> None:
        """Note first attempts that were started."""
        self._current(now)[1] += requests

    def balance(self, now: float) -> float:
        """Return how many retries could be granted now."""
        self._current(now)
        requests = sum(entry[1] for entry in self._window)
        retries = sum(entry[2] for entry in self._window)
        return self.floor * self.ttl + self.ratio * requests - retries

    def take(self, now: float) -> bool:
        """Grant one retry, or say no."""
        if self.balance(now) < 1:
            self.denied += 1
            return False
        self._current(now)[2] += 1
        self.granted += 1
        return True


class HostBudgets:
    """Retries per host: ``ratio`` of its requests plus ``floor`` in all.

    Holds the ``max_hosts`` hosts that failed last; a host that is forgotten starts
    anew.
    """

    def __init__(
        self, ratio: float = 0.2, floor: float = 10.0, max_hosts: int = 100_000
    ) -> None:
        """``ratio``: retries per request; ``floor``: a number; ``max_hosts``: kept."""
        self.ratio = ratio
        self.floor = floor
        self.max_hosts = max_hosts
        self.denied = 0
        # host -> [retries granted, first attempts known]
        self._hosts: OrderedDict[str, list[int]] = OrderedDict()

    def count(self, host: str, requests: int) -> None:
        """Note that the host has had at least so many first attempts in all."""
        entry = self._entry(host)
        entry[1] = max(entry[1], requests)

    def seen(self, host: str) -> None:
        """Note one first attempt, where nobody keeps the count."""
        self._entry(host)[1] += 1

    def balance(self, host: str) -> float:
        """Return how many retries could be granted to the host now."""
        retries, requests = self._hosts.get(host, (0, 0))
        return self.floor + self.ratio * requests - retries

    def take(self, host: str) -> bool:
        """Grant one retry, or say no."""
        if self.balance(host) < 1:
            self.denied += 1
            return False
        self._entry(host)[0] += 1
        return True

    def _entry(self, host: str) -> list[int]:
        entry = self._hosts.get(host)
        if entry is None:
            entry = self._hosts[host] = [0, 0]
            if len(self._hosts) > self.max_hosts:
                self._hosts.popitem(last=False)
        else:
            self._hosts.move_to_end(host)
        return entry
