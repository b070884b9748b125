"""One accepted connection, driven by a script of reads, sends, waits and ways to end.

Everything here runs on the site's loop thread. A script ends by returning (the
connection is then closed with a FIN) or because its peer went away (`PeerGoneError`).
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from ssl import SSLObject

    from hardfetch.testing.model import Script

HEAD_END = b"\r\n\r\n"
RESET_PAUSE = 0.03
"""Seconds between the last bytes and an RST, so that the client has read them: an RST
that overtakes them would make a fault "in the body" one "before the head"."""


class PeerGoneError(Exception):
    """The other end closed or reset the connection, or the linger time is over."""


class Ledger:
    """What a site knows of its connections; shared by all its servers."""

    def __init__(self, linger: float, max_connections: int) -> None:
        self.linger = linger
        self.max_connections = max_connections
        self.peers: set[Peer] = set()
        self.accepted: Counter[str] = Counter()
        self.open_now: Counter[str] = Counter()
        self.requests = 0
        self.refused = 0
        self.connection_ids = 0
        self.exits: dict[int, tuple[str, int]] = {}
        """Local port of a proxy's upstream socket: its user and connection number."""
        self.base = ""
        """Base URL of the page server, for faults that send a client there."""
        self.tallies: Counter[str] = Counter()
        """Per-key counts of pages that change with the number of visits."""


class Peer(asyncio.Protocol):
    """The server's side of one connection, with a script's view of it."""

    def __init__(self, ledger: Ledger, name: str, script: Script | None) -> None:
        self.ledger = ledger
        self.name = name
        self.script = script
        self.buffer = bytearray()
        self.sent = 0
        self.id = 0
        self.task: asyncio.Task[None] | None = None
        self.relay: Peer | None = None
        """Where what arrives here is passed on to."""
        self.source: Peer | None = None
        """Whose bytes are passed on to here."""
        self.on_lost: Callable[[], object] | None = None
        self.transport: asyncio.Transport
        self._counted = False
        self._gone = False
        self.at_end = False
        self._wake: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._linger: asyncio.TimerHandle | None = None

    # What the loop calls, in the order of a connection's life.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Counts the connection and starts its script."""
        self.transport = cast("asyncio.Transport", transport)
        ledger = self.ledger
        if len(ledger.peers) >= ledger.max_connections:
            ledger.refused += 1
            self._gone = True
            self.transport.abort()
            return
        self._counted = True
        ledger.peers.add(self)
        ledger.accepted[self.name] += 1
        ledger.open_now[self.name] += 1
        ledger.connection_ids += 1
        self.id = ledger.connection_ids
        loop = asyncio.get_running_loop()
        self._linger = loop.call_later(ledger.linger, self.linger_over)
        if self.script is not None:
            self.start(self.script)

    def start(self, script: Script) -> None:
        """Hands the connection to a script."""
        self.task = asyncio.get_running_loop().create_task(self._run(script))

    async def _run(self, script: Script) -> None:
        try:
            await script(self)
        except PeerGoneError:
            pass
        finally:
            self.task = None
            self.script_done()

    def script_done(self) -> None:
        """What follows a script: a FIN, unless it ended the connection itself."""
        if self.relay is None:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Keeps what came until the script reads it, or passes it on to the relay."""
        if self.relay is not None:
            self.relay.transport.write(data)
            return
        self.buffer += data
        self._wake_up()

    def eof_received(self) -> bool:
        """Leaves our half open: what the script still sends may be wanted."""
        self.at_end = True
        self._wake_up()
        relay = self.relay
        if relay is not None and relay.at_end:  # both sides have ended now
            relay.transport.close()
            return False
        if relay is not None and relay.tls is None:
            relay.transport.write_eof()
        # TLS as asyncio has it knows no half-closed connection.
        return self.tls is None and (self.task is not None or relay is not None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection and ends its script, wherever that is."""
        self._gone = True
        # Python 3.10 takes a TLS transport for unclosed if only its peer closed it.
        self.transport.close()
        if self.task is not None:
            self.task.cancel()
        self._wake_up()
        self.resume_writing()
        if self._linger is not None:
            self._linger.cancel()
        if self._counted:
            self.ledger.peers.discard(self)
            self.ledger.open_now[self.name] -= 1
        if self.on_lost is not None:
            self.on_lost()
        others = {self.relay, self.source} - {None}
        self.relay = self.source = None
        for other in cast("set[Peer]", others):
            other.relay = other.source = None
            # A tunnel hands a reset on as a reset.
            other.end(reset=exc is not None)

    def end(self, *, reset: bool) -> None:
        """Closes with a FIN after what was written, or with an RST at once."""
        if not reset:
            self.transport.close()
            return
        sock = self.transport.get_extra_info("socket")
        if sock is not None and not self._gone:
            sock.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        self.transport.abort()

    def linger_over(self) -> None:
        """Ends a connection that has been here for the linger time."""
        self.transport.abort()

    def pause_writing(self) -> None:
        """The client reads slowly: the script's next `send` waits."""
        if self.source is not None:
            self.source.transport.pause_reading()
        if self._writable is None:
            self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """The client has caught up."""
        if self.source is not None and not self.source.transport.is_closing():
            self.source.transport.resume_reading()
        if self._writable is not None:
            if not self._writable.done():
                self._writable.set_result(None)
            self._writable = None

    def _wake_up(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    # What a script calls.

    @property
    def tls(self) -> SSLObject | None:
        """The TLS object of the connection, or None on plain TCP."""
        return cast("SSLObject | None", self.transport.get_extra_info("ssl_object"))

    async def more(self) -> None:
        """Waits for more bytes in `buffer`; raises `PeerGoneError` at the end."""
        if self._gone or self.at_end:
            raise PeerGoneError
        self._wake = asyncio.get_running_loop().create_future()
        before = len(self.buffer)
        await self._wake
        self._wake = None
        if len(self.buffer) == before:
            raise PeerGoneError

    async def read(self, count: int) -> bytes:
        """Takes exactly `count` bytes."""
        while len(self.buffer) < count:
            await self.more()
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    async def read_until(self, end: bytes) -> bytes:
        """Takes everything up to and including `end`."""
        while (at := self.buffer.find(end)) < 0:
            await self.more()
        return await self.read(at + len(end))

    async def read_head(self) -> bytes:
        """Takes a request head, the blank line included."""
        return await self.read_until(HEAD_END)

    async def send(self, data: bytes) -> None:
        """Writes `data`; waits while the client is slow to take what was written."""
        if self._gone or self.transport.is_closing():
            raise PeerGoneError
        self.transport.write(data)
        self.sent += len(data)
        if self._writable is not None:
            await self._writable
        if self._gone:
            raise PeerGoneError

    async def trickle(self, data: bytes, every: float, step: int = 1) -> None:
        """Writes `data` in pieces of `step` bytes, `every` seconds apart."""
        for at in range(0, len(data), step):
            await self.send(data[at : at + step])
            await asyncio.sleep(every)

    async def hold(self) -> None:
        """Says nothing until the client goes away or the linger time is over."""
        while not (self._gone or self.at_end):
            self.buffer.clear()
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        self._wake = None

    async def finish(self, data: bytes, end: str) -> None:
        """Sends `data`, then ends as told: hold, reset, or by the end of the script."""
        if data:
            await self.send(data)
        if end == "hold":
            await self.hold()
        elif end == "reset":
            await self.reset()

    async def reset(self) -> None:
        """Ends the connection with an RST."""
        await asyncio.sleep(RESET_PAUSE if self.sent else 0)
        self.end(reset=True)

    def cut(self) -> None:
        """Ends the connection with a FIN and, under TLS, without a close_notify."""
        self.transport.abort()

    def pass_to(self, other: Peer) -> None:
        """Passes what arrives here on to `other` from now on."""
        self.relay, other.source = other, self
        if self.buffer:
            other.transport.write(bytes(self.buffer))
            self.buffer.clear()

    def join(self, other: Peer) -> None:
        """Passes bytes between this connection and `other`, both ways."""
        self.pass_to(other)
        other.pass_to(self)
