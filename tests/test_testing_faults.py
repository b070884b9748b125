"""The faults of the site, seen by plain sockets: the bytes go out as described."""

from __future__ import annotations

import contextlib
import gzip
import socket
import ssl
import time
import zlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from hardfetch.testing import Fault, FaultSite, content
from hardfetch.testing.catalogue import CATALOGUE
from hardfetch.testing.faults import STAGES
from hardfetch.testing.model import OK

if TYPE_CHECKING:
    from collections.abc import Iterator

Seen = tuple[bytes, bytes]
"""The bytes that came, and how they ended: b"" for a FIN, RESET or SILENCE."""

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
RESET = b"(reset)"
SILENCE = b"(silence)"
QUIET = 0.05
"""Seconds without a byte that count as silence, once all expected bytes are there."""
PATIENCE = 10.0
"""Seconds that whatever is expected may take on a busy machine."""


@pytest.fixture(scope="module")
def site() -> Iterator[FaultSite]:
    with FaultSite(linger=20.0) as running:
        yield running


def address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname
    assert parts.port
    return parts.hostname, parts.port


@contextlib.contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    with socket.create_connection(address(url), timeout=5) as sock:
        yield sock


def read(sock: socket.socket, quiet_after: int = 1 << 30) -> Seen:
    """Silence is only looked for after that many bytes; before, it is a failure."""
    data = b""
    while True:
        sock.settimeout(QUIET if len(data) >= quiet_after else PATIENCE)
        try:
            piece = sock.recv(65536)
        except ConnectionResetError:
            return data, RESET
        except TimeoutError:
            assert len(data) >= quiet_after
            return data, SILENCE
        if not piece:
            return data, b""
        data += piece


def talk(url: str, sent: bytes = GET, quiet_after: int = 1 << 30) -> Seen:
    try:
        with connected(url) as sock:
            if sent:
                sock.sendall(sent)
            return read(sock, quiet_after)
    except ConnectionResetError:  # before connect or send returned
        return b"", RESET


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_ends_in_silence_reset_or_fin(site: FaultSite, stage: str) -> None:
    sent = STAGES[stage][0]
    assert talk(site.url(f"silent-{stage}"), GET, len(sent)) == (sent, SILENCE)
    assert talk(site.url(f"reset-{stage}")) == (sent, RESET)
    assert talk(site.url(f"close-{stage}")) == (sent, b"")


@pytest.mark.parametrize("stage", ["mid-headers", "mid-chunk"])
def test_faults_after_a_request_are_pages_too(site: FaultSite, stage: str) -> None:
    sent = STAGES[stage][0]
    get = f"GET /fault/reset-{stage} HTTP/1.1\r\n\r\n".encode()
    assert talk(site.http, get) == (sent, RESET)
    get = f"GET /fault/close-{stage} HTTP/1.1\r\n\r\n".encode()
    assert talk(site.http, get) == (sent, b"")


def test_faults_before_a_request_need_none(site: FaultSite) -> None:
    assert talk(site.url("reset-after-accept"), b"") == (b"", RESET)
    assert talk(site.url("close-after-accept"), b"") == (b"", b"")
    assert talk(site.url("silent-after-accept"), GET, 0) == (b"", SILENCE)


def test_a_full_backlog_never_completes_a_connection(site: FaultSite) -> None:
    with pytest.raises(TimeoutError):
        socket.create_connection(address(site.url("full-backlog")), timeout=0.3)


def test_a_closed_port_refuses(site: FaultSite) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address(site.url("refused")), timeout=5)


def test_a_fault_sees_its_client_go(site: FaultSite) -> None:
    url = site.url("endless-body")
    with connected(url) as sock:
        sock.sendall(GET)
        assert sock.recv(100).startswith(b"HTTP/1.1 200 OK\r\n")
        assert site.open_now("endless-body") == 1
    end = time.monotonic() + 5
    while site.open_now("endless-body"):
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.parametrize(
    ("name", "head", "piece", "every"),
    [
        ("trickle-status-line", b"", b"HTTP/1.1 ", 0.2),
        ("trickle-headers", b"Content-Type: text/html\r\n", b"X-a: b\r\nX-a: b", 0.2),
        ("trickle-body-unsized", b"\r\n\r\n", b"aaaa", 0.1),
        ("trickle-chunks", b"\r\n\r\n", b"1\r\na\r\n1\r\na\r\n", 0.2),
    ],
)
def test_trickles_keep_their_pace(
    site: FaultSite, name: str, head: bytes, piece: bytes, every: float
) -> None:
    with connected(site.url(name)) as sock:
        sock.sendall(GET)
        data, began, arrivals = b"", time.monotonic(), 0
        while head + piece not in data:
            data += sock.recv(65536)
            arrivals += 1
    assert arrivals >= 2
    assert time.monotonic() - began >= every * (arrivals - 2)


@pytest.mark.parametrize(
    ("name", "piece"),
    [
        ("endless-headers", b"X-a: b\r\n"),
        ("endless-header", b"aaaa"),
        ("endless-interim", b"HTTP/1.1 103 Early Hints\r\n"),
        ("endless-chunks", b"10000\r\n"),
    ],
)
def test_endless_answers_go_on_past_every_cap(
    site: FaultSite, name: str, piece: bytes
) -> None:
    data = b""
    with connected(site.url(name)) as sock:
        sock.sendall(GET)
        while len(data) < 2 << 20:
            data += sock.recv(65536)
    assert piece in data[-70000:]


def test_redirects_never_repeat_a_url(site: FaultSite) -> None:
    seen = {talk(site.url("endless-redirects"))[0] for _ in range(5)}
    assert len(seen) == 5
    assert all(b"Location: ?hop=" in answer for answer in seen)


PLAIN = [
    spec.fault.name
    for spec in CATALOGUE.values()
    if spec.kind == "http" and not spec.fault.hangs and "bomb" not in spec.fault.name
]


def body_of(answer: bytes) -> bytes:
    """The body of a sound answer, without its framing and encoding."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"chunked" in head.lower():
        parts, at = [], 0
        while size := int(body[at : (line := body.index(b"\r\n", at))], 16):
            parts.append(body[line + 2 : line + 2 + size])
            at = line + 4 + size
        body = b"".join(parts)
    return body


@pytest.mark.parametrize("name", [name for name in PLAIN if name.startswith("cut-")])
def test_cut_bodies_are_cut_but_their_wire_is_whole(site: FaultSite, name: str) -> None:
    _, coding, where, framing = name.split("-")
    packed = content.packed_text(coding)
    answer, end = talk(site.url(name))
    body = body_of(answer)
    assert end == b""
    assert packed.startswith(body)
    assert len(body) < len(packed)
    if where.startswith("last"):
        assert len(packed) - len(body) == int(where[4:])
    assert (f"Content-Length: {len(body)}\r\n".encode() in answer) == (
        framing == "length"
    )


def test_gzip_cases_decode_as_they_claim(site: FaultSite) -> None:
    text = content.long_text()
    for framing in ("length", "close", "chunks"):
        whole = body_of(talk(site.url(f"whole-gzip-{framing}"))[0])
        assert gzip.decompress(whole) == text
        twice = body_of(talk(site.url(f"gzip-two-members-{framing}"))[0])
        assert gzip.decompress(twice) == text * 2
    with pytest.raises(gzip.BadGzipFile):
        gzip.decompress(body_of(talk(site.url("gzip-bad-crc"))[0]))


def test_the_gzip_bomb_holds_a_gibibyte(site: FaultSite) -> None:
    body = body_of(talk(site.url("bomb-gzip"))[0])
    assert len(body) < 2 << 20
    unpacker, size = zlib.decompressobj(31), 0
    while not unpacker.eof:
        size += len(unpacker.decompress(body, 1 << 26))
        body = unpacker.unconsumed_tail
    assert size == 1 << 30


@pytest.mark.parametrize(
    "name", [name for name in PLAIN if not name.startswith(("cut-", "whole-"))]
)
def test_answers_that_end_go_out_whole_and_hold_what_the_catalogue_says(
    site: FaultSite, name: str
) -> None:
    fault = site.fault(name)
    answer, end = talk(fault.url)
    resets = name.startswith("reset-") or name.endswith("-reset")
    assert end == (RESET if resets else b"")
    if fault.status is not None and fault.group not in ("interim", "redirect"):
        assert answer.startswith(b"HTTP/1.%d %d" % (name != "answer-1.0", fault.status))
    if (
        fault.expect == (OK,)
        and name != "header-bare-lf"
        and fault.group
        in (
            "header",
            "charset",
        )
    ):
        assert body_of(answer) == fault.content


@pytest.mark.parametrize(
    ("name", "answer", "end"),
    [
        ("tls-silent", b"", SILENCE),
        ("tls-partial-record", b"\x16\x03\x03\x00\x7a", SILENCE),
        ("tls-close", b"", b""),
        ("tls-reset", b"", RESET),
        ("tls-alert", b"\x15\x03\x03\x00\x02\x02\x28", b""),
        ("tls-garbage", content.noise(600), b""),
    ],
)
def test_tls_servers_fail_after_the_client_hello(
    site: FaultSite, name: str, answer: bytes, end: bytes
) -> None:
    size = len(answer) if end is SILENCE else 1 << 30
    assert talk(site.url(name), client_hello(), size) == (answer, end)


def client_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(
        incoming, outgoing, server_hostname="localhost"
    )
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def test_a_trickled_server_hello_is_a_real_one(site: FaultSite) -> None:
    with connected(site.url("tls-trickled-hello")) as sock:
        sock.sendall(client_hello())
        data = b""
        while len(data) < 3:
            piece = sock.recv(100)
            assert len(piece) == 1
            data += piece
    assert data[:2] == b"\x16\x03"


@contextlib.contextmanager
def over_tls(site: FaultSite, url: str) -> Iterator[ssl.SSLSocket]:
    context = ssl.create_default_context(cafile=str(site.cafile))
    with (
        connected(url) as plain,
        context.wrap_socket(
            plain, server_hostname="localhost", suppress_ragged_eofs=False
        ) as sock,
    ):
        yield sock


def test_certificates_are_bad_in_their_own_way(site: FaultSite) -> None:
    texts = {"expired": "expired", "wronghost": "match", "untrusted": "self.signed"}
    for name, text in texts.items():
        with (
            pytest.raises(ssl.SSLCertVerificationError, match=text),
            over_tls(site, site.url(f"tls-{name}")),
        ):
            pass


def test_tls_ends_with_and_without_a_close_notify(site: FaultSite) -> None:
    for name, notified in (
        ("tls-notify-unsized", True),
        ("tls-no-notify-unsized", False),
    ):
        with over_tls(site, site.url(name)) as sock:
            sock.sendall(GET)
            assert sock.recv(65536).startswith(b"HTTP/1.1 200 OK")
            if notified:
                assert sock.recv(65536) == b""
            else:
                with pytest.raises(ssl.SSLEOFError):
                    sock.recv(65536)


def proxy_talk(fault: Fault, sent: list[bytes], sizes: list[int]) -> Seen:
    """Sends each piece after as many bytes as told have come since the last one."""
    assert fault.proxy
    data = b""
    with connected(fault.proxy) as sock:
        for piece, size in zip(sent, sizes, strict=True):
            sock.sendall(piece)
            more, end = read(sock, size)
            data += more
    return data, end


@pytest.mark.parametrize(
    ("name", "start", "end"),
    [
        ("connect-silent", b"", SILENCE),
        ("connect-200-silent", b"HTTP/1.1 200 Connection established\r\n\r\n", SILENCE),
        ("connect-407", b"HTTP/1.1 407 Proxy", b""),
        ("connect-200-html", b"HTTP/1.1 200 Connection established\r\n\r\n<html>", b""),
        ("connect-reset", b"", RESET),
        ("connect-close", b"", b""),
    ],
)
def test_http_proxies_fail_after_the_connect(
    site: FaultSite, name: str, start: bytes, end: bytes
) -> None:
    size = len(start) if end is SILENCE else 1 << 30
    connect = [b"CONNECT a:443 HTTP/1.1\r\n\r\n"]
    data, ended = proxy_talk(site.fault(name), connect, [size])
    assert data.startswith(start)
    assert ended == end


@pytest.mark.parametrize(
    ("name", "answer", "end"),
    [
        ("socks5-silent-greeting", b"", SILENCE),
        ("socks5-silent-request", b"\x05\x00", SILENCE),
        ("socks5-silent-mid-reply", b"\x05\x00" + b"\x05\0\0\x01\0", SILENCE),
        ("socks5-reply-4", b"\x05\x00" + b"\x05\x04\0\x01" + bytes(6), b""),
        ("socks5-cut-reply", b"\x05\x00\x05\x05", b""),
        ("socks5-no-method", b"\x05\xff", b""),
        ("socks5-reset", b"", RESET),
    ],
)
def test_socks_proxies_fail_at_their_stage(
    site: FaultSite, name: str, answer: bytes, end: bytes
) -> None:
    sent = [b"\x05\x01\x00", b"\x05\x01\x00\x03\x01a\x00\x50"]
    sizes = [2, len(answer) - 2 if end is SILENCE else 1 << 30]
    if answer[:2] != b"\x05\x00":  # it fails at the greeting
        sent, sizes = sent[:1], [0 if end is SILENCE else 1 << 30]
    assert proxy_talk(site.fault(name), sent, sizes) == (answer, end)


def test_every_fault_has_an_address_and_an_expectation(site: FaultSite) -> None:
    names = [fault.name for fault in site.faults]
    assert len(names) == len(set(names)) == len(CATALOGUE)
    for fault in site.faults:
        assert fault.url.startswith(("http://", "https://"))
        assert "{" not in f"{fault.url}{fault.proxy}{fault.dns_server}"
        assert fault.expect
        assert (fault.origin is None) or OK not in fault.expect
        assert fault.description
