"""Texts in odd charsets and under odd labels, each with what a browser makes of it."""

from __future__ import annotations

from typing import Any

import strict
import truth
from answers import Answers

from hardfetch.testing import FaultSite

OK = b"HTTP/1.1 200 OK\r\n"
GBK = "\u4e2d".encode("gbk")
KANJI = "\u65e5\u672c"


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
