"""A server that answers as a test says, and remembers when it was asked."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType

CLOSE, RESET, HOLD = "close", "reset", "hold"


@dataclass(frozen=True)
class Seen:
    """One request, at the moment when its head was read."""

    at: float  # time.monotonic()
    connection: int
    method: str
    path: str
    headers: dict[str, str]


@dataclass(frozen=True)
class Reply:
    """An answer; `end` may be CLOSE, RESET or HOLD instead of one."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b"fine"
    after: float = 0.0  # seconds
    end: str = ""
    wait: threading.Event | None = None  # for the answer to be sent

    def render(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} X", f"Content-Length: {len(self.body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


@dataclass
class Scripted:
    """Serves on 127.0.0.1; `script` is called for each request, one at a time."""

    script: Callable[[Seen], Reply] = lambda _: Reply()
    seen: list[Seen] = field(default_factory=list)

    def __enter__(self) -> Scripted:
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self._listener.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.host}"
        self._accepter = threading.Thread(target=self._accept, daemon=True)
        self._accepter.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)  # ends accept
        self._accepter.join()  # or it would add a connection that nobody closes
        self._listener.close()
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def times(self, path: str = "") -> list[float]:
        """When requests came whose path starts so."""
        return [one.at for one in self.seen if one.path.startswith(path)]

    @property
    def connections(self) -> int:
        return len(self._sockets)

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            number = len(self._sockets)
            self._sockets.append(peer)
            threading.Thread(
                target=self._serve, args=(peer, number), daemon=True
            ).start()

    def _serve(self, peer: socket.socket, number: int) -> None:
        data = b""
        try:
            while True:
                while b"\r\n\r\n" not in data:
                    more = peer.recv(65536)
                    if not more:
                        return
                    data += more
                head, _, data = data.partition(b"\r\n\r\n")
                first, *lines = head.decode("latin-1").split("\r\n")
                method, path, _ = first.split(" ", 2)
                pairs = (line.partition(": ")[::2] for line in lines)
                headers = {name.lower(): value for name, value in pairs}
                left = int(headers.get("content-length", 0))
                while len(data) < left:
                    data += peer.recv(65536)
                data = data[left:]
                seen = Seen(time.monotonic(), number, method, path, headers)
                with self._lock:
                    self.seen.append(seen)
                    reply = self.script(seen)
                if not self._answer(peer, reply):
                    return
        except OSError:
            return

    def _answer(self, peer: socket.socket, reply: Reply) -> bool:
        if reply.after:
            self._over.wait(reply.after)
        if reply.wait is not None:
            reply.wait.wait(60)
        if reply.end == HOLD:
            self._over.wait(60)
        if reply.end == RESET:
            linger = b"\x01\0\0\0\0\0\0\0"
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        if reply.end:
            peer.close()
            return False
        peer.sendall(reply.render())
        return True


def in_turn(replies: Iterable[Reply]) -> Callable[[Seen], Reply]:
    """Give one reply after the other, then a page for ever."""
    waiting = list(replies)

    def script(_: Seen) -> Reply:
        return waiting.pop(0) if waiting else Reply()

    return script
