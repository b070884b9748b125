"""Heads of every kind: what is refused, what is kept, how it reads in the record."""

from __future__ import annotations

from typing import Any

import pytest
import truth

from hardfetch.testing import FaultSite
from hardfetch.testing.headers import ALL_BYTES

LENGTH = ["Content-Length", "5"]


def kept(*pairs: list[str], length: bool = True) -> dict[str, Any]:
    headers = [LENGTH, *pairs] if length else list(pairs)
    return {"status": 200, "body": b"hello", "headers": headers, "size": 5}


def refused(*pairs: list[str]) -> dict[str, Any]:
    return {
        "error": "bad_response", "origin": "site", "phase": "headers", "status": 200,
        "headers": list(pairs), "size": 0,
    }  # fmt: skip


def latin(data: bytes) -> str:
    return data.decode("latin-1")


CASES: dict[str, dict[str, Any]] = {
    "folded": kept(["X", "a b c"]),
    "fold-first": kept([" folded", "x"], LENGTH, length=False),
    "stray-cr": refused(LENGTH),
    "no-colon": refused(LENGTH),
    "empty-value": kept(["X", ""]),
    "empty-name": kept(["", "v"]),
    "blank-before-colon": kept(["X", "v"]),
    "blank-before-name": kept(["A", "1 X: v"]),
    "three-cookies": kept(
        ["Set-Cookie", "a=1"], ["Set-Cookie", "b=2"], ["Set-Cookie", "a=3"]
    ),
    "two-lengths": refused(LENGTH),
    "same-length-twice": kept(LENGTH, LENGTH, length=False),
    "length-list": kept(["Content-Length", "5, 5"], length=False),
    "length-negative": refused(),
    "length-word": refused(),
    "length-and-chunked": kept(
        ["Content-Length", "3"], ["Transfer-Encoding", "chunked"], length=False
    ),
    "latin1-value": kept(["X", "\xe9\xff"]),
    "utf8-value": kept(["X", "caf\u00e9 \u20ac"]),
    "overlong": kept(["X", "\xc0\x80"]),
    "surrogates": kept(["X", "\xed\xa0\x80"]),
    "nul": refused(LENGTH),
    "bare-lf": kept(["X-A", "1"]),
    "all-bytes": kept(["X", latin(ALL_BYTES).lstrip("\t ") + "!"]),
    "reason-all-bytes": kept(),
}


@pytest.fixture(scope="module")
def found(site: FaultSite) -> dict[str, truth.Record]:
    sizes = ("9k", "90k", "299k", "301k", "4999", "5001")
    names = [f"header-{name}" for name in (*CASES, *sizes)]
    return truth.fetch_faults(site, names, body="base64", timeout=10)


@pytest.mark.parametrize("name", CASES)
def test_odd_lines_are_kept_or_refused_whole(
    name: str, found: dict[str, truth.Record]
) -> None:
    truth.expect(found[f"header-{name}"], **CASES[name])


@pytest.mark.parametrize(
    ("name", "count", "size"),
    [
        ("9k", 1, 9 << 10),
        ("90k", 1, 90 << 10),
        ("299k", 299, 1 << 10),
        ("4999", 4998, 16),
    ],
)
def test_heads_below_the_caps_are_whole(
    name: str, count: int, size: int, found: dict[str, truth.Record]
) -> None:
    record = found[f"header-{name}"]
    headers = [[f"X-{n:05d}", "v" * (size - 11)] for n in range(count)]
    truth.expect(record, **kept(*headers))


@pytest.mark.parametrize("name", ["301k", "5001"])
def test_heads_beyond_a_cap_have_an_error_of_their_own(
    name: str, found: dict[str, truth.Record]
) -> None:
    record = found[f"header-{name}"]
    truth.expect(
        record, "headers_too_large", origin="site", phase="headers", status=200, size=0
    )
    assert not record["error"]["retryable"]
    assert record["headers"][0] == LENGTH


def test_the_cap_is_exact(site: FaultSite) -> None:
    # The head of `many(1, 9 KiB)`: 38 bytes of its own and the line.
    url = site.fault("header-9k").url
    head = 38 + 9 * 1024

    def one(cap: int) -> truth.Record:
        return truth.fetch(site, [{"url": url}], body="base64", max_headers=cap)[0]

    assert one(head)["error"] is None
    assert one(head - 1)["error"]["type"] == "headers_too_large"


def test_a_cap_above_libcurls_own_ends_in_the_same_error(site: FaultSite) -> None:
    url = site.fault("header-301k").url
    (record,) = truth.fetch(site, [{"url": url}], max_headers="1M", body="base64")
    truth.expect(
        record, "headers_too_large", origin="site", phase="headers", status=200
    )


def test_headers_may_be_left_out(site: FaultSite) -> None:
    (record,) = truth.fetch(
        site, [{"url": site.url("/1k")}], headers="none", body="none"
    )
    truth.expect(record, status=200, headers=None)
    assert record["content_type"] == "text/html; charset=utf-8"


def test_trailers_are_no_headers_of_the_answer(site: FaultSite) -> None:
    (record,) = truth.fetch_faults(site, ["trailers"], body="base64").values()
    truth.expect(
        record, status=200, body=b"hello",
        headers=[["Content-Type", "text/html"], ["Transfer-Encoding", "chunked"]],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("path", "more", "status", "size"),
    [
        ("/1k", {"method": "HEAD"}, 200, 0),
        ("/gzip", {"method": "HEAD"}, 200, 0),
        ("/chunked", {"method": "HEAD"}, 200, 0),
        ("/status/204", {}, 204, 0),
        ("/status/304", {}, 304, 0),
        ("/redirect-to?url=/1k", {"method": "HEAD"}, 200, 0),
        ("/1k", {"http_version": "1.0"}, 200, 1024),
        ("/status/404", {}, 404, 13),
        ("/status/599", {}, 599, 13),
        ("/status/999", {}, 999, 13),
    ],
)
def test_answers_without_a_body_and_of_every_status_are_no_errors(
    site: FaultSite, path: str, more: dict[str, Any], status: int, size: int
) -> None:
    (record,) = truth.fetch(
        site, [{"url": site.url(path), **more}], body="none", breaker=0
    )
    truth.expect(record, status=status, size=size, wire_size=size, http_version="1.1")
