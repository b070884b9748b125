"""Answers with broken framing, status lines that are none, and interim responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardfetch.testing import content
from hardfetch.testing.faults import (
    CHUNKED,
    SIZED,
    UNTIL_CLOSE,
    then_close,
    then_hold,
    then_reset,
)
from hardfetch.testing.model import OK, SILENCE, Spec, spec

if TYPE_CHECKING:
    from hardfetch.testing.model import Facts


def _framing() -> list[Spec]:
    def one(
        name: str,
        text: str,
        data: bytes,
        kept: bytes,
        why: str = "disconnect",
        *,
        reset: bool = False,
    ) -> Spec:
        return spec(
            name, "framing", text, then_reset(data) if reset else then_close(data),
            ("incomplete",), status=200, content=kept, truncated=why,
        )  # fmt: skip

    short = b"fourteen bytes"
    return [
        one("short-body", "14 of 10,000 bytes, then FIN", SIZED + short, short),
        one(
            "short-body-reset", "14 of 10,000 bytes, then RST",
            SIZED + short, short, reset=True,
        ),
        one(
            "chunks-cut", "no final chunk",
            CHUNKED + b"5\r\nhello\r\n", b"hello",
        ),
        one(
            "chunk-cut", "3 bytes of a chunk of 5",
            CHUNKED + b"5\r\nhel", b"hel",
        ),
        one(
            "chunks-cut-at-the-end", "the final CRLF is missing",
            CHUNKED + b"5\r\nhello\r\n0\r\n", b"hello",
        ),
        one(
            "unsized-reset", "no length, RST within the body",
            UNTIL_CLOSE + short, short, reset=True,
        ),
        one(
            "chunk-size-letters", "a chunk size of ZZ",
            CHUNKED + b"5\r\nhello\r\nZZ\r\n", b"hello", "framing",
        ),
        one(
            "chunk-size-huge", "a chunk size of 17 hex digits",
            CHUNKED + b"5\r\nhello\r\nFFFFFFFFFFFFFFFFF\r\nhello", b"hello", "framing",
        ),
    ]  # fmt: skip


def _trailers() -> Spec:
    return spec(
        "trailers", "framing", "two trailers behind the last chunk",
        then_close(CHUNKED + b"5\r\nhello\r\n0\r\nX-T: 1\r\nSet-Cookie: t=1\r\n\r\n"),
        (OK,), status=200, content=b"hello",
    )  # fmt: skip


def _status_lines() -> list[Spec]:
    bad = ("bad_response",)
    either = ("bad_response", OK)
    table: list[tuple[str, bytes, tuple[str, ...], int | None]] = [
        ("word", b"moom\n", bad, None),
        ("noise", content.noise(1000), bad, None),
        ("no-status", b"HTTP/1.1 \r\n\r\n", bad, None),
        ("five-digits", b"HTTP/1.1 99999 X\r\n\r\n", bad, None),
        ("no-reason", b"HTTP/1.1 200\r\n\r\n", (OK,), 200),
        ("1.0", b"HTTP/1.0 200 OK\r\n\r\nhello", (OK,), 200),
        ("short-version", b"HTTP/1 200 OK\r\n\r\n", either, None),
        ("icy", b"ICY 200 OK\r\n\r\n", bad, None),
        ("ssh", b"SSH-2.0-x\r\n", bad, None),
        ("tls-alert", b"\x15\x03\x01\x00\x02\x02\x46", bad, None),
        ("nothing", b"", ("empty_reply",), None),
        ("one-byte", b"H", bad, None),
        ("status-000", b"HTTP/1.1 000 X\r\n\r\n", bad, None),
        ("http-0.9", b"<html>just a page</html>\n", bad, None),
    ]
    return [
        spec(
            f"answer-{name}", "status line", f"answers {data[:24]!r}, then closes",
            then_close(data), expect, status=status,
        )
        for name, data, expect, status in table
    ]  # fmt: skip


def _interim() -> list[Spec]:
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nX-Interim: 1\r\n\r\n"
    final = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    good: Facts = {"status": 200, "content": b"hello"}
    lost = ("bad_response", "incomplete", "empty_reply", "connection_reset")
    switch = (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
    )
    return [
        spec(
            "interim-103", "interim", "three 103s before the 200",
            then_close(hint * 3 + final), (OK,), **good,
        ),
        spec(
            "interim-100", "interim", "an unasked 100 before the 200",
            then_close(b"HTTP/1.1 100 Continue\r\n\r\n" + final), (OK,), **good,
        ),
        spec(
            "interim-103-flood", "interim", "10,000 103s before the 200",
            then_close(hint * 10000 + final), (OK, "headers_too_large", "bad_response"),
        ),
        spec(
            "interim-101", "interim", "an unasked 101 before the 200",
            then_close(switch + final), (OK, *lost),
        ),
        spec(
            "interim-103-close", "interim", "a 103, then FIN",
            then_close(hint), lost,
        ),
        spec(
            "interim-103-silent", "interim", "a 103, then silence",
            then_hold(hint), SILENCE, hangs=True, gauntlet=True,
        ),
    ]  # fmt: skip


def specs() -> list[Spec]:
    """The catalogue of this module."""
    return [*_framing(), _trailers(), *_status_lines(), *_interim()]
