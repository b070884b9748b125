"""A server of HTTP/3 on loopback, for pages and for answers that hang or break."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Any

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated, QuicEvent

from hardfetch.testing import content

START_TIMEOUT = 20.0
PAUSE = 0.05  # seconds: what was sent before an end has been read by then
BIG = bytes(range(256)) * 4096
SIZED = [(":status", "200"), ("content-length", "100")]
HTTP_CANCELLED = 0x10C


class _Peer(QuicConnectionProtocol):
    """One connection; the path of a request says what becomes of it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.http: H3Connection | None = None
        self.tasks: set[asyncio.Task[None]] = set()

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        if self.http is None:
            return
        for happened in self.http.handle_event(event):
            if isinstance(happened, HeadersReceived):
                path = dict(happened.headers)[b":path"].decode()
                work = getattr(self, path[1:].partition("?")[0].replace("-", "_"))
                task = asyncio.ensure_future(work(happened.stream_id))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)

    def head(self, stream: int, *pairs: tuple[str, str], end: bool = False) -> None:
        assert self.http is not None
        raw = [(name.encode(), value.encode()) for name, value in pairs]
        self.http.send_headers(stream, raw, end_stream=end)
        self.transmit()

    def data(self, stream: int, data: bytes, *, end: bool = False) -> None:
        assert self.http is not None
        self.http.send_data(stream, data, end_stream=end)
        self.transmit()

    # Pages, by their paths.

    async def page(self, stream: int) -> None:
        self.head(stream, (":status", "200"), ("content-type", "text/plain"),
                  ("x-a", "1"), ("x-a", "2"))  # fmt: skip
        self.data(stream, b"hello", end=True)

    async def missing(self, stream: int) -> None:
        self.head(stream, (":status", "404"))
        self.data(stream, b"no", end=True)

    async def empty(self, stream: int) -> None:
        self.head(stream, (":status", "204"), end=True)

    async def hints(self, stream: int) -> None:
        self.head(stream, (":status", "103"), ("link", "</a>"))
        await self.page(stream)

    async def big(self, stream: int) -> None:
        self.head(stream, (":status", "200"))
        self.data(stream, BIG, end=True)

    async def redirect(self, stream: int) -> None:
        self.head(stream, (":status", "302"), ("location", "/page"), end=True)

    # Faults.

    async def silent(self, stream: int) -> None:
        pass

    async def head_only(self, stream: int) -> None:
        self.head(stream, *SIZED)

    async def part(self, stream: int) -> None:
        self.head(stream, *SIZED)
        self.data(stream, b"hello")

    async def trickle(self, stream: int) -> None:
        self.head(stream, (":status", "200"))
        while True:
            self.data(stream, b"a")
            await asyncio.sleep(0.1)

    async def short(self, stream: int) -> None:
        self.head(stream, *SIZED)
        self.data(stream, b"hello", end=True)

    async def reset(self, stream: int) -> None:
        self._quic.reset_stream(stream, HTTP_CANCELLED)
        self.transmit()

    async def reset_body(self, stream: int) -> None:
        await self.part(stream)
        await asyncio.sleep(PAUSE)
        await self.reset(stream)

    async def close_body(self, stream: int) -> None:
        await self.part(stream)
        await asyncio.sleep(PAUSE)
        self.close()


class H3Server:
    """Serves over UDP from its own thread while it is entered."""

    def __init__(self, cert: str = "site", host: str = "127.0.0.1") -> None:
        self.cert = content.CERTS / f"{cert}.pem"
        self.host = host
        self.url = ""

    async def _serve(self) -> int:
        settings = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
        settings.load_cert_chain(self.cert, self.cert)
        self._server = await serve(
            self.host, 0, configuration=settings, create_protocol=_Peer
        )
        assert self._server._transport is not None
        port: int = self._server._transport.get_extra_info("sockname")[1]
        return port

    def __enter__(self) -> H3Server:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        port = asyncio.run_coroutine_threadsafe(self._serve(), self._loop)
        self.url = f"https://{self.host}:{port.result(START_TIMEOUT)}"
        return self

    async def _stop(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(START_TIMEOUT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
