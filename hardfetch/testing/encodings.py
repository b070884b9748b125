"""Compressed answers: odd labels, cut bodies, trailing bytes, bombs and stacks."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING

from hardfetch.testing import content
from hardfetch.testing.faults import then_close
from hardfetch.testing.http1 import in_chunks
from hardfetch.testing.model import OK, Spec, spec

if TYPE_CHECKING:
    from hardfetch.testing.model import Script
    from hardfetch.testing.peer import Peer

PLAIN = content.page(2048)
FRAMINGS = ("length", "close", "chunks")
CODINGS = ("gzip", "deflate", "br", "zstd")
BAD = ("bad_encoding",)


def labelled(
    body: bytes, coding: str | None, framing: str = "length", status: bytes = b"200 OK"
) -> bytes:
    """A whole answer with that Content-Encoding (None: no header).

    `framing`: its length told, its end told by a close, or chunks of one byte.
    """
    head = b"HTTP/1.1 " + status + b"\r\nContent-Type: text/html; charset=utf-8\r\n"
    if coding is not None:
        head += b"Content-Encoding: " + coding.encode() + b"\r\n"
    if framing == "length":
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    if framing == "close":
        return head + b"Connection: close\r\n\r\n" + body
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + in_chunks(body, 1)


def _labels() -> list[Spec]:
    packed = gzip.compress(PLAIN, mtime=0)
    raw = content.raw_deflate(PLAIN)
    wrapped = zlib.compress(PLAIN)
    table: list[tuple[str, bytes, str | None, tuple[str, ...], bytes | None]] = [
        ("none", PLAIN, "none", (OK,), PLAIN),
        ("charset", PLAIN, "utf-8", (OK,), PLAIN),
        ("identity", PLAIN, "identity", (OK,), PLAIN),
        ("empty", PLAIN, "", (OK,), PLAIN),
        ("gzip-none", packed, "gzip, none", (OK, *BAD), None),
        ("gzip-identity", packed, "gzip, identity", (OK,), PLAIN),
        ("upper-case", packed, "GZIP", (OK,), PLAIN),
        ("x-gzip", packed, "x-gzip", (OK,), PLAIN),
        ("deflate-raw", raw, "deflate", (OK,), PLAIN),
        ("deflate-zlib", wrapped, "deflate", (OK,), PLAIN),
        ("gzip-unlabelled", packed, None, (OK,), packed),
        ("gzip-in-deflate", zlib.compress(packed), "gzip, deflate", (OK,), PLAIN),
        ("br-plain", PLAIN, "br", BAD, PLAIN),
        ("gzip-plain", PLAIN, "gzip", BAD, PLAIN),
        ("zstd-plain", PLAIN, "zstd", BAD, PLAIN),
        ("deflate-plain", PLAIN, "deflate", BAD, PLAIN),
        ("gzip-as-br", packed, "br", BAD, packed),
    ]
    return [
        spec(
            f"encoding-{name}", "encoding", f"Content-Encoding: {coding}",
            then_close(labelled(body, coding)), expect, status=200, content=result,
            truncated=None if OK in expect else "decode",
        )
        for name, body, coding, expect, result in table
    ]  # fmt: skip


def _cut(packed: bytes, where: str) -> bytes:
    if where.startswith("last"):
        return packed[: -int(where[4:])]
    return packed[: len(packed) * int(where) // 100]


def _cuts() -> list[Spec]:
    """The 200 KB text, cut in each coding at each place and framed in each way.

    The wire is complete in each: only the decoder can tell. `content` is left None: how
    much comes out depends on the decoder's blocks, but it is a prefix of the text.
    """
    specs = []
    for coding in CODINGS:
        packed = content.packed_text(coding)
        for where in ("0", "1", "10", "50", "last8", "last1"):
            # An empty body is no stream at all; browsers take it as empty.
            expect = (OK, *BAD) if where == "0" else BAD
            for framing in FRAMINGS:
                data = labelled(_cut(packed, where), coding, framing)
                specs.append(
                    spec(
                        f"cut-{coding}-{where}-{framing}", "encoding",
                        f"{coding} cut at {where}, framed by {framing}",
                        then_close(data), expect, status=200,
                        truncated=None if OK in expect else "decode",
                    )
                )  # fmt: skip
    return specs


def _whole() -> list[Spec]:
    text = content.long_text()
    specs = [
        spec(
            f"whole-{coding}-{framing}", "encoding", f"{coding} framed by {framing}",
            then_close(labelled(content.packed_text(coding), coding, framing)),
            (OK,), status=200, content=text,
        )
        for coding in CODINGS
        for framing in FRAMINGS
    ]  # fmt: skip
    packed = content.packed_text("gzip")
    extras = [
        ("two-members", "two gzip members", packed * 2, text * 2),
        ("junk-after", "100 bytes after the gzip trailer", packed + b"j" * 100, text),
        ("zeros-after", "zeros after the gzip trailer", packed + bytes(512), text),
    ]
    specs += [
        spec(
            f"gzip-{name}-{framing}", "encoding", words,
            then_close(labelled(body, "gzip", framing)), (OK,),
            status=200, content=result,
        )
        for name, words, body, result in extras
        for framing in FRAMINGS
    ]  # fmt: skip
    bad_crc = packed[:-8] + bytes(4) + packed[-4:]
    specs.append(
        spec(
            "gzip-bad-crc", "encoding", "a gzip trailer with a wrong checksum",
            then_close(labelled(bad_crc, "gzip")), BAD, status=200, truncated="decode",
        )
    )  # fmt: skip
    return specs


def bomb(coding: str) -> Script:
    """Answers with 1 GiB of zeros in that coding; made when it is first asked for."""

    async def script(peer: Peer) -> None:
        if coding == "gzip":
            body = content.gzip_bomb()
        else:
            body = content.fixture(f"bomb.{coding}")
        await peer.send(labelled(body, coding))

    return script


async def _bomb_on_redirect(peer: Peer) -> None:
    where = f"302 Found\r\nLocation: {peer.ledger.base}/1k".encode()
    await peer.send(labelled(content.gzip_bomb(), "gzip", status=where))


def _bombs() -> list[Spec]:
    specs = [
        spec(
            f"bomb-{coding}", "encoding", f"1 GiB of zeros in {coding}",
            bomb(coding), (OK, *BAD), origin=None, status=200, truncated="size",
        )
        for coding in ("gzip", "br", "zstd")
    ]  # fmt: skip
    stacked = ", ".join(["gzip"] * 100)
    return [
        *specs,
        spec(
            "gzip-100-times", "encoding", "Content-Encoding: gzip, a hundred times",
            then_close(labelled(gzip.compress(PLAIN, mtime=0), stacked)), BAD,
            status=200, truncated="decode",
        ),
        spec(
            "bomb-on-redirect", "encoding", "a 302 whose body is a gzip bomb",
            _bomb_on_redirect, (OK,), status=200, content=content.page(1024),
        ),
    ]  # fmt: skip


def specs() -> list[Spec]:
    """The catalogue of this module."""
    return [*_labels(), *_whole(), *_cuts(), *_bombs()]
