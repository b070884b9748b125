"""How each kind of fault listens: TCP, TLS, UDP, a full queue, or not at all."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Protocol

from hardfetch.testing.dns import NameServer
from hardfetch.testing.peer import Ledger, Peer
from hardfetch.testing.tlsfaults import server_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from hardfetch.testing.model import Script, Spec

BACKLOG = 4096
HANDSHAKE_TIMEOUT = 60.0


class Closable(Protocol):
    """What a site closes when it stops."""

    def close(self) -> None:
        """Stops listening."""


async def listen_tcp(
    factory: Callable[[], Peer],
    host: str,
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> tuple[asyncio.Server, int]:
    """Listens on one loopback address; the server and its port."""
    patience = None if tls is None else HANDSHAKE_TIMEOUT
    server = await asyncio.get_running_loop().create_server(
        factory, host, port, ssl=tls, backlog=BACKLOG, ssl_handshake_timeout=patience
    )
    return server, server.sockets[0].getsockname()[1]


def after_head(script: Script) -> Script:
    """The script, begun once the request head was read."""

    async def whole(peer: Peer) -> None:
        await peer.read_head()
        await script(peer)

    return whole


class FullBacklog:
    """A listening socket whose accept queue is full, so that each SYN is dropped.

    The queue holds backlog + 1 connections; nobody ever accepts them.
    """

    def __init__(self, host: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.socket(family, socket.SOCK_STREAM)
        self.listener.bind((host, 0))
        self.listener.listen(0)
        self.port: int = self.listener.getsockname()[1]
        self.fillers: list[socket.socket] = []
        for _ in range(4):
            filler = socket.socket(family, socket.SOCK_STREAM)
            filler.setblocking(False)  # noqa: FBT003
            filler.connect_ex((host, self.port))
            self.fillers.append(filler)

    def close(self) -> None:
        """Closes the listener and what fills it."""
        for sock in (*self.fillers, self.listener):
            sock.close()


class ClosedPort:
    """A port that is taken but not listened on: the kernel refuses connections."""

    def __init__(self, host: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.holder = socket.socket(family, socket.SOCK_STREAM)
        self.holder.bind((host, 0))
        self.port: int = self.holder.getsockname()[1]

    def close(self) -> None:
        """Lets the port go."""
        self.holder.close()


async def listen(spec: Spec, host: str, ledger: Ledger) -> tuple[Closable, int]:
    """Starts what a fault needs; its closable and its port."""
    name = spec.fault.name
    if spec.kind == "backlog":
        full = FullBacklog(host)
        return full, full.port
    if spec.kind == "closed":
        closed = ClosedPort(host)
        return closed, closed.port
    if spec.kind == "dns":
        return await NameServer.listen(host, spec.dns_mode, ledger, name)
    script = spec.script
    if script is None:
        raise ValueError(f"the fault {name} has no script")
    if spec.kind == "http":
        script = after_head(script)
    tls = None
    if spec.kind in ("tls", "h2"):
        alpn = "h2" if spec.kind == "h2" else "http/1.1"
        tls = server_context(spec.cert, alpn)
    return await listen_tcp(lambda: Peer(ledger, name, script), host, tls=tls)
