"""The pool of exits: which one next, and what became of it.

Of two random exits the cheaper one is taken (latency x in flight). An exit that fails
is benched for growing times and comes back by one probe; failures with one host only
make that pair avoided. At most a share of the pool is benched, and never the only exit
there is: behind one address there may be a whole gateway.

The pool does no I/O and has no clock. Whoever runs requests calls ``choose``, ``start``
and ``end``; ``succeeded`` and ``failed`` carry the news. Where C picks, ``observe`` and
``take_rows`` keep both sides alike. Credentials stand in ``Proxy.url`` alone.
"""

from __future__ import annotations

import itertools
import math
import random
from typing import TYPE_CHECKING

from hardfetch.classify import Mark
from hardfetch.outcome import AvoidExit, Choice, NoExit
from hardfetch.proxy import Proxy, parse_proxies
from hardfetch.proxy_health import ExitState, PoolOptions, ProxyHealth
from hardfetch.proxy_memory import PoolMemory
from hardfetch.proxy_shelf import ProxyShelf

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from hardfetch.outcome import ProxyRow

__all__ = ["Choice", "NoExit", "PoolOptions", "Proxy", "ProxyHealth", "ProxyPool"]


class ProxyPool:
    """Exits with their health. One thread at a time."""

    def __init__(
        self,
        proxies: Iterable[Proxy | str] = (),
        options: PoolOptions | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Make a pool.

        Args:
            proxies: parsed, or lines as ``parse_proxies`` takes them.
            options: how to judge and lend.
            rng: source of chance, for repeatable tests.

        Raises:
            OptionError: a line is not a proxy.
        """
        self.options = options or PoolOptions()
        self._rng = rng or random.Random()  # noqa: S311 - load balancing, not a secret
        self._next = itertools.count()
        self._exits: dict[int, ExitState] = {}
        self._changed: dict[int, None] = {}
        self._gone: list[ExitState] = []
        self._avoided: list[AvoidExit] = []
        self._shelf = ProxyShelf(self._rng)
        self._memory = PoolMemory(self.options)
        self.replace(proxies, 0.0)

    def __len__(self) -> int:
        """Return the number of exits, benched ones included."""
        return len(self._exits)

    def replace(self, proxies: Iterable[Proxy | str], now: float) -> None:
        """Make the pool hold exactly these. Who stays keeps number and health.

        A dead exit that stays is probed once: its credentials may have been renewed.

        Raises:
            OptionError: a line is not a proxy; the pool is then as before.
        """
        given = list(proxies)
        lines = [item for item in given if isinstance(item, str)]
        parsed = [item for item in given if isinstance(item, Proxy)]
        wanted = {one: one for one in [*parsed, *parse_proxies(lines)]}
        for exit_ in list(self._exits.values()):
            proxy = wanted.pop(exit_.proxy, None)
            if proxy is None:
                del self._exits[exit_.number]
                self._gone.append(exit_)
                continue
            exit_.proxy = proxy
            if exit_.dead:
                exit_.dead = False
                exit_.until = exit_.benched_at = now or 1e-9  # 0 would mean "up"
        for proxy in wanted.values():
            number = next(self._next)
            self._exits[number] = ExitState(number, proxy)
        self._changed.update(dict.fromkeys(self._exits))
        self._shelf.reset(self._exits)

    def take_rows(self) -> tuple[ProxyRow, ...]:
        """Return the rows that changed since the last call."""
        rows = [exit_.row(gone=True) for exit_ in self._gone]
        rows += [self._exits[n].row() for n in self._changed if n in self._exits]
        self._gone.clear()
        self._changed.clear()
        return tuple(rows)

    def take_avoided(self) -> list[AvoidExit]:
        """Return what C must know of hosts and exits, since the last call."""
        avoided, self._avoided = self._avoided, []
        return avoided

    def health(self, now: float) -> list[ProxyHealth]:
        """Return all exits for a summary, those that wasted most time first."""
        lines = [exit_.health(now) for exit_ in self._exits.values()]
        return sorted(lines, key=lambda line: (-line.wasted, line.number))

    def choose(
        self,
        host: str,
        now: float,
        *,
        session: str = "",
        exclude: Collection[int] = (),
        tier: int = 0,
        again: bool = False,
    ) -> Choice | NoExit:
        """Return the exit for the next request to ``host``.

        Args:
            host: host:port.
            now: seconds.
            session: requests of one session leave by one exit while it lives.
            exclude: exits not to use.
            tier: start at this tier at least.
            again: a retry; it is no probe where anything else is left, and does not
                wait for a busy exit.
        """
        pinned = self._pinned(session, now)
        if pinned is not None and pinned.number not in exclude:
            if pinned.in_flight == 0 or self.options.exclusive != "request" or again:
                return Choice(pinned.number, pinned.proxy)
            return NoExit(math.inf, pinned.number)
        order = self._shelf.order(max(tier, self._memory.start_tier(host, now)))
        # A retry goes over an exit that has answered before, where there is one.
        strictness = (2, 1, 0) if again else (1, 0)
        for strict in strictness:
            for level in order:
                found = self._from_tier(
                    level, host, now, session, exclude, again=again, strict=strict
                )
                if found is not None:
                    return self._pin(found, session, now)
        return self._none(now, exclude)

    def _from_tier(
        self,
        tier: int,
        host: str,
        now: float,
        session: str,
        exclude: Collection[int],
        *,
        again: bool,
        strict: int,
    ) -> Choice | None:
        if not again:
            probe = self._shelf.due(tier, now)
            if probe is not None and probe.number not in exclude:
                return Choice(probe.number, probe.proxy, probe=True)

        def usable(exit_: ExitState) -> bool:
            return (
                exit_.number not in exclude
                and (strict < 2 or exit_.proven)
                and (strict < 1 or not self._memory.avoided(exit_.number, host, now))
                and self._has_room(exit_, session, now, again=again)
            )

        two = self._shelf.draw(tier, usable)
        if not two:
            return None
        best = min(two, key=lambda exit_: exit_.cost(now, self.options))
        return Choice(best.number, best.proxy)

    def _has_room(
        self, exit_: ExitState, session: str, now: float, *, again: bool
    ) -> bool:
        options = self.options
        if options.exclusive == "request":
            return exit_.in_flight == 0 or again
        if options.exclusive == "session" and exit_.owner_until > now:
            return exit_.owner == session
        # Until it has answered, a few requests must do: were it silent, all the others
        # would sit there until their time-outs. Pointless where it is the only one.
        limit = options.unproven_limit
        unproven = limit and not exit_.proven and len(self._exits) > 1
        return not unproven or exit_.in_flight < limit or again

    def _none(self, now: float, exclude: Collection[int]) -> NoExit:
        if any(exit_.number not in exclude for exit_ in self._shelf.live()):
            return NoExit(math.inf)
        ends = [
            (e.until if e.until > now else math.inf, e.number)
            for e in self._exits.values()
            if e.until and not e.dead and e.number not in exclude
        ]
        return NoExit(*min(ends)) if ends else NoExit(math.inf)

    def live(self) -> int:
        """Return how many exits are neither benched nor dead."""
        return sum(exit_.live for exit_ in self._exits.values())

    def empty(self) -> bool:
        """Tell that no exit can ever come back by itself."""
        return all(exit_.dead for exit_ in self._exits.values())

    def get(self, number: int) -> Proxy | None:
        """Return the proxy with this number, None once it is gone."""
        exit_ = self._exits.get(number)
        return None if exit_ is None else exit_.proxy

    def tier_of(self, number: int) -> int:
        """Return the exit's tier, -1 once it is gone."""
        proxy = self.get(number)
        return -1 if proxy is None else proxy.tier

    def is_up(self, number: int) -> bool:
        """Tell whether the exit is neither benched, dead nor gone."""
        exit_ = self._exits.get(number)
        return exit_ is not None and exit_.live

    def start(self, number: int, now: float) -> None:
        """Note that a request leaves by this exit."""
        exit_ = self._exits.get(number)
        if exit_ is None:
            return
        exit_.in_flight += 1
        if exit_.until and exit_.until <= now:
            exit_.probing = True

    def end(self, number: int) -> None:
        """Note that it is over, however it went."""
        exit_ = self._exits.get(number)
        if exit_ is not None and exit_.in_flight:
            exit_.in_flight -= 1
            if exit_.probing and not exit_.in_flight:
                # The probe told nothing (cancelled, say): the next request is one.
                exit_.probing = False
                self._shelf.bench(exit_)

    def succeeded(self, number: int, host: str, elapsed: float, now: float) -> None:
        """Note an answer that came through, ``elapsed`` seconds after its start."""
        exit_ = self._exits.get(number)
        if exit_ is None:
            return
        exit_.measure(elapsed, now, self.options)
        if self._memory.pair_served(number, host, now):
            self._avoided.append(AvoidExit(host, number, 0, now))
        if exit_.succeeded(now - elapsed, now):
            self._change(exit_)

    def failed(
        self,
        number: int,
        host: str,
        elapsed: float,
        now: float,
        *,
        mark: Mark = Mark.HURT,
        error: str = "",
        pair_failures: int = -1,
    ) -> None:
        """Note a failure. ``Mark.SUSPECT`` tells on pair and latency only.

        ``pair_failures``: in a row of exit and host, where somebody counts them.
        """
        exit_ = self._exits.get(number)
        if exit_ is None or mark in (Mark.NONE, Mark.HEAL):
            return
        exit_.measure(max(elapsed, exit_.latency), now, self.options)
        self._pair_failed(number, host, now, pair_failures)
        if mark is Mark.HURT:
            self._charge(exit_, now - elapsed, elapsed, now)
            if error == "proxy_auth":
                self._refuse_credentials(exit_)

    def charge(self, number: int, started: float, elapsed: float, now: float) -> None:
        """Turn the suspicion of an attempt into a charge."""
        exit_ = self._exits.get(number)
        if exit_ is not None:
            self._charge(exit_, started, elapsed, now)

    def rest(self, number: int, seconds: float, now: float) -> None:
        """Bench an exit for as long as it asked for, if it may be benched at all."""
        exit_ = self._exits.get(number)
        if exit_ is None or exit_.dead or now + seconds <= exit_.until:
            return
        if exit_.until or self._may_eject():
            exit_.rest(now, seconds, self._rng.random())
            self._shelf.bench(exit_)
            self._change(exit_)

    def blocked(
        self, number: int, host: str, now: float, pair_failures: int = -1
    ) -> None:
        """Note that the host refused this exit (403, 429, a captcha).

        The exit is well; the pair is avoided, and after a few the host's requests start
        one tier up.
        """
        exit_ = self._exits.get(number)
        if exit_ is None:
            return
        self._pair_failed(number, host, now, pair_failures)
        tiers = {e.proxy.tier for e in self._exits.values()}
        until = self._memory.refused(host, exit_.proxy.tier, tiers, now)
        if until > now:
            tier = self._memory.start_tier(host, now)
            self._avoided.append(AvoidExit(host, -1, tier, until))

    def observe(
        self,
        number: int,
        in_flight: int,
        latency: float,
        now: float,
        *,
        answered: int = 0,
    ) -> None:
        """Take over what C counts.

        ``latency``: mean seconds, 0 = no news; ``answered``: answers in all.
        """
        exit_ = self._exits.get(number)
        if exit_ is None:
            return
        exit_.in_flight = in_flight
        exit_.successes = max(exit_.successes, answered)
        if latency > 0:
            exit_.measure(latency, now, self.options)

    def heard(self, number: int, when: float) -> None:
        """Note that the exit answered somebody then: policy hears of failures only."""
        exit_ = self._exits.get(number)
        if exit_ is not None:
            exit_.heard(when)

    def release(self, session: str) -> None:
        """End a session: its exit is free for others."""
        exit_ = self._exits.get(self._memory.unpin(session))
        if exit_ is not None and exit_.owner == session:
            exit_.owner_until = -math.inf

    def _pair_failed(self, number: int, host: str, now: float, known: int) -> None:
        until = self._memory.pair_failed(number, host, now, known)
        if until > now:
            self._avoided.append(AvoidExit(host, number, 0, until))

    def _refuse_credentials(self, exit_: ExitState) -> None:
        if not exit_.proven or exit_.streak >= self.options.failures:
            exit_.dead = True
            exit_.until = 0.0
            self._change(exit_)

    def _charge(
        self, exit_: ExitState, started: float, elapsed: float, now: float
    ) -> None:
        due = 0 < exit_.until <= now
        options = self.options
        if not exit_.failed(started, elapsed) or exit_.dead:
            return
        if due or (exit_.streak >= options.failures and self._may_eject()):
            exit_.eject(now, self._rng.random(), options)
            self._shelf.bench(exit_)
            self._change(exit_)

    def _may_eject(self) -> bool:
        alive = [exit_ for exit_ in self._exits.values() if not exit_.dead]
        benched = sum(1 for exit_ in alive if exit_.until)
        most = max(1, int(self.options.max_ejected * len(alive)))
        return len(alive) > 1 and benched < min(most, len(alive) - 1)

    def _change(self, exit_: ExitState) -> None:
        self._changed[exit_.number] = None
        self._shelf.touch()

    def _pinned(self, session: str, now: float) -> ExitState | None:
        exit_ = self._exits.get(self._memory.pinned(session, now)) if session else None
        return exit_ if exit_ is not None and exit_.live else None

    def _pin(self, choice: Choice, session: str, now: float) -> Choice:
        if session:
            self.release(session)
            until = self._memory.pin(session, choice.number, now)
            if self.options.exclusive == "session":
                exit_ = self._exits[choice.number]
                exit_.owner, exit_.owner_until = session, until
        return choice
