"""Cookies of sessions: kept and sent by their rules, bounded, and nobody else's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import pytest
import truth
from player import Player

from hardfetch.testing import FaultSite
from hardfetch.testing.peer import Peer

NAMES = ("a.test", "b.a.test", "c.a.test", "other.test")
PAST = "Thu, 01 Jan 1970 00:00:00 GMT"
MOST = 8190  # bytes of a Cookie header that libcurl sends
MANY = 50  # cookies that it takes from one answer


async def jar(peer: Peer) -> None:
    """Sets the cookies of the query and answers with those that came.

    `c=` is a Set-Cookie line, `to=` a Location, `n=` so many cookies.
    """
    while True:
        first, *lines = (await peer.read_head()).split(b"\r\n")
        came = [line[8:] for line in lines if line.lower().startswith(b"cookie: ")]
        status, head = b"200 OK", b""
        for part in first.split()[1].partition(b"?")[2].split(b"&"):
            key, _, raw = part.partition(b"=")
            value = unquote_to_bytes(raw)
            if key == b"c":
                head += b"Set-Cookie: " + value + b"\r\n"
            elif key == b"to":
                status = b"302 Found"
                head += b"Location: " + value + b"\r\n"
            elif key == b"n":
                head += b"".join(
                    b"Set-Cookie: n%d=%s\r\n" % (n, b"v" * 20)
                    for n in range(int(value))
                )
        body = json.dumps([cookie.decode("latin-1") for cookie in came]).encode()
        head += b"Content-Length: %d\r\n\r\n" % len(body)
        await peer.send(b"HTTP/1.1 " + status + b"\r\n" + head + body)


class Hosts:
    """One jar in clear and one under TLS, by any of some names."""

    def __init__(self, player: Player) -> None:
        self.ports = [
            player.serve(jar, alpn).rsplit(":", 1)[1] for alpn in ("", "http/1.1")
        ]
        self.resolve = [f"{n}:{p}:127.0.0.1" for n in NAMES for p in self.ports]

    def url(self, host: str, path: str = "/", *, tls: bool = False) -> str:
        return f"{'https' if tls else 'http'}://{host}:{self.ports[tls]}{path}"

    def sets(
        self,
        host: str,
        *cookies: str | bytes,
        path: str = "/",
        to: str = "",
        tls: bool = False,
    ) -> str:
        query = "&".join("c=" + quote(cookie, safe="") for cookie in cookies)
        query += "&to=" + quote(to, safe="") if to else ""
        return self.url(host, path, tls=tls) + "?" + query


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Player() as player:
        yield Hosts(player)


def seen(
    site: FaultSite, hosts: Hosts, *given: str | truth.Input, session: str = "s"
) -> list[list[str]]:
    """What cookies each request of a session sent, sorted."""
    found = []
    for record in run(site, hosts, *given, session=session):
        assert (record["status_code"], record["error"]) == (200, None), record
        lines: list[str] = json.loads(record["body"])
        assert len(lines) <= 1, "more than one Cookie header"
        found.append(sorted(lines[0].split("; ")) if lines else [])
    return found


def run(
    site: FaultSite, hosts: Hosts, *given: str | truth.Input, session: str = "s"
) -> list[truth.Record]:
    """One run, in the order of the inputs: of one host, all are in one queue."""
    inputs = [
        {"url": one, "session": session} if isinstance(one, str) else one
        for one in given
    ]
    return truth.fetch(
        site, inputs, max_concurrency=1, resolve=hosts.resolve, insecure=True,
        timeout=20, breaker=0, loops=1,
    )  # fmt: skip


def shown_at(hosts: Hosts, *urls: str) -> list[str]:
    """Each by way of a.test, so that all wait in one queue and keep their order."""
    return [hosts.sets("a.test", to=url) for url in urls]


def test_a_cookie_goes_where_its_domain_says(site: FaultSite, hosts: Hosts) -> None:
    urls = [hosts.url(name) for name in NAMES]

    def after(host: str, cookie: str) -> dict[str, list[str]]:
        setting = hosts.sets("a.test", to=hosts.sets(host, cookie))
        told = seen(site, hosts, setting, *shown_at(hosts, *urls))[1:]
        return {name: sent for name, sent in zip(NAMES, told, strict=True) if sent}

    x = ["x=1"]
    assert after("a.test", "x=1") == {"a.test": x}
    family = {"a.test": x, "b.a.test": x, "c.a.test": x}
    assert after("b.a.test", "x=1; Domain=a.test") == family
    assert after("b.a.test", "x=1; domain=.A.TEST") == family
    for alien in ("other.test", "test", "b.a.test", "st", "127.0.0.1"):
        assert after("a.test", f"x=1; Domain={alien}") == {}, alien


def test_a_cookie_goes_where_its_path_says(site: FaultSite, hosts: Hosts) -> None:
    setting = hosts.sets("a.test", "x=1; Path=/p", "y=2; Path=/", "z=3", path="/q/r")
    paths = ("/p", "/p/x", "/px", "/q/", "/q", "/")
    told = seen(site, hosts, setting, *(hosts.url("a.test", p) for p in paths))[1:]
    assert told == [
        ["x=1", "y=2"], ["x=1", "y=2"], ["y=2"], ["y=2", "z=3"], ["y=2", "z=3"],
        ["y=2"],
    ]  # fmt: skip


def test_secure_cookies_stay_under_tls(site: FaultSite, hosts: Hosts) -> None:
    plain, tls = hosts.url("a.test"), hosts.url("a.test", tls=True)

    def both(*setting: str) -> list[list[str]]:
        first = [hosts.sets("a.test", to=url) for url in setting]
        return seen(site, hosts, *first, *shown_at(hosts, plain, tls))[-2:]

    def secure(*cookies: str) -> str:
        return hosts.sets("a.test", *cookies, tls=True)

    assert both(secure("x=1; Secure", "y=1")) == [["y=1"], ["x=1", "y=1"]]
    assert both(hosts.sets("a.test", "x=1; Secure", "y=1")) == [["y=1"], ["y=1"]]
    # What came in clear does not replace it.
    plain_too = hosts.sets("a.test", "x=2")
    assert both(secure("x=1; Secure"), plain_too) == [[], ["x=1"]]
    prefixed = secure(
        "__Host-a=1; Secure; Path=/", "__Host-b=1; Secure; Path=/; Domain=a.test",
        "__Secure-c=1", "__Secure-d=1; Secure", "__Host-e=1; Path=/",
    )  # fmt: skip
    assert both(prefixed) == [[], ["__Host-a=1", "__Secure-d=1"]]


def test_cookies_end_when_they_say(site: FaultSite, hosts: Hosts) -> None:
    setting = hosts.sets(
        "a.test", "a=1; Max-Age=0", "b=1; Max-Age=-5", f"c=1; Expires={PAST}",
        "d=1; Expires=junk", f"e=1; Max-Age=100; Expires={PAST}",
        "f=1; Max-Age=99999999999999999999",
    )  # fmt: skip
    told = seen(
        site, hosts, setting, hosts.url("a.test"),
        hosts.sets("a.test", "d=; Max-Age=0", f"f=; Expires={PAST}"),
        hosts.url("a.test"),
    )  # fmt: skip
    assert told[1] == ["d=1", "e=1", "f=1"]
    assert told[3] == ["e=1"]


def test_cookies_of_hops_count_at_once_and_for_their_host_only(
    site: FaultSite, hosts: Hosts
) -> None:
    here, there = hosts.url("a.test"), hosts.url("other.test")
    told = seen(
        site, hosts,
        hosts.sets("a.test", "a=1", to="/"),
        hosts.sets("a.test", "b=2", to=there),
        hosts.sets("a.test", to=hosts.sets("other.test", "o=1", to=here)),
        hosts.sets("a.test", to=there),
    )  # fmt: skip
    assert told == [["a=1"], [], ["a=1", "b=2"], ["o=1"]]


def test_the_callers_cookies_join_the_sessions_in_one_header(
    site: FaultSite, hosts: Hosts
) -> None:
    own = {"session": "s", "headers": {"Cookie": "own=1"}}
    two = {"session": "s", "headers": [["Cookie", "p=1"], ["cookie", "q=2"]]}
    here, there = hosts.url("a.test"), hosts.url("other.test")
    told = seen(
        site, hosts,
        hosts.sets("a.test", "a=1"),
        {"url": here, **own}, here, {"url": here, **two},
        {"url": hosts.sets("a.test", to="/"), **own},
        {"url": hosts.sets("a.test", to=there), **own},  # they are for a.test
        {"url": here, "headers": {"Cookie": "own=1"}},  # no session
    )  # fmt: skip
    assert told == [
        [], ["a=1", "own=1"], ["a=1"], ["a=1", "p=1", "q=2"], ["a=1", "own=1"], [],
        ["own=1"],
    ]  # fmt: skip
    default = {"url": here, "session": "s"}
    records = truth.fetch(
        site, [{"url": hosts.sets("a.test", "a=1"), "session": "s"}, default],
        max_concurrency=1, resolve=hosts.resolve, header=["Cookie: d=1"],
    )  # fmt: skip
    assert json.loads(records[1]["body"]) == ["a=1; d=1"]


def test_no_cookie_crosses_sessions_profiles_or_exits(
    site: FaultSite, hosts: Hosts
) -> None:
    here = hosts.url("a.test")
    proxy = site.fault("proxy-http").proxy or ""
    ways: list[dict[str, Any]] = [
        {"session": "s"}, {"session": "t"}, {},
        {"session": "s", "impersonate": "chrome"},
        {"session": "s", "impersonate": "firefox"},
        {"session": "s", "http_version": "1.0"},
    ]  # fmt: skip
    told = seen(
        site, hosts,
        *({"url": hosts.sets("a.test", f"w={n}"), **way} for n, way in enumerate(ways)),
        *({"url": here, **way} for way in ways),
    )[len(ways) :]  # fmt: skip
    assert told == [["w=0"], ["w=1"], [], ["w=3"], ["w=4"], ["w=5"]]
    # By name a proxy can't resolve them; the numbers are the same host to both users.
    base = hosts.url("127.0.0.1")
    users = [
        {"session": "s", "proxy": proxy.replace("://", f"://u{n}:p@")} for n in (1, 2)
    ]
    inputs = [{"url": f"{base}?c=u%3D{n}", **user} for n, user in enumerate(users)] + [
        {"url": base, **user} for user in users
    ]
    records = truth.fetch(site, inputs, max_concurrency=1)
    assert [json.loads(r["body"]) for r in records[2:]] == [["u=0"], ["u=1"]]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_addresses_keep_theirs_to_themselves(site: FaultSite, host: str) -> None:
    with Player() as player:
        base = player.serve(jar, host=host)
        shown = base.rsplit(":", 1)[0].removeprefix("http://")
        cookies = ["a=1", f"b=1; Domain={shown}", "c=1; Domain=0.0.1", "d=1; Domain=1]"]
        setting = base + "/?" + "&".join("c=" + quote(c, safe="") for c in cookies)
        inputs = [{"url": url, "session": "s"} for url in (setting, base + "/")]
        records = truth.fetch(site, inputs, max_concurrency=1)
        sent = json.loads(records[1]["body"])[0].split("; ")
        assert "a=1" in sent
        assert set(sent) <= {"a=1", "b=1"}
        elsewhere = base.replace(shown, "localhost")
        inputs[1]["url"] = elsewhere + "/"
        records = truth.fetch(
            site, inputs, max_concurrency=1,
            resolve=[f"localhost:{base.rsplit(':', 1)[1]}:{host}"],
        )  # fmt: skip
        assert records[1]["body"] == "[]"


def test_hostile_cookies_are_bounded_and_the_answer_is_told_whole(
    site: FaultSite, hosts: Hosts
) -> None:
    def two(query: str) -> tuple[truth.Record, list[str]]:
        url = hosts.url("a.test")
        first, second = run(site, hosts, f"{url}?{query}", url)
        assert (first["error"], second["error"]) == (None, None)
        return first, json.loads(second["body"])

    first, (sent,) = two("n=1000")
    assert len(first["headers"]) == 1001
    assert len(sent.split("; ")) == MANY
    odd = [b"a=x\x01y", b"b=x\x7fy", b"d\x02=1", b"e=1;\x01 Path=/", b"c=\xc3\xa9\xff"]
    first, (sent,) = two("&".join("c=" + quote(c, safe="") for c in odd))
    assert [name for name, _ in first["headers"]].count("Set-Cookie") == len(odd)
    assert sent == "c=\xc3\xa9\xff"
    big = ["a=" + "x" * 4000, "b=" + "y" * 4100, "c" * 4100 + "=1", "d=1"]
    first, (sent,) = two("&".join(f"c={c}" for c in big))
    values = [value for name, value in first["headers"] if name == "Set-Cookie"]
    assert values == big
    assert sorted(sent.split("; ")) == [big[0], "d=1"]
    many = [f"k{n}=" + "z" * 3000 for n in range(20)]
    first, (sent,) = two("&".join(f"c={c}" for c in many))
    assert 0 < len(sent) <= MOST
    assert set(sent.split("; ")) <= set(many)


def test_cookies_stand_in_no_record_but_as_headers_of_the_answer(
    site: FaultSite, hosts: Hosts
) -> None:
    here = hosts.url("a.test")
    setting = hosts.sets("a.test", "a=secret1", to=hosts.sets("a.test", "b=secret2"))
    (first, second) = truth.fetch(
        site,
        [
            {"url": setting, "session": "s"},
            {"url": here, "session": "s", "headers": {"Cookie": "c=secret3"}},
        ],
        max_concurrency=1, resolve=hosts.resolve, body="none",
    )  # fmt: skip
    assert ["Set-Cookie", "b=secret2"] in first["headers"]
    assert ["Set-Cookie", "a=secret1"] not in first["headers"]
    assert "secret" not in json.dumps(second)
