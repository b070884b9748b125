"""The fault site: its pages, its life, its proxies and name servers."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import http.client
import json
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import zlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from watching import descriptors

from hardfetch.testing import FaultSite, content
from hardfetch.testing.catalogue import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="module")
def site() -> Iterator[FaultSite]:
    with FaultSite(linger=20.0) as running:
        yield running


@pytest.fixture
def client(site: FaultSite) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=10)
    yield connection
    connection.close()


def get(
    client: http.client.HTTPConnection, path: str, **more: Any
) -> tuple[http.client.HTTPResponse, bytes]:
    client.request(more.pop("method", "GET"), path, **more)
    response = client.getresponse()
    return response, response.read()


def get_json(client: http.client.HTTPConnection, path: str, **more: Any) -> Any:
    return json.loads(get(client, path, **more)[1])


def over_tls(site: FaultSite, url: str) -> http.client.HTTPSConnection:
    context = ssl.create_default_context(cafile=str(site.cafile))
    parts = urlsplit(url)
    assert parts.hostname
    assert parts.port
    return http.client.HTTPSConnection(
        parts.hostname, parts.port, timeout=10, context=context
    )


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port
    return port


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.parametrize(
    ("name", "size"), [("1k", 1024), ("30k", 30720), ("200k", 204800)]
)
def test_sized_pages_have_their_size_plain_and_packed(
    client: http.client.HTTPConnection, name: str, size: int
) -> None:
    response, body = get(client, f"/{name}?x=1")
    assert response.status == 200
    assert len(body) == size
    assert body.decode("utf-8").startswith("<!DOCTYPE html>")
    response, packed = get(client, f"/{name}?gzip")
    assert response.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed) == body


def test_pipelined_requests_are_answered_in_order(site: FaultSite) -> None:
    with socket.create_connection(("127.0.0.1", site.port), timeout=10) as sock:
        one = b"GET /status/%d HTTP/1.1\r\nHost: a\r\n\r\n"
        sock.sendall(one % 201 + b"GET /slow?s=0.05 HTTP/1.1\r\n\r\n" + one % 404)
        data = b""
        while data.count(b"HTTP/1.1 ") < 3:
            data += sock.recv(65536)
    starts = [part[:3] for part in data.split(b"HTTP/1.1 ")[1:]]
    assert starts == [b"201", b"200", b"404"]


def test_a_request_that_comes_in_pieces_is_put_together(site: FaultSite) -> None:
    with socket.create_connection(("127.0.0.1", site.port), timeout=10) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request = b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        for byte in request + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n":
            sock.sendall(bytes([byte]))
        answer = b""
        while not answer.endswith(b"}\n"):
            answer += sock.recv(65536)
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["body"] == "abcde"


def test_head_has_headers_only_and_close_closes(
    client: http.client.HTTPConnection, site: FaultSite
) -> None:
    response, body = get(client, "/30k", method="HEAD")
    assert response.headers["Content-Length"] == "30720"
    assert body == b""
    with socket.create_connection(("127.0.0.1", site.port), timeout=10) as sock:
        sock.sendall(b"GET /1k HTTP/1.1\r\nConnection: close\r\n\r\n")
        data = b""
        while piece := sock.recv(65536):
            data += piece
    assert data.endswith(content.page(1024))
    assert b"\r\nConnection: close\r\n" in data


def test_statuses_bytes_and_unknown_pages(client: http.client.HTTPConnection) -> None:
    for status in (200, 404, 418, 503):
        response, body = get(client, f"/status/{status}")
        assert (response.status, body) == (status, f"<h1>{status}</h1>\n".encode())
    assert get(client, "/status/204")[1] == b""
    assert get(client, "/bytes/70000")[1] == content.noise(70000)
    assert get(client, "/bytes/x")[0].status == 400
    assert get(client, "/bytes/999999999999")[0].status == 400
    assert get(client, "/nowhere")[0].status == 404


def test_redirects_lead_on(client: http.client.HTTPConnection) -> None:
    hops = [get(client, f"/redirect/{n}")[0].headers["Location"] for n in (3, 2, 1)]
    assert hops == ["/redirect/2", "/redirect/1", "/1k"]
    assert get(client, "/loop")[0].headers["Location"] == "/loop"
    response, _ = get(client, "/redirect-to?url=http%3A%2F%2Fa%2Fb%3Fc&status=307")
    assert (response.status, response.headers["Location"]) == (307, "http://a/b?c")
    assert get(client, "/redirect-to?url=a%0d%0ab")[0].status == 400


@pytest.mark.parametrize("by", ["header", "meta", "none"])
def test_charset_pages_carry_their_text(
    client: http.client.HTTPConnection, by: str
) -> None:
    for name, text in content.CHARSET_TEXTS.items():
        response, body = get(client, f"/charset/{name}?by={by}")
        kind = response.headers["Content-Type"]
        assert (kind == f"text/html; charset={name}") == (by == "header")
        assert (f'charset="{name}"'.encode() in body) == (
            by == "meta" and not name.startswith("utf-16")
        )
        codec = {"windows-874": "cp874", "ibm866": "cp866", "macintosh": "mac_roman"}
        assert text in body.decode(codec.get(name, name))
    assert get(client, "/charset/utf-8?by=bom")[1].startswith(b"\xef\xbb\xbf")


def test_packed_pages_unpack_to_the_long_text(
    client: http.client.HTTPConnection,
) -> None:
    text = content.long_text()
    assert gzip.decompress(get(client, "/gzip")[1]) == text
    assert zlib.decompress(get(client, "/deflate")[1]) == text
    assert zlib.decompress(get(client, "/deflate-raw")[1], -15) == text
    assert get(client, "/chunked")[1] == text
    assert get(client, "/chunked?size=100")[1] == text
    assert get(client, "/br")[0].headers["Content-Encoding"] == "br"
    assert get(client, "/zstd")[1].startswith(b"\x28\xb5\x2f\xfd")


def test_the_shipped_bodies_hold_the_text_of_today() -> None:
    # br and zstd bodies are made ahead: a change of the text must remake them.
    path = content.CERTS.parent / "fixtures" / "bodies.json"
    digest = json.loads(path.read_text())["text.sha256"]
    assert digest == hashlib.sha256(content.long_text()).hexdigest()


def test_echoes_tell_what_the_server_saw(client: http.client.HTTPConnection) -> None:
    seen = get_json(
        client, "/echo?a=b", method="PUT", body=b"\xff1", headers={"X-A": "1"}
    )
    assert (seen["method"], seen["target"]) == ("PUT", "/echo?a=b")
    assert seen["body_base64"] == "/zE="
    assert ["X-A", "1"] in seen["headers"]
    assert ["X-B", "2"] in get_json(client, "/headers", headers={"X-B": "2"})["headers"]
    response, _ = get(client, "/cookie/set?a=1&b=2")
    assert response.headers.get_all("Set-Cookie") == ["a=1; Path=/", "b=2; Path=/"]
    response, _ = get(client, "/cookie/set?a=1&domain=localhost")
    assert response.headers["Set-Cookie"] == "a=1; Path=/; Domain=localhost"
    assert get_json(client, "/cookie", headers={"Cookie": "a=1"}) == {"cookie": "a=1"}


def test_whoami_counts_connections_and_their_requests(
    client: http.client.HTTPConnection,
) -> None:
    one, two = get_json(client, "/whoami"), get_json(client, "/whoami")
    client.close()
    three = get_json(client, "/whoami")
    assert (one["request"], two["request"], three["request"]) == (1, 2, 1)
    assert one["connection"] == two["connection"] != three["connection"]


def test_slow_and_drip_take_their_time(client: http.client.HTTPConnection) -> None:
    began = time.monotonic()
    assert get(client, "/slow?s=0.1")[1] == content.page(1024)
    assert time.monotonic() - began >= 0.1
    began = time.monotonic()
    assert get(client, "/drip?bytes=5&every=0.02")[1] == content.noise(5)
    assert time.monotonic() - began >= 0.08


def test_refusals_end_after_the_asked_number(
    client: http.client.HTTPConnection,
) -> None:
    path = "/retry-after?value=3|4&status=503&times=2&key=t"
    statuses = []
    for _ in range(3):
        response, _ = get(client, path)
        statuses.append((response.status, response.headers.get_all("Retry-After")))
    assert statuses == [(503, ["3", "4"]), (503, ["3", "4"]), (200, None)]
    limited = [get(client, "/rate?limit=5&key=t")[0].status for _ in range(12)]
    assert limited[:5] == [200] * 5
    assert 429 in limited


def test_tls_pages_tell_a_resumed_session(site: FaultSite) -> None:
    context = ssl.create_default_context(cafile=str(site.cafile))
    session: ssl.SSLSession | None = None
    seen = []
    port = port_of(site.https)
    for _ in range(2):
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
            context.wrap_socket(
                plain, server_hostname="127.0.0.1", session=session
            ) as sock,
        ):
            sock.sendall(b"GET /whoami HTTP/1.1\r\nConnection: close\r\n\r\n")
            data = b""
            while piece := sock.recv(65536):
                data += piece
            session = sock.session
        seen.append(json.loads(data.partition(b"\r\n\r\n")[2])["resumed"])
    assert seen == [False, True]


def test_a_site_leaves_no_thread_and_no_descriptor_behind(site: FaultSite) -> None:
    wait_until(lambda: site.stats()["open_now"] == 0)  # of the tests before
    before, threads = descriptors(), threading.active_count()
    other = FaultSite().start()
    urls = [other.http, other.https, other.h2, other.url("tls-silent")]
    urls += [other.url("trickle-body"), other.url("silent-after-accept")]
    socks = [
        socket.create_connection(("127.0.0.1", port_of(url)), timeout=5) for url in urls
    ]
    socks[4].sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert socks[4].recv(10)
    assert len(other.faults) == len(CATALOGUE)
    other.stop()
    other.stop()
    for sock in socks:
        sock.close()
    assert threading.active_count() == threads
    assert descriptors() == before
    with pytest.raises(RuntimeError, match="not running"):
        other.fault("full-backlog")


def test_only_loopback_is_served() -> None:
    for host in ("0.0.0.0", "10.0.0.1", "::"):
        with pytest.raises(ValueError, match="loopback"):
            FaultSite(host)
    with pytest.raises(ValueError, match="linger"):
        FaultSite(linger=0)


def test_connections_end_after_the_linger_time() -> None:
    with FaultSite(linger=0.2) as site:
        for port in (site.port, port_of(site.url("silent-after-accept"))):
            with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
                began = time.monotonic()
                assert sock.recv(1) == b""
                assert 0.1 < time.monotonic() - began < 3


def test_connections_beyond_the_bound_are_refused() -> None:
    with FaultSite(max_connections=2) as site:
        with contextlib.ExitStack() as stack:
            for _ in range(2):
                sock = socket.create_connection(("127.0.0.1", site.port), timeout=5)
                stack.enter_context(sock)
                sock.sendall(b"GET /status/200 HTTP/1.1\r\n\r\n")
                assert sock.recv(12) == b"HTTP/1.1 200"
            third = stack.enter_context(
                socket.create_connection(("127.0.0.1", site.port), timeout=5)
            )
            third.sendall(b"GET /1k HTTP/1.1\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                assert third.recv(10) == b""
        assert site.stats()["refused"] == 1


def test_the_command_serves_until_a_signal() -> None:
    code = (
        "from hardfetch.testing.serve import run_faultsite\nrun_faultsite(as_json=True)"
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE
        ) as child:
            assert child.stdout
            told = json.loads(child.stdout.readline())
            assert set(told["faults"]) == set(CATALOGUE)
            with socket.create_connection(
                ("127.0.0.1", told["port"]), timeout=5
            ) as sock:
                sock.sendall(b"GET /status/200 HTTP/1.1\r\n\r\n")
                assert sock.recv(12) == b"HTTP/1.1 200"
            child.send_signal(number)
            assert child.wait(10) == 0


def ask(address: str, name: str, kind: int, wait: float = 2.0) -> bytes | None:
    host, _, port = address.rpartition(":")
    labels = b"".join(bytes([len(w)]) + w.encode() for w in name.split(".")) + b"\0"
    query = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0" + labels + struct.pack(">HH", kind, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(wait)
        sock.sendto(query, (host, int(port)))
        try:
            return sock.recv(512)
        except TimeoutError:
            return None


def test_name_servers_do_what_their_name_says(site: FaultSite) -> None:
    def server(mode: str) -> str:
        address = site.fault(f"dns-{mode}").dns_server
        assert address
        return address

    good = ask(server("ok"), "ip-127-0-0-5.test", 1) or b""
    assert good[:2] == b"\x12\x34"
    assert good.endswith(b"\0\x04\x7f\0\0\x05")
    outside = ask(server("ok"), "ip-10-0-0-5.test", 1)
    assert (outside or b"")[6:8] == b"\0\0"
    codes = {"servfail": 2, "nxdomain": 3, "refused": 5, "empty": 0}
    for mode, code in codes.items():
        reply = ask(server(mode), "a.test", 1)
        assert reply
        assert (reply[3] & 15, reply[6:8]) == (code, b"\0\0")
    assert ask(server("silent"), "a.test", 1, 0.1) is None
    assert site.hits("dns-silent") == 1
    assert ask(server("no-https"), "a.test", 65, 0.1) is None
    assert ask(server("no-https"), "a.test", 1)
    assert ask(server("lost-aaaa"), "v6.a.test", 28, 0.1) is None
    assert ask(server("lost-aaaa"), "v6.a.test", 28)


def test_a_proxy_tells_whoami_its_user(site: FaultSite) -> None:
    for user in ("u1", "u2"):
        proxy = urlsplit(site.fault("proxy-http").proxy or "")
        assert proxy.hostname
        client = http.client.HTTPConnection(proxy.hostname, proxy.port, timeout=10)
        basic = {"u1": "dTE6cA==", "u2": "dTI6cA=="}[user]
        headers = {"Proxy-Authorization": f"Basic {basic}"}
        seen = [
            get_json(client, site.url("/whoami"), headers=headers) for _ in range(2)
        ]
        client.close()
        assert [row["proxy_user"] for row in seen] == [user, user]
        assert [row["request"] for row in seen] == [1, 2]


def test_a_proxy_tunnels_and_goes_nowhere_but_loopback(site: FaultSite) -> None:
    proxy = urlsplit(site.fault("proxy-connect").proxy or "")
    assert proxy.hostname
    client = over_tls(site, f"https://{proxy.netloc}")
    client.set_tunnel("localhost", urlsplit(site.https).port)
    assert get(client, "/1k")[1] == content.page(1024)
    client.close()
    client = over_tls(site, f"https://{proxy.netloc}")
    client.set_tunnel("192.0.2.1", 443)
    with pytest.raises(OSError, match="502"):
        client.request("GET", "/")
