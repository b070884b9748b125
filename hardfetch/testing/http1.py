"""The HTTP/1.1 page server: one protocol object per kept-alive connection.

The common pages are answered from prebuilt bytes after one dictionary look-up, so that
a benchmark measures its client and not this server. Everything else is parsed properly.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from hardfetch.testing.peer import HEAD_END, Ledger, Peer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hardfetch.testing.model import Script

MAX_HEAD = 4 << 20
MAX_BODY = 64 << 20

REASONS = {
    200: "OK", 201: "Created", 204: "No Content", 301: "Moved Permanently",
    302: "Found", 303: "See Other", 304: "Not Modified", 307: "Temporary Redirect",
    308: "Permanent Redirect", 400: "Bad Request", 401: "Unauthorized",
    403: "Forbidden", 404: "Not Found", 408: "Request Timeout", 410: "Gone",
    413: "Content Too Large", 429: "Too Many Requests", 500: "Internal Server Error",
    502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """One parsed request; header names as they came."""

    method: str
    target: str
    version: str
    headers: list[tuple[str, str]]
    body: bytes
    peer: Peer
    ordinal: int
    """1 for the first request on its connection."""

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        """The query's last value for each name."""
        text = self.target.partition("?")[2]
        return dict(parse_qsl(text, keep_blank_values=True))

    def header(self, name: str) -> str:
        """The first header of that name, or ""."""
        wanted = name.lower()
        return next((v for k, v in self.headers if k.lower() == wanted), "")


@dataclass(frozen=True, slots=True)
class Response:
    """A complete answer. `headers` come before Content-Length, in their order."""

    body: bytes = b""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "text/html; charset=utf-8"
    chunked: bool = False

    def render(self, *, head_only: bool = False, close: bool = False) -> bytes:
        """The bytes for the wire."""
        lines = [f"HTTP/1.1 {self.status} {REASONS.get(self.status, 'Status')}"]
        lines.append("Server: faultsite")
        if self.content_type:
            lines.append(f"Content-Type: {self.content_type}")
        lines += [f"{name}: {value}" for name, value in self.headers]
        body = self.body
        if self.status in {204, 304}:
            body = b""
        elif self.chunked:
            lines.append("Transfer-Encoding: chunked")
            body = in_chunks(body)
        else:
            lines.append(f"Content-Length: {len(body)}")
        if close:
            lines.append("Connection: close")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        return head if head_only else head + body


def in_chunks(body: bytes, size: int = 4096) -> bytes:
    """`body` in chunked framing, in chunks of `size` bytes."""
    parts = [
        b"%x\r\n%b\r\n" % (len(body[at : at + size]), body[at : at + size])
        for at in range(0, len(body), size)
    ]
    return b"".join([*parts, b"0\r\n\r\n"])


class BadRequestError(Exception):
    """The client's bytes are no request that this server takes."""


class PageProtocol(Peer):
    """A page server's connection."""

    def __init__(
        self,
        ledger: Ledger,
        name: str,
        fast: Mapping[bytes, bytes],
        answer: Callable[[Request], Response | Script],
    ) -> None:
        super().__init__(ledger, name, None)
        self.fast = fast
        self.answer = answer
        self.served = 0
        self._served_before = -1
        self._closing = False
        self._told_to_continue = False

    def data_received(self, data: bytes) -> None:
        """Answers a plain GET of a common page at once; else collects and parses."""
        if self.task is None and not self.buffer and data.endswith(HEAD_END):
            end = data.find(b" ", 4)
            page = self.fast.get(data[4:end].partition(b"?")[0])
            if (
                page is not None
                and data.startswith(b"GET ")
                and data.find(HEAD_END) == len(data) - 4
                and b"gzip" not in data[4:end]
                and b"onnection: close" not in data
            ):
                self.served += 1
                self.ledger.requests += 1
                self.transport.write(page)
                return
        super().data_received(data)
        if self.task is None and self.relay is None:
            self._pump()

    def linger_over(self) -> None:
        """Ends a connection that was idle, or one script, for the linger time."""
        if self.served == self._served_before:
            super().linger_over()
            return
        self._served_before = self.served
        loop = asyncio.get_running_loop()
        self._linger = loop.call_later(self.ledger.linger, self.linger_over)

    def script_done(self) -> None:
        """After a page's script the connection serves on, unless it was to end."""
        if self._closing or self.transport.is_closing() or self.at_end:
            self.transport.close()
        else:
            self._pump()

    def _pump(self) -> None:
        while self.task is None and not self.transport.is_closing():
            try:
                request = self._next_request()
            except BadRequestError as error:
                answer = Response(f"{error}\n".encode(), 400)
                self.transport.write(answer.render(close=True))
                self.transport.close()
                return
            if request is None:
                return
            self._answer(request)

    def _answer(self, request: Request) -> None:
        self.served += 1
        self.ledger.requests += 1
        close = request.header("connection").lower() == "close"
        self._closing = close or request.version == "HTTP/1.0"
        answer = self.answer(request)
        if not isinstance(answer, Response):
            self.start(answer)
            return
        head_only = request.method == "HEAD"
        self.transport.write(answer.render(head_only=head_only, close=self._closing))
        if self._closing:
            self.transport.close()

    def _next_request(self) -> Request | None:
        """Takes one whole request from the buffer, or None while it is incomplete."""
        end = self.buffer.find(HEAD_END)
        if end < 0:
            if len(self.buffer) > MAX_HEAD:
                raise BadRequestError("head too large")
            return None
        lines = self.buffer[:end].decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise BadRequestError("not an HTTP/1 request line")
        headers = [
            (name, value.strip(" \t"))
            for name, _, value in (line.partition(":") for line in lines[1:])
        ]
        taken = self._body_after(end + 4, {k.lower(): v for k, v in headers})
        if taken is None:
            return None
        body, used = taken
        del self.buffer[:used]
        self._told_to_continue = False
        method, target, version = words
        return Request(method, target, version, headers, body, self, self.served + 1)

    def _body_after(
        self, start: int, headers: Mapping[str, str]
    ) -> tuple[bytes, int] | None:
        """The body that starts at `start` and where it ends; None while incomplete."""
        if "chunked" in headers.get("transfer-encoding", "").lower():
            self._continue(headers)
            return self._chunked_body(start)
        text = headers.get("content-length", "0")
        if not text.isascii() or not text.isdigit() or int(text) > MAX_BODY:
            raise BadRequestError("unusable Content-Length")
        end = start + int(text)
        if len(self.buffer) < end:
            self._continue(headers)
            return None
        return bytes(self.buffer[start:end]), end

    def _continue(self, headers: Mapping[str, str]) -> None:
        expected = headers.get("expect", "").lower() == "100-continue"
        if expected and not self._told_to_continue:
            self._told_to_continue = True
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _chunked_body(self, at: int) -> tuple[bytes, int] | None:
        parts: list[bytes] = []
        while (line := self.buffer.find(b"\r\n", at)) >= 0:
            try:
                size = int(self.buffer[at:line].partition(b";")[0], 16)
            except ValueError as error:
                raise BadRequestError("bad chunk size") from error
            at = line + 2
            if size < 0 or size > MAX_BODY:
                raise BadRequestError("bad chunk size")
            if len(self.buffer) < at + size + 2:
                return None
            if size == 0:
                return b"".join(parts), at + 2
            parts.append(bytes(self.buffer[at : at + size]))
            at += size + 2
        return None
