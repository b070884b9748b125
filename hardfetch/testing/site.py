"""The fault site: healthy pages and every fault of the catalogue, on loopback.

    with FaultSite() as site:
        site.url("/1k")                      # a healthy page
        site.url("silent-mid-body")          # a fault, by name
        site.fault("connect-407").proxy      # the proxy that makes it

It runs in one thread with a loop of its own. Each fault has a port of its own (so that
a client's limits per host don't mix them up), opened when it is first asked for. Faults
that begin after a request are also at `/fault/NAME` of the page server.
"""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from hardfetch.testing import content
from hardfetch.testing.catalogue import CATALOGUE
from hardfetch.testing.h2 import healthy
from hardfetch.testing.http1 import PageProtocol
from hardfetch.testing.listeners import Closable, listen, listen_tcp
from hardfetch.testing.pages import Pages, fast_pages
from hardfetch.testing.peer import Ledger, Peer
from hardfetch.testing.tlsfaults import server_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Coroutine
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

    from hardfetch.testing.model import Fault, Spec

_T = TypeVar("_T")
START_TIMEOUT = 20.0


def _on_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Passes over what clients do to a connection (TLS errors are OSErrors too)."""
    if not isinstance(context.get("exception"), OSError):
        loop.default_exception_handler(context)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """The site's thread."""
    asyncio.set_event_loop(loop)
    loop.set_exception_handler(_on_error)
    # Under python -X dev asyncio would time each callback and slow every page down.
    loop.set_debug(False)
    try:
        loop.run_forever()
    finally:
        loop.close()


class FaultSite:
    """A server of pages and faults; use it as a context manager.

    `linger`: seconds after which a connection that does nothing is dropped.
    `max_connections`: beyond these a new connection is reset.
    Raises ValueError when `host` is not a loopback address, OSError when it can't
    listen.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        linger: float = 60.0,
        max_connections: int = 16384,
    ) -> None:
        if not ipaddress.ip_address(host).is_loopback:
            raise ValueError(f"the fault site serves on loopback only, not on {host}")
        if not linger > 0:
            raise ValueError(f"linger must be above 0, not {linger}")
        self.host = host
        self.port = port
        self.cafile: Path = content.CAFILE
        self._ledger = Ledger(linger, max_connections)
        self._bases: dict[str, str] = {}
        self._open: dict[str, Fault] = {}
        self._closables: list[Closable] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    # Life.

    def start(self) -> Self:
        """Starts the thread and the healthy servers; returns the site itself."""
        if self._thread is not None:
            raise RuntimeError("the fault site is already started")
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=_run, args=(loop,), name="hardfetch-faultsite", daemon=True
        )
        self._thread.start()
        try:
            self._call(self._serve_pages())
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Drops all connections and ends the thread. May be called more than once."""
        thread, self._thread = self._thread, None
        if thread is None or self._loop is None:
            return
        self._call(self._shut_down())
        self._open.clear()
        self._loop.call_soon_threadsafe(self._loop.stop)
        thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Runs a coroutine on the site's thread and waits for it."""
        if self._loop is None or self._loop.is_closed():
            work.close()
            raise RuntimeError("the fault site is not running")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_TIMEOUT)

    async def _shut_down(self) -> None:
        for closable in self._closables:
            closable.close()
        self._closables.clear()
        # All tasks and not only our scripts: a TLS handshake that is under way is a
        # task of asyncio's, and nobody else would close its connection.
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        for peer in list(self._ledger.peers):
            peer.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)
        # A transport closes its socket in a later turn of the loop; TLS takes more.
        for _ in range(100):
            if not self._ledger.peers:
                break
            await asyncio.sleep(0.001)

    async def _serve_pages(self) -> None:
        scripts = {
            name: spec.script
            for name, spec in CATALOGUE.items()
            if spec.kind == "http" and spec.script is not None and not spec.fault.proxy
        }
        pages, fast = Pages(scripts, self.stats), fast_pages()

        def peer(name: str) -> Peer:
            return PageProtocol(self._ledger, name, fast, pages.answer)

        self.port = await self._serve("http", lambda: peer("http"), self.port)
        await self._serve("other", lambda: peer("other"))
        tls = server_context("site")
        await self._serve("https", lambda: peer("https"), tls=tls)
        over_h2 = healthy(pages)
        await self._serve(
            "h2",
            lambda: Peer(self._ledger, "h2", over_h2),
            tls=server_context("site", "h2"),
        )
        self._ledger.base = self._bases["http"]

    async def _serve(
        self,
        name: str,
        factory: Callable[[], Peer],
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> int:
        server, port = await listen_tcp(factory, self.host, port, tls)
        self._closables.append(server)
        scheme = "http" if tls is None else "https"
        self._bases[name] = f"{scheme}://{self._at(port)}"
        return port

    def _at(self, port: int) -> str:
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"

    # Addresses.

    @property
    def http(self) -> str:
        """Base URL of the pages over HTTP/1.1, without a slash at its end."""
        return self._bases["http"]

    @property
    def other(self) -> str:
        """The same pages on another port: another origin, for redirects across."""
        return self._bases["other"]

    @property
    def https(self) -> str:
        """The same over TLS; `cafile` has the authority."""
        return self._bases["https"]

    @property
    def h2(self) -> str:
        """The same over HTTP/2 and TLS."""
        return self._bases["h2"]

    def url(self, name: str) -> str:
        """The URL of a page ("/1k") or of a fault ("silent-mid-body")."""
        return self.http + name if name.startswith("/") else self.fault(name).url

    def fault(self, name: str) -> Fault:
        """A fault with its addresses; its port is opened at the first call.

        Raises KeyError for an unknown name.
        """
        spec = CATALOGUE[name]
        with self._lock:
            if name not in self._open:
                self._open[name] = self._call(self._start_fault(spec))
            return self._open[name]

    @property
    def faults(self) -> list[Fault]:
        """All faults, each on its port: some hundreds of descriptors."""
        return [self.fault(name) for name in CATALOGUE]

    async def _start_fault(self, spec: Spec) -> Fault:
        closable, port = await listen(spec, self.host, self._ledger)
        self._closables.append(closable)
        names = {
            **self._bases,
            "self": self._at(port),
            "port": str(port),
            "http_port": str(self.port),
        }

        def fill(template: str | None) -> str | None:
            return None if template is None else template.format_map(names)

        fault = spec.fault
        return dataclasses.replace(
            fault,
            url=fault.url.format_map(names),
            proxy=fill(fault.proxy),
            dns_server=fill(fault.dns_server),
        )

    # What it saw.

    def hits(self, name: str) -> int:
        """Connections (of a name server: queries) that a fault has had so far.

        The healthy servers are named http, https and h2.
        """
        return self._ledger.accepted[name]

    def open_now(self, name: str) -> int:
        """Connections of a fault or healthy server that are open now."""
        return self._ledger.open_now[name]

    def stats(self) -> dict[str, Any]:
        """Counters since the start, as plain JSON values."""
        ledger = self._ledger
        return {
            "requests": ledger.requests,
            "connections": sum(ledger.accepted.values()),
            "open_now": len(ledger.peers),
            "refused": ledger.refused,
            "accepted": dict(ledger.accepted),
        }

    def as_dict(self) -> dict[str, Any]:
        """Every address as plain JSON values: what `faultsite --json` prints."""
        return {
            **self._bases,
            "host": self.host,
            "port": self.port,
            "cafile": str(self.cafile),
            "faults": {fault.name: fault.as_dict() for fault in self.faults},
        }
