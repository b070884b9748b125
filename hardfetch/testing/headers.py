"""Answers with odd heads: folds, stray bytes, duplicates, sizes; odd Locations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardfetch.testing import content
from hardfetch.testing.faults import then_close
from hardfetch.testing.http1 import Response
from hardfetch.testing.model import OK, Spec, spec

if TYPE_CHECKING:
    from hardfetch.testing.model import Facts, Script
    from hardfetch.testing.peer import Peer

BODY = b"hello"
BAD = ("bad_response",)
EITHER = (OK, *BAD)
TOO_LARGE = ("headers_too_large",)
ALL_BYTES = bytes(byte for byte in range(256) if byte not in b"\r\n\0")


def with_head(lines: bytes, *, length: bool = True, body: bytes = BODY) -> bytes:
    """An answer with these extra header lines, each ended by its own line break."""
    sized = b"Content-Length: %d\r\n" % len(body) if length else b""
    return b"HTTP/1.1 200 OK\r\n" + sized + lines + b"\r\n" + body


def many(count: int, size: int) -> bytes:
    """`count` header lines of `size` bytes each, CRLF included."""
    return b"".join(
        b"X-%05d: " % n + b"v" * (size - 11) + b"\r\n" for n in range(count)
    )  # fmt: skip


def _odd_lines() -> list[tuple[str, str, bytes, tuple[str, ...]]]:
    lf = b"HTTP/1.1 200 OK\nContent-Length: 5\nX-A: 1\n\nhello"
    first = b"HTTP/1.1 200 OK\r\n folded: x\r\nContent-Length: 5\r\n\r\nhello"
    return [
        ("folded", "a folded header", with_head(b"X: a\r\n b\r\n\tc\r\n"), (OK,)),
        ("fold-first", "a fold as the first line", first, EITHER),
        ("stray-cr", "a CR within a line", with_head(b"X: a\rY: b\r\n"), EITHER),
        ("no-colon", "a line without a colon", with_head(b"NoColonHere\r\n"), EITHER),
        ("empty-value", "X:", with_head(b"X:\r\n"), (OK,)),
        ("empty-name", ": v", with_head(b": v\r\n"), EITHER),
        ("blank-before-colon", "X : v", with_head(b"X : v\r\n"), EITHER),
        ("blank-before-name", " X: v", with_head(b"A: 1\r\n X: v\r\n"), EITHER),
        (
            "three-cookies", "three Set-Cookie headers",
            with_head(b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nSet-Cookie: a=3\r\n"),
            (OK,),
        ),
        ("latin1-value", "bytes e9 ff", with_head(b"X: \xe9\xff\r\n"), (OK,)),
        ("nul", "a NUL in a value", with_head(b"X: a\0b\r\n"), EITHER),
        ("bare-lf", "lines ended by LF alone", lf, (OK,)),
        ("all-bytes", "every byte", with_head(b"X: " + ALL_BYTES + b"!\r\n"), EITHER),
        (
            "reason-all-bytes", "every byte in the reason phrase",
            b"HTTP/1.1 200 " + ALL_BYTES + b"\r\nContent-Length: 5\r\n\r\nhello",
            EITHER,
        ),
        ("utf8-value", "UTF-8", with_head("X: caf\u00e9 \u20ac\r\n".encode()), (OK,)),
        ("overlong", "overlong c0 80", with_head(b"X: \xc0\x80\r\n"), (OK,)),
        ("surrogates", "CESU ed a0 80", with_head(b"X: \xed\xa0\x80\r\n"), (OK,)),
    ]  # fmt: skip


def _lengths() -> list[tuple[str, str, bytes, tuple[str, ...]]]:
    def told(*values: bytes) -> bytes:
        lines = b"".join(b"Content-Length: " + value + b"\r\n" for value in values)
        return with_head(lines, length=False)

    any_way = (OK, *BAD, "incomplete")
    both = b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"
    return [
        ("two-lengths", "Content-Length 5 and 7", told(b"5", b"7"), any_way),
        ("same-length-twice", "Content-Length 5 twice", told(b"5", b"5"), (OK,)),
        ("length-list", "Content-Length: 5, 5", told(b"5, 5"), EITHER),
        ("length-negative", "Content-Length: -1", told(b"-1"), any_way),
        ("length-huge", "20 nines", told(b"9" * 20), ("incomplete",)),
        ("length-word", "Content-Length: many", told(b"many"), any_way),
        (
            "length-and-chunked", "Content-Length and chunked",
            with_head(both, length=False, body=b"5\r\nhello\r\n0\r\n\r\n"), (OK,),
        ),
    ]  # fmt: skip


def _sizes() -> list[tuple[str, str, bytes, tuple[str, ...]]]:
    # The head of with_head itself is 38 bytes and belongs to the total.
    return [
        ("9k", "one header of 9 KB", with_head(many(1, 9 * 1024)), (OK,)),
        ("90k", "one header of 90 KB", with_head(many(1, 90 * 1024)), (OK,)),
        ("299k", "299 KB in all", with_head(many(299, 1024)), (OK,)),
        ("301k", "301 KB in all", with_head(many(301, 1024)), TOO_LARGE),
        ("4999", "4,999 headers", with_head(many(4998, 16)), (OK,)),
        ("5001", "5,001 headers", with_head(many(5000, 16)), (OK, *TOO_LARGE)),
    ]


def _heads() -> list[Spec]:
    specs = []
    for name, text, data, expect in (*_odd_lines(), *_lengths(), *_sizes()):
        facts: Facts = {}
        if expect in ((OK,), ("incomplete",)):
            facts = {"status": 200, "content": BODY}
        if expect == ("incomplete",):
            facts["truncated"] = "framing"
        specs.append(
            spec(f"header-{name}", "header", text, then_close(data), expect, **facts)
        )
    return specs


def _locations() -> list[Spec]:
    """302s whose Location is missing, odd, or leads out of http; the target is /1k."""
    good = ((OK,), 200)
    kept = (("bad_redirect",), 302)
    table: list[tuple[str, bytes | None, tuple[tuple[str, ...], int | None]]] = [
        ("missing", None, ((OK, "bad_redirect"), 302)),
        (
            "empty",
            b"",
            ((OK, "bad_redirect", "redirect_loop"), None),
        ),
        ("blanks", b"  {base}/1k  ", good),
        ("scheme-relative", b"//{netloc}/1k", good),
        ("backslashes", b"http:\\\\{netloc}\\1k", ((OK, "bad_redirect"), None)),
        ("upper-scheme", b"HTTP://{netloc}/1k", good),
        ("fragment", b"{base}/1k#part", good),
        ("blank-inside", b"{base}/1k?a b", good),
        ("latin1", b"{base}/1k?caf\xe9", good),
        ("utf8", b"{base}/1k?caf\xc3\xa9", good),
        ("file", b"file:///etc/passwd", kept),
        ("gopher", b"gopher://127.0.0.1/", kept),
        ("javascript", b"javascript:void(0)", kept),
        ("three-slashes", b"http:///{netloc}/1k", ((OK, "bad_redirect"), None)),
        ("bad-port", b"http://127.0.0.1:99999/", kept),
        ("decimal-ip", b"http://2130706433:{port}/1k", good),
        ("short-ip", b"http://127.1:{port}/1k", good),
        ("mapped-ip", b"http://[::ffff:127.0.0.1]:{port}/1k", good),
    ]
    return [
        spec(
            f"location-{name}", "redirect", f"302 to {where!r}", _to(where), expect,
            status=status,
        )
        for name, where, (expect, status) in table
    ]  # fmt: skip


def _to(where: bytes | None) -> Script:
    async def script(peer: Peer) -> None:
        base = peer.ledger.base.encode()
        netloc = base.partition(b"//")[2]
        line = b""
        if where is not None:
            target = where.replace(b"{base}", base).replace(b"{netloc}", netloc)
            port = netloc.rpartition(b":")[2]
            line = b"Location: " + target.replace(b"{port}", port) + b"\r\n"
        await peer.send(b"HTTP/1.1 302 Found\r\n" + line + b"Content-Length: 0\r\n\r\n")

    return script


def _moved(rest: bytes, end: str = "close") -> Script:
    """A 302 to /1k with `rest` behind its Location, then FIN or RST."""

    async def script(peer: Peer) -> None:
        where = f"Location: {peer.ledger.base}/1k\r\n".encode()
        await peer.send(b"HTTP/1.1 302 Found\r\n" + where + rest)
        if end == "reset":
            await peer.reset()

    return script


async def _cookie_first(peer: Peer) -> None:
    """Redirects to itself with a cookie; who brings that gets the page."""
    if b"seen=1" in await peer.read_head():
        await peer.send(Response(content.page(1024)).render(close=True))
        return
    await peer.send(
        b"HTTP/1.1 302 Found\r\nLocation: /\r\nSet-Cookie: seen=1\r\n"
        b"Content-Length: 0\r\nConnection: close\r\n\r\n"
    )


def _moves() -> list[Spec]:
    sized = b"Content-Length: 1000\r\n\r\nshort"
    table: list[tuple[str, str, Script]] = [
        ("cut", "whose body is cut", _moved(sized)),
        ("reset", "whose body is reset", _moved(sized, "reset")),
        ("bad-chunk", "with a broken chunk",
         _moved(b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n")),
        ("bad-gzip", "that is no gzip as it says",
         _moved(b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello")),
    ]  # fmt: skip
    return [
        spec(
            "redirect-to-itself-with-cookie", "redirect",
            "a 302 to itself until a cookie is brought", _cookie_first,
            (OK, "redirect_loop"), kind="raw",
        ),
        *(spec(
            f"redirect-{name}", "redirect", f"a 302 {text}", script,
            (OK,),
        )
        for name, text, script in table),
    ]  # fmt: skip


def specs() -> list[Spec]:
    """The catalogue of this module."""
    return [*_heads(), *_locations(), *_moves()]
