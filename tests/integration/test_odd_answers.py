"""Odd answers that the fault site has no names for, each with the record it must give.

What browsers, the URL, Encoding and Fetch standards and the RFCs make of them decides;
where libcurl refuses an answer, the record says so and keeps what was told.
"""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import strict
import truth
import zstandard
from answers import Answers
from player import Player

from hardfetch.testing import FaultSite
from hardfetch.testing.content import raw_deflate
from hardfetch.testing.peer import Peer

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


# --- text ---

GBK = "\u4e2d".encode("gbk")
KANJI = "\u65e5\u672c"
Told = tuple[str | None, str | None, str | bytes]


def typed(content_type: bytes | None, body: bytes) -> bytes:
    line = b"" if content_type is None else b"Content-Type: %s\r\n" % content_type
    return OK + line + b"Content-Length: %d\r\n\r\n" % len(body) + body


def labelled(charset: str, body: bytes, *told: str | bytes | None) -> tuple[Any, ...]:
    return typed(b"text/html; charset=" + charset.encode(), body), told


def page(body: bytes, *told: str | bytes | None) -> tuple[Any, ...]:
    return typed(b"text/html", body), told


def xml(encoding: str) -> bytes:
    return '<?xml version="1.0"?><a>\u00e9</a>'.encode(encoding)


XML = xml("utf-8").decode()
META = b"<meta charset=gbk>"

TEXTS: dict[str, tuple[Any, ...]] = {
    "x-user-defined": labelled(
        "x-user-defined", b"a\x80\xff", "x-user-defined", "header", "a\uf780\uf7ff"
    ),
    "x-user-defined by meta": page(
        b"<meta charset=x-user-defined>\x80", "windows-1252", "meta",
        "<meta charset=x-user-defined>\u20ac",
    ),
    "a charset that is never decoded": labelled(
        "iso-2022-kr", b"\x1b$)C\x0e0!\x0f", "iso-2022-kr", "header",
        b"\x1b$)C\x0e0!\x0f",
    ),
    "hz": labelled("hz-gb-2312", b"~{VPND~}", "hz-gb-2312", "header", b"~{VPND~}"),
    "utf-7 is no label": labelled("utf-7", b"+AGE-", "utf-8", "valid", "+AGE-"),
    "ucs-2": labelled("ucs-2", b"a\0b\0", "utf-16le", "header", "ab"),
    "half a unit": labelled("utf-16", b"a\0b", "utf-16le", "header", b"a\0b"),
    "half a pair": labelled(
        "utf-16", b"\0\xd8a\0", "utf-16le", "header", b"\0\xd8a\0"
    ),
    "utf-16 told of a page in UTF-8": labelled(
        "utf-16", "<p>\u00e9".encode(), "utf-8", "valid", "<p>\u00e9"
    ),
    "a mark against the header": labelled(
        "utf-8", b"\xff\xfe\xe9\0", "utf-16le", "bom", "\u00e9"
    ),
    "a mark against gbk": labelled(
        "gbk", b"\xef\xbb\xbf\xc3\xa9", "utf-8", "bom", "\u00e9"
    ),
    "two marks": page(b"\xef\xbb\xbf\xef\xbb\xbfa", "utf-8", "bom", "\ufeffa"),
    "only a mark": page(b"\xef\xbb\xbf", "utf-8", "bom", ""),
    "XML in UTF-16": (
        typed(b"text/xml", xml("utf-16-le")), ("utf-16le", "meta", XML),
    ),
    "the other way round": (
        typed(b"image/svg+xml", xml("utf-16-be")), ("utf-16be", "meta", XML),
    ),
    "Shift_JIS": labelled(
        "x-sjis", b"\\~\x80\xa5" + KANJI.encode("shift_jis"), "shift_jis", "header",
        "\\~\x80\uff65" + KANJI,
    ),
    "a user's character": labelled(
        "shift_jis", b"\xf0\x40", "shift_jis", "header", "\ue000"
    ),
    "no trail byte": labelled(
        "shift_jis", b"\x81<b>", "shift_jis", "header", b"\x81<b>"
    ),
    **{
        f"no Shift_JIS: {byte.hex()}": labelled(
            "shift_jis", byte, "shift_jis", "header", byte
        )
        for byte in (b"\xa0", b"\xfd", b"\xff", b"a\x83")
    },
    "ISO-2022-JP": labelled(
        "iso-2022-jp", KANJI.encode("iso2022_jp") + b"\x1b(I1\x1b(J\\~",
        "iso-2022-jp", "header", KANJI + "\uff71\u00a5\u203e",
    ),
    "without its last escape": labelled(
        "csiso2022jp", b"\x1b$B0l", "iso-2022-jp", "header", "\u4e00"
    ),
    "cut within a character": labelled(
        "iso-2022-jp", b"\x1b$B0", "iso-2022-jp", "header", b"\x1b$B0"
    ),
    "four bytes of GB18030": labelled(
        "gb18030", "\U0001f600".encode("gb18030"), "gb18030", "header", "\U0001f600"
    ),
    "U+10FFFF": labelled(
        "gb18030", b"\xe3\x32\x9a\x35", "gb18030", "header", "\U0010ffff"
    ),
    "past it": labelled(
        "gb18030", b"\xe3\x32\x9a\x36", "gb18030", "header", b"\xe3\x32\x9a\x36"
    ),
    "gbk's 80": labelled("gb2312", b"\x80", "gbk", "header", "\u20ac"),
    "two characters from one code": labelled(
        "big5-hkscs", b"\x88\x62", "big5", "header", "\u00ca\u0304"
    ),
    "three bytes of EUC-JP": labelled(
        "x-euc-jp", b"\x8f\xa2\xb7\x8e\xb1", "euc-jp", "header", "\uff5e\uff71"
    ),
    "latin1 is windows-1252": labelled(
        "l1", b"\x80\x81", "windows-1252", "header", "\u20ac\x81"
    ),
    "unquoted blanks": (
        typed(b'text/html ; CHARSET = "gbk" ', GBK), ("gbk", "header", "\u4e2d"),
    ),
    "single quotes": labelled("'gbk'", GBK, "gbk", "header", "\u4e2d"),
    "two charsets": labelled("gbk; charset=big5", GBK, "gbk", "header", "\u4e2d"),
    "the first unknown": labelled("zz; charset=gbk", GBK, "gbk", "header", "\u4e2d"),
    "another parameter": (
        typed(b"text/html; xcharset=utf-8", b"\xe9"),
        ("windows-1252", "default", "\u00e9"),
    ),
    "two types": (
        OK + b"Content-Type: text/plain; charset=big5\r\n" + typed(
            b"text/html; charset=gbk", GBK)[len(OK):],
        ("gbk", "header", "\u4e2d"),
    ),
    "two types, the charset of the first": (
        OK + b"Content-Type: text/html; charset=gbk\r\n" + typed(b"text/html", GBK)[
            len(OK):],
        ("gbk", "header", "\u4e2d"),
    ),
    "header before meta": labelled(
        "utf-8", META + b"\xc3\xa9", "utf-8", "header", "<meta charset=gbk>\u00e9"
    ),
    "meta that is false": page(
        b"<meta charset=utf-8>\xe9", "utf-8", "meta", b"<meta charset=utf-8>\xe9"
    ),
    "meta of utf-16": page(
        b"<meta charset=utf-16>\xc3\xa9", "utf-8", "meta",
        "<meta charset=utf-16>\u00e9",
    ),
    "meta in a comment": page(
        b"<!--<meta charset=koi8-r>-->" + META + GBK, "gbk", "meta",
        "<!--<meta charset=koi8-r>--><meta charset=gbk>\u4e2d",
    ),
    "meta in an attribute": page(
        b"<a b='<meta charset=koi8-r>'>" + META + GBK, "gbk", "meta",
        "<a b='<meta charset=koi8-r>'><meta charset=gbk>\u4e2d",
    ),
    "an unknown meta first": page(
        b"<meta charset=zz>" + META + GBK, "gbk", "meta",
        "<meta charset=zz><meta charset=gbk>\u4e2d",
    ),
    "meta of plain text": (
        typed(b"text/plain", META + GBK),
        ("windows-1252", "default", "<meta charset=gbk>\u00d6\u00d0"),
    ),
    "meta without a type": (
        typed(None, META + GBK), ("gbk", "meta", "<meta charset=gbk>\u4e2d"),
    ),
    "meta too late": page(
        b" " * 1024 + META + GBK, "windows-1252", "default",
        " " * 1024 + "<meta charset=gbk>\u00d6\u00d0",
    ),
    "UTF-8 cut off": page(
        b"caf\xc3\xa9 \xe2\x82", "utf-8", "valid", b"caf\xc3\xa9 \xe2\x82"
    ),
    "Latin-1 at the end": page(b"caf\xe9", "windows-1252", "default", "caf\u00e9"),
    "a NUL and no charset": page(b"a\0b", None, None, b"a\0b"),
    "a NUL in UTF-8": labelled("utf-8", b"a\0b", "utf-8", "header", "a\0b"),
    "an image in UTF-8": (
        typed(b"image/png; charset=utf-8", b"abc"), (None, None, b"abc"),
    ),
    "an unknown type": (typed(b"foo/bar", b"abc"), ("utf-8", "valid", "abc")),
    "noncharacters": page(
        b"\xef\xbf\xbf\xf4\x8f\xbf\xbf", "utf-8", "valid", "\uffff\U0010ffff"
    ),
}  # fmt: skip


def test_odd_texts(site: FaultSite) -> None:
    with Answers([answer for answer, _ in TEXTS.values()]) as server:
        inputs = [
            {"url": server.url(number), "id": name} for number, name in enumerate(TEXTS)
        ]
        records = truth.fetch(site, inputs, breaker=0, timeout=20)
    for record in records:
        charset, source, body = TEXTS[record["id"]][1]
        assert record["error"] is None, record
        said = (record["charset"], record["charset_source"])
        assert said == (charset, source), record["id"]
        if isinstance(body, bytes):
            assert strict.body(record) == body, record["id"]
            assert "body" not in record
        else:
            assert record["body"] == body, record["id"]


# --- redirects ---

# Where each Location leads; {} is host:port of the server, and of the page /d/e?q.
LEADS: dict[bytes, bytes] = {
    b"/a b": b"/a%20b", b"x y": b"/d/x%20y", b"?x": b"/d/e?x", b".": b"/d/",
    b"..": b"/", b"../../../x": b"/x", b"./y/../z": b"/d/z", b"/%2e%2E/x": b"/x",
    b"/a/%2e/b": b"/a/b", b"\\x": b"/x", b"\\\\{}\\x": b"/x", b"/\\{}/x": b"/x",
    b"//{}": b"/", b"///{}/x": b"/x", b"////{}/x": b"/x", b"http:x": b"/d/x",
    b"http:/x": b"/x", b"hTtP:///{}/x": b"/x", b"http:\\\\{}\\x\\y?a\\b": b"/x/y?a\\b",
    b"http://{}?x": b"/?x", b"http://{}#f": b"/", b"/a#b#c": b"/a",
    b"/a?b?c#d?e": b"/a?b?c", b"/\xc3\xa9": b"/%C3%A9", b"/\xe9": b"/%E9",
    b"/%zz%": b"/%zz%", b"/a%00b": b"/a%00b", b"/a\tb": b"/ab", b"/a\x01b": b"/a%01b",
    b'/<>"`': b"/%3C%3E%22%60", b"/?'\"<>": b"/?%27%22%3C%3E",
    b"/a//b///c": b"/a//b///c", b"http://u:p@{}/x": b"/x", b"http://@{}/x": b"/x",
    b"/\xf0\x9f\x98\x80": b"/%F0%9F%98%80", b"/x\x7f": b"/x%7F", b"/a, /b": b"/a,%20/b",
    b"127.0.0.1:1/x": b"/d/127.0.0.1:1/x", b"www.test/x": b"/d/www.test/x",
    b":80/x": b"/d/:80/x", b"'/q'": b"/d/'/q'", b"/" + b"a" * 9000: b"/" + b"a" * 9000,
}  # fmt: skip
NOWHERE: tuple[bytes, ...] = (
    b"", b"   ", b"//", b"http://", b"https:", b"http://127.0.0.1:0/",
    b"http://127.0.0.1:65536/", b"http://127.0.0.1:+80/", b"http://127.0.0.1: 80/",
    b"http://127.0.0.1:a/", b"http://1.2.3.4.5/", b"http://256.0.0.1/",
    b"http://4294967296/", b"http://1.2.3.08/", b"http://a.0x/", b"http://a b/",
    b"http://a%00b/", b"http://a..b/", b"http://" + b"a" * 64 + b".test/",
    b"http://[::1/", b"http://[1::2::3]/", b"http://::1/", b"http://\xff/",
    b"ftp://127.0.0.1/", b"file:///etc/passwd", b"javascript:alert(1)",
    b"data:text/html,x", b"about:blank", b"mailto:a@b.test", b"ws://127.0.0.1/",
    b"view-source:http://127.0.0.1/",
)  # fmt: skip


def leads_on(locations: list[bytes]) -> Any:
    """Answers /d/e?N with the N-th Location, and anything else with what was asked."""

    async def script(peer: Peer) -> None:
        while True:
            target = (await peer.read_head()).split(b" ")[1]
            status, line = b"200 OK", b""
            path, _, number = target.partition(b"?")
            if path == b"/d/e" and number.isdigit():
                status = b"302 Found"
                line = b"Location: " + locations[int(number)] + b"\r\n"
            await peer.send(
                b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s"
                % (status, line, len(target), target)
            )

    return script


def test_odd_locations_lead_where_browsers_go(site: FaultSite) -> None:
    locations: list[bytes] = []
    with Player() as player:
        base = player.serve(leads_on(locations))
        host = base.removeprefix("http://").encode()
        locations += [location.replace(b"{}", host) for location in LEADS]
        records = truth.fetch(
            site, [{"url": f"{base}/d/e?{n}"} for n in range(len(locations))],
            body="base64", timeout=20, breaker=0,
        )  # fmt: skip
    for record, location, target in zip(
        records, locations, LEADS.values(), strict=True
    ):
        assert record["error"] is None, (location, record["error"])
        assert strict.body(record) == target, location
        (hop,) = record["redirects"]
        try:
            shown = location.decode()
        except UnicodeDecodeError:
            shown = location.decode("latin-1")
        assert hop["location"] == shown.strip(" \t")


def test_what_leads_nowhere_keeps_the_redirect(site: FaultSite) -> None:
    with Player() as player:
        base = player.serve(leads_on(list(NOWHERE)))
        records = truth.fetch(
            site, [{"url": f"{base}/d/e?{n}"} for n in range(len(NOWHERE))],
            body="base64", timeout=20, breaker=0,
        )  # fmt: skip
    for number, record in enumerate(records):
        truth.expect(
            record, "bad_redirect", origin="site", phase="headers", status=302,
            body=b"/d/e?%d" % number, redirects=[],
        )  # fmt: skip
        assert not record["error"]["retryable"]


def test_two_places_to_go_are_none(site: FaultSite) -> None:
    two = b"HTTP/1.1 302 Found\r\nLocation: /a\r\nLocation: /b\r\n\r\n"
    hold(site, {"two": (two, refused(302))})
