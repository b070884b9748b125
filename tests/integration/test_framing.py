"""What a broken frame, status line or interim answer becomes in the record."""

from __future__ import annotations

from typing import Any

import pytest
import truth

from hardfetch.testing import FaultSite, content

HELLO = b"hello"
PART = b"<html>" * 20
SIZED = [["Content-Type", "text/html"], ["Content-Length", "10000"]]
CHUNKED = [["Content-Type", "text/html"], ["Transfer-Encoding", "chunked"]]


def cut(body: bytes | None, truncated: str, **fields: Any) -> dict[str, Any]:
    """A response that was not whole."""
    size = len(body or b"")
    return {
        "error": "incomplete", "origin": "site", "phase": "body", "status": 200,
        "truncated": truncated, "body": body, "size": size, "wire_size": size,
        "decoded": False, "redirects": [], **fields,
    }  # fmt: skip


def no_answer(error: Any, phase: str, **fields: Any) -> dict[str, Any]:
    """No final status line came."""
    return {
        "error": error, "origin": "site", "phase": phase, "headers": None,
        "http_version": None, "size": None, "wire_size": None, **fields,
    }  # fmt: skip


def answer(body: bytes | None = HELLO, **fields: Any) -> dict[str, Any]:
    size = len(body or b"")
    return {"status": 200, "body": body, "size": size, "wire_size": size, **fields}


H11: dict[str, Any] = {"http_version": "1.1"}
BAD = no_answer("bad_response", "headers")
BROKEN_HEAD = {"error": "bad_response", "origin": "site", "phase": "headers",
               "status": 200, "size": 0}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    # Bodies that end too soon.
    "short-body": cut(b"fourteen bytes", "disconnect", headers=SIZED, **H11),
    "short-body-reset": cut(b"fourteen bytes", "disconnect", headers=SIZED),
    "chunks-cut": cut(HELLO, "disconnect", headers=CHUNKED),
    "chunk-cut": cut(b"hel", "disconnect", headers=CHUNKED),
    "chunks-cut-at-the-end": cut(HELLO, "disconnect", headers=CHUNKED),
    "unsized-reset": cut(b"fourteen bytes", "disconnect"),
    "chunk-size-letters": cut(HELLO, "framing", headers=CHUNKED),
    "chunk-size-huge": cut(HELLO, "framing", headers=CHUNKED),
    "close-after-headers": cut(None, "disconnect", headers=SIZED),
    "close-mid-body": cut(PART, "disconnect"),
    "close-mid-body-unsized": answer(PART),
    "close-after-chunked-headers": cut(None, "disconnect"),
    "close-mid-chunk-size": cut(HELLO, "disconnect"),
    "close-mid-chunk": cut(b"helloabc", "disconnect"),
    "close-after-chunk": cut(HELLO, "disconnect"),
    "close-mid-last-chunk": cut(HELLO, "disconnect"),
    "reset-after-headers": cut(None, "disconnect"),
    "reset-mid-body": cut(PART, "disconnect"),
    "reset-mid-body-unsized": cut(PART, "disconnect"),
    "reset-mid-chunk": cut(b"helloabc", "disconnect"),
    "reset-mid-last-chunk": cut(HELLO, "disconnect"),
    "header-length-huge": cut(HELLO, "framing"),
    # Heads that end too soon.
    "close-before-status-line": no_answer("empty_reply", "first_byte"),
    "close-mid-status-line": BAD,
    "close-after-status-line": {**BROKEN_HEAD, "headers": []},
    "close-mid-headers": {**BROKEN_HEAD, "headers": [["Content-Type", "text/html"]]},
    "reset-before-status-line": no_answer("connection_reset", "first_byte"),
    "reset-mid-status-line": no_answer("connection_reset", "headers"),
    "reset-after-status-line": {**BROKEN_HEAD, "error": "connection_reset"},
    "reset-mid-headers": {**BROKEN_HEAD, "error": "connection_reset"},
    "close-after-accept": no_answer(
        ("empty_reply", "connection_reset"), "first_byte"
    ),
    # What is no status line.
    "answer-word": BAD, "answer-noise": BAD, "answer-no-status": BAD,
    "answer-five-digits": BAD, "answer-icy": BAD, "answer-ssh": BAD,
    "answer-tls-alert": BAD, "answer-one-byte": BAD, "answer-status-000": BAD,
    "answer-http-0.9": BAD, "answer-short-version": BAD,
    "answer-nothing": no_answer("empty_reply", "first_byte"),
    "answer-1.0": answer(headers=[], http_version="1.0"),
    "answer-no-reason": answer(None, headers=[], **H11),
    # Interim answers: never the answer, never in its headers.
    "interim-103": answer(headers=[["Content-Length", "5"]]),
    "interim-100": answer(headers=[["Content-Length", "5"]]),
    "interim-101": BAD,
    "interim-103-close": BAD,
    "interim-103-flood": no_answer("headers_too_large", "headers"),
    "h2-interim-close": no_answer("http2_error", "headers"),
    "h2-interim-flood": no_answer(("http2_error", "headers_too_large"), "headers"),
    "h2-interim-103": answer(
        headers=[["content-type", "text/html"], ["x-final", "1"]], http_version="2",
    ),
    # The ends of TLS: without close_notify only where the length was known.
    "tls-no-notify-sized": answer(content.page(1024)),
    "tls-no-notify-unsized": cut(b"<html>half a pa", "disconnect"),
    "tls-notify-unsized": answer(b"<html>a page</html>"),
    "tls-keeps-open": answer(content.page(1024)),
    "tls-reset-mid-body": cut(b"<html>", "disconnect"),
    "tls-no-notify-chunked": answer(),
    "tls-no-notify-mid-chunks": cut(HELLO, "disconnect"),
    "tls-chunk-size-letters": cut(HELLO, "framing"),
    # HTTP/2.
    "h2-rst-mid-body": cut(PART, "disconnect", http_version="2"),
    "h2-goaway-mid-body": cut(PART, "disconnect", http_version="2"),
    "h2-close-mid-body": cut(PART, "disconnect", http_version="2"),
    "h2-reset-mid-body": cut(PART, "disconnect", http_version="2"),
    "h2-short-body": cut(PART, "disconnect", http_version="2"),
    "h2-rst-refused": no_answer("http2_error", "first_byte"),
    "h2-goaway-first": no_answer("http2_error", "first_byte"),
    "h2-garbage": no_answer("http2_error", "first_byte"),
}  # fmt: skip


@pytest.fixture(scope="module")
def found(site: FaultSite) -> dict[str, truth.Record]:
    return truth.fetch_faults(site, CASES, body="base64", timeout=10)


@pytest.mark.parametrize("name", CASES)
def test_it_is_told_as_it_was(name: str, found: dict[str, truth.Record]) -> None:
    truth.expect(found[name], **CASES[name])


def test_only_too_large_a_head_is_final(found: dict[str, truth.Record]) -> None:
    final = {n for n, r in found.items() if r["error"] and not r["error"]["retryable"]}
    assert final - {"h2-interim-flood"} == {"interim-103-flood"}
