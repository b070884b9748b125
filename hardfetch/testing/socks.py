"""SOCKS 4, 4a and 5 proxies, healthy and faulty."""

from __future__ import annotations

import ipaddress
import struct
from typing import TYPE_CHECKING

from hardfetch.testing import content
from hardfetch.testing.model import OK, Spec, spec
from hardfetch.testing.proxies import STALLED, TLS_STALLED, open_upstream
from hardfetch.testing.tlsfaults import read_client_hello

if TYPE_CHECKING:
    from hardfetch.testing.model import Script
    from hardfetch.testing.peer import Peer

NO_AUTH = b"\x05\x00"
GRANTED = b"\x05\x00\x00\x01\0\0\0\0\0\0"
GRANTED_BY_NAME = b"\x05\x00\x00\x03\x01a\x00\x50"
GRANTED_V6 = b"\x05\x00\x00\x04" + bytes(18)
REPLIES = {
    1: "general failure",
    2: "not allowed",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "TTL expired",
    7: "command not supported",
    8: "address type not supported",
    9: "a code that has no meaning",
    255: "another",
}
SITE_REPLIES = (3, 4, 5, 6)


async def greet(peer: Peer) -> str:
    """The first two exchanges of SOCKS 5; the user name, "" without credentials."""
    _, count = await peer.read(2)
    methods = await peer.read(count)
    if 2 not in methods:
        await peer.send(NO_AUTH)
        return ""
    await peer.send(b"\x05\x02")
    _, size = await peer.read(2)
    user = await peer.read(size)
    await peer.read((await peer.read(1))[0])
    await peer.send(b"\x01\x00")
    return user.decode("utf-8", "replace")


async def read_request(peer: Peer) -> tuple[str, int]:
    """The host and port that a SOCKS 5 client wants."""
    kind = (await peer.read(4))[3]
    if kind == 1:
        host = str(ipaddress.IPv4Address(await peer.read(4)))
    elif kind == 4:
        host = str(ipaddress.IPv6Address(await peer.read(16)))
    else:
        host = (await peer.read((await peer.read(1))[0])).decode("latin-1")
    (port,) = struct.unpack(">H", await peer.read(2))
    return host, port


def healthy5(reply: bytes = GRANTED, cut: int = 0, every: float = 0.2) -> Script:
    """A working SOCKS 5 proxy whose good reply is `reply`, in pieces of `cut` bytes."""

    async def script(peer: Peer) -> None:
        user = await greet(peer)
        host, port = await read_request(peer)
        upstream = await open_upstream(peer, host, port, user)
        if upstream is None:
            await peer.send(b"\x05\x05" + GRANTED[2:])
            return
        try:
            if cut:
                await peer.trickle(reply, every, cut)
            else:
                await peer.send(reply)
            peer.join(upstream)
        finally:
            if peer.relay is None:  # the client did not wait for it
                upstream.transport.close()

    return script


async def _healthy4(peer: Peer) -> None:
    head = await peer.read(8)
    port = int.from_bytes(head[2:4], "big")
    host = str(ipaddress.IPv4Address(head[4:8]))
    user = (await peer.read_until(b"\0"))[:-1].decode("latin-1")
    if head[4:7] == bytes(3) and head[7]:
        host = (await peer.read_until(b"\0"))[:-1].decode("latin-1")
    upstream = await open_upstream(peer, host, port, user)
    if upstream is None:
        await peer.send(b"\x00\x5b" + bytes(6))
        return
    await peer.send(b"\x00\x5a" + bytes(6))
    peer.join(upstream)


def stop_at(stage: str, data: bytes = b"", end: str = "hold") -> Script:
    """Follows SOCKS 5 up to `stage` (greeting, request or tunnel), sends `data`, ends.

    The ends are hold, close and reset.
    """

    async def script(peer: Peer) -> None:
        if stage == "greeting":
            await peer.read(3)
        else:
            await greet(peer)
            await read_request(peer)
            if stage == "tunnel":
                await peer.send(GRANTED)
        await peer.finish(data, end)

    return script


async def _silent_at_password(peer: Peer) -> None:
    _, count = await peer.read(2)
    await peer.read(count)
    await peer.send(b"\x05\x02")
    await peer.hold()


async def _wrong_password(peer: Peer) -> None:
    _, count = await peer.read(2)
    await peer.read(count)
    await peer.send(b"\x05\x02")
    _, size = await peer.read(2)
    await peer.read(size)
    await peer.read((await peer.read(1))[0])
    await peer.send(b"\x01\x01")


async def _silent_after_hello(peer: Peer) -> None:
    await greet(peer)
    await read_request(peer)
    await peer.send(GRANTED)
    await read_client_hello(peer)
    await peer.hold()


def socks4(data: bytes, end: str) -> Script:
    """Reads a SOCKS 4 request, sends `data`, then holds or closes."""

    async def script(peer: Peer) -> None:
        head = await peer.read(8)
        await peer.read_until(b"\0")
        if head[4:7] == bytes(3) and head[7]:
            await peer.read_until(b"\0")
        await peer.finish(data, end)

    return script


def _healthy() -> list[Spec]:
    table: list[tuple[str, str, Script, str]] = [
        ("socks4", "SOCKS 4", _healthy4, "socks4://{self}"),
        ("socks4a", "SOCKS 4a", _healthy4, "socks4a://{self}"),
        ("socks5", "SOCKS 5", healthy5(), "socks5://{self}"),
        ("socks5h", "SOCKS 5, names resolved by the proxy", healthy5(),
         "socks5h://{self}"),
        ("socks5-user", "SOCKS 5 with a password", healthy5(), "socks5h://u:p@{self}"),
        ("socks5-pieces", "a good reply as 5 and 5 bytes 0.2 s apart",
         healthy5(cut=5), "socks5h://{self}"),
        ("socks5-bytes", "a good reply byte by byte",
         healthy5(cut=1, every=0.01), "socks5h://{self}"),
        ("socks5-name-reply", "a good reply that holds a name",
         healthy5(GRANTED_BY_NAME), "socks5h://{self}"),
        ("socks5-v6-reply", "a good reply that holds an IPv6 address",
         healthy5(GRANTED_V6), "socks5h://{self}"),
    ]  # fmt: skip
    return [
        spec(
            name, "socks", text, script, (OK,), kind="raw", url="{http}/1k",
            proxy=proxy, status=200, content=content.page(1024),
        )
        for name, text, script, proxy in table
    ]  # fmt: skip


def _replies() -> list[Spec]:
    return [
        spec(
            f"socks5-reply-{code}", "socks", f"replies {code}: {text}",
            stop_at("request", b"\x05" + bytes([code]) + GRANTED[2:], "close"),
            ("connect_error", "connect_refused", "proxy_refused")
            if code in SITE_REPLIES else ("proxy_refused",),
            kind="raw", url="{http}/1k", proxy="socks5h://{self}",
            origin="site" if code in SITE_REPLIES else "proxy",
        )
        for code, text in REPLIES.items()
    ]  # fmt: skip


def _faulty() -> list[Spec]:
    plain, tls = "{http}/1k", "{https}/1k"
    refused = ("proxy_refused", "proxy_protocol")
    lost = (*refused, "connection_reset")
    proxy, user = "socks5h://{self}", "socks5h://u:p@{self}"
    after = ("first_byte_timeout", "timeout", "hard_timeout")
    table: list[
        tuple[str, str, Script, tuple[str, ...], str, str, str, bool]
    ] = [
        ("silent-greeting", "never answers the greeting", stop_at("greeting"),
         STALLED, "proxy", plain, proxy, True),
        ("silent-mid-greeting", "half an answer to the greeting",
         stop_at("greeting", b"\x05"), STALLED, "proxy", plain, proxy, True),
        ("silent-password", "never answers the password", _silent_at_password,
         STALLED, "proxy", plain, user, True),
        ("silent-request", "never answers the request", stop_at("request"),
         STALLED, "proxy", plain, proxy, True),
        ("silent-mid-reply", "half a reply", stop_at("request", GRANTED[:5]),
         STALLED, "proxy", plain, proxy, True),
        ("trickled-reply", "a reply that takes for ever",
         healthy5(b"\x05\x00\x00\x03\xff" + b"a" * 257, cut=1),
         STALLED, "proxy", plain, proxy, True),
        ("tunnel-silent", "a good tunnel, then silence (http)", stop_at("tunnel"),
         after, "site", plain, proxy, True),
        ("tunnel-silent-tls", "a good tunnel, then silence (https)", stop_at("tunnel"),
         TLS_STALLED, "site", tls, proxy, True),
        ("tunnel-hello-silent", "a good tunnel, reads the ClientHello, then silence",
         _silent_after_hello, TLS_STALLED, "site", tls, proxy, True),
        ("no-method", "accepts no method", stop_at("greeting", b"\x05\xff", "close"),
         ("proxy_auth", *refused), "proxy", plain, proxy, False),
        ("wrong-password", "refuses the password", _wrong_password,
         ("proxy_auth",), "proxy", plain, user, False),
        ("cut-reply", "two bytes of a refusal, then FIN",
         stop_at("request", b"\x05\x05", "close"),
         (*lost, "connect_refused", "connect_error"), "proxy", plain, proxy, False),
        ("garbage", "answers the greeting with HTTP",
         stop_at("greeting", b"HTTP/1.1 400 Bad Request\r\n\r\n", "close"),
         ("proxy_protocol",), "proxy", plain, proxy, False),
        ("close", "closes instead of an answer", stop_at("greeting", b"", "close"),
         lost, "proxy", plain, proxy, False),
        ("reset", "resets instead of an answer", stop_at("greeting", b"", "reset"),
         lost, "proxy", plain, proxy, False),
        ("reset-request", "resets instead of a reply", stop_at("request", b"", "reset"),
         lost, "proxy", plain, proxy, False),
        ("200-html", "a good tunnel that holds a login page",
         stop_at("tunnel", b"<html>login</html>", "close"), ("tls_error",), "proxy",
         tls, proxy, False),
        ("tunnel-close", "a good tunnel that closes at once",
         stop_at("tunnel", b"", "close"), ("empty_reply", "connection_reset"),
         "site", plain, proxy, False),
    ]  # fmt: skip
    specs = [
        spec(
            f"socks5-{name}", "socks", text, script, expect, kind="raw", url=url,
            proxy=via, origin=origin, hangs=hangs,
            gauntlet=hangs or name.startswith("reset"),
        )
        for name, text, script, expect, origin, url, via, hangs in table
    ]  # fmt: skip
    four: list[tuple[str, str, bytes, str, tuple[str, ...]]] = [
        ("silent", "never answers", b"", "hold", STALLED),
        ("refused", "replies 91", b"\x00\x5b" + bytes(6), "close", refused),
        ("no-ident", "replies 92", b"\x00\x5c" + bytes(6), "close",
         ("proxy_auth", *refused)),
    ]  # fmt: skip
    return [
        *specs,
        *(
            spec(
                f"socks4-{name}", "socks", text, socks4(data, end), expect, kind="raw",
                url=plain, proxy="socks4a://{self}", origin="proxy",
                hangs=end == "hold", gauntlet=end == "hold",
            )
            for name, text, data, end, expect in four
        ),
    ]  # fmt: skip


def specs() -> list[Spec]:
    """The catalogue of this module."""
    return [*_healthy(), *_replies(), *_faulty()]
