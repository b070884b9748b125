"""URLs as they are found in pages, and requests that can't be sent."""

from __future__ import annotations

import io
import tempfile
from typing import Any

import strict
import truth

from hardfetch import Fetcher
from hardfetch.testing import FaultSite

#: Fetched, with the URL that the record must show; P stands for the site's port.
GOOD: dict[str, str] = {
    "http://a_b.localhost:P/1k": "http://a_b.localhost:P/1k",
    "http://\U0001f600.localhost:P/1k": "http://xn--e28h.localhost:P/1k",
    "http://b\xfccher.localhost:P/1k": "http://xn--bcher-kva.localhost:P/1k",
    "http://hg--69.localhost:P/1k": "http://hg--69.localhost:P/1k",
    "http://localhost.:P/1k": "http://localhost.:P/1k",
    "http://LOCALHOST:P/1k": "http://localhost:P/1k",
    "HTTP://127.0.0.1:P/1k": "http://127.0.0.1:P/1k",
    "http:\\\\127.0.0.1:P\\1k": "http://127.0.0.1:P/1k",
    "  http://127.0.0.1:P/1k  ": "http://127.0.0.1:P/1k",
    "http://127.1:P/1k": "http://127.0.0.1:P/1k",
    "http://2130706433:P/1k": "http://127.0.0.1:P/1k",
    "http://127.0.0.1:P/x/../1k": "http://127.0.0.1:P/1k",
    "http://127.0.0.1:P/a b?c d": "http://127.0.0.1:P/a%20b?c%20d",
    "http://127.0.0.1:P/caf\xe9?q=\u20ac": "http://127.0.0.1:P/caf%C3%A9?q=%E2%82%AC",
    "http://127.0.0.1:P/%zz%2f": "http://127.0.0.1:P/%zz%2f",
    "http://127.0.0.1:P?x": "http://127.0.0.1:P/?x",
    "http://127.0.0.1:P/" + "a" * 8192: "http://127.0.0.1:P/" + "a" * 8192,
    "http://127.0.0.1:P/" + "a" * 65536: "http://127.0.0.1:P/" + "a" * 65536,
}

BAD = [
    "http://127.0.0.1:P/\r\nX: y", "http://127.0.0.1:P/a\0b", "http://a..b.localhost:P/",
    f"http://{'a' * 64}.localhost:P/", f"http://{'a.' * 150}localhost:P/",
    "http://127.0.0.1:P/" + "a" * 1_100_000, "http://127.0.0.1:P/" + "a" * 9_000_000,
    "http://[::1:P/", "http://::1:P/", "http://127.0.0.1:0/", "http://127.0.0.1:65536/",
    "http://127.0.0.1:x/", "http://", "http:///", "http://:P/", "ftp://127.0.0.1/",
    "file:///etc/passwd", "//127.0.0.1:P/", "127.0.0.1:P/1k", "1k", "", " ",
    "http://127.0.0.1:P/\x7f", "http://127.0.0.1:P/\x01x", "http://u\r\n:p@127.0.0.1:P/",
    "http://a\u3002\u3002b.localhost:P/",
    "javascript:alert(1)", "http://exa mple.localhost:P/", "http://a%00b.localhost:P/",
]  # fmt: skip

PARTS: list[dict[str, Any]] = [
    {"headers": {"X": "\ud800"}}, {"headers": {"X": "a\r\nY: b"}},
    {"headers": {"X\r\nY": "b"}}, {"headers": {"X": "a\0b"}}, {"headers": {"": "a"}},
    {"headers": {"X Y": "a"}}, {"headers": [["X", "a\nb"]]}, {"method": "GE T"},
    {"method": "G\r\nX: y"}, {"method": "G\0"}, {"method": ""}, {"proxy": "foo://x"},
    {"proxy": "http://u\r\nX: y@127.0.0.1:1"}, {"proxy": "http://u%0aX:p@127.0.0.1:1"},
    {"proxy": "http://a..b:1"}, {"proxy": "http://127.0.0.1:0"}, {"proxy": "http://"},
    {"session": "a\0b"}, {"http_version": "9"}, {"impersonate": "nope"},
    {"timeout": 0}, {"timeout": -1}, {"unknown": 1},
    {"body": "a", "body_base64": "YQ=="}, {"body_base64": "?"}, {"deadline": 1e30},
]  # fmt: skip


def filled(url: str, site: FaultSite) -> str:
    return url.replace(":P", f":{site.port}")


def test_unusual_urls_are_fetched_and_kept_as_they_came(site: FaultSite) -> None:
    given = [{"url": filled(url, site)} for url in GOOD]
    records = truth.fetch(site, given, body="none")
    for wanted, asked, record in zip(GOOD.values(), given, records, strict=True):
        assert record["error"] is None, record
        assert record["status_code"] in (200, 404)
        assert record["url"] == record["final_url"] == filled(wanted, site)
        assert record["input"] == asked["url"]


def test_urls_that_are_none_are_one_record_and_no_connection(site: FaultSite) -> None:
    before = site.stats()["connections"]
    given = [{"url": filled(url, site)} for url in BAD]
    records = truth.fetch(site, given)
    for asked, record in zip(given, records, strict=True):
        truth.expect(
            record, "invalid_request", origin="local", phase="queue", url=None,
            final_url=None, attempts=[], remote_ip=None,
        )  # fmt: skip
        assert not record["error"]["retryable"]
        assert len(record["error"]["message"]) < 300
        if "@" not in asked["url"]:
            assert record["input"] == asked["url"]
    assert site.stats()["connections"] == before + 1  # the helper's own


def test_parts_of_a_request_that_cannot_be_sent(site: FaultSite) -> None:
    before = site.stats()["connections"]
    given = [{"url": site.url("/1k"), **part} for part in PARTS]
    for part, record in zip(PARTS, truth.fetch(site, given), strict=True):
        truth.expect(record, "invalid_request", origin="local", phase="queue", url=None)
        name = next(iter(part))
        assert name.partition("_")[0] in record["error"]["message"], record["error"]
    assert site.stats()["connections"] == before + 1


def test_a_hundred_bad_requests_hold_no_slot(site: FaultSite) -> None:
    kinds = ({"headers": {"X": "\ud800"}}, {"url": "http://"}, {"proxy": "foo://x"},
             {"method": "GE T"})  # fmt: skip
    given = [{"url": site.url("/1k"), **kinds[n % 4]} for n in range(100)]
    records = truth.fetch(site, given, max_concurrency=4)
    assert {r["error"]["type"] for r in records} == {"invalid_request"}


def test_user_info_is_used_and_never_shown(site: FaultSite) -> None:
    url = f"http://user:p%40ss@127.0.0.1:{site.port}/auth?user=user&password=p%40ss"
    (record,) = truth.fetch(site, [{"url": url}], body="none")
    truth.expect(record, status=200)
    assert record["input"] == url.replace("p%40ss@", "***@")
    assert "user:" not in record["url"] + record["final_url"]


def test_ipv6_literals_and_zones() -> None:
    with FaultSite("::1") as six:
        urls = [f"http://[::1]:{six.port}/1k", f"http://[::1%25lo]:{six.port}/1k"]
        urls.append(f"http://[0:0::0001]:{six.port}/1k")
        for record in truth.fetch(six, [{"url": url} for url in urls], body="none"):
            truth.expect(record, status=200, remote_ip="::1")


def test_lines_that_are_no_requests() -> None:
    lines = [
        b'{"url": 5}', b"{bad", b"{}", b'{"url": "http://\\ud800/"}', b"[]",
        b"http://127.0.0.1:1/\xff\r", b'{"id": 1}', b'{"url":"http://x/","url":"y"}',
    ]  # fmt: skip
    with tempfile.TemporaryFile() as sink, Fetcher(retries=0) as fetcher:
        fetcher.run(io.BytesIO(b"\n".join(lines)), sink.fileno())
        sink.seek(0)
        records = sorted(strict.read(sink.read()), key=lambda r: int(r["seq"]))
    types = [record["error"]["type"] for record in records]
    assert types[:5] == ["invalid_request"] * 5
    assert types[5] == "connect_refused"
    assert types[6] == "invalid_request"
    assert len(types) == len(lines)
