"""What is fetched in a comparison, and by whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from servers import Site

EVERYONE = (
    "floor",
    "hardfetch",
    "hardfetch-map",
    "pycurl",
    "wreq",
    "primp",
    "aiohttp",
    "curl_cffi",
    "curl_cffi-threads",
    "httpx",
)
#: Those that take addresses of --resolve, and so reach hosts that no name server knows.
RESOLVING = ("floor", "hardfetch", "pycurl", "aiohttp", "curl_cffi-grease", "curl_cffi")
#: hardfetch with --tls-cache: without a file of sessions, and with that of such a run.
CACHING = ("hardfetch-first", "hardfetch-again")
#: Those that are hardfetch's command line.
OURS = ("hardfetch", *CACHING)
#: Those whose ratio is close, and so takes more rounds to tell.
NEAR = ("floor", *OURS)
#: Left out of the short run: they would take half of it, and are nowhere near.
LONG = ("curl_cffi-threads", "httpx")
#: Slow clients get this share of the requests, or a round would take minutes.
SHARE = {"primp": 4, "aiohttp": 4, "curl_cffi": 4, "curl_cffi-threads": 8, "httpx": 40}


@dataclass(frozen=True)
class Workload:
    """One row of the comparison."""

    name: str
    title: str
    page: str  # path on the site; "hosts": each TLS host once; "hang": a fifth hangs
    count: int  # requests of a fast client
    clients: tuple[str, ...] = EVERYONE
    concurrency: int = 64
    timeout: float = 10.0  # seconds
    output: str = "file"  # or null: /dev/null; none: no records, objects only
    delay_ms: int | None = None  # bench/server.c answers then, that much later
    hosts: int = 1  # addresses over which bench/server.c is spread
    tls: bool = False
    compressed: bool = False
    impersonate: str | None = None
    quick: bool = False  # part of the short run
    warm: bool = False  # each run that counts follows another one at once
    times: int = 1  # rounds of NEAR for each of the others
    against: str = "floor"  # the client that the others are divided by

    def number(self, client: str) -> int:
        """Return how many requests the client gets."""
        if self.page == "hosts" or self.hosts == self.count:
            return self.count
        least = min(self.count, max(2000, self.concurrency))  # or connecting weighs in
        return max(self.count // SHARE.get(client, 1), least)

    def urls(self, site: Site, n: int) -> list[str]:
        """Return n URLs, each another one."""
        if self.page == "hosts":
            return site.hosts()[:n]
        if self.page == "hang":
            pages = ("1k", "1k", "1k", "1k", "hang")
            return [f"{site.url(pages[k % 5])}?{k}" for k in range(n)]
        if self.hosts > 1:
            hosts = [site.url(self.page, k + 1) for k in range(self.hosts)]
            return [f"{hosts[k % self.hosts]}?{k}" for k in range(n)]
        base = site.url(self.page)
        if self.tls:
            base = f"https://localhost:{site.tls}/{self.page}"
        return [f"{base}?{k}" for k in range(n)]

    def good(self, n: int) -> int:
        """Return how many of n requests must come out with status 200."""
        return n - n // 5 if self.page == "hang" else n


_OBJECTS = ("hardfetch-map", "pycurl", "wreq", "aiohttp", "curl_cffi")
_FEW = ("floor", "hardfetch", "pycurl", "wreq", "aiohttp", "curl_cffi")


def _latency(concurrency: int, hosts: int, name: str = "") -> Workload:
    where = "one host" if hosts == 1 else f"{hosts} hosts"
    return Workload(
        f"latency-{concurrency}{name}",
        f"1 KiB after 200 ms, {concurrency:,} in flight, {where}",
        "1k",
        max(4 * concurrency, 10_000),
        _FEW,
        concurrency,
        timeout=60.0,
        delay_ms=200,
        hosts=hosts,
    )


def _resumed(name: str, title: str, impersonate: str | None = None) -> Workload:
    return Workload(
        name,
        f"500 TLS hosts, verified, {title}: first run and again",
        "hosts",
        500,
        CACHING,
        tls=True,
        impersonate=impersonate,
        quick=True,
        times=3,
        against="hardfetch-first",
    )


WORKLOADS = (
    Workload("1k", "1 KiB kept alive", "1k", 40_000, quick=True, times=3),
    # A write into memory that the host of a virtual machine has taken back costs five
    # times a copy, and falls on whoever comes. Half a GB of records, like those that
    # were deleted just before, are written into pages that the kernel kept.
    Workload(
        "30k", "30 KiB HTML kept alive", "30k", 16_000, quick=True, warm=True, times=3
    ),
    Workload(
        "30k-null",
        "30 KiB HTML, records to /dev/null",
        "30k",
        20_000,
        ("floor", "hardfetch", "hardfetch-map", "curl_cffi"),
        output="null",
        quick=True,
    ),
    Workload(
        "1k-objects",
        "1 KiB as objects: status and text, no record",
        "1k",
        20_000,
        _OBJECTS,
        output="none",
    ),
    Workload(
        "30k-objects",
        "30 KiB HTML as objects: status and text, no record",
        "30k",
        10_000,
        _OBJECTS,
        output="none",
    ),
    Workload(
        "200k-gzip", "200 KiB HTML sent as gzip", "200k", 1500, _FEW, compressed=True
    ),
    Workload(
        "1k-h2",
        "1 KiB over h2 and TLS",
        "1k",
        10_000,
        ("floor", "hardfetch", "curl_cffi", "wreq", "httpx"),
        tls=True,
    ),
    Workload(
        "500-tls",
        "500 fresh TLS hosts, verified",
        "hosts",
        500,
        tuple(name for name in RESOLVING if name != "curl_cffi-grease"),
        tls=True,
        quick=True,
        times=3,
    ),
    Workload(
        "500-tls-chrome",
        "500 fresh TLS hosts, verified, as Chrome",
        "hosts",
        500,
        ("floor", "hardfetch", "curl_cffi-grease", "curl_cffi"),
        tls=True,
        impersonate="chrome",
        quick=True,
        times=3,
    ),
    _resumed("500-tls-again", "with --tls-cache"),
    _resumed("500-tls-chrome-again", "as Chrome, with --tls-cache", "chrome"),
    Workload(
        "9000-hosts",
        "1 KiB from each of 9,000 hosts, one fetch each",
        "1k",
        9000,
        ("floor", "hardfetch", "pycurl", "wreq", "aiohttp", "curl_cffi"),
        delay_ms=0,
        hosts=9000,
    ),
    _latency(1000, 250),
    _latency(4000, 250),
    _latency(10_000, 250),
    _latency(10_000, 1, "-one-host"),
    Workload(
        "hang-20",
        "1 KiB, a fifth hangs for a timeout of 1 s",
        "hang",
        4000,
        _FEW,
        concurrency=512,
        timeout=1.0,
        delay_ms=0,
    ),
)
