"""A Celery application whose tasks keep their limits, and its demo.

The worker of your own:   celery -A celery_app worker --concurrency 8
The demo, end to end:     python examples/celery_app.py     (or: make demo-celery)

The demo starts redis-server (or uses HARDFETCH_BROKER=redis://HOST:PORT/N), a worker
with eight processes, and a site of which a fifth never answers; it sends 200 tasks,
tells what came back, asks the worker what it still does, and shuts it down warmly.
"""

# mypy: disable-error-code=untyped-decorator
# ruff: noqa: INP001, S603 - a program of its own; it starts what it names

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celery import Celery

from hardfetch.celery import FetchTask

if TYPE_CHECKING:
    from collections.abc import Iterator

BROKER = os.environ.get("HARDFETCH_BROKER", "redis://127.0.0.1:6379/0")
TIMEOUT = 2.0  # seconds: the soft limit of a task
HARD_TIMEOUT = 4.0
URLS = 200

app = Celery("celery_app", broker=BROKER, backend=BROKER)
app.conf.update(
    broker_connection_retry_on_startup=True,
    worker_lost_wait=1.0,  # seconds until the task of a child that ended is told of
    worker_prefetch_multiplier=1,  # a task must not wait behind one that hangs
)


@app.task(base=FetchTask, bind=True, timeout=TIMEOUT, hard_timeout=HARD_TIMEOUT)
def crawl(self: FetchTask, url: str) -> dict[str, Any]:
    """Fetch one URL and return its record."""
    return self.fetch(url).to_dict()


class _Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = b"hello\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def _site() -> Iterator[list[str]]:
    """Serve on loopback; gives the URLs, every fifth of which hangs."""
    silent = socket.create_server(("127.0.0.1", 0), backlog=URLS)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    ports = [silent.getsockname()[1], *[server.server_port] * 4]
    yield [f"http://127.0.0.1:{ports[i % 5]}/{i}" for i in range(URLS)]
    server.shutdown()
    server.server_close()
    silent.close()


@contextlib.contextmanager
def _broker() -> Iterator[str]:
    """Give a broker's address; start one unless HARDFETCH_BROKER names one."""
    if "HARDFETCH_BROKER" in os.environ:
        yield BROKER
        return
    program = shutil.which("redis-server")
    if program is None:
        sys.exit("needs redis-server, or an address in HARDFETCH_BROKER")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [program, "--port", str(port), "--bind", "127.0.0.1", "--save", ""],
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )
        try:
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def _worker(broker: str) -> Iterator[subprocess.Popen[bytes]]:
    options = "-A celery_app worker --concurrency 8 --loglevel ERROR --without-mingle"
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "celery", *options.split()],
        cwd=Path(__file__).parent,
        env=os.environ | {"HARDFETCH_BROKER": broker},
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def demo() -> int:
    """Run everything; returns 0 when all of it held."""
    with _broker() as broker, _site() as urls, _worker(broker) as worker:
        app.conf.update(broker_url=broker, result_backend=broker)
        start = time.monotonic()
        jobs = [crawl.delay(url) for url in urls]
        records = [job.get(timeout=120) for job in jobs]
        took = time.monotonic() - start
        kinds = Counter((r["error"] or {"type": "no error"})["type"] for r in records)
        slowest = max(record["elapsed"] for record in records)
        _say(f"{len(records)} results in {took:.1f} s: {dict(kinds)}")
        _say(f"slowest: {slowest:.2f} s under a limit of {TIMEOUT:g} s")
        active = app.control.inspect(timeout=5).active() or {}
        stuck = sum(map(len, active.values()))
        _say(f"celery inspect: {len(active)} worker, {stuck} tasks still active")
        worker.send_signal(signal.SIGTERM)
        code = worker.wait(30)
        _say(f"warm shutdown: exit code {code}")
    fine = len(records) == URLS and slowest < HARD_TIMEOUT and len(active) == 1
    return 0 if fine and stuck == 0 and code == 0 else 1


if __name__ == "__main__":
    sys.exit(demo())
