"""Too few descriptors or local ports: slower, and nothing fails."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest

from hardfetch.testing import FaultSite

LIMIT = 60

#: Runs argv[2] copies of the URL argv[1] and prints errors, statuses and put-offs.
FETCH = """
import json, sys, hardfetch
with hardfetch.Fetcher(max_concurrency=128, max_per_host=0, retries=0) as f:
    s = f.run([sys.argv[1]] * int(sys.argv[2]), "/dev/null")
print(json.dumps([s.statuses, s.errors, s.stats.shortages, s.stats.started]))
"""

FEW_DESCRIPTORS = (
    """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))
"""
    + FETCH
)

#: A network of its own, where only some ports can be connected from.
FEW_PORTS = """
import fcntl, os, pathlib, socket, struct, subprocess, sys
libc = __import__("ctypes").CDLL(None, use_errno=True)
if libc.unshare(0x40000000 | (0 if os.geteuid() == 0 else 0x10000000)) != 0:
    sys.exit(77)
with socket.socket() as s:
    up = struct.pack("16sh14x", b"lo", 1)
    fcntl.ioctl(s, 0x8914, up)
try:
    ports = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range")
    ports.write_text("40000 40031")
except OSError:
    sys.exit(77)
import hardfetch
from hardfetch.testing import FaultSite
with FaultSite() as site:
    sys.argv[1] = site.url("/slow?s=0.1")
    ports.write_text("50000 50015")
    exec(sys.argv.pop())
"""


def run(*arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", *arguments],
        capture_output=True,
        timeout=LIMIT,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("no network namespace can be made here")
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout.splitlines()[-1])


def test_few_descriptors_make_it_slower_and_nothing_fails(site: FaultSite) -> None:
    url = site.url("/slow?s=0.1")
    statuses, errors, shortages, started = run(FEW_DESCRIPTORS, url, "400")
    assert (statuses, errors) == ({"2xx": 400}, {})
    assert shortages > 0
    assert started == 400


def test_few_ports_make_it_slower_and_nothing_fails() -> None:
    statuses, errors, shortages, started = run(FEW_PORTS, "", "200", FETCH)
    assert (statuses, errors) == ({"2xx": 200}, {})
    assert shortages > 0
    assert started == 200


def test_idle_connections_give_way_to_new_ones() -> None:
    code = FEW_DESCRIPTORS.replace("[sys.argv[1]] * int(sys.argv[2])", "sys.argv[1:]")
    code = code.replace("max_concurrency=128", "max_concurrency=4")
    with contextlib.ExitStack() as stack:
        ports = [keep_alive(stack) for _ in range(60)]
        urls = [f"http://127.0.0.1:{port}/" for port in ports]
        statuses, errors, shortages, started = run(code, *urls)
    assert (statuses, errors) == ({"2xx": 60}, {})
    assert shortages > 0
    assert started == 60


def keep_alive(stack: contextlib.ExitStack) -> int:
    """Answer on a port of 127.0.0.1 and keep every connection open; return the port."""
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = server.accept()
                stack.callback(peer.close)
                peer.recv(65536)
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    stack.callback(thread.join, 5)
    stack.callback(server.shutdown, socket.SHUT_RDWR)
    return int(server.getsockname()[1])
