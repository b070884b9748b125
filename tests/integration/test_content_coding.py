"""What a Content-Encoding, true or not, makes of the body in the record."""

from __future__ import annotations

import gzip
import resource
import zlib
from typing import Any

import pytest
import strict
import truth

from hardfetch.testing import FaultSite, content
from hardfetch.testing.encodings import CODINGS, FRAMINGS, PLAIN

TEXT = content.long_text()
PACKED = gzip.compress(PLAIN, mtime=0)
CAP = 10 << 20
PIECE = 64 << 10  # a decoder may take so much more than it needs


def plain(body: bytes, *, decoded: bool, wire: int | None = None) -> dict[str, Any]:
    return {
        "status": 200, "body": body, "size": len(body), "decoded": decoded,
        "wire_size": len(body) if wire is None else wire, "charset": "utf-8",
        "charset_source": "header",
    }  # fmt: skip


def bad(body: bytes, wire: int | None = None, *, decoded: bool) -> dict[str, Any]:
    return {
        **plain(body, decoded=decoded, wire=wire), "error": "bad_encoding",
        "origin": "site", "phase": "decode", "truncated": "decode",
    }  # fmt: skip


LABELS: dict[str, dict[str, Any]] = {
    "none": plain(PLAIN, decoded=False),
    "charset": plain(PLAIN, decoded=False),
    "identity": plain(PLAIN, decoded=False),
    "empty": plain(PLAIN, decoded=False),
    "gzip-none": plain(PLAIN, decoded=True, wire=len(PACKED)),
    "gzip-identity": plain(PLAIN, decoded=True, wire=len(PACKED)),
    "upper-case": plain(PLAIN, decoded=True, wire=len(PACKED)),
    "x-gzip": plain(PLAIN, decoded=True, wire=len(PACKED)),
    "deflate-raw": plain(PLAIN, decoded=True, wire=len(content.raw_deflate(PLAIN))),
    "deflate-zlib": plain(PLAIN, decoded=True, wire=len(zlib.compress(PLAIN))),
    "gzip-in-deflate": plain(PLAIN, decoded=True, wire=len(zlib.compress(PACKED))),
    "br-plain": bad(PLAIN, decoded=False),
    "gzip-plain": bad(PLAIN, decoded=False),
    "zstd-plain": bad(PLAIN, decoded=False),
    "deflate-plain": bad(PLAIN, decoded=False),
    "gzip-as-br": bad(PACKED, decoded=False),
}
CUTS = ("0", "1", "10", "50", "last8", "last1")
EXTRAS = {"two-members": TEXT * 2, "junk-after": TEXT, "zeros-after": TEXT}


@pytest.fixture(scope="module")
def found(site: FaultSite) -> dict[str, truth.Record]:
    names = [f"encoding-{name}" for name in LABELS]
    names += [f"whole-{c}-{f}" for c in CODINGS for f in FRAMINGS]
    names += [f"cut-{c}-{w}-{f}" for c in CODINGS for w in CUTS for f in FRAMINGS]
    names += [f"gzip-{name}-{f}" for name in EXTRAS for f in FRAMINGS]
    names += ["gzip-bad-crc", "gzip-100-times", "encoding-gzip-unlabelled"]
    return truth.fetch_faults(site, names, body="base64", timeout=20)


@pytest.mark.parametrize("name", LABELS)
def test_labels_are_taken_as_browsers_take_them(
    name: str, found: dict[str, truth.Record]
) -> None:
    truth.expect(found[f"encoding-{name}"], **LABELS[name])


def test_what_is_not_labelled_is_not_decoded(found: dict[str, truth.Record]) -> None:
    record = found["encoding-gzip-unlabelled"]
    truth.expect(record, status=200, body=PACKED, decoded=False, size=len(PACKED))


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("coding", CODINGS)
def test_a_whole_body_is_decoded(
    coding: str, framing: str, found: dict[str, truth.Record]
) -> None:
    wire = len(content.packed_text(coding))
    record = found[f"whole-{coding}-{framing}"]
    truth.expect(record, **plain(TEXT, decoded=True, wire=wire))


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("where", CUTS)
@pytest.mark.parametrize("coding", CODINGS)
def test_a_cut_body_is_no_success_though_its_wire_is_whole(
    coding: str, where: str, framing: str, found: dict[str, truth.Record]
) -> None:
    record = found[f"cut-{coding}-{where}-{framing}"]
    packed = content.packed_text(coding)
    if where == "0":  # no stream at all: browsers take it for an empty body
        truth.expect(record, status=200, body=None, size=0, wire_size=0, decoded=False)
        return
    body = strict.body(record) or b""
    wire = record["wire_size"]
    assert 0 < wire < len(packed)
    truth.expect(record, **bad(body, wire, decoded=record["decoded"]))
    # The decoded prefix; raw bytes where not one could be decoded.
    assert body == (TEXT[: len(body)] if record["decoded"] else packed[:wire])
    assert len(body) > 0
    if where.startswith("last"):
        assert record["decoded"]


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("name", EXTRAS)
def test_what_follows_a_whole_gzip_does_no_harm(
    name: str, framing: str, found: dict[str, truth.Record]
) -> None:
    record = found[f"gzip-{name}-{framing}"]
    wire = record["wire_size"]
    truth.expect(record, **plain(EXTRAS[name], decoded=True, wire=wire))
    assert wire > len(content.packed_text("gzip"))


def test_a_wrong_checksum_is_told(found: dict[str, truth.Record]) -> None:
    wire = len(content.packed_text("gzip"))
    truth.expect(found["gzip-bad-crc"], **bad(TEXT, wire, decoded=True))


def test_a_hundred_codings_are_not_taken_off(found: dict[str, truth.Record]) -> None:
    truth.expect(found["gzip-100-times"], **bad(PACKED, decoded=False))


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_bombs_stop_at_the_cap_and_redirects_drop_theirs(site: FaultSite) -> None:
    names = ("bomb-gzip", "bomb-br", "bomb-zstd")
    truth.fetch_faults(site, names, max_body=65536, body="none")  # made once, here
    before = peak()
    # One at a time: each may hold the cap.
    for name in names:
        (record,) = truth.fetch(
            site, [truth.ask(site.fault(name))], max_body=CAP, body="none", timeout=5
        )
        truth.expect(
            record, status=200, truncated="size", body=None, size=CAP, decoded=True
        )
        assert record["wire_size"] < 1 << 20
    assert peak() - before < CAP + (16 << 20)
    record = truth.fetch_faults(site, ["bomb-on-redirect"], body="base64")[
        "bomb-on-redirect"
    ]
    truth.expect(record, status=200, body=content.page(1024), decoded=False)
    assert len(record["redirects"]) == 1


def test_caps_are_no_error_and_say_so(site: FaultSite) -> None:
    def one(**options: Any) -> truth.Record:
        (record,) = truth.fetch(
            site, [{"url": site.url("/gzip")}], body="base64", **options
        )
        return record

    packed = len(content.packed_text("gzip"))
    truth.expect(
        one(max_body=1000), status=200, truncated="size", body=TEXT[:1000], size=1000,
        decoded=True,
    )  # fmt: skip
    record = one(max_wire=packed // 2)
    body = strict.body(record) or b""
    truth.expect(
        record, status=200, truncated="size", body=TEXT[: len(body)], size=len(body),
        wire_size=packed // 2, decoded=True,
    )  # fmt: skip
    assert len(body) > 0
    exact = one(max_body=len(TEXT), max_wire=packed)
    truth.expect(exact, status=200, body=TEXT, wire_size=packed, decoded=True)


def test_the_ratio_has_a_cap_once_a_mebibyte_came_out(site: FaultSite) -> None:
    url = site.fault("bomb-gzip").url
    (record,) = truth.fetch(
        site, [{"url": url}], max_ratio=50, max_body="64M", body="none"
    )
    truth.expect(record, status=200, truncated="size", body=None, decoded=True)
    assert 1 << 20 <= record["size"] <= (1 << 20) + 50 * record["wire_size"]
