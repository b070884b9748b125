"""HTTP/2 of the fault site, seen frame by frame."""

from __future__ import annotations

import socket
import ssl
import struct
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from hardfetch.testing import FaultSite, content, hpack
from hardfetch.testing.h2 import PREFACE, frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Frames = list[tuple[int, int, int, bytes]]
QUIET, PATIENCE = 0.05, 10.0


@pytest.fixture(scope="module")
def site() -> Iterator[FaultSite]:
    with FaultSite(linger=20.0) as running:
        yield running


def frames(data: bytes) -> Frames:
    """Kind, flags, stream and payload of each whole frame."""
    found = []
    while len(data) >= 9:
        size = int.from_bytes(data[:3], "big")
        kind, flags, stream = struct.unpack(">BBI", data[3:9])
        found.append((kind, flags, stream, data[9 : 9 + size]))
        data = data[9 + size :]
    return found


def talk(site: FaultSite, url: str, enough: Callable[[Frames], bool]) -> Frames:
    """One GET of /200k with the default windows; the frames until there are enough."""
    context = ssl.create_default_context(cafile=str(site.cafile))
    context.set_alpn_protocols(["h2"])
    pairs = [(":method", "GET"), (":path", "/200k"), (":scheme", "https")]
    request = frame(1, 5, 1, hpack.encode([*pairs, (":authority", "a")]))
    parts = urlsplit(url)
    with (
        socket.create_connection(("127.0.0.1", parts.port or 0), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as sock,
    ):
        sock.sendall(PREFACE + frame(4, 0, 0) + request)
        data = b""
        while True:
            sock.settimeout(QUIET if enough(frames(data)) else PATIENCE)
            try:
                piece = sock.recv(65536)
            except (TimeoutError, ConnectionResetError):
                break
            if not piece:
                break
            data += piece
            # Not for the few bytes of a fault: what is sent to a server that has closed
            # draws an RST, and that loses what was not read yet.
            if len(data) > 32768:
                grant = struct.pack(">I", len(piece))
                sock.sendall(frame(8, 0, 0, grant) + frame(8, 0, 1, grant))
    return frames(data)


def test_http2_pages_come_within_the_windows(site: FaultSite) -> None:
    got = talk(site, site.h2, lambda rows: any(k == 0 and f & 1 for k, f, *_ in rows))
    assert [kind for kind, *_ in got[:3]] in ([4, 4, 1], [4, 1, 0])
    heads = [row for row in got if row[0] == 1]
    assert (":status", "200") in hpack.Decoder().decode(heads[0][3])
    data = [row for row in got if row[0] == 0]
    assert b"".join(row[3] for row in data) == content.page(204800)
    assert [row[1] & 1 for row in data] == [0] * (len(data) - 1) + [1]


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("h2-no-settings", set()),
        ("h2-silent", {4}),
        ("h2-silent-after-headers", {4, 1}),
        ("h2-silent-mid-body", {4, 1, 0}),
        ("h2-rst-mid-body", {4, 1, 0, 3}),
        ("h2-rst-refused", {4, 3}),
        ("h2-goaway-mid-body", {4, 1, 0, 7}),
        ("h2-goaway-first", {4, 7}),
        ("h2-reset-mid-body", {4, 1, 0}),
    ],
)
def test_http2_faults_send_these_frames(
    site: FaultSite, name: str, kinds: set[int]
) -> None:
    got = talk(site, site.url(name), lambda rows: {row[0] for row in rows} >= kinds)
    assert {kind for kind, *_ in got} == kinds
    body = b"".join(payload for kind, _, _, payload in got if kind == 0)
    assert body == (site.fault(name).content or b"")


def test_header_blocks_decode_with_huffman_and_the_table() -> None:
    # RFC 7541, C.4.1 to C.4.3: three requests on one connection.
    blocks = {
        "828684418cf1e3c2e5f23a6ba0ab90f4ff": [],
        "828684be5886a8eb10649cbf": [("cache-control", "no-cache")],
        "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf": [
            ("custom-key", "custom-value")
        ],
    }
    decoder = hpack.Decoder()
    for block, more in blocks.items():
        pairs = decoder.decode(bytes.fromhex(block))
        assert pairs[3] == (":authority", "www.example.com")
        assert pairs[4:] == more
    with pytest.raises(ValueError, match="HPACK"):
        decoder.decode(b"\xff\xff\xff\xff\xff\xff\xff")
