"""What nobody asked for is never taken for the answer to what is asked next."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from player import Player

from hardfetch import Fetcher
from hardfetch.testing import content, h2
from hardfetch.testing.model import Script
from hardfetch.testing.peer import Peer

OK = b"HTTP/1.1 200 OK\r\n"
UNASKED = OK + b"Content-Length: 4\r\n\r\nevil"
PATIENCE = 20.0
PAUSE = 0.03  # seconds: what was sent before has been read by then

ANSWERS: dict[str, bytes] = {
    "sized": OK + b"Content-Length: 5\r\n\r\nhello",
    "empty": OK + b"Content-Length: 0\r\n\r\n",
    "chunked": OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "204": b"HTTP/1.1 204 No\r\n\r\n",
    "304": b"HTTP/1.1 304 No\r\nContent-Length: 50\r\n\r\n",
    "behind a 103": b"HTTP/1.1 103 E\r\n\r\n" + OK + b"Content-Length: 5\r\n\r\nhello",
}


class Server:
    """Answers /odd with an answer and more; any other path with itself."""

    def __init__(self, answer: bytes, *, at_once: bool) -> None:
        self.answer = answer
        self.at_once = at_once
        self.sent = threading.Event()

    async def script(self, peer: Peer) -> None:
        while True:
            path = (await peer.read_head()).split(b" ")[1]
            if path == b"/odd":
                # The end of the body comes with more behind it, in one piece.
                head, tail = self.answer[:-1], self.answer[-1:]
                await peer.send(head if self.at_once else self.answer)
                await asyncio.sleep(PAUSE)
                await peer.send(tail + UNASKED if self.at_once else UNASKED)
                self.sent.set()
            else:
                size = b"Content-Length: %d\r\n\r\n" % len(path)
                await peer.send(OK + size + path)


@pytest.fixture(scope="module")
def player() -> Iterator[Player]:
    with Player() as running:
        yield running


def hold(player: Player, server: Server, alpn: str, method: str = "GET") -> None:
    script: Script = server.script
    base = player.serve(script, alpn)
    with Fetcher(
        retries=0, timeout=PATIENCE, cacert=str(content.CAFILE), max_concurrency=1
    ) as fetcher:
        odd = fetcher.fetch(base + "/odd")
        assert odd.error is None
        assert b"evil" not in odd.content
        assert server.sent.wait(PATIENCE)
        for n in range(3):
            page = fetcher.fetch(f"{base}/{n}", method=method)
            assert page.error is None
            assert page.content == b"/%d" % n
            # The connection is given up, and the new one is kept. Of an answer in
            # chunks libcurl itself takes what follows.
            if not (server.at_once and b"chunked" in server.answer):
                assert page.record["reused"] == (n > 0)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("alpn", ["", "http/1.1"])
@pytest.mark.parametrize("name", ANSWERS)
def test_what_comes_while_a_connection_is_idle_ends_it(
    player: Player, name: str, alpn: str, method: str
) -> None:
    hold(player, Server(ANSWERS[name], at_once=False), alpn, method)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("name", ["sized", "chunked"])
def test_what_comes_with_the_end_of_an_answer_ends_it(
    player: Player, name: str, method: str
) -> None:
    hold(player, Server(ANSWERS[name], at_once=True), "", method)


def test_next_in_line_is_not_answered_by_it(player: Player) -> None:
    """The next request waits, so it starts in the same turn of the loop."""
    server = Server(ANSWERS["sized"], at_once=True)
    base = player.serve(server.script)
    with Fetcher(retries=0, timeout=PATIENCE, max_concurrency=1) as fetcher:
        urls = [base + "/odd", *(f"{base}/{n}" for n in range(20))]
        found = {r.url: r.content for r in fetcher.map(urls)}
    assert found.pop(base + "/odd") == b"hello"
    assert found == {f"{base}/{n}": b"/%d" % n for n in range(20)}


def test_tickets_and_frames_may_come_while_a_connection_is_idle(
    player: Player,
) -> None:
    """HTTP/2 pings under TLS do not end it."""
    sent = threading.Event()

    async def script(peer: Peer) -> None:
        wire = h2.Wire(peer)
        await wire.open()
        while True:
            stream = await wire.request()
            head = h2.headers(stream.id, [(":status", "200")])
            await peer.send(head + h2.frame(h2.DATA, h2.END_STREAM, stream.id, b"ok"))
            await asyncio.sleep(PAUSE)
            await peer.send(h2.frame(h2.PING, 0, 0, bytes(8)))
            sent.set()

    base = player.serve(script, "h2")
    with Fetcher(
        retries=0, timeout=PATIENCE, cacert=str(content.CAFILE), max_concurrency=1
    ) as fetcher:
        for n in range(3):
            page = fetcher.fetch(f"{base}/{n}")
            assert (page.error, page.content) == (None, b"ok")
            assert page.record["reused"] == (n > 0)
            assert sent.wait(PATIENCE)
            sent.clear()
