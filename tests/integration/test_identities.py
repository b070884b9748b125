"""Nothing crosses sessions, profiles or proxy identities: not a connection, not a TLS
session, not a cookie. The site tells which connection and TLS session each request
used, and which proxy user and connection brought it.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

import pytest
import truth

from hardfetch.testing import FaultSite

ROUNDS = 25


def seen(record: truth.Record) -> dict[str, Any]:
    assert (record["status_code"], record["error"]) == (200, None), record
    told: dict[str, Any] = json.loads(record["body"])
    return told


def routes(site: FaultSite) -> dict[str, tuple[str, str | None]]:
    """Every way to a page: its URL, and the proxy with a place for its user."""

    def via(name: str) -> str:
        proxy = site.fault(name).proxy or ""
        return proxy.replace("://", "://{user}").replace("u:p@", "")

    plain, tls, two = (f"{base}/whoami" for base in (site.http, site.https, site.h2))
    return {
        "http": (plain, None), "https": (tls, None), "h2": (two, None),
        "http proxy": (plain, via("proxy-http")),
        "CONNECT": (tls, via("proxy-connect")),
        "CONNECT to h2": (two, via("proxy-connect")),
        "https proxy": (tls, via("proxy-https")),
        "https proxy for http": (plain, via("proxy-https")),
        "socks": (plain, via("socks5h")), "socks to https": (tls, via("socks5h")),
        "socks4": (plain, via("socks4")),
    }  # fmt: skip


ROUTES = ("http", "https", "h2", "http proxy", "CONNECT", "CONNECT to h2",
          "https proxy", "https proxy for http", "socks", "socks to https",
          "socks4")  # fmt: skip
PROXIED = ROUTES[3:]


def identities(proxy: str | None) -> dict[str, dict[str, Any]]:
    """What tells two requests to the same page apart."""

    def by(user: str, **more: Any) -> dict[str, Any]:
        return more if proxy is None else {"proxy": proxy.format(user=user), **more}

    kinds = {
        "plain": by(""), "session a": by("", session="a"),
        "session b": by("", session="b"), "chrome": by("", impersonate="chrome"),
        "firefox": by("", impersonate="firefox"),
    }  # fmt: skip
    if proxy is not None:
        kinds["user 1"] = by("u1:p@")
        kinds["user 2"] = by("u2:p@")
        kinds["user 2, another password"] = by("u2:q@")
    return kinds


@pytest.mark.parametrize("concurrency", [1, 20])
@pytest.mark.parametrize("route", ROUTES)
def test_connections_and_tls_sessions_stay_with_their_identity(
    site: FaultSite, route: str, concurrency: int
) -> None:
    url, proxy = routes(site)[route]
    kinds = identities(proxy)
    if route == "socks4":  # has no passwords, and its user is no credential
        kinds = {k: v for k, v in kinds.items() if "user" not in k}
    inputs = [
        {"url": url, "id": [kind, n], **traits}
        for n in range(ROUNDS)
        for kind, traits in kinds.items()
    ]
    records = truth.fetch(site, inputs, max_concurrency=concurrency)
    connections: dict[str, set[int]] = {kind: set() for kind in kinds}
    users: dict[str, set[str]] = {kind: set() for kind in kinds}
    exits: dict[str, set[int]] = {kind: set() for kind in kinds}
    for record in records:
        kind, _ = record["id"]
        told = seen(record)
        connections[kind].add(told["connection"])
        if proxy is not None:
            users[kind].add(told["proxy_user"])
            exits[kind].add(told["proxy_connection"])
        assert record["reused"] or told["resumed"] in (None, False) or concurrency > 1
    apart(connections)
    if proxy is not None:
        apart(exits)
        for kind in kinds:
            wanted = kind[:6].replace("user ", "u") if kind.startswith("user") else ""
            assert users[kind] == {wanted}
    # And connections are reused at all. This libcurl never does for http by a proxy
    # behind TLS.
    if concurrency == 1 and route != "https proxy for http":
        assert all(len(ids) == 1 for ids in connections.values())


def apart(sets: dict[str, set[int]]) -> None:
    """No number stands in two of the sets."""
    everything = list(chain.from_iterable(sets.values()))
    assert len(everything) == len(set(everything)), sets


@pytest.mark.parametrize("route", ["https", "h2", "CONNECT", "socks to https"])
def test_no_tls_session_is_resumed_by_another(site: FaultSite, route: str) -> None:
    url, proxy = routes(site)[route]
    kinds = identities(proxy)
    inputs = [
        {"url": url, "id": [kind, n], "fresh": True, **traits}
        for n in range(3)
        for kind, traits in kinds.items()
    ]
    resumed: dict[str, list[bool]] = {kind: [] for kind in kinds}
    ids = set()
    for record in truth.fetch(site, inputs, max_concurrency=1):
        told = seen(record)
        ids.add(told["connection"])
        resumed[record["id"][0]].append(told["resumed"])
        assert record["reused"] is False
    assert len(ids) == len(inputs)
    # The first of each is a stranger; those after it may come back as themselves.
    assert {kind: told[0] for kind, told in resumed.items()} == dict.fromkeys(
        kinds, False
    )
    assert any(any(told[1:]) for told in resumed.values())


@pytest.mark.parametrize("route", ROUTES)
def test_fresh_is_a_new_connection_each_time(site: FaultSite, route: str) -> None:
    url, proxy = routes(site)[route]
    traits = {} if proxy is None else {"proxy": proxy.format(user="")}
    inputs = [{"url": url, "fresh": True, **traits} for _ in range(20)]
    told = [seen(r) for r in truth.fetch(site, inputs, max_concurrency=4)]
    assert len({t["connection"] for t in told}) == 20
    if proxy is not None:
        assert len({t["proxy_connection"] for t in told}) == 20


@pytest.mark.parametrize("route", [r for r in PROXIED if r != "socks4"])
def test_two_users_alternate_and_each_leaves_by_its_own(
    site: FaultSite, route: str
) -> None:
    url, proxy = routes(site)[route]
    assert proxy is not None
    inputs = [
        {"url": url, "id": f"u{n % 2}", "proxy": proxy.format(user=f"u{n % 2}:p@")}
        for n in range(100)
    ]
    for concurrency in (1, 20):
        for record in truth.fetch(site, inputs, max_concurrency=concurrency):
            assert seen(record)["proxy_user"] == record["id"]
            assert record["proxy"] == proxy.format(user="")
            assert "u0" not in str(record["proxy"])


def cookie(record: truth.Record) -> str:
    assert (record["status_code"], record["error"]) == (200, None)
    text: str = json.loads(record["body"])["cookie"]
    return text


def test_two_hundred_sessions_share_no_cookie(site: FaultSite) -> None:
    base = site.http.replace("127.0.0.1", "localhost")
    inputs: list[truth.Input] = []
    for n in range(200):
        url = f"{base}/cookie/set?s={n}&domain=localhost"
        inputs.append({"url": url, "session": f"t{n}"})
        inputs.append({"url": f"{base}/cookie", "session": f"other{n}", "id": ""})
        inputs.append({"url": f"{base}/cookie", "session": f"t{n}", "id": f"s={n}"})
    for record in truth.fetch(site, inputs, max_concurrency=1):
        if record["id"] is not None:
            assert cookie(record) == record["id"]


def test_without_a_session_no_cookie_is_kept(site: FaultSite) -> None:
    base = site.http.replace("127.0.0.1", "localhost")
    inputs = [{"url": f"{base}/cookie/set?s={n}&domain=localhost"} for n in range(5)]
    inputs += [{"url": f"{base}/cookie"} for _ in range(200)]
    inputs += [{"url": f"{base}/redirect-to?url=/cookie"}]
    records = truth.fetch(site, inputs, max_concurrency=1)
    assert {cookie(record) for record in records[5:]} == {""}
    assert any(record["reused"] for record in records)


def test_a_sessions_cookies_work_as_in_a_browser(site: FaultSite) -> None:
    base = site.http.replace("127.0.0.1", "localhost")
    inputs: list[truth.Input] = [
        {"url": f"{base}/cookie/set?a=1&b=2", "session": "s"},
        {"url": f"{base}/cookie", "session": "s"},
        {"url": f"{base}/cookie/set?a=3", "session": "s"},
        {"url": f"{base}/redirect-to?url=/cookie", "session": "s"},
        {"url": f"{site.http}/cookie", "session": "s"},  # another host
        {"url": f"{base}/cookie", "session": "s", "headers": {"Cookie": "own=1"}},
    ]
    records = truth.fetch(site, inputs, max_concurrency=1)
    assert sorted(cookie(records[1]).split("; ")) == ["a=1", "b=2"]
    assert sorted(cookie(records[3]).split("; ")) == ["a=3", "b=2"]
    assert cookie(records[4]) == ""
    assert "own=1" in cookie(records[5])


def test_profiles_look_different_and_sessions_keep_theirs(site: FaultSite) -> None:
    inputs = [
        {"url": f"{site.https}/whoami", "impersonate": name, "session": "s"}
        for name in ("chrome", "firefox", "chrome")
    ]
    records = truth.fetch(site, inputs, max_concurrency=1)
    agents = [seen(record)["user_agent"] for record in records]
    assert agents[0] == agents[2] != agents[1]
    names = [record["impersonate"] for record in records]
    assert names[0] == names[2] != names[1]


def test_a_given_user_agent_replaces_the_browsers(site: FaultSite) -> None:
    (record,) = truth.fetch(
        site, [{"url": site.url("/headers")}], impersonate="chrome", user_agent="Me/1"
    )
    names = [(k.lower(), v) for k, v in json.loads(record["body"])["headers"]]
    assert [v for k, v in names if k == "user-agent"] == ["Me/1"]
    assert "sec-ch-ua" in dict(names)
