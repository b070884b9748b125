"""A UDP name server for names under any domain, healthy and not.

`ip-127-0-0-5.anything` has that A record; names starting with `v6.` also have an AAAA
record for ::1; `missing.anything` does not exist; every other name is 127.0.0.1.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from typing import TYPE_CHECKING, cast

from hardfetch.testing.model import OK, Spec, spec

if TYPE_CHECKING:
    from hardfetch.testing.peer import Ledger

A, AAAA, HTTPS = 1, 28, 65
NOERROR, SERVFAIL, NXDOMAIN, REFUSED = 0, 2, 3, 5
TTL = 1
SLOW = 0.03  # seconds; libcurl waits 50 ms for the AAAA record behind the A
_LITERAL = re.compile(r"^ip-(\d{1,3})-(\d{1,3})-(\d{1,3})-(\d{1,3})\.")


def question(packet: bytes) -> tuple[str, int, bytes]:
    """The first question of a query: name, type and its bytes on the wire.

    Raises ValueError for what is no query.
    """
    labels: list[str] = []
    at = 12
    while at < len(packet) and packet[at]:
        size = packet[at]
        if size > 63:
            raise ValueError("compressed name in a query")
        labels.append(packet[at + 1 : at + 1 + size].decode("latin-1"))
        at += size + 1
    if len(packet) < at + 5:
        raise ValueError("short query")
    (kind,) = struct.unpack_from(">H", packet, at + 1)
    return ".".join(labels).lower(), kind, packet[12 : at + 5]


def reply(packet: bytes, asked: bytes, code: int, records: list[bytes]) -> bytes:
    """An answer to a query: each record is its type and data, already packed."""
    flags = 0x8180 | code
    head = packet[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0)
    return head + asked + b"".join(records)


def record(kind: int, data: bytes) -> bytes:
    """One resource record for the name of the question."""
    return struct.pack(">HHHIH", 0xC00C, kind, 1, TTL, len(data)) + data


def addresses(name: str, kind: int) -> list[bytes]:
    """The records of a healthy server for a name that exists."""
    if kind == A:
        literal = _LITERAL.match(name)
        text = ".".join(literal.groups()) if literal else "127.0.0.1"
        if not text.startswith("127."):
            return []  # everything stays on loopback
        return [record(A, socket.inet_aton(text))]
    if kind == AAAA and name.startswith("v6."):
        return [record(AAAA, socket.inet_pton(socket.AF_INET6, "::1"))]
    return []


class NameServer(asyncio.DatagramProtocol):
    """One name server; `mode` says what is wrong with it."""

    def __init__(self, mode: str, ledger: Ledger, name: str) -> None:
        self.mode = mode
        self.ledger = ledger
        self.name = name
        self.asked: dict[tuple[str, int], int] = {}
        self.transport: asyncio.DatagramTransport

    @classmethod
    async def listen(
        cls, host: str, mode: str, ledger: Ledger, name: str
    ) -> tuple[asyncio.DatagramTransport, int]:
        """Listens on a free UDP port."""
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: cls(mode, ledger, name), local_addr=(host, 0)
        )
        return transport, transport.get_extra_info("sockname")[1]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the socket to answer on."""
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answers one query, or doesn't."""
        self.ledger.accepted[self.name] += 1
        try:
            name, kind, asked = question(data)
        except ValueError:
            return
        key = (name, kind)
        if len(self.asked) < 100_000:
            self.asked[key] = self.asked.get(key, 0) + 1
        answer = self.answer(data, name, kind, asked)
        if answer is not None:
            delay = SLOW if self.mode == "slow" else 0.0
            asyncio.get_running_loop().call_later(
                delay, self.transport.sendto, answer, addr
            )

    def answer(self, data: bytes, name: str, kind: int, asked: bytes) -> bytes | None:
        """The reply to a query, None for silence."""
        mode = self.mode
        if mode == "silent" or (mode == "no-https" and kind == HTTPS):
            return None
        first = self.asked.get((name, kind), 0) <= 1
        if mode == "lost-aaaa" and kind == AAAA and first:
            return None
        if mode == "garbage":
            return data[:2] + b"\x81\x80" + b"\xff" * 20
        codes = {"servfail": SERVFAIL, "nxdomain": NXDOMAIN, "refused": REFUSED}
        code = codes.get(mode, NOERROR)
        if name.startswith("missing."):
            code = NXDOMAIN
        records = addresses(name, kind) if code == NOERROR and mode != "empty" else []
        return reply(data, asked, code, records)


def specs() -> list[Spec]:
    """The catalogue of this module."""
    slow = ("dns_timeout", "dns_error", "timeout", "hard_timeout")
    fails = ("dns_error", "dns_timeout")
    table: list[tuple[str, str, tuple[str, ...], bool]] = [
        ("ok", "a healthy name server", (OK,), False),
        ("slow", "answers after 30 ms", (OK,), False),
        ("no-https", "never answers queries for HTTPS records", (OK,), False),
        ("lost-aaaa", "loses the first AAAA query of each name", (OK,), False),
        ("silent", "never answers", slow, True),
        ("servfail", "answers SERVFAIL", fails, False),
        ("nxdomain", "answers NXDOMAIN", fails, False),
        ("refused", "answers REFUSED", fails, False),
        ("empty", "answers without any record", fails, False),
        ("garbage", "answers with broken packets", slow, False),
    ]
    return [
        spec(
            f"dns-{mode}", "dns", text, None, expect, kind="dns", dns_mode=mode,
            url="http://host-of-dns-" + mode + ".test:{http_port}/1k",
            dns_server="{self}", hangs=hangs, gauntlet=hangs or mode == "garbage",
            status=200 if OK in expect else None,
        )
        for mode, text, expect, hangs in table
    ]  # fmt: skip
