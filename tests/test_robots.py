"""robots.txt: what an outcome of its fetch allows, and how long that holds."""

from __future__ import annotations

import pytest

from hardfetch.robots import MAX_BODY, RobotsCache, RobotsRules, robots_url

RULES = b"""\
User-agent: *
Disallow: /private
Crawl-delay: 2

User-agent: hardfetch
Disallow: /ours
Allow: /ours/open
Crawl-delay: 0.5
"""


def test_the_group_of_our_own_agent_holds() -> None:
    rules = RobotsRules(200, RULES, "hardfetch")
    assert rules.allows("http://h/private")
    assert not rules.allows("http://h/ours/x")
    assert rules.allows("http://h/ours/open")
    assert rules.crawl_delay == 0.5


def test_another_agent_gets_the_star_group() -> None:
    rules = RobotsRules(200, RULES, "other")
    assert not rules.allows("http://h/private/x")
    assert rules.allows("http://h/ours")
    assert rules.crawl_delay == 2.0


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451, 301, 304])
def test_without_a_robots_file_all_is_allowed(status: int) -> None:
    assert RobotsRules(status, RULES, "hardfetch").allows("http://h/private")


@pytest.mark.parametrize("status", [0, 429, 500, 502, 503, 599])
def test_an_unreachable_robots_file_denies_all(status: int) -> None:
    rules = RobotsRules(status, b"", "hardfetch")
    assert not rules.allows("http://h/")
    assert not rules.known


def test_bytes_that_are_not_utf_8_and_a_byte_order_mark_do_no_harm() -> None:
    body = b"\xef\xbb\xbfUser-agent: *\nDisallow: /a\n# \xff\xfe\n\x00\nDisallow: /b\n"
    rules = RobotsRules(200, body, "hardfetch")
    assert not rules.allows("http://h/a")
    assert not rules.allows("http://h/b")
    assert rules.allows("http://h/c")


def test_what_is_behind_the_cap_is_not_read() -> None:
    body = b"User-agent: *\nDisallow: /a\n#" + b"x" * MAX_BODY + b"\nDisallow: /b\n"
    rules = RobotsRules(200, body, "hardfetch")
    assert not rules.allows("http://h/a")
    assert rules.allows("http://h/b")


def test_a_hostile_crawl_delay_is_capped() -> None:
    body = b"User-agent: *\nCrawl-delay: 1e9\n"
    assert RobotsRules(200, body, "hardfetch", max_delay=30.0).crawl_delay == 30.0
    junk = b"User-agent: *\nCrawl-delay: -5\n"
    assert RobotsRules(200, junk, "hardfetch").crawl_delay == 0.0
    nan = b"User-agent: *\nCrawl-delay: nan\n"
    assert RobotsRules(200, nan, "hardfetch").crawl_delay == 0.0


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("http://h/a?b", "http://h/robots.txt"),
        ("https://h:443/", "https://h/robots.txt"),
        ("http://H:8080/x", "http://h:8080/robots.txt"),
        ("http://u:p@h/x", "http://h/robots.txt"),
        ("http://[::1]:81/x", "http://[::1]:81/robots.txt"),
    ],
)
def test_where_the_file_is(url: str, where: str) -> None:
    assert robots_url(url) == where


def test_one_fetch_serves_all_who_ask() -> None:
    cache = RobotsCache("hardfetch")
    first = cache.check("http://h/a", 0.0)
    assert (first.answer, first.url) == ("fetch", "http://h/robots.txt")
    assert cache.check("http://h/b", 1.0).answer == "wait"
    assert cache.check("https://h/b", 1.0).answer == "fetch"  # another origin
    cache.store("http://h/a", 200, RULES, 2.0)
    assert cache.check("http://h/ours", 3.0).answer == "deny"
    assert cache.check("http://h/", 3.0).crawl_delay == 0.5


def test_a_fetch_that_nobody_finished_is_started_anew() -> None:
    cache = RobotsCache("hardfetch", fetch_timeout=10.0)
    assert cache.check("http://h/", 0.0).answer == "fetch"
    assert cache.check("http://h/", 9.0).answer == "wait"
    assert cache.check("http://h/", 10.0).answer == "fetch"


def test_rules_grow_old() -> None:
    cache = RobotsCache("hardfetch", ttl=100.0)
    cache.check("http://h/", 0.0)
    cache.store("http://h/", 404, b"", 0.0)
    assert cache.check("http://h/x", 99.0).answer == "allow"
    assert cache.check("http://h/x", 100.0).answer == "fetch"


def test_an_unreachable_file_is_asked_for_ever_more_rarely() -> None:
    cache = RobotsCache("hardfetch", retry=60.0)
    now, waits = 0.0, []
    for _ in range(9):
        assert cache.check("http://h/", now).answer == "fetch"
        cache.store("http://h/", 503, b"", now)
        start = now
        while cache.check("http://h/", now).answer == "deny":
            now += 30.0
        waits.append(now - start)
        cache.store("http://h/", 0, b"", now)  # answers the fetch that ended the loop
        now += 3600.0
    assert waits[0] == 60.0
    assert waits == sorted(waits)
    assert max(waits) == 3600.0


def test_old_rules_stand_in_for_a_server_that_is_down() -> None:
    cache = RobotsCache("hardfetch", ttl=100.0)
    cache.store("http://h/", 200, RULES, 0.0)
    assert cache.check("http://h/", 150.0).answer == "fetch"
    cache.store("http://h/", 503, b"", 150.0)
    assert cache.check("http://h/", 151.0).answer == "allow"
    assert cache.check("http://h/ours", 151.0).answer == "deny"
    cache.store("http://h/", 503, b"", 250.0)
    assert cache.check("http://h/", 251.0).answer == "deny"


def test_a_line_full_of_wildcards_costs_no_time() -> None:
    body = b"User-agent: *\nDisallow: /" + b"*a" * 200 + b"*b\n"
    rules = RobotsRules(200, body, "hardfetch")
    assert rules.allows("http://h/" + "a" * 5_000)
    assert not rules.allows("http://h/" + "a" * 5_000 + "b")


def test_an_old_protego_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: "0.6.1")
    with pytest.raises(ValueError, match=r"older than 0\.7"):
        RobotsRules(200, RULES, "hardfetch")
    assert RobotsRules(404, b"", "hardfetch").allows("http://h/")


def test_the_cache_is_bounded() -> None:
    cache = RobotsCache("hardfetch", max_origins=10)
    for n in range(100):
        cache.store(f"http://h{n}/", 404, b"", 0.0)
    assert len(cache._entries) == 10
    assert cache.check("http://h99/", 1.0).answer == "allow"
    assert cache.check("http://h0/", 1.0).answer == "fetch"
