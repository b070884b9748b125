"""The texts and bytes that the fault site serves: the same in every process."""

from __future__ import annotations

import base64
import gzip
import json
import random
import zlib
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent
CERTS = _HERE / "certs"
CAFILE = CERTS / "ca.pem"

# Split: a list of sixty quoted words would be sixty lines.
_WORDS = (  # noqa: SIM905
    "crawl page link index river stone market price garden window letter morning "
    "engine signal harbour copper silver winter summer bridge paper yellow quiet "
    "<b>bold</b> <i>slanted</i> <a href='/1k'>one</a> <a href='/30k'>thirty</a> "
    "caf\u00e9 na\u00efve stra\u00dfe \u20ac \u2013 \u201cquoted\u201d &amp; &lt;"
).split()


@cache
def page(size: int) -> bytes:
    """An HTML page of exactly `size` bytes of UTF-8 (at least 128)."""
    rng = random.Random(size)  # noqa: S311 - a page, not a secret
    head = (
        "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>"
        f"<title>Page of {size} bytes</title></head><body>\n"
    ).encode()
    tail = b"</body></html>\n"
    room = size - len(head) - len(tail)
    parts: list[bytes] = []
    while room > 0:
        words = " ".join(rng.choices(_WORDS, k=rng.randint(6, 30)))
        line = f"<p>{words}</p>\n".encode()
        if len(line) > room:
            line = b" " * (room - 1) + b"\n"
        parts.append(line)
        room -= len(line)
    return head + b"".join(parts) + tail


@cache
def _block() -> bytes:
    return random.Random(1).randbytes(65536)  # noqa: S311 - as above


def noise(size: int) -> bytes:
    """`size` bytes that look random and are the same each time."""
    block = _block()
    return (block * (size // len(block) + 1))[:size]


@cache
def long_text() -> bytes:
    """The 200 KB text that the compression cases carry.

    It repeats itself, so that what is shipped of it packed stays small.
    """
    return page(5_000) * 40


def raw_deflate(data: bytes) -> bytes:
    """`data` as a deflate stream without the zlib wrapper."""
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


@cache
def fixture(name: str) -> bytes:
    """A body that the standard library can't make: see tools/make_test_fixtures.py."""
    packed = json.loads((_HERE / "fixtures" / "bodies.json").read_text())
    return base64.b64decode(packed[name])


@cache
def packed_text(coding: str) -> bytes:
    """`long_text` in a content coding: gzip, deflate, br or zstd."""
    if coding == "gzip":
        return gzip.compress(long_text(), 6, mtime=0)
    if coding == "deflate":
        return zlib.compress(long_text(), 6)
    return fixture(f"text.{coding}")


_CRC_OF_1GIB_ZEROS = 0x5B64C2B0
"""zlib.crc32 over 1 GiB of zeros: half a second of work at each start otherwise."""


@cache
def gzip_bomb() -> bytes:
    """About 1 MiB of gzip that inflates to 1 GiB of zeros.

    Made from a block compressed once: after a full flush a deflate stream may repeat
    the same bytes, so a gigabyte need not be compressed at start-up.
    """
    megabyte = 1 << 20
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(megabyte)) + packer.flush(zlib.Z_FULL_FLUSH)
    end = _CRC_OF_1GIB_ZEROS.to_bytes(4, "little") + (1 << 30).to_bytes(4, "little")
    head = b"\x1f\x8b\x08\0\0\0\0\0\x02\xff"
    return head + block * 1024 + b"\x03\x00" + end


CHARSET_TEXTS: dict[str, str] = {
    "ascii": "plain words, nothing else",
    "utf-8": "caf\u00e9 \u20ac \u65e5\u672c\u8a9e \U0001f600",
    "utf-16le": "caf\u00e9 \u20ac \u65e5\u672c\u8a9e",
    "utf-16be": "caf\u00e9 \u20ac \u65e5\u672c\u8a9e",
    "iso-8859-1": "caf\u00e9 na\u00efve \u00df",
    "iso-8859-2": "\u017elu\u0165ou\u010dk\u00fd k\u016f\u0148",
    "iso-8859-5": "\u041f\u0440\u0438\u0432\u0435\u0442",
    "iso-8859-7": "\u039a\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1",
    "iso-8859-8": "\u05e9\u05dc\u05d5\u05dd",
    "iso-8859-9": "\u0130stanbul \u015fehri",
    "iso-8859-15": "prix 5 \u20ac \u0153uvre",
    "windows-1250": "\u017elu\u0165ou\u010dk\u00fd \u201ek\u016f\u0148\u201c",
    "windows-1251": "\u041f\u0440\u0438\u0432\u0435\u0442 \u2014 \u2116 5",
    "windows-1252": "caf\u00e9 \u20ac \u201cquoted\u201d \u2013 dash",
    "windows-1253": "\u039a\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1 \u20ac",
    "windows-1254": "\u0130stanbul \u20ac \u015fehri",
    "windows-1255": "\u05e9\u05dc\u05d5\u05dd \u20aa",
    "windows-1256": "\u0645\u0631\u062d\u0628\u0627 \u20ac",
    "windows-1257": "Lab\u0101k \u0161odien",
    "windows-1258": "\u0110\u00e2y l\u00e0 \u20ab",
    "windows-874": "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "koi8-r": "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440",
    "koi8-u": "\u041f\u0440\u0438\u0432\u0456\u0442, \u0404\u0432\u0440\u043e",
    "ibm866": "\u041f\u0440\u0438\u0432\u0435\u0442",
    "macintosh": "caf\u00e9 \u2020 na\u00efve",
    "gbk": "\u4e2d\u6587\u7f51\u9875\uff0c\u6d4b\u8bd5",
    "gb18030": "\u4e2d\u6587 \u20ac \U00020000",
    "big5": "\u7e41\u9ad4\u4e2d\u6587\u7db2\u9801",
    "shift_jis": "\u65e5\u672c\u8a9e\u306e\u30da\u30fc\u30b8",
    "euc-jp": "\u65e5\u672c\u8a9e\u306e\u30da\u30fc\u30b8",
    "iso-2022-jp": "\u65e5\u672c\u8a9e\u306e\u30da\u30fc\u30b8",
    "euc-kr": "\ud55c\uad6d\uc5b4 \ud398\uc774\uc9c0",
}
"""A known text in the repertoire of each encoding, under its WHATWG name."""

_PYTHON_NAMES = {
    "windows-874": "cp874",
    "ibm866": "cp866",
    "macintosh": "mac_roman",
    "shift_jis": "cp932",
    "euc-kr": "cp949",
}


def charset_page(name: str, by: str) -> tuple[bytes, str]:
    """The page of `/charset/NAME?by=…`: its bytes and the text they stand for.

    `by` is where the encoding is told: header, meta, bom or none. Raises KeyError for
    an encoding without a text.
    """
    meta = f'<meta charset="{name}">' if by == "meta" else ""
    text = (
        f"<html><head>{meta}<title>{name}</title></head>"
        f"<body><p>{CHARSET_TEXTS[name]}</p></body></html>\n"
    )
    data = text.encode(_PYTHON_NAMES.get(name, name))
    if by == "bom":
        data = "\ufeff".encode(name) + data
    return data, text
