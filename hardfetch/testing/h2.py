"""HTTP/2 by hand: frames in and out, and a healthy server of the normal pages."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hardfetch.testing import content, hpack
from hardfetch.testing.http1 import Request, Response
from hardfetch.testing.peer import PeerGoneError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from hardfetch.testing.model import Script
    from hardfetch.testing.pages import Pages
    from hardfetch.testing.peer import Peer

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = 0, 1, 2, 3, 4
PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 6, 7, 8, 9
ACK = END_STREAM = 1
END_HEADERS = 4
PADDED = 8
HAS_PRIORITY = 0x20
INITIAL_WINDOW_SIZE = 4
DEFAULT_WINDOW = 65535
MAX_FRAME = 16384
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR = 0, 1, 2
REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 7, 8, 11


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame."""
    return struct.pack(
        ">HBBBI", len(payload) >> 8, len(payload) & 0xFF, kind, flags, stream
    ) + payload  # fmt: skip


def setting(number: int, value: int) -> bytes:
    """One entry of a SETTINGS payload."""
    return struct.pack(">HI", number, value)


def headers(
    stream: int, pairs: list[tuple[str, str]], flags: int = END_HEADERS
) -> bytes:
    """A HEADERS frame (of a block that fits one)."""
    return frame(HEADERS, flags, stream, hpack.encode(pairs))


@dataclass(slots=True)
class Stream:
    """One request of a connection."""

    id: int
    pairs: list[tuple[str, str]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    window: int = DEFAULT_WINDOW
    """Bytes that the client lets us send."""
    complete: bool = False

    def pseudo(self, name: str) -> str:
        """A pseudo header, "" where it is missing."""
        return next((value for key, value in self.pairs if key == name), "")


class Wire:
    """A connection's frames; it answers SETTINGS and PING, and keeps the windows."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.streams: dict[int, Stream] = {}
        self.window = DEFAULT_WINDOW
        self.initial_window = DEFAULT_WINDOW
        self.decoder = hpack.Decoder()
        self.progress = asyncio.Event()
        """Set whenever the client has said something."""

    async def open(self, settings: bytes = b"") -> None:
        """Takes the client's preface and sends our SETTINGS."""
        if await self.peer.read(len(PREFACE)) != PREFACE:
            raise PeerGoneError
        await self.peer.send(frame(SETTINGS, 0, 0, settings))

    async def step(self) -> Stream | None:
        """Takes one frame; the stream whose request is complete with it, if any."""
        head = await self.peer.read(9)
        size = int.from_bytes(head[:3], "big")
        kind, flags = head[3], head[4]
        number = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
        payload = await self.peer.read(size)
        if kind == SETTINGS and not flags & ACK:
            self._settings(payload)
            await self.peer.send(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            await self.peer.send(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            self._window_update(number, int.from_bytes(payload, "big"))
        elif kind == RST_STREAM:
            self.streams.pop(number, None)
        self.progress.set()
        if kind in (HEADERS, DATA):
            return await self._part(kind, flags, number, payload)
        return None

    async def request(self) -> Stream:
        """Waits for the next complete request."""
        while True:
            stream = await self.step()
            if stream is not None:
                return stream

    async def drain(self) -> None:
        """Takes frames until the client goes away."""
        while True:
            await self.step()

    def _settings(self, payload: bytes) -> None:
        for at in range(0, len(payload), 6):
            number, value = struct.unpack_from(">HI", payload, at)
            if number == INITIAL_WINDOW_SIZE:
                for stream in self.streams.values():
                    stream.window += value - self.initial_window
                self.initial_window = value

    def _window_update(self, number: int, more: int) -> None:
        if number == 0:
            self.window += more
        elif number in self.streams:
            self.streams[number].window += more

    async def _part(
        self, kind: int, flags: int, number: int, payload: bytes
    ) -> Stream | None:
        if flags & PADDED:
            payload = payload[1 : len(payload) - payload[0]]
        if kind == HEADERS:
            if flags & HAS_PRIORITY:
                payload = payload[5:]
            while not flags & END_HEADERS:
                head = await self.peer.read(9)
                payload += await self.peer.read(int.from_bytes(head[:3], "big"))
                flags |= head[4] & END_HEADERS
            stream = Stream(number, window=self.initial_window)
            stream.pairs = self.decoder.decode(payload)
            self.streams[number] = stream
        else:
            known = self.streams.get(number)
            if known is None:
                return None
            stream = known
            stream.body += payload
            if payload:
                grant = struct.pack(">I", len(payload))
                for where in (0, number):
                    await self.peer.send(frame(WINDOW_UPDATE, 0, where, grant))
        stream.complete = bool(flags & END_STREAM)
        return stream if stream.complete else None

    async def respond(
        self, stream: Stream, pairs: list[tuple[str, str]], body: bytes
    ) -> None:
        """Sends a whole answer within the client's windows; `step` must go on."""
        flags = END_HEADERS | (0 if body else END_STREAM)
        await self.peer.send(headers(stream.id, pairs, flags))
        at = 0
        while at < len(body) and stream.id in self.streams:
            room = min(self.window, stream.window, MAX_FRAME, len(body) - at)
            if room <= 0:
                self.progress.clear()
                await self.progress.wait()
                continue
            last = at + room == len(body)
            piece = frame(
                DATA, END_STREAM if last else 0, stream.id, body[at : at + room]
            )
            self.window -= room
            stream.window -= room
            at += room
            await self.peer.send(piece)
        self.streams.pop(stream.id, None)


def healthy(pages: Pages) -> Script:
    """The normal pages over HTTP/2; of those that are scripts only /slow."""

    async def answer(wire: Wire, stream: Stream, ordinal: int) -> None:
        request = Request(
            stream.pseudo(":method"),
            stream.pseudo(":path"),
            "HTTP/2",
            [pair for pair in stream.pairs if not pair[0].startswith(":")],
            bytes(stream.body),
            wire.peer,
            ordinal,
        )
        wire.peer.ledger.requests += 1
        if request.path == "/slow":
            await asyncio.sleep(float(request.query.get("s", "0.2")))
            reply: Response | Script = Response(content.page(1024))
        else:
            reply = pages.answer(request)
        if not isinstance(reply, Response):
            reply = Response(b"not over HTTP/2\n", 501, content_type="text/plain")
        body = b"" if request.method == "HEAD" else reply.body
        pairs = [(":status", str(reply.status)), ("server", "faultsite")]
        pairs += [("content-type", reply.content_type)]
        pairs += [(name.lower(), value) for name, value in reply.headers]
        pairs += [("content-length", str(len(reply.body)))]
        await wire.respond(stream, pairs, body)

    async def script(peer: Peer) -> None:
        wire = Wire(peer)
        await wire.open()
        tasks: set[asyncio.Task[None]] = set()
        ordinal = 0
        try:
            while True:
                stream = await wire.request()
                ordinal += 1
                task = asyncio.ensure_future(_quietly(answer(wire, stream, ordinal)))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        finally:
            for task in tasks:
                task.cancel()

    return script


async def _quietly(work: Awaitable[None]) -> None:
    """The connection's own script reports that the client went away."""
    with contextlib.suppress(PeerGoneError):
        await work
