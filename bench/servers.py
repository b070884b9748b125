"""Servers for the benches, on free ports of 127.0.0.1, and what they serve."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import socket
import ssl
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTS = 500
DOMAIN = "bench.test"  # a certificate for *.test would not be taken
START = 10.0  # seconds that a server has to come up

# The protocols are those that nginx has by itself from 1.23.4 on.
_NGINX = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
worker_rlimit_nofile 20000;
events {{ worker_connections 15000; }}
http {{
    access_log off;
    types {{ }}
    default_type "text/html; charset=utf-8";
    sendfile on;
    ssl_protocols TLSv1.2 TLSv1.3;
    tcp_nodelay on;
    open_file_cache max=100;
    keepalive_timeout 300s;
    keepalive_requests 100000000;
    client_body_temp_path {folder}/tmp;
    proxy_temp_path {folder}/tmp;
    fastcgi_temp_path {folder}/tmp;
    uwsgi_temp_path {folder}/tmp;
    scgi_temp_path {folder}/tmp;
    http2_max_concurrent_streams 256;
    server {{
        listen 127.0.0.1:{http};
        listen 127.0.0.1:{tls} ssl http2;
        ssl_certificate {folder}/site.pem;
        ssl_certificate_key {folder}/site.key;
        ssl_session_cache shared:bench:10m;
        root {folder}/pages;
        location = /200k {{ add_header Content-Encoding gzip; }}
    }}
    server {{
        listen 127.0.0.1:{tls1} ssl;
        ssl_certificate {folder}/site.pem;
        ssl_certificate_key {folder}/site.key;
        ssl_session_cache shared:bench1:10m;
        root {folder}/pages;
    }}
}}
"""


def html(size: int) -> bytes:
    """Return a page of markup: a quote or a line end about every 30 bytes."""
    page = "".join(
        f'<li><a href="/page/{n}">Entry {n} of a list, caf\u00e9</a>, and words</li>\n'
        for n in range(size // 60 + 1)
    ).encode()
    whole = page[:size].decode(errors="ignore").encode()
    return whole.ljust(size, b"\n")


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(
        ["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60
    )


def _issue(folder: Path, name: str, subject: str, by: str, extensions: str) -> None:
    """Make the key and the certificate NAME.pem, signed by another one's key."""
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    request = ("-keyout", f"{name}.key", "-out", f"{name}.csr")
    _openssl(folder, "req", "-subj", f"/CN={subject}", *curve, *request)
    (folder / "extensions").write_text(extensions)
    signer = ["-CA", f"{by}.pem", "-CAkey", f"{by}.key", "-CAcreateserial"]
    if name == by:
        signer = ["-signkey", f"{name}.key"]
    files = ("-in", f"{name}.csr", "-out", f"{name}.pem", "-extfile", "extensions")
    _openssl(folder, "x509", "-req", "-days", "30", *files, *signer)


def make_certificates(folder: Path, roots: Path) -> Path:
    """Make a certificate for all hosts of DOMAIN; return the bundle of CAs to trust.

    The chain is as long as a public CA's at least, which signs by an intermediate one:
    CA/Browser Forum, Baseline Requirements, 6.1.7. The bundle holds the public CAs of
    `roots` too, as a crawler's does.
    """
    ca = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\n"
    names = f"subjectAltName=DNS:*.{DOMAIN},DNS:localhost,IP:127.0.0.1\n"
    _issue(folder, "root", "bench root CA", "root", ca)
    _issue(folder, "ca", "bench CA", "root", ca)
    _issue(folder, "leaf", DOMAIN, "ca", names)
    chain = [(folder / name).read_bytes() for name in ("leaf.pem", "ca.pem")]
    (folder / "site.pem").write_bytes(b"".join(chain))
    (folder / "leaf.key").rename(folder / "site.key")
    bundle = folder / "bundle.pem"
    bundle.write_bytes(roots.read_bytes() + (folder / "root.pem").read_bytes())
    return bundle


@dataclass
class Site:
    """Where the pages are. Ports of TLS are 0 when no nginx is there to serve it."""

    http: int
    tls: int  # HTTP/2 and 1.1
    tls1: int  # HTTP/1.1 alone
    bundle: Path
    name: str  # of the server
    pid: int

    def url(self, page: str, host: int = 1) -> str:
        return f"http://127.0.{host >> 8}.{host & 255}:{self.http}/{page}"

    def cpu(self) -> float:
        """Return the CPU seconds that the server has taken so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resolve(self) -> list[str]:
        """Return --resolve entries of the TLS hosts."""
        return [f"h{n}.{DOMAIN}:{self.tls1}:127.0.0.1" for n in range(1, HOSTS + 1)]

    def hosts(self) -> list[str]:
        """Return a URL at each TLS host."""
        return [f"https://h{n}.{DOMAIN}:{self.tls1}/1k" for n in range(1, HOSTS + 1)]


def nginx_path() -> str | None:
    """Return the path of nginx, which Debian keeps out of users' PATH."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START
    while time.monotonic() < end:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", port), 1),
        ):
            return
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise RuntimeError(
        f"nginx did not start: {log.read_text() if log.exists() else ''}"
    )


@contextlib.contextmanager
def _stopping(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def nginx(folder: Path, roots: Path) -> Iterator[Site]:
    """Serve the pages by an nginx of its own, in folder."""
    pages = folder / "pages"
    pages.mkdir()
    (folder / "tmp").mkdir()
    (pages / "1k").write_bytes(html(1024))
    (pages / "30k").write_bytes(html(30 * 1024))
    (pages / "200k").write_bytes(gzip.compress(html(200 * 1024), 6, mtime=0))
    bundle = make_certificates(folder, roots)
    ports = {name: free_port() for name in ("http", "tls", "tls1")}
    (folder / "nginx.conf").write_text(_NGINX.format(folder=folder, **ports))
    command = [nginx_path() or "nginx", "-p", str(folder), "-c", "nginx.conf"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    with _stopping(process):
        for port in ports.values():
            _wait_for(port, process, folder / "error.log")
        ssl.create_default_context(cafile=bundle)  # it parses
        version = subprocess.run(
            [command[0], "-v"], capture_output=True, check=True, text=True, timeout=10
        ).stderr.strip()
        yield Site(bundle=bundle, name=version, pid=process.pid, **ports)


@contextlib.contextmanager
def own(build: Path, bundle: Path, *options: str) -> Iterator[Site]:
    """Serve one page at every path by bench/server.c."""
    process = subprocess.Popen(
        [build / "bench_server", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with _stopping(process):
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield Site(port, 0, 0, bundle, "bench/server.c", process.pid)
