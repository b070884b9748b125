"""Redirects: what goes along to another origin, where they lead, when they end."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest
import truth
from player import Player

from hardfetch.testing import FaultSite, content
from hardfetch.testing.peer import Peer

SECRETS = {
    "Authorization": "Bearer x", "Cookie": "c=1", "Proxy-Authorization": "Basic eA==",
    "X-API-Key": "k", "x-auth-token": "t",
}  # fmt: skip
OPEN = {"Referer": "http://r.test/", "X-Plain": "p"}
HEADERS = {**SECRETS, **OPEN, "Host": "virtual.test"}
PAGE = content.page(1024)


def to(base: str, url: str, status: int = 302) -> str:
    return f"{base}/redirect-to?status={status}&url={quote(url, safe='')}"


def with_user(url: str) -> str:
    return url.replace("http://", "http://user:pa%40ss@")


def echoed(record: truth.Record) -> dict[str, Any]:
    assert (record["status_code"], record["error"]) == (200, None), record
    seen: dict[str, Any] = json.loads(record["body"])
    ours = ("user-agent", "accept", "accept-encoding")
    seen["headers"] = {k: v for k, v in seen["headers"] if k.lower() not in ours}
    return seen


def chains(site: FaultSite) -> dict[str, tuple[truth.Input, dict[str, str]]]:
    """Inputs by name, each with the headers that its last hop must see."""
    a, b = site.http, site.other
    same = site.http.replace("http://", "")
    other = site.other.replace("http://", "")
    local = site.http.replace("127.0.0.1", "localhost")
    numbered = "Basic dXNlcjpwYUBzcw=="
    return {
        "same origin": ({"url": to(a, "/echo"), "headers": HEADERS}, HEADERS),
        "same origin, user info": (
            {"url": with_user(to(a, "/echo"))},
            {"Host": same, "Authorization": numbered},
        ),
        "another port": (
            {"url": to(a, b + "/echo"), "headers": HEADERS}, {"Host": other, **OPEN},
        ),
        "another name": (
            {"url": to(a, local + "/echo"), "headers": HEADERS},
            {"Host": local.replace("http://", ""), **OPEN},
        ),
        "another scheme": (
            {"url": to(a, site.https + "/echo"), "headers": HEADERS},
            {"Host": site.https.replace("https://", ""), **OPEN},
        ),
        "there and back": (
            {"url": to(a, to(b, a + "/echo")), "headers": HEADERS},
            {"Host": same, **OPEN},
        ),
        "user info elsewhere": (
            {"url": with_user(to(a, b + "/echo"))}, {"Host": other},
        ),
        "user info, there and back": (
            {"url": with_user(to(a, to(b, a + "/echo")))}, {"Host": same},
        ),
        "user info of the Location": (
            {"url": to(a, b.replace("//", "//u2:p2@") + "/echo"), "headers": HEADERS},
            {"Host": other, "Authorization": "Basic dTI6cDI=", **OPEN},
        ),
    }  # fmt: skip


def test_secrets_stay_with_the_origin_they_were_given_for(site: FaultSite) -> None:
    cases = chains(site)
    inputs = [{**given, "id": name} for name, (given, _) in cases.items()]
    for record in truth.fetch(site, inputs):
        wanted = cases[record["id"]][1]
        assert echoed(record)["headers"] == wanted, record["id"]


def test_default_headers_are_stripped_and_the_list_may_be_another(
    site: FaultSite,
) -> None:
    url = to(site.http, site.other + "/echo")
    (record,) = truth.fetch(site, [{"url": url}], header=["X-API-Key: k", "X-Own: o"])
    assert "X-Own" in echoed(record)["headers"]
    assert "X-API-Key" not in echoed(record)["headers"]
    (record,) = truth.fetch(
        site, [{"url": url}], header=["X-API-Key: k", "X-Own: o"],
        sensitive_headers="x-own",
    )  # fmt: skip
    assert "X-API-Key" in echoed(record)["headers"]
    assert "X-Own" not in echoed(record)["headers"]


@pytest.mark.parametrize(
    ("method", "status", "after"),
    [
        ("POST", 301, "GET"), ("POST", 302, "GET"), ("POST", 303, "GET"),
        ("POST", 307, "POST"), ("POST", 308, "POST"), ("PUT", 302, "PUT"),
        ("PUT", 303, "GET"), ("GET", 303, "GET"), ("DELETE", 301, "DELETE"),
    ],
)  # fmt: skip
def test_methods_change_as_in_browsers(
    site: FaultSite, method: str, status: int, after: str
) -> None:
    given: truth.Input = {"url": to(site.http, "/echo", status), "method": method}
    if method in ("POST", "PUT"):
        given |= {"body": "abc", "headers": {"Content-Type": "text/x"}}
    (record,) = truth.fetch(site, [given])
    seen = echoed(record)
    assert seen["method"] == after
    keeps = after == method and "body" in given
    assert seen["body"] == ("abc" if keeps else "")
    assert ("Content-Type" in seen["headers"]) == keeps
    assert record["method"] == method


LOCATIONS: dict[str, tuple[str | None, int]] = {
    "missing": (None, 302), "empty": ("bad_redirect", 302), "blanks": (None, 200),
    "scheme-relative": (None, 200), "backslashes": (None, 200),
    "upper-scheme": (None, 200), "fragment": (None, 200), "blank-inside": (None, 200),
    "latin1": (None, 200), "utf8": (None, 200), "file": ("bad_redirect", 302),
    "gopher": ("bad_redirect", 302), "javascript": ("bad_redirect", 302),
    "bad-port": ("bad_redirect", 302), "decimal-ip": (None, 200),
    "short-ip": (None, 200),
}  # fmt: skip


def test_odd_locations_are_repaired_or_refused(site: FaultSite) -> None:
    names = [f"location-{name}" for name in LOCATIONS]
    for name, record in truth.fetch_faults(site, names).items():
        error, status = LOCATIONS[name.removeprefix("location-")]
        refused = {"origin": "site", "phase": "headers"} if error else {}
        followed = status == 200
        truth.expect(
            record, error, status=status, body=PAGE if followed else None, **refused
        )
        assert len(record["redirects"]) == int(followed)
        if error:
            assert not record["error"]["retryable"]


def test_each_hop_is_listed_with_its_raw_location(site: FaultSite) -> None:
    start = site.fault("location-latin1").url
    (record,) = truth.fetch(site, [{"url": start}])
    raw = f"{site.http}/1k?caf\xe9"
    assert record["redirects"] == [{"url": start, "status_code": 302, "location": raw}]
    assert record["url"] == start
    assert record["final_url"] == f"{site.http}/1k?caf%E9"


@pytest.mark.parametrize(
    ("start", "location", "final"),
    [
        ("", "/1k#new", "#new"), ("#old", "/1k", "#old"), ("#old", "/1k#new", "#new"),
        ("#old", "/1k#", "#"), ("", "/1k", ""),
    ],
)  # fmt: skip
def test_fragments_are_inherited(
    site: FaultSite, start: str, location: str, final: str
) -> None:
    (record,) = truth.fetch(site, [{"url": to(site.http, location) + start}])
    truth.expect(record, status=200, body=PAGE, final_url=f"{site.http}/1k{final}")
    assert record["url"].endswith(start)


def test_loops_are_found_with_and_without_a_session(site: FaultSite) -> None:
    a, b = site.http, site.other
    urls = [a + "/loop", to(a, to(b, a + "/loop"))]
    inputs = [{"url": url, "session": s} for url in urls for s in ("", "s1")]
    inputs = [{k: v for k, v in given.items() if v} for given in inputs]
    records = truth.fetch(site, inputs)
    for record, hops in zip(records, (1, 1, 3, 3), strict=True):
        truth.expect(
            record, "redirect_loop", origin="site", phase="headers", status=302
        )
        assert len(record["redirects"]) == hops
        assert not record["error"]["retryable"]


def test_a_cookie_on_the_way_makes_it_no_loop(site: FaultSite) -> None:
    (record,) = truth.fetch_faults(site, ["redirect-to-itself-with-cookie"]).values()
    truth.expect(record, "redirect_loop", origin="site", phase="headers", status=302)
    given = truth.ask(site.fault("redirect-to-itself-with-cookie"), session="s")
    (record,) = truth.fetch(site, [given])
    truth.expect(record, status=200, body=PAGE)
    assert [hop["status_code"] for hop in record["redirects"]] == [302]


def test_their_number_has_a_limit_and_they_can_be_off(site: FaultSite) -> None:
    def one(url: str, **options: Any) -> truth.Record:
        return truth.fetch(site, [{"url": site.url(url)}], **options)[0]

    many: dict[str, Any] = {
        "origin": "site",
        "phase": "headers",
        "status": 302,
        "body": b"elsewhere\n",
    }
    truth.expect(one("/redirect/11"), "too_many_redirects", **many)
    truth.expect(one("/redirect/10"), status=200, body=PAGE)
    truth.expect(one("/redirect/3", max_redirects=2), "too_many_redirects", **many)
    truth.expect(one("/redirect/2", max_redirects=2), status=200, body=PAGE)
    off = one("/redirect/2", no_redirects=True)
    truth.expect(off, status=302, body=b"elsewhere\n", redirects=[])
    truth.expect(one("/redirect-to?url=ftp://x/"), "bad_redirect", **many, redirects=[])


def test_a_redirect_is_followed_however_its_body_ends(site: FaultSite) -> None:
    names = [f"redirect-{end}" for end in ("cut", "reset", "bad-chunk", "bad-gzip")]
    for record in truth.fetch_faults(site, names).values():
        truth.expect(record, status=200, body=PAGE, decoded=False)
        assert len(record["redirects"]) == 1


INSIDE = (
    "http://127.1:{port}/1k", "http://[::ffff:127.0.0.1]:{port}/1k",
    "http://0:{port}/1k", "http://2130706433:{port}/1k", "http://0x7f.1:{port}/1k",
    "http://localhost:{port}/1k", "http://127.0.0.2:{port}/1k",
    "http://[::1]:{port}/1k", "http://169.254.169.254/", "http://10.0.0.1/",
    "http://100.64.0.1/", "http://192.168.0.1/", "http://[fe80::1]/",
    "http://[64:ff9b::7f00:1]/", "http://[fd00::1]/",
)  # fmt: skip


def test_private_addresses_are_refused_at_every_hop_and_no_packet_is_sent(
    site: FaultSite,
) -> None:
    """The first hop alone is let through, by its net."""
    local = FaultSite("127.0.0.3")
    with local:
        targets = [url.format(port=site.port) for url in INSIDE]
        inputs = [{"url": to(local.http, url)} for url in targets]
        before = site.hits("http")
        records = _guarded(local, inputs, allow_net=["127.0.0.3/32"])
        for record in records:
            truth.expect(
                record, "blocked_address", origin="local", phase="connect",
                remote_ip=None,
            )  # fmt: skip
            assert len(record["redirects"]) == 1
            assert not record["error"]["retryable"]
        assert site.hits("http") == before


def _guarded(
    site: FaultSite, inputs: list[truth.Input], **options: Any
) -> list[truth.Record]:
    return truth.fetch(site, inputs, deny_private=True, **options)


def test_without_a_redirect_it_is_the_same_and_nets_can_be_allowed(
    site: FaultSite,
) -> None:
    with FaultSite("127.0.0.3") as local:
        given = [
            {"url": site.url("/1k")},
            {"url": site.url("/1k").replace("127.0.0.1", "localhost")},
            {"url": local.url("/1k")},
        ]
        first, second, third = _guarded(local, given, allow_net=["127.0.0.3"])
        for record in (first, second):
            truth.expect(record, "blocked_address", origin="local", phase="connect")
        truth.expect(third, status=200, body=PAGE)
        for record in _guarded(local, given, allow_net=["127.0.0.0/8", "::1"]):
            truth.expect(record, status=200, body=PAGE)


def test_a_proxy_that_redirects_is_not_followed_inside(site: FaultSite) -> None:
    fault = site.fault("connect-302")
    (record,) = truth.fetch(site, [truth.ask(fault)])
    truth.expect(record, "proxy_refused", origin="proxy", phase="proxy")
    assert record["redirects"] == []


@pytest.mark.parametrize("alpn", ["", "http/1.1"])
@pytest.mark.parametrize("body", [b"", b"half", b"ZZ"])
def test_nobody_waits_for_the_body_of_a_redirect(
    site: FaultSite, alpn: str, body: bytes
) -> None:
    framing = b"Transfer-Encoding: chunked" if body == b"ZZ" else b"Content-Length: 9"
    answer = b"HTTP/1.1 302 Found\r\nLocation: /ok\r\n" + framing + b"\r\n\r\n" + body
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"

    async def script(peer: Peer) -> None:
        while b" /ok " in await peer.read_head():
            await peer.send(page)
        await peer.send(answer)
        await peer.hold()

    with Player() as player:
        url = player.serve(script, alpn) + "/"
        inputs: list[truth.Input] = [{"url": url}, {"url": url, "idle_timeout": 0.2}]
        records = truth.fetch(site, inputs, body="base64", timeout=20)
    for record in records:
        truth.expect(record, status=200, body=b"fine")
        assert [hop["status_code"] for hop in record["redirects"]] == [302]


def test_what_is_not_followed_is_waited_for(site: FaultSite) -> None:
    async def script(peer: Peer) -> None:
        await peer.read_head()
        await peer.send(b"HTTP/1.1 302 X\r\nLocation: ftp://x/\r\n")
        await peer.send(b"Content-Length: 5\r\n\r\nhal")
        await asyncio.sleep(0.6)
        await peer.send(b"lo")

    with Player() as player:
        (record,) = truth.fetch(site, [{"url": player.serve(script)}], body="base64")
    truth.expect(
        record, "bad_redirect", origin="site", phase="headers", status=302,
        body=b"hallo",
    )  # fmt: skip
