"""Pages in the shapes and encodings of real sites, each with the text that it holds.

Made here, from words of each language: an article, a shop's list, a forum of the
nineties, a page that is mostly script, XHTML, a feed, plain text. A page tells its
encoding in one of the ways that sites do.
"""

from __future__ import annotations

import gzip
import random
import zlib
from dataclasses import dataclass

from hardfetch.testing.content import _PYTHON_NAMES, CHARSET_TEXTS

LEGACY = [
    name for name in CHARSET_TEXTS if not name.startswith("utf-") and name != "ascii"
]
BY_BOM = ("utf-8", "utf-16le", "utf-16be")


@dataclass(frozen=True)
class Page:
    name: str
    answer: bytes  # head and body
    text: str  # what the record's body must be
    charset: str
    source: str  # charset_source
    size: int  # bytes of body, decoded


def _words(name: str, rng: random.Random, count: int) -> str:
    words = CHARSET_TEXTS[name].split()
    return " ".join(
        rng.choices([*words, "2026", "&amp;", "<b>HTML</b>", "a=b"], k=count)
    )


def _article(name: str, rng: random.Random, meta: str) -> str:
    rows = "\n".join(f"<p>{_words(name, rng, 60)}</p>" for _ in range(12))
    return (
        f"<!DOCTYPE html>\n<html><head>{meta}<title>{_words(name, rng, 4)}</title>\n"
        f'<meta property="og:title" content="{CHARSET_TEXTS[name].split()[0]}">'
        f"</head>\n<body><article>\n{rows}\n</article></body></html>\n"
    )


def _shop(name: str, rng: random.Random, meta: str) -> str:
    rows = "".join(
        f'<li class="item" data-id="{n}"><a href="/p/{n}?a=1&amp;b=2">'
        f"{_words(name, rng, 6)}</a><span>{rng.randrange(9999) / 100}</span></li>\n"
        for n in range(40)
    )
    return f"<html><head>\n{meta}\n</head><body><ul>\n{rows}</ul>\r\n</body></html>"


def _nineties(name: str, rng: random.Random, meta: str) -> str:
    rows = "\r\n".join(
        f"<TR><TD BGCOLOR=#CCCCCC>{_words(name, rng, 12)}<BR>" for _ in range(30)
    )
    return (
        f"<HTML>\r\n<HEAD>\r\n{meta}\r\n<TITLE>x</TITLE>\r\n<TABLE>{rows}</TABLE>\r\n"
    )


def _script(name: str, rng: random.Random, meta: str) -> str:
    text = CHARSET_TEXTS[name]
    state = ",".join(f'"k{n}":"{text}\\n\\u003cb\\u003e\\"{n}"' for n in range(60))
    return (
        f"<!doctype html><head>{meta}</head><script>window.__STATE__={{{state}}};"
        f"var a='<\\/script>';</script><div id=root>{_words(name, rng, 3)}</div>"
    )


SHAPES = {
    "article": _article, "shop": _shop, "nineties": _nineties, "script": _script,
}  # fmt: skip


def _packed(body: bytes, rng: random.Random) -> tuple[bytes, bytes]:
    """The body in some content coding and framing; header lines and bytes."""
    lines = b""
    coding = rng.choice((None, None, b"gzip", b"deflate"))
    if coding is not None:
        body = (
            gzip.compress(body, mtime=0) if coding == b"gzip" else zlib.compress(body)
        )
        lines = b"Content-Encoding: " + coding + b"\r\n"
    framing = rng.choice(("length", "chunks", "close"))
    if framing == "chunks":
        size = rng.choice((1, 7, 1000, 8192))
        pieces = [body[at : at + size] for at in range(0, len(body), size)]
        body = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"
        return lines + b"Transfer-Encoding: chunked\r\n", body
    if framing == "length":
        lines += b"Content-Length: %d\r\n" % len(body)
    return lines, body


def _page(
    name: str, charset: str, shape: str, by: str, kind: str = "text/html"
) -> Page:
    rng = random.Random(f"{charset} {shape} {by}")
    metas = {
        "meta": f'<meta charset="{charset}">',
        "pragma": '<META HTTP-EQUIV="Content-Type" CONTENT="text/html; '
        f'charset={charset.upper()}">',
    }
    text = SHAPES[shape](charset, rng, metas.get(by, ""))
    body = text.encode(_PYTHON_NAMES.get(charset, charset))
    if by == "bom":
        body = "\ufeff".encode(charset) + body
    label = f"; charset={charset.upper()}" if by == "header" else ""
    lines, wire = _packed(body, rng)
    head = f"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Type: {kind}{label}\r\n".encode()
    head += b"Connection: close\r\n" + lines + b"\r\n"
    source = {"pragma": "meta"}.get(by, by)
    return Page(name, head + wire, text, charset, source, len(body))


def pages() -> list[Page]:
    """All pages: every encoding in three shapes and three ways, and some by a BOM."""
    found = []
    shapes = list(SHAPES)
    for at, charset in enumerate([*LEGACY, "utf-8"]):
        for turn, by in enumerate(("header", "meta", "pragma")):
            shape = shapes[(at + turn) % len(shapes)]
            found.append(_page(f"{charset}-{shape}-{by}", charset, shape, by))
    for charset in BY_BOM:
        found += [_page(f"{charset}-{s}-bom", charset, s, "bom") for s in SHAPES]
    feed = _page("utf-8-feed", "utf-8", "article", "header", "application/rss+xml")
    plain = _page("utf-8-plain", "utf-8", "shop", "valid", "text/plain")
    return [*found, feed, plain]
