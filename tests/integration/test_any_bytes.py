"""Whatever bytes a server sends, there is exactly one valid record, in time.

The cases come from kept seeds: bytes of pure chance, and good answers that were cut,
spliced and changed. Found faults are kept in KEPT, as bytes.
"""

from __future__ import annotations

import base64
import gzip
import random
import zlib
from collections.abc import Iterator

import pytest
import strict
import truth
from answers import Answers

from hardfetch.testing import FaultSite, content
from hardfetch.testing.charsets import CAFE, CHINESE, LABELS, typed
from hardfetch.testing.encodings import PLAIN, labelled
from hardfetch.testing.faults import CHUNKED
from hardfetch.testing.headers import many, with_head

SEEDS = range(10)
PER_SEED = 1000
D = 2.0

KEPT: list[bytes] = [
    b"HTTP/1.1 99999 X\r\n\r\n",  # was taken for status 999
    b"HTTP/1.1 20",  # was an empty reply
    b"HTTP/1.1 200 OK\r\nContent-Ty",  # was a whole answer
    b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n",  # its status was the answer's
    b"HTTP/1.1 101 Switching\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: nonsense\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Range: bytes 1-2/3\r\n\r\nhello",
    b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/2 200\r\n\r\nhello",
    b"HTTP/200 OK\r\n\r\nhello",  # was an error of HTTP/2
    b"HTTP/1.1 200\xff OK\r\nX\xff\x80: \xc3\x28\r\n\r\n\xed\xa0\x80",
    b"\r\nHTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 407 Auth\r\nProxy-Authenticate: Basic\r\n\r\n",
    b"HTTP/1.1 401 Auth\r\nWWW-Authenticate: Negotiate " + b"=" * 3000 + b"\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: \x00\x01\xff\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nSet-Cookie: " + b"a" * 70000 + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x1c" + b"\xff" * 99,
    b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n\x78\x9c\x03\x00",
    b"",
]


def good_answers() -> list[bytes]:
    packed = gzip.compress(PLAIN, mtime=0)
    answers = [
        labelled(packed, "gzip", framing) for framing in ("length", "close", "chunks")
    ]
    answers += [
        labelled(zlib.compress(PLAIN), "deflate"),
        labelled(content.packed_text("br"), "br"),
        labelled(content.packed_text("zstd"), "zstd"),
        labelled(packed, "gzip, gzip, br"),
        with_head(many(20, 100)),
        with_head(b"X: a\r\n b\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n"),
        b"HTTP/1.1 103 Hints\r\nLink: </a>\r\n\r\n" * 3 + with_head(b""),
        b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
        b"HTTP/1.1 302 Found\r\nLocation: /1?x#y\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 206 Part\r\nContent-Range: bytes 0-4/9\r\n\r\nhello",
        CHUNKED + b"5;a=b\r\nhello\r\nA\r\n0123456789\r\n0\r\nX-T: t\r\n\r\n",
    ]
    answers += [typed(CAFE, label) for label in LABELS.values()]
    answers += [typed(b"<meta charset=gbk>" + CHINESE, None)]
    return answers


TOKENS = (
    b"\r\n", b"\n", b"\r", b"\0", b": ", b"HTTP/1.1 ", b"HTTP/1.1 200 OK\r\n",
    b"chunked", b"Content-Length: ", b"Transfer-Encoding: chunked\r\n",
    b"Content-Encoding: gzip\r\n", b"HTTP/2 200 OK\r\n",
    b"-1", b"FFFFFFFFFFFFFFFF", b"0\r\n\r\n", b"\xff", b"\xed\xa0\x80", b"\xc0\x80",
    b"\x1b$B", b"<meta charset=", b"\xef\xbb\xbf", b"\xff\xfe", b" ", b"\t", b";", b",",
)  # fmt: skip


def changed(data: bytes, good: list[bytes], rng: random.Random) -> bytes:
    """One to six changes: a bit, a byte, a run, a token, a splice, a cut."""
    raw = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(raw) + 1)
        # Most of what decides stands at the start.
        at = min(at, rng.choice((len(raw), 400, 60)))
        kind = rng.randrange(7)
        if kind == 0 and at < len(raw):
            raw[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            raw[at:at] = rng.randbytes(rng.choice((1, 2, 16)))
        elif kind == 2:
            del raw[at : at + rng.choice((1, 4, 100))]
        elif kind == 3:
            raw[at:at] = rng.choice(TOKENS)
        elif kind == 4:
            raw[at:at] = raw[at : at + rng.randrange(1, 200)]
        elif kind == 5:
            other = rng.choice(good)
            start = rng.randrange(len(other))
            raw[at:] = other[start:]
        elif rng.random() < 0.5:
            del raw[at:]
    return bytes(raw)


def cases(seed: int) -> Iterator[bytes]:
    rng = random.Random(seed)
    good = good_answers()
    for _ in range(PER_SEED):
        if rng.random() < 0.1:
            noise = rng.randbytes(rng.choice((1, 5, 100, 3000)))
            yield (
                rng.choice((b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"))
                + noise
            )
        else:
            yield changed(rng.choice(good), good, rng)


def run(site: FaultSite, answers: list[bytes]) -> list[truth.Record]:
    with Answers(answers) as server:
        inputs = [{"url": server.url(n)} for n in range(len(answers))]
        # Redirects are not followed: a changed Location may lead out of loopback.
        return truth.fetch(
            site, inputs, timeout=D, connect_timeout=D, no_redirects=True, breaker=0,
            max_body=100_000, max_concurrency=64,
        )  # fmt: skip


def hold(record: truth.Record, answer: bytes) -> None:
    error = record["error"]
    body = strict.body(record)
    if error is None:
        assert record["status_code"] is not None, answer
        assert record["truncated"] in (None, "size"), answer
    else:
        assert error["type"] in (
            "bad_response", "incomplete", "bad_encoding", "headers_too_large",
            "empty_reply", "connection_reset",
        ), (error, answer)  # fmt: skip
        assert error["origin"] == "site"
        assert (record["truncated"] is not None) == (
            error["type"] in ("incomplete", "bad_encoding")
        ), (error, answer)
    if body is not None:
        assert 0 < record["size"] <= 100_000
        if "body_base64" in record:
            assert len(base64.b64decode(record["body_base64"])) == record["size"]
    assert record["limits"]["overrun"] is None, answer


def test_what_was_found_stays_right(site: FaultSite) -> None:
    for answer, record in zip(KEPT, run(site, KEPT), strict=True):
        hold(record, answer)


@pytest.mark.parametrize("seed", SEEDS)
def test_any_answer_gives_one_valid_record_in_time(site: FaultSite, seed: int) -> None:
    answers = list(cases(seed))
    records = run(site, answers)
    assert len(records) == PER_SEED
    for answer, record in zip(answers, records, strict=True):
        hold(record, answer)
    # A mix that says something: good ones, and failures of several kinds.
    kinds = {r["error"]["type"] if r["error"] else None for r in records}
    assert {None, "bad_response", "incomplete", "bad_encoding"} <= kinds
