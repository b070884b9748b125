"""A server that answers request /N with the N-th of some answers, byte for byte."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from types import TracebackType

START_TIMEOUT = 10.0


class _Peer(asyncio.Protocol):
    def __init__(self, answers: Sequence[bytes]) -> None:
        self.answers = answers
        self.head = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.head += data
        if b"\r\n\r\n" in self.head:
            path = self.head.split(b" ", 2)[1]
            self.head = b""
            self.transport.write(self.answers[int(path[1:].partition(b"?")[0])])
            self.transport.close()


class Answers:
    """Serves on loopback from its own thread while it is entered."""

    def __init__(self, answers: Sequence[bytes]) -> None:
        self.answers = answers
        self.loop = asyncio.new_event_loop()
        self.port = 0
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(
            self.loop.create_server(
                lambda: _Peer(self.answers), "127.0.0.1", 0, backlog=1024
            )
        )
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        self.loop.run_forever()
        server.close()
        self.loop.run_until_complete(asyncio.sleep(0.01))  # what closes has its turn
        self.loop.close()

    def __enter__(self) -> Answers:
        self.thread.start()
        assert self.ready.wait(START_TIMEOUT)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    def url(self, number: int) -> str:
        return f"http://127.0.0.1:{self.port}/{number}"
