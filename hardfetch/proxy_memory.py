"""What the pool remembers beyond single exits: pairs, tiers and sessions, all bounded.

A pair is (exit, host): one that fails twice in a row is avoided for a while although
both are well otherwise. A host that refuses cheap exits starts one tier up. A session
leaves by one exit while it lives.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hardfetch.proxy_health import PoolOptions

__all__ = ["PoolMemory"]

K = TypeVar("K")
V = TypeVar("V")


class PoolMemory:
    """The newest ``max_pairs`` entries of each kind."""

    def __init__(self, options: PoolOptions) -> None:
        """Start empty."""
        self._options = options
        self._pairs: OrderedDict[tuple[int, str], tuple[int, float]] = OrderedDict()
        self._sessions: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._tiers: OrderedDict[str, tuple[int, int, float]] = OrderedDict()

    def avoided(self, number: int, host: str, now: float) -> bool:
        """Tell whether the exit should not be used for the host now."""
        count, until = self._pairs.get((number, host), (0, 0.0))
        return count >= self._options.pair_failures and now < until

    def pair_failed(self, number: int, host: str, now: float, known: int = -1) -> float:
        """Note a failure of the pair. Returns until when it is avoided, 0 = is not.

        ``known``: failures in a row, this included, where somebody counts them.
        """
        count, until = self._pairs.get((number, host), (0, 0.0))
        if now >= until:
            count = min(count, self._options.pair_failures - 1)  # one more will do
        count = known if known > 0 else count + 1
        entry = (count, now + self._options.pair_bench)
        self._remember(self._pairs, (number, host), entry)
        return entry[1] if entry[0] >= self._options.pair_failures else 0.0

    def pair_served(self, number: int, host: str, now: float) -> bool:
        """Forget the failures of the pair. Returns whether it was avoided."""
        was = self.avoided(number, host, now)
        self._pairs.pop((number, host), None)
        return was

    def start_tier(self, host: str, now: float) -> int:
        """Return the tier at which the host's requests start."""
        tier, _, until = self._tiers.get(host, (0, 0, 0.0))
        return tier if now < until else 0

    def refused(self, host: str, used: int, tiers: Iterable[int], now: float) -> float:
        """Note that the host refused an exit of tier ``used``; ``tiers`` exist.

        Returns until when its requests start at another tier, 0 = no change.
        """
        tier, count, until = self._tiers.get(host, (0, 0, 0.0))
        if until <= now:
            tier, count = 0, 0
        if used < tier:
            return 0.0  # it left before the host went up
        count += 1
        higher = [other for other in tiers if other > max(tier, used)]
        rises = count >= self._options.tier_failures and bool(higher)
        if rises:
            tier, count = min(higher), 0
        until = now + self._options.tier_ttl
        self._remember(self._tiers, host, (tier, count, until))
        return until if rises else 0.0

    def pinned(self, session: str, now: float) -> int:
        """Return the session's exit, -1 when it has none (any more)."""
        number, until = self._sessions.get(session, (-1, 0.0))
        return number if now < until else -1

    def pin(self, session: str, number: int, now: float) -> float:
        """Give the session an exit. Returns until when."""
        until = now + self._options.sticky_ttl
        self._remember(self._sessions, session, (number, until))
        return until

    def unpin(self, session: str) -> int:
        """End the session. Returns its last exit, -1 when it had none."""
        return self._sessions.pop(session, (-1, 0.0))[0]

    def _remember(self, book: OrderedDict[K, V], key: K, entry: V) -> None:
        book[key] = entry
        book.move_to_end(key)
        if len(book) > self._options.max_pairs:
            book.popitem(last=False)
