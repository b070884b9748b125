"""The rules of robots.txt (RFC 9309), per origin: pure, the fetching is the engine's.

What a fetch of ``/robots.txt`` came to decides:

===========================  ===========================================================
2xx                          the rules in the first 500 KiB; bytes that are not UTF-8
are
                             replaced, a byte order mark is passed over
other 3xx (redirects ended)  no rules: all is allowed
4xx but 429                  no rules: all is allowed
429, 5xx, no answer          all is denied until it is asked again (after a minute at
                             first, then ever more rarely); rules known from before are
                             kept in use for a day instead
===========================  ===========================================================

Matching is protego's (extra ``robots``). ``Crawl-delay`` is honoured up to a cap, since
a hostile value would stop the crawl.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal
from urllib.parse import urlsplit

from hardfetch.errors import OptionError

__all__ = ["RobotsAnswer", "RobotsCache", "RobotsRules", "robots_origin", "robots_url"]

MAX_BODY = 500 << 10
"""Bytes that are read; RFC 9309 asks for at least this many."""

_PORTS = {"http": 80, "https": 443}


def robots_origin(url: str) -> str:
    """Return scheme://host:port of an http or https URL.

    Raises:
        ValueError: the URL has none.
    """
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    if scheme not in _PORTS or not parts.hostname:
        raise ValueError("robots: not an http or https URL")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{scheme}://{host}:{parts.port or _PORTS[scheme]}"


def robots_url(url: str) -> str:
    """Return where the robots.txt for a URL is.

    Raises:
        ValueError: the URL is not http or https.
    """
    origin = robots_origin(url)
    scheme, _, rest = origin.partition("://")
    return f"{scheme}://{rest.removesuffix(f':{_PORTS[scheme]}')}/robots.txt"


class RobotsRules:
    """The rules of one origin for one user agent."""

    __slots__ = ("_agent", "_parsed", "_verdict", "crawl_delay", "known")

    def __init__(
        self,
        status: int,
        body: bytes,
        agent: str,
        max_delay: float = 60.0,
    ) -> None:
        """Read the outcome of a fetch.

        Args:
            status: HTTP status, 0 when no answer came.
            body: what came, decoded of its content coding.
            agent: our product token, such as ``hardfetch``.
            max_delay: seconds; a longer ``Crawl-delay`` counts as this.

        Raises:
            OptionError: protego is not installed.
        """
        self._agent = agent
        self._parsed: Any = None
        self.crawl_delay = 0.0  # seconds between two requests, 0 = none
        self._verdict = 300 <= status < 500 and status != 429
        self.known = self._verdict or 200 <= status < 300
        if 200 <= status < 300:
            text = body[:MAX_BODY].decode("utf-8-sig", "replace")
            self._parsed = _protego().parse(text)
            delay = self._parsed.crawl_delay(agent)
            if delay is not None and delay > 0:  # not so for NaN
                self.crawl_delay = min(delay, max_delay)

    def allows(self, url: str) -> bool:
        """Tell whether the URL may be fetched."""
        if self._parsed is None:
            return self._verdict
        return bool(self._parsed.can_fetch(url, self._agent))


def _protego() -> Any:
    # Here, since it costs a tenth of the start-up of all who have no use for it.
    from importlib.metadata import PackageNotFoundError, version

    remedy = "pip install 'hardfetch[robots]'"
    try:
        installed = version("protego")
    except PackageNotFoundError:
        raise OptionError(f"robots: protego is missing; {remedy}") from None
    # Before 0.7 wildcards were regular expressions: one line of robots.txt
    # ("Disallow: /*a*a*a*b") and a long URL kept the matcher busy for ever.
    if [int(part) for part in installed.split(".")[:2] if part.isdigit()] < [0, 7]:
        raise OptionError(f"robots: protego {installed} is older than 0.7; {remedy}")
    return import_module("protego").Protego


@dataclass(frozen=True, slots=True)
class RobotsAnswer:
    """What to do about a URL.

    ``fetch``: get ``url`` first and ``store`` it; ``wait``: somebody does so already.
    """

    answer: Literal["allow", "deny", "fetch", "wait"]
    url: str = ""
    crawl_delay: float = 0.0


@dataclass(slots=True)
class _Entry:
    rules: RobotsRules | None = None
    fresh_until: float = 0.0
    kept_until: float = 0.0  # old rules may stand in for an unreachable server
    fetching_until: float = 0.0
    failures: int = 0


class RobotsCache:
    """Rules of the origins used last. One thread at a time; no I/O."""

    def __init__(
        self,
        agent: str,
        *,
        ttl: float = 86_400.0,
        retry: float = 60.0,
        fetch_timeout: float = 60.0,
        max_delay: float = 60.0,
        max_origins: int = 50_000,
    ) -> None:
        """Make a cache.

        Args:
            agent: our product token.
            ttl: seconds for which rules are used.
            retry: seconds until an unreachable robots.txt is asked for again; doubles
                each time, up to an hour.
            fetch_timeout: seconds after which a fetch that was never stored is
                started anew.
            max_delay: seconds, cap for ``Crawl-delay``.
            max_origins: how many are kept.
        """
        self._agent = agent
        self._ttl = ttl
        self._retry = retry
        self._fetch_timeout = fetch_timeout
        self._max_delay = max_delay
        self._max_origins = max_origins
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def check(self, url: str, now: float) -> RobotsAnswer:
        """Say what to do about a URL.

        Raises:
            ValueError: the URL is not http or https.
        """
        origin = robots_origin(url)
        entry = self._entry(origin)
        known = self.known(url, now)
        if known is not None:
            return known
        if now < entry.fetching_until:
            return RobotsAnswer("wait")
        entry.fetching_until = now + self._fetch_timeout
        return RobotsAnswer("fetch", robots_url(url))

    def known(self, url: str, now: float) -> RobotsAnswer | None:
        """Say what to do if that is known; never to fetch.

        Raises:
            ValueError: the URL is not http or https.
        """
        entry = self._entries.get(robots_origin(url))
        rules = None if entry is None else entry.rules
        if entry is None or rules is None or now >= entry.fresh_until:
            return None
        verdict: Literal["allow", "deny"] = "allow" if rules.allows(url) else "deny"
        return RobotsAnswer(verdict, crawl_delay=rules.crawl_delay)

    def store(self, url: str, status: int, body: bytes, now: float) -> RobotsRules:
        """Take the outcome of a fetch for an URL's origin; status 0 = no answer."""
        entry = self._entry(robots_origin(url))
        rules = RobotsRules(status, body, self._agent, self._max_delay)
        entry.fetching_until = 0.0
        if rules.known:
            entry.failures = 0
            entry.rules = rules
            entry.fresh_until = now + self._ttl
            entry.kept_until = now + 2 * self._ttl
            return rules
        if entry.rules is None or now >= entry.kept_until:
            entry.rules = rules
        entry.fresh_until = now + min(self._retry * 2.0 ** min(entry.failures, 6), 3600)
        entry.failures += 1
        return entry.rules

    def _entry(self, origin: str) -> _Entry:
        entry = self._entries.get(origin)
        if entry is None:
            entry = self._entries[origin] = _Entry()
            if len(self._entries) > self._max_origins:
                self._entries.popitem(last=False)
        else:
            self._entries.move_to_end(origin)
        return entry
