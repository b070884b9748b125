"""One proxy: how it is written, and what of it is never shown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from hardfetch.proxy import Proxy, parse_proxies, parse_proxy


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://h:80", "http://h:80"),
        ("h:3128", "http://h:3128"),
        ("HTTPS://H:443/", "https://h:443"),
        ("socks4://h:1080", "socks4://h:1080"),
        ("socks4a://h:1080", "socks4a://h:1080"),
        ("socks5://h:1080", "socks5://h:1080"),
        ("socks5h://u:p@h:1080", "socks5h://u:p@h:1080"),
        ("http://u@h:80", "http://u@h:80"),
        ("http://u:@h:80", "http://u:@h:80"),
        ("http://u:p@ss:w@h:80", "http://u:p%40ss%3Aw@h:80"),
        ("http://u%40x:p%3a%2f@h:80", "http://u%40x:p%3A%2F@h:80"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("10.0.0.1:8080:user:pass", "http://user:pass@10.0.0.1:8080"),
        ("u:p@h:80", "http://u:p@h:80"),
        ("  http://h:80  ", "http://h:80"),
    ],
)
def test_a_proxy_is_read_and_written(text: str, url: str) -> None:
    proxy = parse_proxy(text)
    assert proxy.url == url
    assert parse_proxy(proxy.url) == proxy


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ftp://hunter2:hunter2@h:80",
        "socks://hunter2@h:80",
        "http://hunter2:hunter2@h",
        "http://hunter2:hunter2@h:0",
        "http://hunter2:hunter2@h:65536",
        "http://hunter2:hunter2@h:80x",
        "http://hunter2:hunter2@:80",
        "http://hunter2:hunter2@h/path:80",
        "http://hunter2:hunter2@[::1",
        "http://hunter2:hunter2@[zz]:80",
        "http://hunter2:hunter2@h h:80",
        "hunter2",
        "h:80:hunter2",
    ],
)
def test_what_is_no_proxy_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ValueError, match="proxy: ") as caught:
        parse_proxy(text)
    assert "hunter2" not in str(caught.value)


def test_a_list_is_read_whole_or_not_at_all() -> None:
    paid = "http://u:hunter2@a:1 weight=2.5 tier=1"
    first, second = parse_proxies(["# paid", "", paid, "b:2", "b:2 tier=3"])
    assert (first.weight, first.tier) == (2.5, 1)
    assert (second.host, second.tier) == ("b", 3)
    for bad in ("a:1 weight=hunter2", "a:1 weight=0", "a:1 tier=-1", "a:1 hunter2"):
        with pytest.raises(ValueError, match="line 2: ") as caught:
            parse_proxies(["a:1", bad])
        assert "hunter2" not in str(caught.value)


@given(
    # 20 characters of 4 bytes each, in both, are what a URL has room for
    user=st.text(min_size=1, max_size=20).filter(lambda s: s.isprintable()),
    password=st.text(max_size=20).filter(lambda s: s.isprintable()),
)
def test_any_credentials_survive_the_url_and_are_shown_nowhere_else(
    user: str, password: str
) -> None:
    proxy = Proxy("http", "h", 80, user, password)
    assert parse_proxy(proxy.url) == proxy
    assert repr(proxy) == "Proxy(scheme='http', host='h', port=80, weight=1.0, tier=0)"
    assert str(proxy) == f"{proxy}" == "http://h:80"


def test_identity_is_all_five_parts() -> None:
    one = parse_proxy("http://u:p@h:80")
    for other in (
        "https://u:p@h:80",
        "http://u:p@g:80",
        "http://u:p@h:81",
        "http://v:p@h:80",
        "http://u:q@h:80",
        "http://h:80",
    ):
        assert parse_proxy(other) != one
    assert replace(one, weight=3.0, tier=2) == one
