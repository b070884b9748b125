"""Faults of a plain HTTP server: silence, trickles, endless answers, early ends.

Scripts of kind http begin after the request head was read; those of kind raw begin when
the connection is accepted. A stage is what went out before the fault.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import TYPE_CHECKING, Any

from hardfetch.testing import content
from hardfetch.testing.http1 import Response
from hardfetch.testing.model import OK, SILENCE, Spec, spec

if TYPE_CHECKING:
    from hardfetch.testing.model import Facts, Script
    from hardfetch.testing.peer import Peer

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
SIZED = HEAD + b"Content-Length: 10000\r\n\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
UNTIL_CLOSE = HEAD + b"\r\n"
IDLE = ("idle_timeout", "timeout", "hard_timeout")
BROKEN_HEAD = ("bad_response", "incomplete")

STAGES: dict[str, tuple[bytes, str]] = {
    "before-status-line": (b"", "before the status line"),
    "mid-status-line": (b"HTTP/1.1 20", "within the status line"),
    "after-status-line": (b"HTTP/1.1 200 OK\r\n", "after the status line"),
    "mid-headers": (HEAD + b"X-Long: abc", "within the headers"),
    "after-headers": (SIZED, "between head and body"),
    "mid-body": (SIZED + b"<html>" * 20, "within a body of known length"),
    "mid-body-unsized": (UNTIL_CLOSE + b"<html>" * 20, "within a body without length"),
    "after-chunked-headers": (CHUNKED, "before the first chunk"),
    "mid-chunk-size": (CHUNKED + b"5\r\nhello\r\n1", "within a chunk size"),
    "mid-chunk": (CHUNKED + b"5\r\nhello\r\n10\r\nabc", "within a chunk"),
    "after-chunk": (CHUNKED + b"5\r\nhello\r\n", "between two chunks"),
    "mid-last-chunk": (CHUNKED + b"5\r\nhello\r\n0\r\n", "before the final CRLF"),
}
"""Bytes that went out before silence, reset or end."""

_BODY_AT = {
    "after-headers": b"",
    "mid-body": b"<html>" * 20,
    "mid-body-unsized": b"<html>" * 20,
    "after-chunked-headers": b"",
    "mid-chunk-size": b"hello",
    "mid-chunk": b"helloabc",
    "after-chunk": b"hello",
    "mid-last-chunk": b"hello",
}


def then_hold(data: bytes) -> Script:
    """Sends `data` and falls silent."""

    async def script(peer: Peer) -> None:
        if data:
            await peer.send(data)
        await peer.hold()

    return script


def then_reset(data: bytes) -> Script:
    """Sends `data` and resets the connection."""

    async def script(peer: Peer) -> None:
        if data:
            await peer.send(data)
        await peer.reset()

    return script


def then_close(data: bytes) -> Script:
    """Sends `data` and closes."""

    async def script(peer: Peer) -> None:
        if data:
            await peer.send(data)

    return script


def repeat(head: bytes, piece: bytes, every: float) -> Script:
    """Sends `head`, then `piece` for ever, `every` seconds apart (0: flat out)."""

    async def script(peer: Peer) -> None:
        if head:
            await peer.send(head)
        while True:
            await peer.send(piece)
            # Even flat out other connections must get their turn.
            await asyncio.sleep(every)

    return script


def trickle(fast: bytes, slow: bytes, every: float, step: int = 1) -> Script:
    """Sends `fast` at once, `slow` in pieces of `step` bytes, then holds."""

    async def script(peer: Peer) -> None:
        if fast:
            await peer.send(fast)
        await peer.trickle(slow, every, step)
        await peer.hold()

    return script


def _stages() -> list[Spec]:
    specs = []
    for stage, (sent, where) in STAGES.items():
        in_body = stage in _BODY_AT
        in_head = bool(sent) and not in_body
        facts: Facts = {"status": 200, "content": _BODY_AT[stage]} if in_body else {}
        specs.append(
            spec(
                f"silent-{stage}", "silence", f"falls silent {where}",
                then_hold(sent), IDLE if sent else SILENCE,
                hangs=True, gauntlet=True, **facts,
                truncated="time" if in_body else None,
            )
        )  # fmt: skip
        ended = "disconnect" if in_body else None
        reset = ("incomplete",) if in_body else ("connection_reset", "bad_response")
        specs.append(
            spec(
                f"reset-{stage}", "reset", f"resets {where}", then_reset(sent), reset,
                gauntlet=True, truncated=ended, **facts,
            )
        )  # fmt: skip
        early = BROKEN_HEAD if in_head else ("incomplete",)
        if not sent:
            early = ("empty_reply",)
        if stage == "mid-body-unsized":
            early, ended = (OK,), None
        specs.append(
            spec(
                f"close-{stage}", "close", f"closes {where}", then_close(sent), early,
                truncated=ended, **facts,
            )
        )  # fmt: skip
    return specs


async def _silent_at_once(peer: Peer) -> None:
    await peer.hold()


async def _reset_at_once(peer: Peer) -> None:
    await peer.reset()


async def _close_at_once(peer: Peer) -> None:
    peer.transport.close()


def _connection() -> list[Spec]:
    return [
        spec(
            "silent-after-accept", "silence", "accepts and never says a word",
            _silent_at_once, kind="raw", hangs=True, gauntlet=True,
        ),
        spec(
            "reset-after-accept", "reset", "resets what it has just accepted",
            _reset_at_once,
            ("connection_reset", "send_error", "empty_reply", "connect_error"),
            kind="raw", gauntlet=True,
        ),
        spec(
            "close-after-accept", "close", "closes what it has just accepted",
            _close_at_once, ("empty_reply", "connection_reset", "send_error"),
            kind="raw",
        ),
        spec(
            "full-backlog", "connect", "drops every SYN: its accept queue is full",
            None, ("connect_timeout", "timeout", "hard_timeout"), kind="backlog",
            hangs=True, gauntlet=True,
        ),
        spec(
            "refused", "connect", "refuses connections", None, ("connect_refused",),
            kind="closed",
        ),
        spec(
            "lottery", "silence", "by chance: a page, silence, a byte, or an RST",
            _lottery,
            (OK, *SILENCE, "connection_reset", "bad_response", "incomplete"),
            origin=None, hangs=True,
        ),
    ]  # fmt: skip


_chance = random.Random(5)  # noqa: S311 - a draw, not a secret


async def _lottery(peer: Peer) -> None:
    draw = _chance.randrange(4)
    if draw == 0:
        await peer.send(Response(content.page(1024)).render(close=True))
    elif draw == 1:
        await peer.hold()
    elif draw == 2:
        await peer.send(b"H")
        await peer.hold()
    else:
        await peer.send(SIZED)
        await peer.reset()


def _trickles() -> list[Spec]:
    def one(name: str, text: str, script: Script, **facts: Any) -> Spec:
        return spec(
            f"trickle-{name}", "trickle", text, script, IDLE,
            hangs=True, gauntlet=True, **facts,
        )  # fmt: skip

    body: Facts = {"status": 200, "truncated": "time"}
    line = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
    return [
        one(
            "status-line", "one byte of the status line every 0.2 s",
            trickle(b"", line * 6, 0.2),
        ),
        one(
            "header-bytes", "one byte of an endless header every 0.2 s",
            repeat(HEAD + b"X-Long: ", b"a", 0.2),
        ),
        one(
            "headers", "one more header line every 0.2 s",
            repeat(HEAD, b"X-a: b\r\n", 0.2),
        ),
        one(
            "interim", "one more 103 every 0.2 s",
            repeat(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", 0.2),
        ),
        one(
            "body", "two bytes of 100,000 every 0.3 s",
            trickle(HEAD + b"Content-Length: 100000\r\n\r\n", b"a" * 100000, 0.3, 2),
            **body,
        ),
        one(
            "body-unsized", "one byte of an endless body every 0.1 s",
            repeat(UNTIL_CLOSE, b"a", 0.1), **body,
        ),
        one(
            "chunks", "one chunk of one byte every 0.2 s",
            repeat(CHUNKED, b"1\r\na\r\n", 0.2), **body,
        ),
        one(
            "chunk-size", "one digit of a chunk size every 0.2 s",
            repeat(CHUNKED + b"5\r\nhello\r\n", b"0", 0.2), **body,
        ),
        one(
            "chunk-extension", "one byte of a chunk extension every 0.2 s",
            repeat(CHUNKED + b"5;a=", b"b", 0.2), **body,
        ),
    ]  # fmt: skip


_numbers = itertools.count(1)


def redirect_for_ever(delay: float) -> Script:
    """Sends every request on to a URL that it has not seen yet."""

    async def script(peer: Peer) -> None:
        await asyncio.sleep(delay)
        where = b"Location: ?hop=%d\r\n" % next(_numbers)
        await peer.send(
            b"HTTP/1.1 302 Found\r\n" + where + b"Content-Length: 0\r\n"
            b"Connection: close\r\n\r\n"
        )

    return script


def _endless() -> list[Spec]:
    limits = ("timeout", "hard_timeout")
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    audio = b"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\n\r\n"
    block = content.noise(65536)
    return [
        spec(
            "endless-headers", "endless", "headers without end, flat out",
            repeat(HEAD, b"X-a: b\r\n" * 512, 0), ("headers_too_large", *limits),
            hangs=True, gauntlet=True,
        ),
        spec(
            "endless-header", "endless", "one header without end, flat out",
            repeat(HEAD + b"X-Long: ", b"a" * 4096, 0),
            ("headers_too_large", "bad_response", *limits), hangs=True, gauntlet=True,
        ),
        spec(
            "endless-interim", "endless", "103 without end, flat out",
            repeat(b"", interim * 128, 0),
            ("headers_too_large", "bad_response", *limits), hangs=True, gauntlet=True,
        ),
        spec(
            "endless-body", "endless", "a radio stream, 64 KiB at a time, flat out",
            repeat(audio, block, 0), (OK, *limits), origin=None,
            status=200, truncated="size", hangs=True, gauntlet=True,
        ),
        spec(
            "endless-chunks", "endless", "chunks without end, flat out",
            repeat(CHUNKED, b"10000\r\n" + block + b"\r\n", 0), (OK, *limits),
            origin=None, status=200, truncated="size", hangs=True, gauntlet=True,
        ),
        spec(
            "endless-redirects", "endless", "each page redirects to a new one",
            redirect_for_ever(0), ("too_many_redirects", *limits), gauntlet=True,
        ),
        spec(
            "slow-redirects", "trickle", "each page redirects to a new one after 0.3 s",
            redirect_for_ever(0.3), ("too_many_redirects", *limits), gauntlet=True,
        ),
    ]  # fmt: skip


def specs() -> list[Spec]:
    """The catalogue of this module."""
    return [
        *_connection(),
        *_stages(),
        *_trickles(),
        *_endless(),
    ]
