"""Odd answers that the fault site has no names for, each with the record it must give.

What browsers, the URL, Encoding and Fetch standards and the RFCs make of them decides;
where libcurl refuses an answer, the record says so and keeps what was told.
"""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import truth
import zstandard
from answers import Answers

from hardfetch.testing import FaultSite
from hardfetch.testing.content import raw_deflate

OK = b"HTTP/1.1 200 OK\r\n"
PAGE = b"<html>hello world, hello world</html>"
GZIP = gzip.compress(PAGE, mtime=0)
ZLIB = zlib.compress(PAGE)
ZSTD = zstandard.compress(PAGE)
Case = tuple[bytes, dict[str, Any]]


def hold(site: FaultSite, cases: dict[str, Case]) -> None:
    """Ask for all of them in one run and hold each record against its expectation."""
    with Answers([answer for answer, _ in cases.values()]) as server:
        inputs = [
            {"url": server.url(number), "id": name} for number, name in enumerate(cases)
        ]
        records = truth.fetch(
            site, inputs, body="base64", no_redirects=True, breaker=0, timeout=20
        )
    for record in records:
        try:
            truth.expect(record, **cases[record["id"]][1])
        except AssertionError as error:
            raise AssertionError(f"{record['id']}: {error}") from None


def fine(body: bytes | None, **more: Any) -> dict[str, Any]:
    return {"status": 200, "body": body, **more}


def refused(status: int | None = 200, **more: Any) -> dict[str, Any]:
    return {
        "error": "bad_response", "origin": "site", "phase": "headers",
        "status": status, **more,
    }  # fmt: skip


def broken(body: bytes | None, why: str = "framing", **more: Any) -> dict[str, Any]:
    return {
        "error": "incomplete", "origin": "site", "phase": "body", "status": 200,
        "body": body, "truncated": why, **more,
    }  # fmt: skip


# --- encodings of bodies ---


def coded(label: bytes, body: bytes) -> bytes:
    return OK + b"Content-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s" % (
        label, len(body), body,
    )  # fmt: skip


def plain(body: bytes) -> dict[str, Any]:
    return fine(body, decoded=False)


def undone(body: bytes = PAGE) -> dict[str, Any]:
    return fine(body or None, decoded=True)


def misfit(body: bytes, *, decoded: bool = False) -> dict[str, Any]:
    return {
        "error": "bad_encoding", "origin": "site", "phase": "decode", "status": 200,
        "body": body, "truncated": "decode", "decoded": decoded,
    }  # fmt: skip


def member(flags: int, extra: bytes) -> bytes:
    """The gzip with optional fields in its head (RFC 1952, 2.3)."""
    return b"\x1f\x8b\x08" + bytes([flags]) + bytes(6) + extra + GZIP[10:]


BIG_WINDOW = zstandard.ZstdCompressor(
    compression_params=zstandard.ZstdCompressionParameters(window_log=27)
).compress(PAGE * 100)

CODED: dict[str, Case] = {
    "empty tokens": (coded(b"gzip,", GZIP), undone()),
    "an empty token first": (coded(b" ,gzip", GZIP), undone()),
    "a parameter": (coded(b"gzip;q=1.0", GZIP), plain(GZIP)),
    "quotes": (coded(b'"gzip"', GZIP), plain(GZIP)),
    "no comma": (coded(b"gzip gzip", GZIP), plain(GZIP)),
    "compress": (coded(b"compress", b"\x1f\x9d\x90abc"), plain(b"\x1f\x9d\x90abc")),
    "bzip2 of text": (coded(b"bzip2", PAGE), plain(PAGE)),
    "2000 bytes": (coded(b"x" * 2000, PAGE), plain(PAGE)),
    "zlib as gzip": (coded(b"gzip", ZLIB), misfit(ZLIB)),
    "gzip as deflate": (coded(b"deflate", GZIP), undone()),
    "zstd as gzip": (coded(b"gzip", ZSTD), misfit(ZSTD)),
    "gzip as zstd": (coded(b"zstd", GZIP), misfit(GZIP)),
    "an empty gzip": (coded(b"gzip", gzip.compress(b"")), undone(b"")),
    "a name in gzip": (coded(b"gzip", member(8, b"name.html\0")), undone()),
    "a comment in gzip": (coded(b"gzip", member(16, b"comment\0")), undone()),
    "extra bytes in gzip": (coded(b"gzip", member(4, b"\4\0abcd")), undone()),
    "reserved bits of gzip": (
        coded(b"gzip", member(0xE0, b"")), misfit(member(0xE0, b"")),
    ),
    "a wrong length in gzip": (
        coded(b"gzip", GZIP[:-4] + bytes(4)), misfit(PAGE, decoded=True),
    ),
    "twice packed, once told": (coded(b"gzip", gzip.compress(GZIP)), undone(GZIP)),
    "once packed, twice told": (coded(b"gzip, gzip", GZIP), misfit(GZIP)),
    "told by two headers": (
        OK + b"Content-Encoding: gzip\r\ncontent-encoding: br\r\n\r\n" + GZIP,
        misfit(GZIP),
    ),
    "two zstd frames": (coded(b"zstd", ZSTD * 2), undone(PAGE * 2)),
    "a zstd frame to skip": (
        coded(b"zstd", b"\x50\x2a\x4d\x18\4\0\0\0abcd" + ZSTD), undone(),
    ),
    "junk behind zstd": (coded(b"zstd", ZSTD + b"junk"), undone()),
    "a window of 128 MiB": (coded(b"zstd", BIG_WINDOW), undone(PAGE * 100)),
    "junk behind zlib": (coded(b"deflate", ZLIB + b"junk"), undone()),
    "junk behind raw deflate": (
        coded(b"deflate", raw_deflate(PAGE) + b"junk"), undone(),
    ),
    "a part of gzip": (
        coded(b"gzip", GZIP[:20]).replace(b"200 OK", b"206 Part"),
        misfit(PAGE[:9], decoded=True) | {"status": 206},
    ),
}  # fmt: skip


def test_odd_encodings(site: FaultSite) -> None:
    hold(site, CODED)


# --- framing ---

CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"
HELLO = b"5\r\nhello\r\n" + LAST


def length(value: bytes, body: bytes = b"hello") -> bytes:
    return OK + b"Content-Length: " + value + b"\r\n\r\n" + body


def transfer(value: bytes, body: bytes = HELLO) -> bytes:
    return OK + b"Transfer-Encoding: " + value + b"\r\n\r\n" + body


FRAMED: dict[str, Case] = {
    "chunked in upper case": (transfer(b"CHUNKED"), fine(b"hello")),
    "chunked twice": (transfer(b"chunked, chunked"), fine(b"hello")),
    "gzip as transfer": (transfer(b"gzip, chunked"), refused()),
    "an unknown transfer": (transfer(b"xchunked"), refused()),
    "identity": (transfer(b"identity", b"hello"), fine(b"hello")),
    "no transfer": (transfer(b"", b"hello"), fine(b"hello")),
    "chunks by 1.0": (
        CHUNKED.replace(b"1.1", b"1.0") + HELLO, fine(b"hello", http_version="1.0"),
    ),
    "an extension": (CHUNKED + b'5;x="a;b"\r\nhello\r\n0;y\r\n\r\n', fine(b"hello")),
    "a long extension": (
        CHUNKED + b"5;" + b"x" * 9000 + b"\r\nhello\r\n" + LAST, fine(b"hello"),
    ),
    "bare line feeds": (CHUNKED + b"5\nhello\n0\n\n", fine(b"hello")),
    "blanks behind a size": (CHUNKED + b"5  \r\nhello\r\n" + LAST, fine(b"hello")),
    "many zeros": (CHUNKED + b"5\r\nhello\r\n000\r\n\r\n", fine(b"hello")),
    "junk behind the end": (CHUNKED + HELLO + b"JUNK", fine(b"hello")),
    "a blank before a size": (CHUNKED + b" " + HELLO, broken(None)),
    "a sign": (CHUNKED + b"+" + HELLO, broken(None)),
    "a minus": (CHUNKED + b"-1\r\nhello\r\n" + LAST, broken(None)),
    "0x": (CHUNKED + b"0x" + HELLO, broken(None)),
    "31 digits": (CHUNKED + b"0" * 30 + HELLO, broken(None)),
    "an empty line first": (CHUNKED + b"\r\n" + HELLO, broken(None)),
    "a trailer without colon": (
        CHUNKED + b"5\r\nhello\r\n0\r\nmoom\r\n\r\n", broken(b"hello"),
    ),
    "a trailer of 70 KB": (
        CHUNKED + b"5\r\nhello\r\n0\r\nX: " + b"y" * 70000 + b"\r\n\r\n",
        broken(b"hello"),
    ),
    "more than told": (length(b"5", b"hello1234"), fine(b"hello")),
    "nothing told": (length(b"0", b"hello"), fine(None, size=0)),
    "zeros in front": (length(b"0005"), fine(b"hello")),
    "tabs around": (length(b"\t5\t"), fine(b"hello")),
    "2^63 - 1": (length(b"%d" % (2**63 - 1)), broken(b"hello", "disconnect")),
    "2^63": (length(b"%d" % 2**63), broken(b"hello")),
    **{
        f"a length of {value.decode()!r}": (length(value), refused())
        for value in (b"+5", b"5 5", b"5;", b"0x5", b"5.0", b"", b"5, 6")
    },
    "204 with a body": (
        length(b"5").replace(b"200 OK", b"204 N"), fine(None) | {"status": 204},
    ),
    "304 with a length": (
        length(b"5", b"").replace(b"200 OK", b"304 N"), fine(None) | {"status": 304},
    ),
    "205 with a body": (
        length(b"5").replace(b"200 OK", b"205 R"), fine(b"hello") | {"status": 205},
    ),
}  # fmt: skip


def test_odd_framing(site: FaultSite) -> None:
    hold(site, FRAMED)


# --- heads ---

LENGTH = ["Content-Length", "5"]


def head(*lines: bytes, first: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return b"\r\n".join((first, *lines, b"Content-Length: 5", b"", b"hello"))


def kept(*pairs: list[str], **more: Any) -> dict[str, Any]:
    return fine(b"hello", headers=[*pairs, LENGTH], **more)


HEADS: dict[str, Case] = {
    "a fold by a tab": (head(b"X: a", b"\tb"), kept(["X", "a b"])),
    "an empty fold": (head(b"X: a", b" ", b"Y: b"), kept(["X", "a"], ["Y", "b"])),
    "a folded status line": (head(first=b"HTTP/1.1 200\r\n OK"), refused()),
    "a blank in a name": (head(b"X Y: v"), kept(["X Y", "v"])),
    "a name in UTF-8": (head("\u00c4: v".encode()), kept(["\u00c4", "v"])),
    "a name in Latin-1": (head(b"\xc4: v"), kept(["\u00c4", "v"])),
    "a control in a name": (head(b"X\x01: v"), kept(["X\x01", "v"])),
    "no name": (head(b": v"), kept(["", "v"])),
    "a lone colon": (head(b":"), kept(["", ""])),
    "colons in a value": (head(b"X:a: b:"), kept(["X", "a: b:"])),
    "controls in a value": (head(b"X: a\x01\x0b\x7fb"), kept(["X", "a\x01\x0b\x7fb"])),
    "hard blanks": (head(b"X: \xa0v\xa0"), kept(["X", "\xa0v\xa0"])),
    "a byte order mark": (head(b"X: \xef\xbb\xbfv"), kept(["X", "\ufeffv"])),
    "cut UTF-8": (head(b"X: \xe2\x82"), kept(["X", "\xe2\x82"])),
    "past U+10FFFF": (
        head(b"X: \xf4\x90\x80\x80"), kept(["X", "\xf4\x90\x80\x80"]),
    ),
    "two codings": (
        head(b"X: caf\xe9", b"Y: caf\xc3\xa9"),
        kept(["X", "caf\xe9"], ["Y", "caf\xe9"]),
    ),
    "a second status line": (head(b"HTTP/1.1 404 X"), refused(headers=[])),
    "HTTP/ as a name": (head(b"HTTP/1.1: v"), kept(["HTTP/1.1", "v"])),
    "CR CR LF": (head(b"X: a\r"), refused()),
    "LF CR": (
        OK.replace(b"\r\n", b"\n\r") + b"Content-Length: 5\n\r\n\rhello",
        refused(headers=[["\rContent-Length", "5"]], size=0),
    ),
    "line ends of both kinds": (
        b"HTTP/1.1 200 OK\nX: y\r\nContent-Length: 5\n\r\nhello", kept(["X", "y"]),
    ),
    "the last line end bare": (OK + b"Content-Length: 5\r\n\nhello", kept()),
    "1000 cookies": (
        head(*(b"Set-Cookie: a%d=b" % n for n in range(1000))),
        kept(*(["Set-Cookie", f"a{n}=b"] for n in range(1000))),
    ),
    "a reason in UTF-8": (head(first="HTTP/1.1 200 G\u00f6nn".encode()), kept()),
    "a reason of 64 KB": (head(first=b"HTTP/1.1 200 " + b"x" * 64000), kept()),
    "a reason of 110 KB": (
        head(first=b"HTTP/1.1 200 " + b"x" * 110_000),
        refused(None) | {"error": "headers_too_large"},
    ),
    "lower case": (head(first=b"http/1.1 200 OK"), kept()),
    "lower case behind a 103": (
        b"HTTP/1.1 103 E\r\nX: y\r\n\r\n" + head(first=b"http/1.1 200 OK"), kept(),
    ),
    "2.0 with a dot": (head(first=b"HTTP/2.0 200 OK"), kept(http_version="1.1")),
    **{
        f"{first!r} in clear": (head(first=first), kept(http_version="1.1"))
        for first in (b"HTTP/2 200", b"HTTP/2  200 OK", b"HTTP/3 200", b"HTTP/3.0 200")
    },
    "no blank behind the code": (head(first=b"HTTP/1.1 200OK"), kept()),
    "an odd code": (
        head(first=b"HTTP/1.1 699 X"), kept() | {"status": 699},
    ),
    "a 102": (b"HTTP/1.1 102 P\r\nX: y\r\n\r\n" + head(), kept()),
    "a 199": (b"HTTP/1.1 199 P\r\n\r\n" + head(), kept()),
    "a 103 with a length": (
        b"HTTP/1.1 103 E\r\nContent-Length: 5\r\n\r\n" + head(), kept(),
    ),
    "fifty times 100": (b"HTTP/1.1 100 C\r\n\r\n" * 50 + head(), kept()),
    "no header": (OK + b"\r\n", fine(None, headers=[])),
    "the end behind the status line": (OK, refused(headers=[])),
    **{
        f"a status line of {first!r}": (
            head(first=first), refused(None, headers=None, size=None),
        )
        for first in (
            b"HTTP/1.1 2000 OK", b"HTTP/1.1 20 OK", b"HTTP/1.1 000 OK",
            b"HTTP/1.1 099 OK", b"HTTP/1.1 -200 OK", b"HTTP/1.1 abc OK",
            b"HTTP/1.1\t200 OK", b"HTTP/1.1200 OK", b"HTTP/1.1 OK", b"HTTP/1.2 200 OK",
            b"HTTP/11.1 200 OK", b"HTTP/1.10 200 OK", b"HTTP /1.1 200 OK",
            b" HTTP/1.1 200 OK", b"\r\nHTTP/1.1 200 OK", b"HTTPS/1.1 200 OK",
            b"RTSP/1.0 200 OK", b"HTTP/1.1 200 O\0K", b"HTTP/1.1 200 O\rK",
        )
    },
    **{
        f"no HTTP but {said!r}": (said, refused(None, headers=None))
        for said in (
            b"<html>old</html>", b'{"a": 1}\n', b"\xff\xfd\x18\xff\xfd\x20",
            b"-ERR wrong\r\n", b"\0\0\x12\4\0\0\0\0\0\0\3\0\0\0\x80", b"\x1f\x8b\x08",
        )
    },
}  # fmt: skip


def test_odd_heads(site: FaultSite) -> None:
    hold(site, HEADS)


def test_two_places_to_go_are_none(site: FaultSite) -> None:
    two = b"HTTP/1.1 302 Found\r\nLocation: /a\r\nLocation: /b\r\n\r\n"
    hold(site, {"two": (two, refused(302))})
