"""Odd answers by HTTP/2, and odd answers to CONNECT, each with its record."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from typing import Any

import truth
from player import Player

from hardfetch.testing import FaultSite, content, h2, hpack
from hardfetch.testing.h2 import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PADDED,
    Stream,
    Wire,
    frame,
)
from hardfetch.testing.model import Script
from hardfetch.testing.peer import Peer

GOOD = (":status", "200")
PAUSE = 0.02  # seconds: the request is out by then
Make = Callable[[Stream], bytes]


def plays(make: Make) -> Script:
    async def script(peer: Peer) -> None:
        wire = Wire(peer)
        await wire.open()
        stream = await wire.request()
        await asyncio.sleep(PAUSE)
        await peer.send(make(stream))
        await wire.drain()

    return script


def head(*pairs: tuple[str, str]) -> Make:
    """A head with these pairs, and a body behind it."""

    def make(stream: Stream) -> bytes:
        return h2.headers(stream.id, list(pairs)) + body(stream)

    return make


def body(stream: Stream, data: bytes = b"hello", flags: int = END_STREAM) -> bytes:
    return frame(DATA, flags, stream.id, data)


def large(count: int, size: int) -> Make:
    """A head of many fields, in as many frames as it takes."""

    def make(stream: Stream) -> bytes:
        pairs = [(f"x-{n:05d}", "v" * size) for n in range(count)]
        block = hpack.encode([GOOD, *pairs])
        cuts = range(0, len(block), h2.MAX_FRAME)
        out = b""
        for at in cuts:
            last = at == cuts[-1]
            kind = HEADERS if at == 0 else CONTINUATION
            flags = END_HEADERS if last else 0
            out += frame(kind, flags, stream.id, block[at : at + h2.MAX_FRAME])
        return out + body(stream)

    return make


def fine(**more: Any) -> dict[str, Any]:
    return {"status": 200, "body": b"hello", "http_version": "2", **more}


def failed(kind: str = "http2_error", phase: str = "headers", **more: Any) -> Any:
    return {"error": kind, "origin": "site", "phase": phase, **more}


HALF = failed(status=200)
CUT = failed("incomplete", "body", status=200, truncated="disconnect", body=b"hello")
SIZE = ("content-length", "5")
PACKED = gzip.compress(b"hello", mtime=0)

CASES: dict[str, tuple[Make, dict[str, Any]]] = {
    **{
        f"status {status!r}": (
            head((":status", status)), failed(phase="first_byte"),
        )
        for status in ("abc", "99", "2000", "", "101")
    },
    "status 699": (head((":status", "699")), fine(status=699)),
    "status twice": (head(GOOD, (":status", "404")), HALF),
    "status behind a field": (head(("x", "y"), GOOD), failed("bad_response")),
    "another pseudo field": (head(GOOD, (":odd", "1")), HALF),
    **{
        f"the field {pair!r}": (head(GOOD, pair), HALF)
        for pair in (
            ("X-A", "1"), ("x a", "1"), ("", "1"), ("x", "a\0b"), ("x", "a\r\ny: b"),
            ("x", "a\nb"), ("x", "a\x01"), ("connection", "close"),
            ("transfer-encoding", "chunked"), ("content-length", "x"),
        )
    },
    "two lengths": (head(GOOD, SIZE, SIZE), HALF),
    "blanks and Latin-1": (
        head(GOOD, ("x", " caf\xe9 ")), fine(headers=[["x", "caf\xe9"]]),
    ),
    "three cookies": (
        head(GOOD, *(("set-cookie", f"a={n}") for n in range(3))),
        fine(headers=[["set-cookie", f"a={n}"] for n in range(3)]),
    ),
    "trailers": (
        lambda s: h2.headers(s.id, [GOOD]) + body(s, flags=0)
        + h2.headers(s.id, [("x-t", "1")], END_HEADERS | END_STREAM),
        fine(headers=[]),
    ),
    "trailers with a status": (
        lambda s: h2.headers(s.id, [GOOD]) + body(s, flags=0)
        + h2.headers(s.id, [GOOD], END_HEADERS | END_STREAM),
        CUT,
    ),
    "no body": (
        lambda s: h2.headers(s.id, [GOOD], END_HEADERS | END_STREAM),
        fine(body=None, size=0),
    ),
    "a 103 that is the end": (
        lambda s: h2.headers(s.id, [(":status", "103")], END_HEADERS | END_STREAM),
        failed(),
    ),
    "three 103s": (
        lambda s: h2.headers(s.id, [(":status", "103"), ("x", "y")]) * 3
        + head(GOOD)(s),
        fine(headers=[]),
    ),
    "padding": (
        lambda s: h2.headers(s.id, [GOOD])
        + body(s, b"\3hello\0\0\0", END_STREAM | PADDED),
        fine(),
    ),
    "more padding than there is": (
        lambda s: h2.headers(s.id, [GOOD]) + body(s, b"\xffhi", END_STREAM | PADDED),
        failed("incomplete", "body", status=200, truncated="framing"),
    ),
    "frames without data": (
        lambda s: h2.headers(s.id, [GOOD]) + body(s, b"", 0) * 50 + body(s), fine(),
    ),
    "frames of other kinds": (
        lambda s: frame(0xBB, 0, 0, b"x") + head(GOOD)(s), fine(),
    ),
    "gzip": (
        lambda s: h2.headers(s.id, [GOOD, ("content-encoding", "gzip")])
        + body(s, PACKED),
        fine(decoded=True),
    ),
    "gzip cut off": (
        lambda s: h2.headers(s.id, [GOOD, ("content-encoding", "gzip")])
        + body(s, PACKED[:-5]),
        failed("bad_encoding", "decode", status=200, truncated="decode", body=b"hello",
               decoded=True),
    ),
    "RST_STREAM behind a whole body": (
        lambda s: h2.headers(s.id, [GOOD, SIZE]) + body(s, flags=0)
        + frame(h2.RST_STREAM, 0, s.id, bytes(4)),
        fine(),
    ),
    "GOAWAY within a whole answer": (
        lambda s: h2.headers(s.id, [GOOD])
        + frame(h2.GOAWAY, 0, 0, bytes((0, 0, 0, s.id)) + bytes(4)) + body(s),
        fine(),
    ),
}  # fmt: skip
LARGE: dict[str, tuple[Make, int | None]] = {
    "4,990 fields": (large(4990, 8), 4990), "5,010 fields": (large(5010, 8), None),
    "100 KB": (large(100, 1000), 100), "200 KB": (large(200, 1000), None),
    "400 KB": (large(400, 1000), None),
}  # fmt: skip


def run(site: FaultSite, makes: list[Make]) -> list[truth.Record]:
    with Player() as player:
        inputs = [{"url": player.serve(plays(make), "h2")} for make in makes]
        return truth.fetch(
            site, inputs, body="base64", no_redirects=True, breaker=0, timeout=20
        )


def test_odd_answers_by_http2(site: FaultSite) -> None:
    records = run(site, [make for make, _ in CASES.values()])
    for (name, (_, wanted)), record in zip(CASES.items(), records, strict=True):
        try:
            truth.expect(record, **wanted)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


def test_large_heads_by_http2(site: FaultSite) -> None:
    records = run(site, [make for make, _ in LARGE.values()])
    for (_, count), record in zip(LARGE.values(), records, strict=True):
        if count is not None:
            truth.expect(record, **fine())
            assert len(record["headers"]) == count
        else:
            truth.expect(record, **failed("headers_too_large", status=200, size=0))


# --- answers to CONNECT ---

OK = b"HTTP/1.1 200 OK\r\n"


def tunnels(answer: bytes) -> Script:
    """Says `answer` to CONNECT and then passes bytes both ways."""

    async def script(peer: Peer) -> None:
        target = (await peer.read_head()).split()[1].decode()
        host, _, port = target.rpartition(":")
        await peer.send(answer)
        loop = asyncio.get_running_loop()
        _, far = await loop.create_connection(
            lambda: Peer(peer.ledger, "tunnel", None), host, int(port)
        )
        peer.join(far)

    return script


KEPT = {"status": 200, "body": content.page(1024)}
NO_PROXY = {"error": "proxy_protocol", "origin": "proxy", "phase": "proxy"}
REFUSED = {**NO_PROXY, "error": "proxy_refused"}
CONNECT: dict[bytes, dict[str, Any]] = {
    OK + b"\r\n": KEPT,
    b"HTTP/1.0 200 Connection established\r\n\r\n": KEPT,
    b"HTTP/1.1 200\r\n\r\n": KEPT,
    b"HTTP/1.1 299 X\r\n\r\n": KEPT,
    OK + b"Content-Length: 5\r\n\r\n": KEPT,
    OK + b"Transfer-Encoding: chunked\r\n\r\n": KEPT,
    OK + b"X: a\r\n b\r\n\xff\xfe: x\r\n: v\r\nSet-Cookie: p=1\r\n\r\n": KEPT,
    b"HTTP/1.1 200 OK\nX: y\n\n": KEPT,
    OK + b"no colon\r\n\r\n": NO_PROXY,
    OK + b"X: a\0b\r\n\r\n": NO_PROXY,
    OK + b"X: a\rb\r\n\r\n": NO_PROXY,
    OK + b"X: y\r\n" * 6000 + b"\r\n": NO_PROXY,
    b"ICY 200 OK\r\n\r\n": NO_PROXY,
    b"HTTP/1.1 99999 X\r\n\r\n": NO_PROXY,
    b"\r\n" + OK + b"\r\n": NO_PROXY,
    b"HTTP/1.1 103 Early\r\n\r\n" + OK + b"\r\n": REFUSED,
    b"HTTP/1.1 302 Found\r\nLocation: http://x.test/\r\n\r\n": REFUSED,
    b"HTTP/1.1 404 No\r\nContent-Length: 3\r\n\r\nno!": REFUSED,
    b"HTTP/1.1 407 Who\r\n\r\n": {**REFUSED, "error": "proxy_auth"},
}  # fmt: skip


def test_odd_answers_to_connect(site: FaultSite) -> None:
    with Player() as player:
        inputs = [
            {"url": site.https + "/1k", "proxy": player.serve(tunnels(answer))}
            for answer in CONNECT
        ]
        records = truth.fetch(site, inputs, body="base64", breaker=0, timeout=20)
    for (answer, wanted), record in zip(CONNECT.items(), records, strict=True):
        try:
            truth.expect(record, **wanted)
        except AssertionError as error:
            raise AssertionError(f"{answer[:60]!r}: {error}") from None
        if record["error"] is None:
            names = [name.lower() for name, _ in record["headers"]]
            assert "x" not in names
            assert "set-cookie" not in names
        else:
            assert record["error"]["retryable"]
            assert record["headers"] is None
