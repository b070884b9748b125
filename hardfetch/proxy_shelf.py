"""The pool's exits in the order in which they can be had: by tier, live or benched."""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

    from hardfetch.proxy_health import ExitState

__all__ = ["ProxyShelf"]

_DRAWS = 8


class ProxyShelf:
    """Live exits for weighted draws, benched ones by the end of their bench.

    A draw costs the same for ten exits and for ten thousand; a change of state costs
    one pass over all of them at the next draw.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._exits: dict[int, ExitState] = {}
        self._live: dict[int, tuple[list[ExitState], list[float]]] = {}
        self._benched: dict[int, list[tuple[float, int]]] = {}  # tier -> heap
        self._stale = True

    def reset(self, exits: dict[int, ExitState]) -> None:
        """Take over the pool's exits, by number; the dict stays the pool's."""
        self._exits = exits
        self._benched = {}
        for exit_ in exits.values():
            if exit_.until:
                self.bench(exit_)
        self._stale = True

    def touch(self) -> None:
        """Note that some exit went live, was benched or died."""
        self._stale = True

    def bench(self, exit_: ExitState) -> None:
        """Note when the exit comes back."""
        heap = self._benched.setdefault(exit_.proxy.tier, [])
        heapq.heappush(heap, (exit_.until, exit_.number))

    def order(self, first: int) -> list[int]:
        """Return the tiers as they are tried: from ``first`` up, then those below."""
        self._refresh()
        tiers = sorted({*self._live, *self._benched})
        return [t for t in tiers if t >= first] + [t for t in tiers if t < first][::-1]

    def live(self) -> Iterable[ExitState]:
        """Return all live exits."""
        self._refresh()
        return itertools.chain.from_iterable(exits for exits, _ in self._live.values())

    def due(self, tier: int, now: float) -> ExitState | None:
        """Return an exit whose bench is over and that nobody probes yet."""
        heap = self._benched.get(tier)
        while heap and heap[0][0] <= now:
            exit_ = self._exits.get(heap[0][1])
            if exit_ is not None and exit_.until == heap[0][0] and not exit_.probing:
                return exit_
            heapq.heappop(heap)  # healed, benched anew or gone meanwhile
        return None

    def draw(self, tier: int, usable: Callable[[ExitState], bool]) -> list[ExitState]:
        """Return up to two different usable live exits, at random by weight."""
        self._refresh()
        exits, weights = self._live.get(tier, ([], []))
        two: list[ExitState] = []
        if len(exits) > _DRAWS:
            for _ in range(_DRAWS):
                spot = bisect(weights, self._rng.random() * weights[-1])
                one = exits[min(spot, len(exits) - 1)]
                if one not in two and usable(one):
                    two.append(one)
                    if len(two) == 2:
                        return two
        if two:
            return two  # most are not usable: one is good enough
        left = [exit_ for exit_ in exits if usable(exit_)]
        while left and len(two) < 2:
            one = self._rng.choices(left, [exit_.proxy.weight for exit_ in left])[0]
            left.remove(one)
            two.append(one)
        return two

    def _refresh(self) -> None:
        if not self._stale:
            return
        self._stale = False
        tiers: dict[int, list[ExitState]] = {}
        for exit_ in self._exits.values():
            if exit_.live:
                tiers.setdefault(exit_.proxy.tier, []).append(exit_)
        self._live = {
            tier: (exits, list(itertools.accumulate(e.proxy.weight for e in exits)))
            for tier, exits in tiers.items()
        }
