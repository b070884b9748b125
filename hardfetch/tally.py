"""Which hosts made most trouble: a bounded count, for summaries."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

__all__ = ["HostTally", "HostTrouble"]


@dataclass(slots=True)
class HostTrouble:
    """What one host cost."""

    host: str
    requests: int = 0  # first attempts
    failures: int = 0  # attempts
    retries: int = 0
    gates: int = 0  # times that it asked everybody to wait
    opened: int = 0  # times that its breaker opened
    last: str = ""  # of the last failure: type, status, or "content"


class HostTally:
    """Counts of the ``max_hosts`` hosts that failed last."""

    def __init__(self, max_hosts: int = 10_000) -> None:
        self._max_hosts = max_hosts
        self._hosts: OrderedDict[str, HostTrouble] = OrderedDict()

    def failed(self, host: str, requests: int, what: str) -> HostTrouble:
        """Count a failed attempt; ``requests``: its first attempts, if known."""
        entry = self._entry(host)
        entry.requests = max(entry.requests, requests)
        entry.failures += 1
        entry.last = what
        return entry

    def opened(self, host: str) -> None:
        """Count that the host's breaker opened."""
        self._entry(host).opened += 1

    def _entry(self, host: str) -> HostTrouble:
        entry = self._hosts.get(host)
        if entry is None:
            entry = self._hosts[host] = HostTrouble(host)
            if len(self._hosts) > self._max_hosts:
                self._hosts.popitem(last=False)
        else:
            self._hosts.move_to_end(host)
        return entry

    def worst(self, count: int = 10) -> list[HostTrouble]:
        """Return the hosts with most failures."""
        entries = sorted(self._hosts.values(), key=lambda e: (-e.failures, e.host))
        return entries[:count]
