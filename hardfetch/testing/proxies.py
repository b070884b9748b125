"""HTTP proxies, healthy and faulty: CONNECT tunnels and absolute-form requests.

A healthy proxy goes nowhere but to loopback. What it knows of its client (user name,
number of the connection) is told by `/whoami` of the page server behind it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hardfetch.testing import content
from hardfetch.testing.model import OK, Spec, spec
from hardfetch.testing.peer import Peer, PeerGoneError

if TYPE_CHECKING:
    from hardfetch.testing.model import Facts, Script

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
CREDENTIALS = ("u", "p")
STALLED = ("proxy_timeout", "timeout", "hard_timeout")
TLS_STALLED = ("tls_timeout", "timeout", "hard_timeout")


def loopback_address(host: str) -> str | None:
    """The loopback address that a proxy connects to for a name; None: it refuses."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith((".localhost", ".test")):
        return "127.0.0.1"
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return None
    return name if address.is_loopback else None


async def open_upstream(peer: Peer, host: str, port: int, user: str) -> Peer | None:
    """Connects a proxy's client to a server; None when that can't be had."""
    address = loopback_address(host)
    if address is None:
        return None
    ledger = peer.ledger
    upstream = Peer(ledger, "upstream", None)
    try:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: upstream, address, port)
    except OSError:
        return None
    local = transport.get_extra_info("sockname")[1]
    ledger.exits[local] = (user, peer.id)
    upstream.on_lost = lambda: ledger.exits.pop(local, None)
    return upstream


def user_of(head: bytes) -> tuple[str, str]:
    """The user and password of a request's Proxy-Authorization, or two empty ones."""
    for line in head.decode("latin-1").split("\r\n"):
        name, _, value = line.partition(":")
        if name.lower() == "proxy-authorization":
            try:
                plain = base64.b64decode(value.split()[-1]).decode()
            except (binascii.Error, UnicodeDecodeError, IndexError):
                return "", ""
            user, _, password = plain.partition(":")
            return user, password
    return "", ""


def refusal(status: str, *headers: str) -> bytes:
    """A proxy's own error answer."""
    lines = "".join(f"{line}\r\n" for line in headers)
    body = f"<h1>proxy says {status}</h1>\n"
    head = f"HTTP/1.1 {status}\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


def healthy(
    *, credentials: tuple[str, str] | None = None, before: bytes = b""
) -> Script:
    """A working proxy.

    It asks for `credentials`, and sends `before` in place of the plain 200 to CONNECT.
    """

    async def script(peer: Peer) -> None:
        upstream: Peer | None = None
        where = ("", 0)
        while True:
            head = await peer.read_head()
            user, password = user_of(head)
            method, target, version = (
                head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
            )
            if credentials is not None and (user, password) != credentials:
                ask = 'Proxy-Authenticate: Basic realm="proxy"'
                await peer.send(refusal("407 Proxy Authentication Required", ask))
                continue
            if method == "CONNECT":
                host, _, port = target.rpartition(":")
                tunnel = await open_upstream(peer, host, int(port), user)
                if tunnel is None:
                    await peer.send(refusal("502 Bad Gateway"))
                    return
                await peer.send(before or ESTABLISHED)
                peer.join(tunnel)
                return
            parts = urlsplit(target)
            wanted = (parts.hostname or "", parts.port or 80)
            if upstream is None or where != wanted or upstream.transport.is_closing():
                where = wanted
                upstream = await open_upstream(peer, *wanted, user)
                if upstream is None:
                    await peer.send(refusal("502 Bad Gateway"))
                    return
                upstream.pass_to(peer)
            path = (parts.path or "/") + ("?" + parts.query if parts.query else "")
            await _forward(peer, upstream, head, f"{method} {path} {version}")

    return script


async def _forward(peer: Peer, upstream: Peer, head: bytes, first: str) -> None:
    """Sends one absolute-form request on in origin form, its body included."""
    lines = head.decode("latin-1").split("\r\n")[1:-2]
    kept = [line for line in lines if not line.lower().startswith("proxy-")]
    await upstream.send("\r\n".join([first, *kept, "", ""]).encode("latin-1"))
    sizes = [line for line in lines if line.lower().startswith("content-length:")]
    left = int(sizes[0].partition(":")[2]) if sizes else 0
    while left > 0:
        if not peer.buffer:
            await peer.more()
        piece = await peer.read(min(left, len(peer.buffer)))
        await upstream.send(piece)
        left -= len(piece)


def after_request(data: bytes, end: str) -> Script:
    """Reads the proxy request, sends `data`, then ends: hold, close or reset."""

    async def script(peer: Peer) -> None:
        await peer.read_head()
        await peer.finish(data, end)

    return script


async def _dribbled_reply(peer: Peer) -> None:
    await peer.read_head()
    await peer.send(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        await peer.send(b"a")
        await asyncio.sleep(0.2)


async def _endless_reply(peer: Peer) -> None:
    await peer.read_head()
    await peer.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await peer.send(b"X-a: b\r\n" * 512)
        await asyncio.sleep(0)


async def _silent_after_hello(peer: Peer) -> None:
    await peer.read_head()
    await peer.send(ESTABLISHED)
    try:
        await peer.read(5)
    except PeerGoneError:
        return
    await peer.hold()


def _healthy() -> list[Spec]:
    page: Facts = {"status": 200, "content": content.page(1024)}
    leaky = b"HTTP/1.1 200 Fine\r\nSet-Cookie: p=1\r\nX-Odd: \xff\xfe\r\n"
    leaky += b"".join(b"X-Proxy-%d: leaked\r\n" % n for n in range(48)) + b"\r\n"
    table: list[tuple[str, str, Script, str, str]] = [
        ("http", "for http", healthy(), "{http}", "http://{self}"),
        ("connect", "CONNECT for https", healthy(), "{https}", "http://{self}"),
        (
            "auth", "asks for a password", healthy(credentials=CREDENTIALS), "{https}",
            "http://u:p@{self}",
        ),
        (
            "leaky", "sends 50 odd headers with its 200 to CONNECT",
            healthy(before=leaky), "{https}", "http://{self}",
        ),
    ]  # fmt: skip
    specs = [
        spec(
            f"proxy-{name}", "proxy", f"healthy proxy: {text}", script, (OK,),
            kind="raw", url=base + "/1k", proxy=proxy, **page,
        )
        for name, text, script, base, proxy in table
    ]  # fmt: skip
    specs.append(
        spec(
            "proxy-https", "proxy", "healthy proxy behind TLS", healthy(), (OK,),
            kind="tls", url="{https}/1k", proxy="https://{self}", **page,
        )
    )  # fmt: skip
    return specs


def _refusals() -> list[Spec]:
    ask = 'Proxy-Authenticate: Basic realm="proxy"'
    table: list[tuple[str, bytes, str]] = [
        ("400", refusal("400 Bad Request"), "proxy_refused"),
        ("403", refusal("403 Forbidden"), "proxy_refused"),
        ("407", refusal("407 Proxy Authentication Required", ask), "proxy_auth"),
        ("407-bare", refusal("407 Proxy Authentication Required"), "proxy_auth"),
        ("429", refusal("429 Too Many Requests", "Retry-After: 1"), "proxy_refused"),
        ("502", refusal("502 Bad Gateway"), "proxy_refused"),
        ("503", refusal("503 Service Unavailable"), "proxy_refused"),
        ("302", refusal("302 Found", "Location: http://127.0.0.1/"), "proxy_refused"),
        ("garbage", content.noise(500), "proxy_protocol"),
        ("ssh", b"SSH-2.0-x\r\n", "proxy_protocol"),
        # libcurl takes no tunnel whose headers it can't read.
        ("colonless", b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "proxy_protocol"),
    ]
    return [
        spec(
            f"connect-{name}", "proxy", f"answers CONNECT with {data[:20]!r}",
            after_request(data, "close"), (error,), kind="raw", url="{https}/1k",
            proxy="http://{self}", origin="proxy",
        )
        for name, data, error in table
    ]  # fmt: skip


def _faulty() -> list[Spec]:
    lost = ("proxy_protocol", "proxy_refused", "connection_reset")
    broken = ("tls_error", "connection_reset")
    part = b"HTTP/1.1 200 OK\r\nX-Par"
    html = ESTABLISHED + b"<html>login</html>"
    table: list[tuple[str, str, Script, tuple[str, ...], str, bool]] = [
        ("silent", "reads CONNECT, then silence", after_request(b"", "hold"),
         STALLED, "proxy", True),
        ("silent-mid-reply", "half a reply to CONNECT, then silence",
         after_request(part, "hold"), STALLED, "proxy", True),
        ("trickled-reply", "a reply to CONNECT, a byte every 0.2 s",
         _dribbled_reply, STALLED, "proxy", True),
        ("endless-reply", "a reply to CONNECT without end", _endless_reply,
         ("proxy_protocol", "headers_too_large", *STALLED), "proxy", True),
        ("200-silent", "a good tunnel, then silence",
         after_request(ESTABLISHED, "hold"), TLS_STALLED, "site", True),
        ("200-hello-silent", "a good tunnel, reads the ClientHello, then silence",
         _silent_after_hello, TLS_STALLED, "site", True),
        ("close", "closes instead of a reply", after_request(b"", "close"),
         lost, "proxy", False),
        ("reset", "resets instead of a reply", after_request(b"", "reset"),
         lost, "proxy", False),
        ("close-mid-reply", "closes within its reply", after_request(part, "close"),
         lost, "proxy", False),
        ("200-html", "a good tunnel that holds a login page",
         after_request(html, "close"),
         ("tls_error",), "proxy", False),
        ("200-noise", "a good tunnel that holds noise",
         after_request(ESTABLISHED + content.noise(600), "close"),
         ("tls_error",), "proxy", False),
        ("200-close", "a good tunnel that closes at once",
         after_request(ESTABLISHED, "close"), broken, "site", False),
        ("200-reset", "a good tunnel that is reset at once",
         after_request(ESTABLISHED, "reset"), broken, "site", False),
    ]  # fmt: skip
    return [
        spec(
            f"connect-{name}", "proxy", text, script, expect, kind="raw",
            url="{https}/1k", proxy="http://{self}", origin=origin, hangs=hangs,
            gauntlet=hangs or name == "reset",
        )
        for name, text, script, expect, origin, hangs in table
    ]  # fmt: skip


def _plain() -> list[Spec]:
    timed = ("proxy_timeout", "first_byte_timeout", "timeout", "hard_timeout")
    ask = 'Proxy-Authenticate: Basic realm="proxy"'
    denied = refusal("407 Proxy Authentication Required", ask)
    return [
        spec(
            "proxy-silent", "proxy", "reads a plain request, then silence",
            after_request(b"", "hold"), timed, kind="raw", url="{http}/1k",
            proxy="http://{self}", origin=None, hangs=True, gauntlet=True,
        ),
        spec(
            "proxy-407", "proxy", "answers a plain request with 407",
            after_request(denied, "close"), ("proxy_auth",), kind="raw",
            url="{http}/1k", proxy="http://{self}", origin="proxy",
        ),
    ]  # fmt: skip


def specs() -> list[Spec]:
    """The catalogue of this module."""
    return [*_healthy(), *_refusals(), *_faulty(), *_plain()]
