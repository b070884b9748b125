"""Scripts that each answer on a port of their own, all from one thread."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Any

from hardfetch.testing.listeners import listen_tcp
from hardfetch.testing.model import Script
from hardfetch.testing.peer import Ledger, Peer
from hardfetch.testing.tlsfaults import server_context

PATIENCE = 20.0  # seconds that nothing here takes


class Player:
    """Serves on loopback while it is entered; all its connections end with it."""

    def __enter__(self) -> Player:
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_on_error)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._ledger = Ledger(linger=60.0, max_connections=4096)
        self._servers: list[asyncio.Server] = []
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._call(self._shut_down())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    async def _shut_down(self) -> None:
        for server in self._servers:
            server.close()
        for peer in list(self._ledger.peers):
            peer.transport.abort()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(100):
            if not self._ledger.peers:
                break
            await asyncio.sleep(0.001)

    def serve(self, script: Script, alpn: str = "", host: str = "127.0.0.1") -> str:
        """The base URL where `script` runs for each connection; `alpn` asks for TLS."""
        tls = server_context("site", alpn) if alpn else None
        server, port = self._call(
            listen_tcp(lambda: Peer(self._ledger, "play", script), host, tls=tls)
        )
        self._servers.append(server)
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if alpn else 'http'}://{shown}:{port}"


def _on_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Passes over what clients do to a connection (TLS errors are OSErrors too)."""
    if not isinstance(context.get("exception"), OSError):
        loop.default_exception_handler(context)
