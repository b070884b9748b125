"""Answers whose charset is wrong, absent, unknown or poisonous, and odd text bytes."""

from __future__ import annotations

from hardfetch.testing.faults import then_close
from hardfetch.testing.model import OK, Spec, spec

CAFE = b"<p>caf\xe9 \x80 \x93quoted\x94</p>"
CHINESE = "<p>\u4e2d\u6587\u7f51\u9875</p>".encode("gbk")
LABELS: dict[str, bytes | None] = {
    "absent": None,
    "gbk": b"gbk",
    "list": b"utf-8,gbk",
    "typo": b"uft-8",
    "iso-typo": b"ISO-88509-1",
    "none": b"none",
    "undefined": b"undefined",
    "idna": b"idna",
    "hex": b"hex",
    "utf-7": b"utf-7",
    "quoted": b'"utf-8"',
    "semicolon": b"UTF8;",
    "long": b"x" * 10240,
    "nul": b"utf\x00-8",
    "empty": b"",
    "utf-16": b"utf-16",
}


def typed(body: bytes, charset: bytes | None) -> bytes:
    """An HTML answer with that charset in its Content-Type."""
    kind = b"text/html" if charset is None else b"text/html; charset=" + charset
    size = b"\r\nContent-Length: %d\r\n\r\n" % len(body)
    return b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + size + body


def _labels() -> list[Spec]:
    specs = []
    for name, label in LABELS.items():
        for kind, body in (("latin1", CAFE), ("gbk", CHINESE)):
            expect = (OK, "bad_response") if name == "nul" else (OK,)
            specs.append(
                spec(
                    f"charset-{name}-{kind}", "charset",
                    f"{kind} bytes, charset {label[:20] if label else label!r}",
                    then_close(typed(body, label)), expect,
                    status=200 if expect == (OK,) else None,
                    content=body if expect == (OK,) else None,
                )
            )  # fmt: skip
    return specs


def _texts() -> list[Spec]:
    meta = b'<meta charset="gbk">' + CHINESE
    pragma = (
        b'<meta http-equiv=content-type content="text/html; charset=gbk">' + CHINESE
    )
    late = b"<!--" + b" " * 2000 + b"-->" + meta
    word = "caf\u00e9 \u20ac"
    table: list[tuple[str, str, bytes, bytes | None]] = [
        ("bom-utf-8", "a UTF-8 BOM against the header", b"\xef\xbb\xbf" + word.encode(),
         b"iso-8859-1"),
        ("bom-utf-16le", "a UTF-16 BOM", b"\xff\xfe" + word.encode("utf-16le"), None),
        ("bom-utf-16be", "a UTF-16 BOM", b"\xfe\xff" + word.encode("utf-16be"), None),
        ("meta", "told by meta only", meta, None),
        ("meta-pragma", "told by meta http-equiv only", pragma, None),
        ("meta-against-header", "meta says utf-8, the header gbk",
         b"<meta charset=utf-8>" + CHINESE, b"gbk"),
        ("meta-late", "a meta beyond the first 1,024 bytes", late, None),
        ("all-bytes", "every byte value", bytes(range(256)), None),
        ("all-bytes-utf-8", "every byte value as UTF-8", bytes(range(256)), b"utf-8"),
        ("cut-utf-8", "UTF-8 cut within a character", b"ab\xe2\x82", b"utf-8"),
        ("overlong", "overlong c0 80", b"ab\xc0\x80c", b"utf-8"),
        ("surrogates", "a CESU pair", b"ab\xed\xa0\xbd\xed\xb8\x80c", b"utf-8"),
        ("controls", "NUL, DEL, C1, U+2028",
         "a\0b\x7fc\x85d\u2028e\u2029f\ufeffg".encode(), b"utf-8"),
    ]  # fmt: skip
    return [
        spec(
            f"text-{name}", "charset", text, then_close(typed(body, label)), (OK,),
            status=200, content=body,
        )
        for name, text, body, label in table
    ]  # fmt: skip


def specs() -> list[Spec]:
    """The catalogue of this module."""
    return [*_labels(), *_texts()]
