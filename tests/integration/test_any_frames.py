"""Whatever frames a server of HTTP/2 sends, there is one valid record, in time.

The cases come from kept seeds: good answers whose frames were added to, put in another
order, and changed, and which end with the connection or with silence.
"""

from __future__ import annotations

import random

import pytest
import truth
from player import Player

from hardfetch.testing import FaultSite, h2
from hardfetch.testing.h2 import DATA, END_HEADERS, END_STREAM, Stream, Wire, frame
from hardfetch.testing.peer import Peer

SEEDS = range(2)
PER_SEED = 200
D = 2.0
HEAD = [(":status", "200"), ("content-type", "text/html"), ("content-length", "10")]


def mangled(stream: Stream, rng: random.Random) -> bytes:
    number = stream.id
    frames = [
        h2.headers(number, HEAD),
        frame(DATA, 0, number, b"hello"),
        frame(DATA, END_STREAM, number, b"world"),
    ]
    if rng.random() < 0.3:
        frames.insert(0, h2.headers(number, [(":status", "103"), ("link", "</a>")]))
    if rng.random() < 0.3:
        odd = frame(
            rng.randrange(12),
            rng.randrange(256),
            rng.choice((0, number, 2, number + 2)),
            rng.randbytes(rng.choice((0, 1, 4, 8, 20))),
        )
        frames.insert(rng.randrange(len(frames)), odd)
    if rng.random() < 0.2:
        frames.append(h2.headers(number, [("x-t", "1")], END_HEADERS | END_STREAM))
    if rng.random() < 0.3:
        rng.shuffle(frames)
    raw = bytearray(b"".join(frames))
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(raw) + 1)
        kind = rng.randrange(4)
        if kind == 0 and at < len(raw):
            raw[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            raw[at:at] = rng.randbytes(rng.choice((1, 4, 9)))
        elif kind == 2:
            del raw[at : at + rng.choice((1, 9, 30))]
        else:
            del raw[at:]
    return bytes(raw)


async def script(peer: Peer) -> None:
    """The path is the number of the case."""
    wire = Wire(peer)
    await wire.open()
    stream = await wire.request()
    rng = random.Random(stream.pseudo(":path"))
    await peer.send(mangled(stream, rng))
    if rng.random() < 0.1:
        await wire.drain()


@pytest.mark.parametrize("seed", SEEDS)
def test_any_frames_give_one_valid_record_in_time(site: FaultSite, seed: int) -> None:
    with Player() as player:
        base = player.serve(script, "h2")
        inputs = [{"url": f"{base}/{seed}-{n}", "fresh": True} for n in range(PER_SEED)]
        records = truth.fetch(
            site, inputs, timeout=D, hard_timeout=D, connect_timeout=D, breaker=0,
            no_redirects=True, max_concurrency=32,
        )  # fmt: skip
    kinds = set()
    for record in records:
        error = record["error"]
        kinds.add(error and error["type"])
        if error is None:
            assert record["status_code"] is not None
            assert record["truncated"] is None
            continue
        assert error["origin"] == "site", error
        cut = error["phase"] in ("body", "decode")
        assert (record["truncated"] is not None) == cut, record
        assert record["status_code"] is not None or not cut
    assert {None, "http2_error", "incomplete"} <= kinds
    silence = {"hard_timeout", "timeout", "connect_timeout", "tls_timeout"}
    others = {"bad_response", "connection_reset", "empty_reply", *silence}
    assert kinds <= {None, "http2_error", "incomplete", *others}, kinds
