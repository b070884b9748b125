"""Limits of silence count bytes, also those that libcurl does not show yet.

It tells of whole lines and of bodies only: half a status line or header, a chunk's
extension and trailers come unseen. Other streams of an HTTP/2 connection do not count.
"""

from __future__ import annotations

import asyncio

import pytest
import truth
from player import Player

from hardfetch.testing import FaultSite
from hardfetch.testing.model import Script
from hardfetch.testing.peer import Peer

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
SIZED = b"Content-Length: 5\r\n\r\nhello"
LINE = b"X-Slow: abcdefgh"
GAP = 0.1  # seconds between two bytes
SILENCE = 0.9  # seconds; a line takes longer

# What comes at once, what byte by byte, and what at once again.
SLOW: dict[str, tuple[bytes, bytes, bytes]] = {
    "a status line": (b"", OK, SIZED),
    "a header": (OK, LINE, b"\r\n" + SIZED),
    "a chunk's extension": (
        CHUNKED + b"5", b";slow=abcdefgh", b"\r\nhello\r\n0\r\n\r\n",
    ),
    "a trailer": (CHUNKED + b"5\r\nhello\r\n0\r\n", LINE, b"\r\n\r\n"),
    "a last chunk": (CHUNKED + b"5\r\nhello\r\n", b"0" * 15, b"\r\n\r\n"),
}  # fmt: skip


def plays(name: str) -> Script:
    before, slowly, behind = SLOW[name]

    async def script(peer: Peer) -> None:
        await peer.read_head()
        await peer.send(before)
        for byte in slowly:
            await peer.send(bytes([byte]))
            await asyncio.sleep(GAP)
        await peer.send(behind)

    return script


@pytest.mark.parametrize("alpn", ["", "http/1.1"])
def test_what_comes_byte_by_byte_is_not_idle(site: FaultSite, alpn: str) -> None:
    # Under TLS nobody can tell the first line's bytes from those of TLS itself.
    names = [name for name in SLOW if not alpn or name != "a status line"]
    with Player() as player:
        inputs = [{"url": player.serve(plays(name), alpn)} for name in names]
        records = truth.fetch(site, inputs, body="base64", idle_timeout=SILENCE)
    for record in records:
        truth.expect(record, status=200, body=b"hello")
        assert record["elapsed"] > SILENCE


def test_half_a_status_line_has_a_first_byte(site: FaultSite) -> None:
    with Player() as player:
        url = player.serve(plays("a status line"))
        (record,) = truth.fetch(
            site, [{"url": url}], body="base64", first_byte_timeout=SILENCE
        )
    truth.expect(record, status=200, body=b"hello")


@pytest.mark.parametrize("name", ["a status line", "a header", "a trailer"])
def test_a_silence_behind_some_bytes_is_one(site: FaultSite, name: str) -> None:
    before, slowly, _ = SLOW[name]

    async def script(peer: Peer) -> None:
        await peer.read_head()
        await peer.send(before)
        await asyncio.sleep(0.3)
        await peer.send(slowly[:3])
        await peer.hold()

    with Player() as player:
        url = player.serve(script)
        (record,) = truth.fetch(
            site, [{"url": url}], idle_timeout=0.6, first_byte_timeout=0.6
        )
    assert record["error"]["type"] == "idle_timeout"
    assert record["error"]["phase"] == ("body" if name == "a trailer" else "headers")
    assert record["timing"]["first_byte"] is not None
    assert 0.8 < record["timing"]["total"] < 0.9 + truth.SLACK


def test_pings_do_not_keep_a_silent_stream(site: FaultSite) -> None:
    found = truth.fetch_faults(site, ["h2-pings"], idle_timeout=0.5).values()
    (record,) = found
    assert record["error"]["type"] == "idle_timeout"
    assert record["timing"]["total"] < 0.5 + truth.SLACK
