"""Proxies that refuse, babble or fall silent: who is to blame, and in which phase."""

from __future__ import annotations

from typing import Any

import pytest
import truth
from player import Player

from hardfetch.testing import FaultSite, content
from hardfetch.testing.model import Script
from hardfetch.testing.peer import Peer

PAGE = content.page(1024)
NOWHERE: dict[str, Any] = {"headers": None, "remote_ip": None, "redirects": []}
CONNECT_LIMIT = 0.5


def by(error: Any, origin: str = "proxy", phase: str = "proxy", **more: Any) -> Any:
    return {"error": error, "origin": origin, "phase": phase, **NOWHERE, **more}


REFUSED, AUTH = by("proxy_refused"), by("proxy_auth")
BROKEN, LATE = by("proxy_protocol"), by("proxy_timeout")
ENDS: dict[str, dict[str, Any]] = {
    **{f"connect-{status}": REFUSED for status in (302, 400, 403, 429, 502, 503)},
    "connect-407": AUTH,
    "connect-407-bare": AUTH,
    **{
        f"connect-{name}": BROKEN
        for name in ("garbage", "ssh", "colonless", "close", "reset", "close-mid-reply")
    },
    # Behind a good tunnel what is no TLS is the proxy's; an end is the site's.
    "connect-200-html": by("tls_error", phase="tls"),
    "connect-200-noise": by("tls_error", phase="tls"),
    "connect-200-close": by("tls_error", "site", "tls"),
    "connect-200-reset": by("tls_error", "site", "tls"),
    "socks5-200-html": by("tls_error", phase="tls"),
    **{f"socks5-reply-{n}": by("proxy_refused", "site") for n in (3, 4, 5, 6)},
    **{f"socks5-reply-{n}": REFUSED for n in (1, 2, 7, 8, 9, 255)},
    "socks5-no-method": AUTH,
    "socks5-wrong-password": AUTH,
    "socks5-cut-reply": BROKEN,
    "socks5-garbage": BROKEN,
    "socks5-close": BROKEN,
    "socks5-reset": BROKEN,
    "socks5-reset-request": BROKEN,
    "socks4-refused": REFUSED,
    "socks4-no-ident": REFUSED,
    "proxy-407": {
        "error": "proxy_auth", "origin": "proxy", "phase": "proxy", "status": 407,
        "body": b"<h1>proxy says 407 Proxy Authentication Required</h1>\n",
    },
}  # fmt: skip
GOOD = (
    "proxy-http", "proxy-connect", "proxy-auth", "proxy-leaky", "proxy-https", "socks4",
    "socks4a", "socks5", "socks5h", "socks5-user", "socks5-pieces", "socks5-bytes",
    "socks5-name-reply", "socks5-v6-reply",
)  # fmt: skip
SILENT: dict[str, dict[str, Any]] = {
    "connect-silent": LATE,
    "connect-silent-mid-reply": LATE,
    "connect-trickled-reply": LATE,
    "connect-200-silent": by("tls_timeout", "site", "tls"),
    "connect-200-hello-silent": by("tls_timeout", "site", "tls"),
    "socks5-silent-greeting": LATE,
    "socks5-silent-mid-greeting": LATE,
    "socks5-silent-password": LATE,
    "socks5-silent-request": LATE,
    "socks5-silent-mid-reply": LATE,
    "socks5-trickled-reply": LATE,
    "socks5-tunnel-silent-tls": by("tls_timeout", "site", "tls"),
    "socks5-tunnel-hello-silent": by("tls_timeout", "site", "tls"),
    "socks4-silent": LATE,
    "tls-silent": by("tls_timeout", "site", "tls"),
    "tls-partial-record": by("tls_timeout", "site", "tls"),
    "tls-trickled-hello": by("tls_timeout", "site", "tls"),
    "full-backlog": by("connect_timeout", "site", "connect"),
}


@pytest.fixture(scope="module")
def found(site: FaultSite) -> dict[str, truth.Record]:
    return truth.fetch_faults(site, [*ENDS, *GOOD], body="base64")


@pytest.fixture(scope="module")
def late(site: FaultSite) -> dict[str, truth.Record]:
    return truth.fetch_faults(
        site, SILENT, timeout=5, connect_timeout=CONNECT_LIMIT, body="base64"
    )


@pytest.mark.parametrize("name", ENDS)
def test_it_is_told_whose_fault_it_was(
    name: str, found: dict[str, truth.Record]
) -> None:
    wanted = ENDS[name]
    truth.expect(found[name], **wanted)
    assert found[name]["error"]["retryable"]
    assert found[name]["attempts"][0]["proxy"] == found[name]["proxy"]


@pytest.mark.parametrize("name", GOOD)
def test_a_working_proxy_leaves_no_trace_in_the_answer(
    name: str, found: dict[str, truth.Record]
) -> None:
    record = found[name]
    truth.expect(record, status=200, body=PAGE)
    assert [pair[0] for pair in record["headers"]] == [
        "Server", "Content-Type", "Content-Length",
    ]  # fmt: skip
    assert record["proxy"] is not None
    assert "@" not in record["proxy"]


@pytest.mark.parametrize("name", SILENT)
def test_the_connect_limit_spans_name_tcp_proxy_and_tls(
    name: str, late: dict[str, truth.Record]
) -> None:
    record = late[name]
    truth.expect(record, **SILENT[name])
    took = record["elapsed"] - record["timing"]["queue"]
    assert CONNECT_LIMIT - 0.01 <= took <= CONNECT_LIMIT + truth.SLACK


def test_silence_behind_a_socks_tunnel_is_the_sites(site: FaultSite) -> None:
    (record,) = truth.fetch_faults(
        site, ["socks5-tunnel-silent"], first_byte_timeout=0.5
    ).values()
    truth.expect(record, "first_byte_timeout", origin="site", phase="first_byte")
    (record,) = truth.fetch_faults(site, ["proxy-silent"], timeout=0.5).values()
    truth.expect(record, "timeout", origin="proxy", phase="first_byte")


def test_a_limit_that_is_over_when_the_tunnel_begins(site: FaultSite) -> None:
    (record,) = truth.fetch(
        site, [truth.ask(site.fault("connect-silent"), timeout=0.000001)]
    )
    assert record["error"]["type"] == "timeout"


def tunnels(end: bytes, *, at_once: bool) -> Script:
    """A proxy that lets everybody through, to what answers a ClientHello with end."""

    async def script(peer: Peer) -> None:
        await peer.read_head()
        await peer.send(b"HTTP/1.1 200 Fine\r\n\r\n" + (end if at_once else b""))
        if not at_once:
            await peer.read(5)  # of the ClientHello
            await peer.send(end)
        await peer.hold()

    return script


@pytest.mark.parametrize("alpn", ["", "http/1.1"], ids=["http", "https"])
@pytest.mark.parametrize("at_once", [True, False])
def test_what_is_no_tls_behind_a_good_tunnel_is_the_proxys(
    site: FaultSite, alpn: str, at_once: bool
) -> None:
    # Many: libcurl may have read the answer before anybody could look at it.
    noise = (b"<html>log in</html>", b"\0" * 300, b"HTTP/1.1 400 Bad\r\n\r\n") * 20
    with Player() as player:
        proxies = [player.serve(tunnels(n, at_once=at_once), alpn) for n in noise[:3]]
        asked = [
            {"url": f"https://127.0.0.1:{1000 + i}/", "proxy": proxies[i % 3]}
            for i in range(len(noise))
        ]
        for record in truth.fetch(site, asked, breaker=0, timeout=20):
            truth.expect(record, **by("tls_error", "proxy", "tls"))


@pytest.mark.parametrize("alpn", ["", "http/1.1"], ids=["http", "https"])
def test_an_alert_from_behind_a_tunnel_is_the_sites(site: FaultSite, alpn: str) -> None:
    alert = b"\x15\x03\x01\0\2\2\x28"
    with Player() as player:
        proxy = player.serve(tunnels(alert, at_once=False), alpn)
        asked = [
            {"url": f"https://127.0.0.1:{n}/", "proxy": proxy} for n in range(1, 21)
        ]
        for record in truth.fetch(site, asked, breaker=0, timeout=20):
            truth.expect(record, **by("tls_error", "site", "tls"))


@pytest.mark.parametrize(
    "head",
    [
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
        b"Proxy-Authenticate: NTLM\r\nContent-Length: 1000\r\n\r\nabc",
    ],
)
def test_a_407_is_one_although_its_page_never_ends(
    site: FaultSite, head: bytes
) -> None:
    async def script(peer: Peer) -> None:
        await peer.read_head()
        await peer.send(b"HTTP/1.1 407 No\r\n" + head)
        await peer.hold()

    with Player() as player:
        asked = {"url": "https://127.0.0.1:1/", "proxy": player.serve(script)}
        (record,) = truth.fetch(site, [asked], connect_timeout=CONNECT_LIMIT)
    truth.expect(record, **AUTH)


VARIABLES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy",
             "ALL_PROXY")  # fmt: skip


def test_proxies_of_the_environment_are_never_used(
    site: FaultSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = site.fault("proxy-http")
    for name in VARIABLES:
        monkeypatch.setenv(name, fault.proxy or "")
    before = site.hits("proxy-http")
    urls = [site.url("/1k"), site.https + "/1k", site.h2 + "/1k"]
    for options in ({}, {"proxy": ""}, {"impersonate": "chrome"}):
        for record in truth.fetch(site, [{"url": url} for url in urls], **options):
            truth.expect(record, status=200, body=PAGE, proxy=None)
    assert site.hits("proxy-http") == before


def test_no_proxy_of_the_environment_bypasses_nothing(
    site: FaultSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = site.fault("proxy-http")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost,*")
    monkeypatch.setenv("NO_PROXY", "*")
    before = site.hits("proxy-http")
    for url in (site.url("/1k"), site.https + "/1k"):
        (record,) = truth.fetch(site, [{"url": url, "proxy": fault.proxy}])
        truth.expect(record, status=200, body=PAGE, proxy=fault.proxy)
    assert site.hits("proxy-http") == before + 2


def test_a_success_with_an_empty_name_is_never_whole(site: FaultSite) -> None:
    async def script(peer: Peer) -> None:
        _, methods = await peer.read(2)
        await peer.read(methods)
        await peer.send(b"\5\0")
        await peer.read(10)
        await peer.send(b"\5\0\0\3\0\0\x50")
        await peer.hold()

    with Player() as player:
        proxy = player.serve(script).replace("http:", "socks5:")
        asked = {"url": site.url("/1k"), "proxy": proxy}
        (record,) = truth.fetch(site, [asked], connect_timeout=CONNECT_LIMIT)
    truth.expect(record, **LATE)
