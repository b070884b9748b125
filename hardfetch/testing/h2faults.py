"""Faults of an HTTP/2 server, made of hand-made frames."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, Any

from hardfetch.testing import h2
from hardfetch.testing.h2 import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    RST_STREAM,
    SETTINGS,
    Wire,
    frame,
    headers,
)
from hardfetch.testing.model import OK, SILENCE, Spec, spec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hardfetch.testing.h2 import Stream
    from hardfetch.testing.model import Facts, Script
    from hardfetch.testing.peer import Peer

IDLE = ("idle_timeout", "timeout", "hard_timeout")
GOOD = [(":status", "200"), ("content-type", "text/html"), ("x-final", "1")]
SIZED = [*GOOD, ("content-length", "10000")]
PART = b"<html>" * 20
PAUSE = 0.03
"""Seconds that a page takes anywhere but on loopback: the request is out by then."""


def goaway(code: int, last: int = 0) -> bytes:
    """A GOAWAY frame: no stream above `last` was or will be handled."""
    return frame(GOAWAY, 0, 0, struct.pack(">II", last, code))


def rst(stream: Stream, code: int) -> bytes:
    """An RST_STREAM frame."""
    return frame(RST_STREAM, 0, stream.id, struct.pack(">I", code))


def on_request(act: Callable[[Wire, Stream], Awaitable[None]]) -> Script:
    """Opens the connection properly, then does `act` on the first request."""

    async def script(peer: Peer) -> None:
        wire = Wire(peer)
        await wire.open()
        await act(wire, await wire.request())

    return script


def sends(
    make: Callable[[Stream], bytes], end: str = "drain", pause: float = 0.0
) -> Callable[[Wire, Stream], Awaitable[None]]:
    """Sends the bytes that `make` gives, then goes on reading, closes or resets."""

    async def act(wire: Wire, stream: Stream) -> None:
        data = make(stream)
        if pause:
            await asyncio.sleep(pause)
        if data:
            await wire.peer.send(data)
        if end == "drain":
            await wire.drain()
        elif end == "reset":
            await wire.peer.reset()

    return act


def repeats(
    make: Callable[[Stream], bytes], head: Callable[[Stream], bytes], every: float
) -> Callable[[Wire, Stream], Awaitable[None]]:
    """Sends `head`, then the bytes of `make` for ever, deaf to the client."""

    async def act(wire: Wire, stream: Stream) -> None:
        if first := head(stream):
            await wire.peer.send(first)
        while True:
            await wire.peer.send(make(stream))
            wire.peer.buffer.clear()
            await asyncio.sleep(every)

    return act


def begun(stream: Stream) -> bytes:
    """HEADERS of a page of 10,000 bytes and the first 120 of them."""
    return headers(stream.id, SIZED) + frame(DATA, 0, stream.id, PART)


def nothing(_: Stream) -> bytes:
    """No bytes."""
    return b""


async def _no_settings(peer: Peer) -> None:
    await peer.hold()


async def _zero_window(peer: Peer) -> None:
    wire = Wire(peer)
    await wire.open(h2.setting(h2.INITIAL_WINDOW_SIZE, 0))
    await wire.drain()


async def _garbage(peer: Peer) -> None:
    await peer.read(len(h2.PREFACE))
    await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\nthis is no HTTP/2")


async def _goaway_first(peer: Peer) -> None:
    wire = Wire(peer)
    await wire.open()
    await peer.send(goaway(h2.ENHANCE_YOUR_CALM))


async def _endless_data(wire: Wire, stream: Stream) -> None:
    """Sends within the client's windows, which it keeps opening."""
    reader = asyncio.ensure_future(wire.drain())
    try:
        await wire.peer.send(headers(stream.id, GOOD))
        while not reader.done():
            room = min(wire.window, stream.window, h2.MAX_FRAME)
            if room <= 0:
                wire.progress.clear()
                await wire.progress.wait()
                continue
            wire.window -= room
            stream.window -= room
            await wire.peer.send(frame(DATA, 0, stream.id, b"a" * room))
            await asyncio.sleep(0)
    finally:
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


def _hanging() -> list[Spec]:
    def one(
        name: str,
        text: str,
        script: Script,
        expect: tuple[str, ...] = SILENCE,
        **more: Any,
    ) -> Spec:
        return spec(
            f"h2-{name}", "h2", text, script, expect, kind="h2", hangs=True,
            gauntlet=True, **more,
        )  # fmt: skip

    def early(stream: Stream) -> bytes:
        return headers(stream.id, [(":status", "103"), ("link", "</a>")])

    body: Facts = {"status": 200, "truncated": "time"}
    return [
        one("no-settings", "completes TLS and never sends SETTINGS", _no_settings),
        one("silent", "takes the request, then silence", on_request(sends(nothing))),
        one(
            "silent-after-headers", "HEADERS, then silence",
            on_request(sends(lambda s: headers(s.id, SIZED))), IDLE, **body,
        ),
        one(
            "silent-mid-body", "a part of the body, then silence",
            on_request(sends(begun)), IDLE, **body, content=PART,
        ),
        one(
            "zero-window", "never opens the window for the request's body",
            _zero_window, SILENCE, method="POST", body="b" * 100_000,
        ),
        one(
            "pings", "answers with PING frames only, one every 0.2 s",
            on_request(repeats(lambda _: frame(PING, 0, 0, bytes(8)), nothing, 0.2)),
        ),
        one(
            "trickle-body", "one byte of the body every 0.2 s",
            on_request(
                repeats(
                    lambda s: frame(DATA, 0, s.id, b"a"),
                    lambda s: headers(s.id, GOOD), 0.2,
                )
            ),
            IDLE, **body,
        ),
        one(
            "empty-data", "empty DATA frames, one every 0.05 s",
            on_request(
                repeats(
                    lambda s: frame(DATA, 0, s.id), lambda s: headers(s.id, GOOD), 0.05
                )
            ),
            ("http2_error", *IDLE), **body,
        ),
        one(
            "trickle-interim", "one more 103 every 0.2 s",
            on_request(repeats(early, nothing, 0.2)), IDLE,
        ),
        one(
            "endless-body", "DATA without end, flat out", on_request(_endless_data),
            (OK, "timeout", "hard_timeout"), origin=None, status=200, truncated="size",
        ),
        one(
            "continuations", "a header block that never ends",
            on_request(
                repeats(
                    lambda s: frame(CONTINUATION, 0, s.id, b"\0\x01a\x01b" * 100),
                    lambda s: frame(HEADERS, 0, s.id, b"\x88"), 0.01,
                )
            ),
            ("http2_error", "headers_too_large", "bad_response", *SILENCE),
        ),
        one(
            "settings-flood", "SETTINGS frames flat out",
            on_request(repeats(lambda _: frame(SETTINGS, 0, 0) * 64, nothing, 0)),
            ("http2_error", "connection_reset", "incomplete", *SILENCE),
        ),
    ]  # fmt: skip


def _ending() -> list[Spec]:
    def one(
        name: str, text: str, act: Script, expect: tuple[str, ...], **more: Any
    ) -> Spec:
        return spec(f"h2-{name}", "h2", text, act, expect, kind="h2", **more)

    cut: Facts = {"status": 200, "content": PART, "truncated": "disconnect"}
    lost = ("incomplete", "http2_error", "connection_reset")
    refused = ("http2_error", "connection_reset", "empty_reply")

    def hints(stream: Stream) -> bytes:
        early = headers(stream.id, [(":status", "103"), ("x-interim", "1")])
        return (
            early * 3 + headers(stream.id, GOOD) + frame(DATA, 1, stream.id, b"hello")
        )

    return [
        one(
            "rst-mid-body", "RST_STREAM within the body",
            on_request(sends(lambda s: begun(s) + rst(s, h2.INTERNAL_ERROR))), lost,
            gauntlet=True, **cut,
        ),
        one(
            "rst-refused", "RST_STREAM(REFUSED_STREAM) for every request",
            on_request(sends(lambda s: rst(s, h2.REFUSED_STREAM))), refused,
        ),
        one(
            "goaway-mid-body", "GOAWAY within the body, then FIN",
            on_request(
                sends(lambda s: begun(s) + goaway(h2.INTERNAL_ERROR, s.id), "close")
            ),
            lost, gauntlet=True, **cut,
        ),
        one("goaway-first", "GOAWAY(ENHANCE_YOUR_CALM) before any answer",
            _goaway_first, refused),
        one("close-mid-body", "FIN within the body", on_request(sends(begun, "close")),
            lost, **cut),
        one("reset-mid-body", "RST within the body", on_request(sends(begun, "reset")),
            lost, gauntlet=True, **cut),
        one(
            "short-body", "END_STREAM after 120 of 10,000 bytes",
            on_request(
                sends(
                    lambda s: headers(s.id, SIZED) + frame(DATA, END_STREAM, s.id, PART)
                )
            ),
            lost, status=200, content=PART,
        ),
        one("garbage", "answers the preface with HTTP/1.1", _garbage, refused),
        one(
            "bad-frame", "a DATA frame for stream 0",
            on_request(sends(lambda _: frame(DATA, 0, 0, b"x"), pause=PAUSE)),
            ("http2_error",), gauntlet=True,
        ),
        one(
            "bad-hpack", "a header block that can't be decoded",
            on_request(
                sends(
                    lambda s: frame(HEADERS, END_HEADERS, s.id, b"\xff" * 9),
                    pause=PAUSE,
                )
            ),
            ("http2_error",), gauntlet=True,
        ),
        one("interim-close", "a 103, then FIN",
            on_request(sends(lambda s: headers(s.id, [(":status", "103")]), "close")),
            lost),
        one("interim-flood", "10,000 103s before the 200",
            on_request(
                sends(
                    lambda s: headers(s.id, [(":status", "103"), ("x-i", "1")]) * 10000
                    + hints(s)
                )
            ),
            (OK, "headers_too_large", "http2_error")),
        one("interim-103", "three 103s before the 200", on_request(sends(hints)), (OK,),
            status=200, content=b"hello"),
    ]  # fmt: skip


def specs() -> list[Spec]:
    """The catalogue of this module."""
    return [*_hanging(), *_ending()]
