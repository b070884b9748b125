"""Bytes of every kind as text in the record: which charset, and nothing lost."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from typing import Any
from urllib.parse import quote

import orjson
import pytest
import strict
import truth

from hardfetch import Fetcher
from hardfetch.testing import FaultSite
from hardfetch.testing.charsets import CAFE, CHINESE, LABELS

WINDOWS = "windows-1252"
CHINESE_TEXT = "<p>\u4e2d\u6587\u7f51\u9875</p>"
CAFE_TEXT = "<p>caf\xe9 \u20ac \u201cquoted\u201d</p>"
WORD = "caf\u00e9 \u20ac"

# What a browser makes of the labels; all others are passed over.
MEANT = {"gbk": "gbk", "quoted": "utf-8", "semicolon": "utf-8", "utf-16": "utf-16le"}

TEXTS: dict[str, tuple[str | None, str | None, str | bytes]] = {
    "bom-utf-8": ("utf-8", "bom", WORD),
    "bom-utf-16le": ("utf-16le", "bom", WORD),
    "bom-utf-16be": ("utf-16be", "bom", WORD),
    "meta": ("gbk", "meta", '<meta charset="gbk">' + CHINESE_TEXT),
    "meta-pragma": (
        "gbk",
        "meta",
        '<meta http-equiv=content-type content="text/html; charset=gbk">'
        + CHINESE_TEXT,
    ),
    "meta-against-header": ("gbk", "header", "<meta charset=utf-8>" + CHINESE_TEXT),
    "all-bytes": (None, None, bytes(range(256))),
    "all-bytes-utf-8": ("utf-8", "header", bytes(range(256))),
    "cut-utf-8": ("utf-8", "header", b"ab\xe2\x82"),
    "overlong": ("utf-8", "header", b"ab\xc0\x80c"),
    "surrogates": ("utf-8", "header", b"ab\xed\xa0\xbd\xed\xb8\x80c"),
    "controls": ("utf-8", "header", "a\0b\x7fc\x85d\u2028e\u2029f\ufeffg"),
}


@pytest.fixture(scope="module")
def found(site: FaultSite) -> dict[str, truth.Record]:
    names = [f"charset-{n}-{k}" for n in LABELS for k in ("latin1", "gbk")]
    names += [f"text-{name}" for name in TEXTS]
    return truth.fetch_faults(site, names)


def told(record: truth.Record) -> tuple[Any, Any, Any]:
    return record["charset"], record["charset_source"], strict.body(record)


@pytest.mark.parametrize("kind", ["latin1", "gbk"])
@pytest.mark.parametrize("name", [n for n in LABELS if n not in (*MEANT, "nul")])
def test_a_label_that_nobody_knows_is_passed_over(
    name: str, kind: str, found: dict[str, truth.Record]
) -> None:
    record = found[f"charset-{name}-{kind}"]
    text = CAFE_TEXT if kind == "latin1" else CHINESE.decode(WINDOWS)
    assert told(record) == (WINDOWS, "default", text.encode())
    assert (record["status_code"], record["error"]) == (200, None)


@pytest.mark.parametrize("name", MEANT)
def test_a_known_label_counts_and_what_it_does_not_fit_stays_bytes(
    name: str, found: dict[str, truth.Record]
) -> None:
    records = {k: found[f"charset-{name}-{k}"] for k in ("latin1", "gbk")}
    for kind, body in (("latin1", CAFE), ("gbk", CHINESE)):
        record = records[kind]
        assert (record["charset"], record["charset_source"]) == (MEANT[name], "header")
        if (name, kind) == ("gbk", "gbk"):
            assert record["body"] == CHINESE_TEXT
        elif "body_base64" in record:
            assert strict.body(record) == body
        else:  # by chance it is text in that encoding
            assert record["body"].encode(MEANT[name]) == body


def test_a_nul_in_a_label_is_no_answer(found: dict[str, truth.Record]) -> None:
    for kind in ("latin1", "gbk"):
        truth.expect(
            found[f"charset-nul-{kind}"], "bad_response", origin="site",
            phase="headers", status=200,
        )  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_byte_order_marks_metas_and_odd_bytes(
    name: str, found: dict[str, truth.Record]
) -> None:
    charset, source, body = TEXTS[name]
    record = found[f"text-{name}"]
    assert (record["charset"], record["charset_source"]) == (charset, source)
    if isinstance(body, bytes):
        assert "body" not in record
        assert strict.body(record) == body
    else:
        shown = record["body"]
        assert shown == body


# Every byte in every place, and every reader.


def placed(site: FaultSite) -> list[truth.Input]:
    """Each byte, and odd sequences, in a URL's query."""
    odd = [b"\xc0\x80", b"\xed\xa0\xbd\xed\xb8\x80", b"\xe2\x82", b"\xff\xfe", b"\x7f"]
    pieces = [bytes([n]) for n in range(256)] + odd
    return [{"url": site.url("/1k?" + quote(p)), "id": p.hex()} for p in pieces]


def test_every_byte_in_the_body_is_read_alike_by_all_readers(site: FaultSite) -> None:
    names = ["text-all-bytes", "text-all-bytes-utf-8", "header-all-bytes",
             "header-reason-all-bytes", "text-controls", "text-surrogates"]  # fmt: skip
    inputs = [truth.ask(site.fault(name)) for name in names] + placed(site)
    inputs += [
        {"url": site.url("/1k"), "id": f"\ud83d\ude00 {chr(n)}", "meta": {chr(n): n}}
        for n in range(0x1F, 0xA1)
    ]
    lines = run_lines(site, inputs)
    for line in lines:
        assert json.loads(line) == orjson.loads(line)
    jq = shutil.which("jq")
    if jq is not None:
        done = subprocess.run(
            [jq, "-c", ".seq"], input=b"".join(lines), capture_output=True, check=True
        )
        assert done.stdout.split() == [
            str(json.loads(n)["seq"]).encode() for n in lines
        ]


def run_lines(site: FaultSite, source: list[Any]) -> list[bytes]:
    with (
        tempfile.TemporaryFile() as sink,
        Fetcher(retries=0, max_per_host=0, cacert=site.cafile) as fetcher,
    ):
        fetcher.run(source, sink.fileno())
        sink.seek(0)
        data = os.pread(sink.fileno(), 1 << 28, 0)
    assert len(strict.read(data)) == data.count(b"\n")
    return data.splitlines(keepends=True)


def test_a_line_of_any_bytes_is_told_exactly_as_it_was(site: FaultSite) -> None:
    base = site.url("/1k?").encode()
    given = [base + bytes([n]) for n in range(0x21, 256)]
    given += [base + odd + b"x" for odd in (b"\xc0\x80", b"\xed\xa0\x80", b"\xf8\xff")]
    lines = run_lines(site, given)
    for line in lines:
        record = strict.parse(line)
        if "input" in record:
            assert record["input"].encode() == given[record["seq"]]
        else:
            assert base64.b64decode(record["input_base64"]) == given[record["seq"]]
        bad = given[record["seq"]][len(base)] == 0x7F
        assert (record["error"] is None) != bad
        assert bad or record["url"].isascii()


def test_odd_bytes_of_a_proxy_user_are_never_shown(site: FaultSite) -> None:
    proxy = site.fault("proxy-http").proxy or ""
    inputs = [
        {
            "url": site.url("/1k"), "id": n,
            "proxy": proxy.replace("http://", f"http://u%{n:02X}secret:hidden%{n:02X}@"),
        }
        for n in range(256)
    ]  # fmt: skip
    lines = run_lines(site, inputs)
    assert len(lines) == 256
    for line in lines:
        record = strict.parse(line)
        assert b"hidden" not in line
        assert record["error"] is None or record["id"] < 0x20 or record["id"] == 0x7F
        if record["error"] is None:
            assert record["proxy"] == proxy
            assert b"secret" not in line
