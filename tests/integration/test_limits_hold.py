"""Silence, trickles and endless answers: each ends at its limit, with what had come."""

from __future__ import annotations

import time
from typing import Any

import pytest
import strict
import truth

from hardfetch.testing import FaultSite, content
from hardfetch.testing.faults import STAGES

D = 1.0
PAGE = content.page(1024)
LATE: dict[str, Any] = {"error": "timeout", "origin": "site"}
NO_ANSWER = {"headers": None, "size": None, "http_version": None}


def body(data: bytes | None, **more: Any) -> dict[str, Any]:
    size = len(data or b"")
    return {
        **LATE, "phase": "body", "status": 200, "truncated": "time", "body": data,
        "size": size, "wire_size": size, **more,
    }  # fmt: skip


HELLO, PART = b"hello", b"<html>" * 20
CASES: dict[str, dict[str, Any]] = {
    "silent-after-accept": {**LATE, "phase": "first_byte", **NO_ANSWER},
    "silent-before-status-line": {**LATE, "phase": "first_byte", **NO_ANSWER},
    "silent-mid-status-line": {**LATE, "phase": "headers", **NO_ANSWER},
    "silent-after-status-line": {**LATE, "phase": "headers", "status": 200},
    "silent-mid-headers": {
        **LATE, "phase": "headers", "status": 200,
        "headers": [["Content-Type", "text/html"]],
    },
    "silent-after-headers": body(None),
    "silent-mid-body": body(PART),
    "silent-mid-body-unsized": body(PART),
    "silent-after-chunked-headers": body(None),
    "silent-mid-chunk-size": body(HELLO),
    "silent-mid-chunk": body(b"helloabc"),
    "silent-after-chunk": body(HELLO),
    "silent-mid-last-chunk": body(HELLO),
    "interim-103-silent": {**LATE, "phase": "headers", **NO_ANSWER},
    "tls-silent-after-handshake": {**LATE, "phase": "first_byte", **NO_ANSWER},
    "tls-silent-mid-body": body(b"<html>"),
    "h2-no-settings": {**LATE, "phase": "first_byte", **NO_ANSWER},
    "h2-silent": {**LATE, "phase": "first_byte", **NO_ANSWER},
    "h2-silent-after-headers": body(None, http_version="2"),
    "h2-silent-mid-body": body(PART, http_version="2"),
    "h2-zero-window": {**LATE, "phase": "first_byte", **NO_ANSWER},
    "h2-pings": {**LATE, "phase": "first_byte", **NO_ANSWER},
    "trickle-status-line": {**LATE, "phase": "headers", **NO_ANSWER},
    "trickle-header-bytes": {**LATE, "phase": "headers", "status": 200},
    "trickle-headers": {**LATE, "phase": "headers", "status": 200},
    "trickle-interim": {**LATE, "phase": "headers", **NO_ANSWER},
    "trickle-chunk-size": body(HELLO),
    "h2-trickle-interim": {**LATE, "phase": "headers", **NO_ANSWER},
}  # fmt: skip
#: A byte at a time: how many came depends on the clock.
TRICKLES = ("trickle-body", "trickle-body-unsized", "trickle-chunks",
            "tls-trickle-body", "h2-trickle-body")  # fmt: skip


@pytest.fixture(scope="module")
def found(site: FaultSite) -> dict[str, truth.Record]:
    names = [*CASES, *TRICKLES]
    return truth.fetch_faults(site, names, timeout=D, body="base64")


def took(record: truth.Record) -> float:
    seconds: float = record["elapsed"] - record["timing"]["queue"]
    return seconds


def test_every_stage_is_here() -> None:
    assert {f"silent-{stage}" for stage in STAGES} <= set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_it_ends_at_the_limit_with_what_had_come(
    name: str, found: dict[str, truth.Record]
) -> None:
    record = found[name]
    truth.expect(record, **CASES[name])
    assert D <= took(record) <= D + truth.SLACK
    assert 0 <= record["limits"]["overrun"] <= truth.SLACK
    assert record["error"]["retryable"]


@pytest.mark.parametrize("name", TRICKLES)
def test_a_trickle_does_not_put_the_limit_off(
    name: str, found: dict[str, truth.Record]
) -> None:
    record = found[name]
    data = strict.body(record) or b""
    truth.expect(record, **body(data))
    assert 1 <= len(data) <= 20
    assert set(data) == {ord("a")}
    assert D <= took(record) <= D + truth.SLACK


@pytest.mark.parametrize(
    ("option", "name", "error", "phase"),
    [
        ("first_byte_timeout", "silent-before-status-line", "first_byte_timeout",
         "first_byte"),
        ("first_byte_timeout", "h2-silent", "first_byte_timeout", "first_byte"),
        ("first_byte_timeout", "tls-silent-after-handshake", "first_byte_timeout",
         "first_byte"),
        ("idle_timeout", "silent-mid-body", "idle_timeout", "body"),
        ("idle_timeout", "silent-mid-headers", "idle_timeout", "headers"),
        ("idle_timeout", "h2-silent-mid-body", "idle_timeout", "body"),
        ("hard_timeout", "silent-mid-body", "hard_timeout", "body"),
        ("deadline", "silent-mid-body", "deadline", "body"),
    ],
)  # fmt: skip
def test_each_limit_has_its_name(
    site: FaultSite, option: str, name: str, error: str, phase: str
) -> None:
    (record,) = truth.fetch_faults(site, [name], **{option: 0.4}).values()
    assert record["error"]["type"] == error or (
        # The hard limit is the soft one's as well, unless that is given.
        (option, record["error"]["type"]) == ("hard_timeout", "timeout")
    )
    assert record["error"]["phase"] == phase
    assert record["error"]["origin"] == ("local" if option == "deadline" else "site")
    # The whole job counts from acceptance, all else from the start.
    seconds = record["elapsed"] if option == "deadline" else took(record)
    assert 0.4 <= seconds <= 0.4 + truth.SLACK


def test_each_record_tells_the_limits_that_applied(site: FaultSite) -> None:
    url = site.fault("silent-before-status-line").url
    inputs: list[truth.Input] = [
        {"url": url, "timeout": 0.3},
        {"url": url, "timeout": 0.6, "hard_timeout": 0.9},
        {"url": url, "timeout": 0.6, "deadline": 0.45},
        {"url": url},
        {"url": url, "timeout": None},
    ]
    records = truth.fetch(site, inputs, timeout=0.8)
    for given, record in zip(inputs, records, strict=True):
        soft: float = given.get("timeout") or 0.8
        limits = record["limits"]
        assert limits["timeout"] == soft
        assert limits["deadline"] == given.get("deadline")
        assert limits["hard_timeout"] >= soft
        end = min(soft, float(given.get("deadline", soft)))
        assert end <= record["elapsed"] <= end + truth.SLACK
    assert records[1]["limits"]["hard_timeout"] == 0.9


def test_the_clock_starts_when_the_request_does(site: FaultSite) -> None:
    urls = [{"url": site.url(f"/slow?s=0.1&n={n}")} for n in range(20)]
    records = truth.fetch(site, urls, max_per_host=1, timeout=0.5, body="base64")
    for record in records:
        truth.expect(record, status=200, body=PAGE)
        assert took(record) < 0.5
    assert records[-1]["timing"]["queue"] > 1.5
    held = [{"url": site.url("/fault/silent-before-status-line")}, *urls[:5]]
    first, *others = truth.fetch(site, held, max_per_host=1, timeout=0.5)
    truth.expect(first, "timeout", origin="site", phase="first_byte")
    assert [r["error"] for r in others] == [None] * 5
    assert all(r["timing"]["queue"] > 0.49 for r in others)


def growth(work: Any) -> int:
    """Bytes by which the resident set is larger after work."""

    def resident() -> int:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * 4096

    work()  # what is loaded once
    before = resident()
    work()
    return resident() - before


@pytest.mark.parametrize("name", ["endless-body", "endless-chunks", "h2-endless-body"])
def test_an_endless_body_is_cut_at_the_cap_and_its_server_sees_the_end(
    site: FaultSite, name: str
) -> None:
    fault = site.fault(name)

    def work() -> None:
        began = time.monotonic()
        (record,) = truth.fetch(
            site, [truth.ask(fault)], max_body="1M", body="none", timeout=10
        )
        truth.expect(record, status=200, truncated="size")
        assert record["size"] == 1 << 20
        end = began + took(record) + 5
        while site.open_now(name):
            assert time.monotonic() < end
            time.sleep(0.01)

    assert growth(work) < 5 << 20


def test_endless_heads_and_redirects_end(site: FaultSite) -> None:
    names = ("endless-headers", "endless-header", "endless-interim",
             "endless-redirects")  # fmt: skip
    records = truth.fetch_faults(site, names, timeout=10)
    for name in names[:3]:
        status = None if name == "endless-interim" else 200
        truth.expect(
            records[name], "headers_too_large", origin="site", phase="headers",
            status=status,
        )  # fmt: skip
    assert records[names[3]]["error"]["type"] == "too_many_redirects"


def test_an_endless_body_below_the_cap_ends_at_the_limit(site: FaultSite) -> None:
    (record,) = truth.fetch_faults(
        site, ["trickle-body-unsized"], timeout=0.6, body="base64"
    ).values()
    truth.expect(record, **body(strict.body(record)))
