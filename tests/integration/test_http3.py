"""HTTP/3 against a server of its own: what the record says, and that limits hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import strict
import truth

from hardfetch.testing import FaultSite

pytest.importorskip("aioquic", reason="aioquic, a server of HTTP/3, is not installed")

import h3

if TYPE_CHECKING:
    from h3 import H3Server

PATIENCE = 20.0
LIMITS = {"timeout": PATIENCE, "hard_timeout": PATIENCE, "connect_timeout": PATIENCE}
IN_BODY: dict[str, Any] = {
    "origin": "site",
    "phase": "body",
    "status": 200,
    "http_version": "3",
}


@pytest.fixture(scope="module")
def server() -> Iterator[H3Server]:
    with h3.H3Server() as running:
        yield running


def fetch(
    site: FaultSite, urls: list[str], *more: str, **options: Any
) -> list[truth.Record]:
    inputs = [{"url": url, "http_version": "3"} for url in (*urls, *more)]
    return truth.fetch(site, inputs, body="base64", **{**LIMITS, **options})


def test_pages_come_over_one_connection(site: FaultSite, server: H3Server) -> None:
    paths = ("page", "missing", "empty", "hints", "redirect", "page")
    urls = [f"{server.url}/{path}" for path in paths]
    records = fetch(site, urls, max_concurrency=1)
    page: dict[str, Any] = {
        "status": 200,
        "body": b"hello",
        "http_version": "3",
        "size": 5,
    }
    headers = [["content-type", "text/plain"], ["x-a", "1"], ["x-a", "2"]]
    truth.expect(records[0], **page, headers=headers, reused=False)
    truth.expect(records[1], status=404, body=b"no", http_version="3", reused=True)
    truth.expect(records[2], status=204, body=None, http_version="3", reused=True)
    truth.expect(records[3], **page, headers=headers, reused=True)
    truth.expect(records[4], **page, final_url=f"{server.url}/page")
    assert [hop["status_code"] for hop in records[4]["redirects"]] == [302]
    for record in records:
        port = int(server.url.rsplit(":", 1)[1])
        assert (record["remote_ip"], record["remote_port"]) == ("127.0.0.1", port)
        times = record["timing"]
        order = [times[name] for name in ("dns", "connect", "tls", "first_byte")]
        assert order == sorted(order)
        assert order[-1] <= times["total"] <= record["elapsed"]


def test_many_at_once_and_big_ones(site: FaultSite, server: H3Server) -> None:
    records = fetch(site, [f"{server.url}/page"] * 40, f"{server.url}/big")
    for record in records[:-1]:
        truth.expect(record, status=200, body=b"hello", http_version="3")
    truth.expect(records[-1], status=200, body=h3.BIG, http_version="3")


def test_a_cap_is_a_cap(site: FaultSite, server: H3Server) -> None:
    (record,) = fetch(site, [f"{server.url}/big"], max_body=1000)
    truth.expect(
        record, status=200, truncated="size", body=h3.BIG[:1000], http_version="3"
    )


def test_limits_hold_in_every_phase(site: FaultSite, server: H3Server) -> None:
    def one(path: str, **options: Any) -> truth.Record:
        return fetch(site, [f"{server.url}/{path}"], **options)[0]

    truth.expect(
        one("silent", first_byte_timeout=0.3), "first_byte_timeout", origin="site",
        phase="first_byte", http_version=None,
    )  # fmt: skip
    body: dict[str, Any] = {**IN_BODY, "truncated": "time"}
    truth.expect(one("head-only", idle_timeout=0.3), "idle_timeout", **body)
    truth.expect(one("part", idle_timeout=0.3), "idle_timeout", **body, body=b"hello")
    record = one("trickle", timeout=0.5, hard_timeout=10)
    assert record["error"]["type"] in ("timeout", "connect_timeout", "tls_timeout")
    if record["status_code"] is not None:
        assert record["truncated"] == "time"
        assert set(strict.body(record) or b"a") == {ord("a")}


def test_broken_answers_are_incomplete(site: FaultSite, server: H3Server) -> None:
    paths = ("short", "reset-body", "close-body")
    records = fetch(site, [f"{server.url}/{path}" for path in paths])
    for record in records:
        truth.expect(
            record, "incomplete", **IN_BODY, truncated="disconnect", body=b"hello"
        )
    (record,) = fetch(site, [f"{server.url}/reset"])
    truth.expect(record, "connection_reset", origin="site", phase="first_byte")


@pytest.mark.parametrize("cert", ["expired", "wronghost", "untrusted"])
def test_certificates_are_verified(site: FaultSite, cert: str) -> None:
    with h3.H3Server(cert) as server:
        (record,) = fetch(site, [f"{server.url}/page"])
        truth.expect(record, "certificate_error", origin="site", phase="tls")
        assert not record["error"]["retryable"]
        (record,) = fetch(site, [f"{server.url}/page"], insecure=True)
        truth.expect(record, status=200, body=b"hello", http_version="3")


def test_a_private_address_is_blocked(site: FaultSite) -> None:
    with h3.H3Server(host="127.0.0.2") as server:
        nets = ["127.0.0.1/32"]
        (record,) = fetch(
            site, [f"{server.url}/page"], deny_private=True, allow_net=nets
        )
    truth.expect(record, "blocked_address", origin="local", phase="connect")


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("tls-expired", "certificate_error"), ("tls-untrusted", "certificate_error"),
        ("tls-alert", "tls_error"), ("tls-garbage", "tls_error"),
        ("tls-close", "tls_error"), ("tls-reset", "tls_error"),
    ],
)  # fmt: skip
def test_without_quic_the_record_tells_of_tcp(
    site: FaultSite, fault: str, error: str
) -> None:
    (record,) = fetch(site, [site.fault(fault).url])
    truth.expect(record, error, origin="site", phase="tls")


def test_nothing_at_all_is_refused(site: FaultSite) -> None:
    (record,) = fetch(site, [site.fault("refused").url.replace("http:", "https:")])
    truth.expect(record, "connect_refused", origin="site", phase="connect")
