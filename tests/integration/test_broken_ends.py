"""How an answer breaks is told alike over a new connection and one that served before,
in clear, under TLS and by HTTP/2.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import truth
from player import Player

from hardfetch.testing import FaultSite, h2
from hardfetch.testing.h2 import DATA, END_STREAM, HEADERS, Stream, Wire, frame
from hardfetch.testing.h2faults import goaway, rst
from hardfetch.testing.model import Script
from hardfetch.testing.peer import Peer
from hardfetch.testing.tlsfaults import server_context

HEAD = b"HTTP/1.1 200 OK\r\n"
SIZED = HEAD + b"Content-Length: 100\r\n\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
FINE = HEAD + b"Content-Length: 2\r\n\r\nok"
PAUSE = 0.25  # seconds: what was sent before an end has been read by then

# What was sent, and what of it is body.
CUT: dict[str, tuple[bytes, bytes | None]] = {
    "behind the head": (SIZED, None),
    "within the length": (SIZED + b"hello", b"hello"),
    "behind a chunked head": (CHUNKED, None),
    "between chunks": (CHUNKED + b"5\r\nhello\r\n", b"hello"),
    "within a chunk": (CHUNKED + b"5\r\nhel", b"hel"),
    "before the last line": (CHUNKED + b"5\r\nhello\r\n0\r\n", b"hello"),
    "within the trailers": (CHUNKED + b"5\r\nhello\r\n0\r\nX: y", b"hello"),
}
BROKEN: dict[str, tuple[bytes, bytes | None]] = {
    "no digits": (CHUNKED + b"ZZ\r\n", None),
    "no digits behind a chunk": (CHUNKED + b"5\r\nhello\r\nZZ\r\n", b"hello"),
    "17 digits": (CHUNKED + b"5\r\nhello\r\nFFFFFFFFFFFFFFFFF\r\nhi", b"hello"),
    "a prefix of its own": (CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n", None),
    "a trailer without colon": (CHUNKED + b"5\r\nhello\r\n0\r\nmoom\r\n\r\n", b"hello"),
    "a chunk too long": (CHUNKED + b"5\r\nhello, you\r\n0\r\n\r\n", b"hello"),
}
ENDS = ("close", "cut", "reset", "hold")


def gone(why: str, body: bytes | None) -> dict[str, Any]:
    return {
        "error": "incomplete", "origin": "site", "phase": "body", "status": 200,
        "truncated": why, "body": body,
    }  # fmt: skip


async def end(peer: Peer, how: str) -> None:
    if how == "cut":
        await asyncio.sleep(PAUSE)
        peer.cut()
    elif how == "reset":
        await asyncio.sleep(PAUSE)
        peer.end(reset=True)
    elif how == "hold":
        await peer.hold()


def plays(data: bytes, how: str) -> Script:
    """Pages at /ok; anything else gets `data` and the end."""

    async def script(peer: Peer) -> None:
        while b" /ok" in await peer.read_head():
            await peer.send(FINE)
        await peer.send(data)
        await end(peer, how)

    return script


def plays_h2(make: Callable[[Stream], bytes], how: str, pause: float = PAUSE) -> Script:
    async def script(peer: Peer) -> None:
        wire = Wire(peer)
        await wire.open()
        while (stream := await wire.request()).pseudo(":path") == "/ok":
            page = h2.headers(stream.id, [(":status", "200")])
            await peer.send(page + frame(DATA, END_STREAM, stream.id, b"ok"))
        # So that it does not come while the request is still being sent.
        await asyncio.sleep(pause)
        await peer.send(make(stream))
        await end(peer, how)

    return script


def run(
    site: FaultSite, bases: list[str], *, reused: bool, timeout: float = 20.0
) -> list[truth.Record]:
    """Fetch what breaks at each base, after a page over the same connection if told."""
    inputs = []
    for base in bases:
        inputs += [{"url": base + "/ok"}] if reused else []
        inputs += [{"url": base + "/broken"}]
    # One after the other at each base, all bases at once.
    records = truth.fetch(
        site, inputs, max_per_host=1, body="base64", timeout=timeout, breaker=0
    )
    if reused:
        assert all(r["error"] is None for r in records[::2])
        records = records[1::2]
    return records


@pytest.mark.parametrize("reused", [False, True])
@pytest.mark.parametrize("alpn", ["", "http/1.1"])
def test_a_cut_is_a_cut(site: FaultSite, alpn: str, *, reused: bool) -> None:
    cases = [(name, how) for name in CUT for how in ENDS[:3]]
    with Player() as player:
        bases = [player.serve(plays(CUT[name][0], how), alpn) for name, how in cases]
        records = run(site, bases, reused=reused)
    for (name, how), record in zip(cases, records, strict=True):
        truth.expect(record, **gone("disconnect", CUT[name][1]), reused=reused)
        assert how != "reset" or record["error"]["curl_code"] == 56
        # With what is missing, where the length was told.
        sized = CUT[name][0].startswith(SIZED)
        came = len(CUT[name][1] or b"")
        cut = f" after {came} of 100 bytes" if sized else ""
        assert record["error"]["message"] == f"the response was cut off{cut}"


@pytest.mark.parametrize("reused", [False, True])
@pytest.mark.parametrize("alpn", ["", "http/1.1"])
def test_a_broken_chunk_is_broken_framing_whatever_follows(
    site: FaultSite, alpn: str, *, reused: bool
) -> None:
    # Under TLS no end without close_notify may be there yet when the chunk is read.
    cases = [(name, how) for name in BROKEN for how in ENDS]
    with Player() as player:
        bases = [player.serve(plays(BROKEN[name][0], how), alpn) for name, how in cases]
        records = run(site, bases, reused=reused)
    for (name, _), record in zip(cases, records, strict=True):
        truth.expect(record, **gone("framing", BROKEN[name][1]), reused=reused)


@pytest.mark.parametrize("reused", [False, True])
@pytest.mark.parametrize("alpn", ["", "http/1.1"])
@pytest.mark.parametrize("how", ENDS)
def test_what_is_no_status_line_is_no_response(
    site: FaultSite, alpn: str, how: str, *, reused: bool
) -> None:
    odd = (
        b"\0\x01\xffmoom\r\n\r\n", b"SSH-2.0-x\r\n", b"220 ftp\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n\0\0\0\4",
    )  # fmt: skip
    with Player() as player:
        bases = [player.serve(plays(data, how), alpn) for data in odd]
        records = run(site, bases, reused=reused)
    for record in records:
        truth.expect(record, "bad_response", origin="site", phase="headers")
        # Where an answer began, its first byte came.
        assert 0 <= record["timing"]["first_byte"] <= record["timing"]["total"]


def part(stream: Stream) -> bytes:
    head = h2.headers(stream.id, [(":status", "200"), ("content-length", "100")])
    return head + frame(DATA, 0, stream.id, b"hello")


def unsized(stream: Stream) -> bytes:
    head = h2.headers(stream.id, [(":status", "200")])
    return head + frame(DATA, 0, stream.id, b"hello")


def behind_a_part(make: Callable[[Stream], bytes]) -> Callable[[Stream], bytes]:
    return lambda stream: unsized(stream) + make(stream)


def bad_hpack(stream: Stream) -> bytes:
    return frame(HEADERS, 5, stream.id, b"\xff" * 9)


BAD_FRAMES: dict[str, Callable[[Stream], bytes]] = {
    "stream 0": lambda _: frame(DATA, 0, 0, b"x"),
    "a stream that never was": lambda s: frame(DATA, 0, s.id + 100, b"x"),
    "16 MiB": lambda _: b"\xff\xff\xff\0\0\0\0\0\1",
    "a header block of nonsense": bad_hpack,
    "SETTINGS of 5 bytes": lambda _: frame(4, 0, 0, b"12345"),
    "WINDOW_UPDATE by 0": lambda _: frame(8, 0, 0, bytes(4)),
}
STOPPED: dict[str, Callable[[Stream], bytes]] = {
    "RST_STREAM": lambda s: unsized(s) + rst(s, h2.INTERNAL_ERROR),
    "RST_STREAM without an error": lambda s: part(s) + rst(s, h2.NO_ERROR),
    "END_STREAM too early": lambda s: part(s) + frame(DATA, END_STREAM, s.id, b"!"),
}


@pytest.mark.parametrize("reused", [False, True])
def test_a_frame_against_the_rules_ends_it_at_once(
    site: FaultSite, *, reused: bool
) -> None:
    """The server holds on: without an end of libcurl's own only time would tell."""
    with Player() as player:
        first = [player.serve(plays_h2(m, "hold"), "h2") for m in BAD_FRAMES.values()]
        later = [
            player.serve(plays_h2(behind_a_part(m), "hold"), "h2")
            for m in BAD_FRAMES.values()
        ]
        records = run(site, first + later, reused=reused)
    for record in records[: len(first)]:
        truth.expect(record, "http2_error", origin="site", phase="first_byte")
    for record in records[len(first) :]:
        truth.expect(record, **gone("framing", b"hello"), http_version="2")


def test_such_a_frame_is_told_at_the_latest_when_time_is_up(site: FaultSite) -> None:
    """It may come within libcurl's call that sends the request, which then waits."""
    with Player() as player:
        bases = [
            player.serve(plays_h2(make, "hold", 0), "h2")
            for make in BAD_FRAMES.values()
            for _ in range(5)
        ]
        records = run(site, bases, reused=True, timeout=4.0)
    for record in records:
        truth.expect(record, "http2_error", origin="site", phase="first_byte")


@pytest.mark.parametrize("reused", [False, True])
def test_a_stream_that_stops_is_incomplete(site: FaultSite, *, reused: bool) -> None:
    cuts = [
        (make, how)
        for make in (part, unsized, lambda s: unsized(s) + goaway(2, s.id))
        for how in ENDS[:3]
    ]
    with Player() as player:
        bases = [player.serve(plays_h2(make, how), "h2") for make, how in cuts]
        bases += [player.serve(plays_h2(m, "hold"), "h2") for m in STOPPED.values()]
        records = run(site, bases, reused=reused)
    for record in records[: len(cuts)]:
        truth.expect(record, **gone("disconnect", b"hello"), http_version="2")
    for name, record in zip(STOPPED, records[len(cuts) :], strict=True):
        body = b"hello!" if name.startswith("END") else b"hello"
        truth.expect(record, **gone("disconnect", body), http_version="2")


BAD_RECORD = b"\x17\3\3\0\x20" + b"z" * 32


def answer_with_a_bad_record(listener: socket.socket, count: int) -> None:
    for _ in range(count):
        peer, _ = listener.accept()
        peer.settimeout(30)
        with server_context("site").wrap_socket(peer, server_side=True) as tls:
            tls.recv(65536)
            os.write(tls.fileno(), BAD_RECORD)
            with suppress(OSError):
                tls.recv(1)


def test_a_broken_record_instead_of_an_answer(site: FaultSite) -> None:
    versions = ["1.1", None, "1.1", None]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        server = threading.Thread(
            target=answer_with_a_bad_record, args=(listener, len(versions))
        )
        server.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
        inputs = [{"url": url, "http_version": version} for version in versions]
        records = truth.fetch(site, inputs, max_per_host=1, breaker=0, timeout=20)
        server.join(30)
    for version, record in zip(versions, records, strict=True):
        # Where it might have been HTTP/2, libcurl does not tell.
        may: Any = ("connection_reset", "http2_error")
        kind = may if version is None else "connection_reset"
        truth.expect(record, kind, origin="site", phase="first_byte")
