"""What retries, rotation and politeness do live: figures over loopback.

    python bench/policy_live.py              # all of it, some three minutes
    python bench/policy_live.py dead stall   # some of it

`dead`: 20 proxies of which 8 are dead in eight ways. `stall`: 30 % of the exits take
requests and never answer, from the start or all of a sudden, against healthy exits
only and against the scheme of one try with a fixed time-out. `adaptive`: a site that
allows 10 requests a second. `breaker`: hosts that are not there among others.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hardfetch import Fetcher
from hardfetch.testing import FaultSite

if TYPE_CHECKING:
    from hardfetch.summary import Summary

WAYS = (
    "connect-silent", "connect-silent-mid-reply", "connect-200-silent",
    "connect-407", "connect-502", "connect-garbage", "connect-200-noise",
)  # fmt: skip


def say(text: str) -> None:
    """Print at once: some of this takes a while."""
    print(text, flush=True)


def gateway(site: FaultSite, count: int) -> list[str]:
    """Return so many identities behind one healthy proxy."""
    proxy = site.fault("proxy-http").proxy or ""
    return [proxy.replace("://", f"://user{n}:p@") for n in range(count)]


def run(urls: list[Any], **options: Any) -> tuple[Summary, list[dict[str, Any]]]:
    """Fetch everything; returns the summary and the records."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.ndjson"
        with Fetcher(body="none", **options) as fetcher:
            summary = fetcher.run(urls, out)
        return summary, [json.loads(line) for line in out.read_bytes().splitlines()]


# Dead in eight ways


def dead(site: FaultSite) -> None:
    """2,000 URLs over 20 proxies of which 8 are dead."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and does not listen: connections are refused
        ways = {f"http://127.0.0.1:{held.getsockname()[1]}": "refuse"}
        ways.update({site.fault(name).proxy or "": name for name in WAYS})
        for scheme, base in (("https", site.https), ("http", site.http)):
            summary, records = run(
                [f"{base}/1k?{n}" for n in range(2000)],
                proxies=gateway(site, 12) + list(ways), cacert=str(site.cafile),
                connect_timeout=1, timeout=3, max_per_host=64, max_concurrency=64,
            )  # fmt: skip
            _tell_dead(scheme, summary, records, ways)


def _tell_dead(
    scheme: str, summary: Summary, records: list[dict[str, Any]], ways: dict[str, str]
) -> None:
    good = sum(r["status_code"] == 200 and not r["error"] for r in records)
    policy = summary.policy
    say(
        f"dead, {scheme} sites: {good} of {len(records)} succeed in "
        f"{summary.elapsed:.1f} s; {policy['retries']} retries, "
        f"{policy['wasted']:.1f} s wasted in flight, {policy['gates']} gates, "
        f"{summary.errors.get('host_unavailable', 0)} host_unavailable"
    )
    met = Counter(
        (a["proxy"], a["error"] or a["status_code"])
        for r in records
        for a in r["attempts"]
        if a["error"] or a["status_code"] != 200
    )
    for line in policy["proxies"]:
        way = ways.get(line["proxy"])
        if way:
            how = ", ".join(
                f"{n} {what}"
                for (proxy, what), n in met.items()
                if proxy == line["proxy"]
            )
            say(f"  {way:26} {line['state']:8} {line['wasted']:6.1f} s  {how}")


# Exits that stall


class Relay:
    """Passes bytes on to a proxy, until it is told to stall: then nothing moves."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname or "", parts.port or 0)
        self.port = 0
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._moving = asyncio.Event()
        self._moving.set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=512)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))

    async def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(asyncio.CancelledError):
            there, away = await asyncio.open_connection(*self._target)
            await asyncio.gather(self._pass(reader, away), self._pass(there, writer))

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._moving.wait()
                writer.write(data)
                await writer.drain()
        writer.close()

    def stall(self) -> None:
        """Let nothing through from now on."""
        self._loop.call_soon_threadsafe(self._moving.clear)

    def close(self) -> None:
        """End it with all its connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


def stall(site: FaultSite) -> None:
    """Pages of 0.1 s over ten exits, three of which stall."""
    urls = [f"{site.http}/slow?s=0.1&n={n}" for n in range(6000)]
    options = {"max_per_host": 64, "max_concurrency": 64, "timeout": 2.0}
    target = gateway(site, 1)[0]
    relays = [Relay(target) for _ in range(3)]
    moving = [f"http://relay:p@127.0.0.1:{relay.port}" for relay in relays]
    silent = [
        (site.fault("proxy-silent").proxy or "").replace("://", f"://s{n}:p@")
        for n in range(3)
    ]
    try:
        base, _ = run(urls, proxies=gateway(site, 7), **options)
        say(f"stall: seven healthy exits {rate(base):.0f} pages/s")
        first, _ = run(urls, proxies=gateway(site, 7) + silent, **options)
        tell_share("and three that are silent from the start", first, base)
        timer = threading.Timer(base.elapsed / 3, turn_silent, (relays,))
        timer.start()
        later, _ = run(urls, proxies=gateway(site, 7) + moving, **options)
        timer.join()
        tell_share("and three that fall silent after a third", later, base)
        fixed_scheme(site, urls, silent, first)
    finally:
        for relay in relays:
            relay.close()


def turn_silent(relays: list[Relay]) -> None:
    """Stall all of them at once."""
    for relay in relays:
        relay.stall()


def rate(summary: Summary) -> float:
    """Return good pages per second."""
    return summary.statuses.get("2xx", 0) / summary.elapsed


def tell_share(what: str, summary: Summary, base: Summary) -> None:
    """Print a throughput beside that of healthy exits."""
    say(
        f"  {what}: {rate(summary):.0f} pages/s, {rate(summary) / rate(base):.0%}; "
        f"{summary.statuses.get('2xx', 0)} of {summary.records} succeed, "
        f"{summary.policy['retries']} retries"
    )


def fixed_scheme(
    site: FaultSite, urls: list[str], silent: list[str], pooled: Summary
) -> None:
    """One try at 10 s over a random exit each, as many at a time."""
    rng = random.Random(1)
    exits = gateway(site, 7) + silent
    few = [{"url": url, "proxy": rng.choice(exits)} for url in urls[:640]]
    summary, _ = run(
        few, retries=0, breaker=0, max_per_host=64, max_concurrency=64, timeout=10.0
    )
    say(
        f"  one try over a random exit, 10 s: {rate(summary):.1f} pages/s, "
        f"{summary.statuses.get('2xx', 0)} of {summary.records} succeed; the pool gets "
        f"{rate(pooled) / rate(summary):.0f} times that"
    )


# A site with a limit


def adaptive(site: FaultSite, seconds: float = 90.0) -> None:
    """A site that answers 429 beyond 10 requests a second."""
    url = f"{site.http}/rate?limit=10&key=live"
    seen: list[tuple[float, int]] = []
    began = time.monotonic()
    with Fetcher(adaptive=True, retries=4, body="none", window=64) as fetcher:

        def supply() -> Any:
            while time.monotonic() - began < seconds:
                yield url

        for result in fetcher.map(supply()):
            at = time.monotonic() - began
            seen += [(at, attempt.status_code or 0) for attempt in result.attempts]
    for start, end in ((0.0, 30.0), (30.0, 60.0), (60.0, seconds)):
        part = [status for at, status in seen if start <= at < end]
        if part:
            refused, pace = part.count(429), part.count(200) / (end - start)
            say(
                f"adaptive, {start:.0f}-{end:.0f} s: {pace:.1f} pages/s of 10 allowed, "
                f"{refused} of {len(part)} refused ({refused / len(part):.1%})"
            )


def breaker(site: FaultSite) -> None:
    """Ten hosts that refuse, among healthy pages."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        names = [f"host{n}.test" for n in range(10)]
        gone = [f"http://{name}:{port}/{n}" for name in names for n in range(200)]
        urls = [*gone, *(f"{site.http}/1k?{n}" for n in range(2000))]
        random.Random(1).shuffle(urls)
        summary, _ = run(urls, resolve=[f"{name}:{port}:127.0.0.1" for name in names])
    say(
        f"breaker: {summary.statuses.get('2xx', 0)} of 2000 pages in "
        f"{summary.elapsed:.1f} s beside 2000 URLs of 10 hosts that refuse: "
        f"{summary.errors} with {summary.stats.connects} connections"
    )


SCENES = {"dead": dead, "stall": stall, "breaker": breaker, "adaptive": adaptive}


def main(names: list[str]) -> None:
    """Play the scenes that were named, all of them by default."""
    with FaultSite() as site:
        for name in names or SCENES:
            SCENES[name](site)


if __name__ == "__main__":
    main(sys.argv[1:])
