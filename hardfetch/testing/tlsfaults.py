"""Faults of a TLS server: in the handshake, in its certificate, and at the end."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from functools import cache
from typing import TYPE_CHECKING

from hardfetch.testing import content
from hardfetch.testing.faults import CHUNKED, SIZED, then_hold
from hardfetch.testing.http1 import Response
from hardfetch.testing.model import OK, Spec, spec

if TYPE_CHECKING:
    from hardfetch.testing.model import Facts, Script
    from hardfetch.testing.peer import Peer

HANDSHAKE = ("tls_timeout", "timeout", "hard_timeout")
IDLE = ("idle_timeout", "timeout", "hard_timeout")
FATAL_ALERT = b"\x15\x03\x03\x00\x02\x02\x28"  # handshake_failure


@cache
def server_context(cert: str, alpn: str = "http/1.1") -> ssl.SSLContext:
    """A server's TLS settings with one of the certificates in `certs/`.

    Session tickets are on, so that `/whoami` can tell a resumed session.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(content.CERTS / f"{cert}.pem")
    context.set_alpn_protocols([alpn])
    return context


async def read_client_hello(peer: Peer) -> bytes:
    """Takes the first TLS record of a connection."""
    head = await peer.read(5)
    return head + await peer.read(int.from_bytes(head[3:5], "big"))


def after_hello(data: bytes, end: str) -> Script:
    """Reads the ClientHello, sends `data`, then ends as told: hold, close or reset."""

    async def script(peer: Peer) -> None:
        await read_client_hello(peer)
        await peer.finish(data, end)

    return script


async def _trickled_server_hello(peer: Peer) -> None:
    """Answers with a real ServerHello, a byte every 0.2 s."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = server_context("site").wrap_bio(incoming, outgoing, server_side=True)
    incoming.write(await read_client_hello(peer))
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    await peer.trickle(outgoing.read(), 0.2)
    await peer.hold()


def _handshake() -> list[Spec]:
    def one(
        name: str,
        text: str,
        script: Script,
        expect: tuple[str, ...],
        *,
        hangs: bool = False,
    ) -> Spec:
        return spec(
            f"tls-{name}", "tls", text, script, expect, kind="raw",
            url="https://{self}/", hangs=hangs, gauntlet=hangs or name == "reset",
        )  # fmt: skip

    broken = ("tls_error", "connection_reset")
    page = Response(content.page(1024)).render(close=True)
    return [
        one(
            "silent", "reads the ClientHello and never answers",
            after_hello(b"", "hold"), HANDSHAKE, hangs=True,
        ),
        one(
            "partial-record", "sends the head of a record of 122 bytes and stops",
            after_hello(b"\x16\x03\x03\x00\x7a", "hold"), HANDSHAKE, hangs=True,
        ),
        one(
            "trickled-hello", "sends a real ServerHello, a byte every 0.2 s",
            _trickled_server_hello, HANDSHAKE, hangs=True,
        ),
        one("close", "closes after the ClientHello", after_hello(b"", "close"), broken),
        one("reset", "resets after the ClientHello", after_hello(b"", "reset"), broken),
        one(
            "garbage", "answers the ClientHello with noise",
            after_hello(content.noise(600), "close"), broken,
        ),
        one(
            "plain-http", "answers the ClientHello with a page in clear",
            after_hello(page, "close"), broken,
        ),
        one(
            "alert", "answers the ClientHello with a handshake_failure alert",
            after_hello(FATAL_ALERT, "close"), broken,
        ),
    ]  # fmt: skip


async def _page(peer: Peer) -> None:
    await peer.read_head()
    await peer.send(Response(content.page(1024)).render(close=True))


async def _sized_without_notify(peer: Peer) -> None:
    await peer.read_head()
    await peer.send(Response(content.page(1024)).render(close=True))
    await asyncio.sleep(0)
    peer.cut()


async def _unsized_without_notify(peer: Peer) -> None:
    await peer.read_head()
    await peer.send(b"HTTP/1.1 200 OK\r\n\r\n<html>half a pa")
    await asyncio.sleep(0)
    peer.cut()


def _cut_after(data: bytes) -> Script:
    async def script(peer: Peer) -> None:
        await peer.read_head()
        await peer.send(data)
        await asyncio.sleep(0)
        peer.cut()

    return script


async def _unsized_with_notify(peer: Peer) -> None:
    await peer.read_head()
    await peer.send(b"HTTP/1.1 200 OK\r\n\r\n<html>a page</html>")


async def _keeps_open(peer: Peer) -> None:
    """Says `Connection: close` and waits for the client to do it."""
    await peer.read_head()
    await peer.send(Response(content.page(1024)).render(close=True))
    await peer.hold()


def in_tls(data: bytes, end: str) -> Script:
    """Inside TLS: reads the request, sends `data`, then holds or resets."""

    async def script(peer: Peer) -> None:
        await peer.read_head()
        await peer.finish(data, end)

    return script


async def _trickled_body(peer: Peer) -> None:
    await peer.read_head()
    await peer.send(SIZED)
    await peer.trickle(b"a" * 10000, 0.2)


def _inside() -> list[Spec]:
    good: Facts = {"status": 200, "content": content.page(1024)}
    part: Facts = {"status": 200, "content": b"<html>", "truncated": "time"}
    lost: Facts = {"status": 200, "content": b"<html>", "truncated": "disconnect"}
    return [
        spec(
            "tls-silent-after-handshake", "tls", "silence after the handshake",
            then_hold(b""), ("first_byte_timeout", *IDLE), kind="tls",
            hangs=True, gauntlet=True,
        ),
        spec(
            "tls-silent-mid-body", "tls", "falls silent within the body",
            in_tls(SIZED + b"<html>", "hold"), IDLE, kind="tls",
            hangs=True, gauntlet=True, **part,
        ),
        spec(
            "tls-trickle-body", "tls", "one byte of the body every 0.2 s",
            _trickled_body, IDLE, kind="tls", hangs=True, gauntlet=True,
            status=200, truncated="time",
        ),
        spec(
            "tls-reset-mid-body", "tls", "resets within the body",
            in_tls(SIZED + b"<html>", "reset"), ("incomplete",), kind="tls",
            gauntlet=True, **lost,
        ),
        spec(
            "tls-no-notify-sized", "tls", "no close_notify after the whole length",
            _sized_without_notify, (OK,), kind="tls", **good,
        ),
        spec(
            "tls-no-notify-unsized", "tls", "ends without close_notify or length",
            _unsized_without_notify, ("incomplete",), kind="tls",
            status=200, content=b"<html>half a pa", truncated="disconnect",
        ),
        spec(
            "tls-no-notify-chunked", "tls", "no close_notify after the last chunk",
            _cut_after(CHUNKED + b"5\r\nhello\r\n0\r\n\r\n"), (OK,), kind="tls",
            status=200, content=b"hello",
        ),
        spec(
            "tls-no-notify-mid-chunks", "tls", "ends between chunks, no close_notify",
            _cut_after(CHUNKED + b"5\r\nhello\r\n"), ("incomplete",), kind="tls",
            status=200, content=b"hello", truncated="disconnect",
        ),
        spec(
            "tls-chunk-size-letters", "tls", "a chunk size of ZZ, then silence",
            in_tls(CHUNKED + b"5\r\nhello\r\nZZ\r\n", "hold"), ("incomplete",),
            kind="tls", status=200, content=b"hello", truncated="framing",
        ),
        spec(
            "tls-notify-unsized", "tls", "ends with close_notify, without a length",
            _unsized_with_notify, (OK,), kind="tls",
            status=200, content=b"<html>a page</html>",
        ),
        spec(
            "tls-keeps-open", "tls", "says Connection: close but never closes",
            _keeps_open, (OK,), kind="tls", **good,
        ),
    ]  # fmt: skip


def _certificates() -> list[Spec]:
    texts = {
        "expired": "a certificate that ran out in 2021",
        "wronghost": "a certificate for another host",
        "untrusted": "a certificate that nobody trusted signed",
    }
    return [
        spec(
            f"tls-{cert}", "tls", text, _page, ("certificate_error",), kind="tls",
            cert=cert,
        )
        for cert, text in texts.items()
    ]  # fmt: skip


def specs() -> list[Spec]:
    """The catalogue of this module."""
    return [*_handshake(), *_inside(), *_certificates()]
