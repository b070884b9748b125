"""Fetches under deadlines in the ways in which workers are run."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import socket
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from watching import descriptors

if TYPE_CHECKING:
    from collections.abc import Iterator

TASKS = 50
EXPECTED = ["late" if i % 3 == 0 else "done" for i in range(TASKS)]


# By its name, so that other processes find it: tests are no package.
sys.path.insert(0, str(Path(__file__).parent))
styles: Any = importlib.import_module("worker_styles")


class Page(BaseHTTPRequestHandler):  # HTTP/1.0: no connection is kept
    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128  # a full queue would cost its clients a second


@pytest.fixture
def urls() -> Iterator[list[str]]:
    """The tasks' URLs; every third is of a server that accepts and says nothing."""
    server = Server(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with socket.create_server(("127.0.0.1", 0), backlog=128) as silent:
        good = f"http://127.0.0.1:{server.server_port}/page"
        bases = [f"http://127.0.0.1:{silent.getsockname()[1]}/silent", good, good]
        yield [f"{bases[i % 3]}/{i}" for i in range(TASKS)]
    server.shutdown()
    server.server_close()


def check(answers: list[tuple[str, float]]) -> None:
    assert [outcome for outcome, _ in answers] == EXPECTED
    for outcome, took in answers:
        limit = styles.LIMIT if outcome == "late" else styles.AMPLE
        assert took < limit + 0.5
        assert outcome != "late" or took >= limit


def children() -> list[str]:
    task = Path(f"/proc/self/task/{os.getpid()}/children")
    return task.read_text().split()


@pytest.fixture
def _leaves_nothing() -> Iterator[None]:
    styles.run_task("http://127.0.0.1:1/")  # the shared engine stays, by design
    before, family = descriptors(), children()
    yield
    end = time.monotonic() + 3
    while (descriptors() > before or children() != family) and time.monotonic() < end:
        time.sleep(0.01)
    assert descriptors() <= before
    assert children() == family


@pytest.mark.usefixtures("_leaves_nothing")
def test_plain_threads(urls: list[str]) -> None:
    answers: list[Any] = [None] * TASKS

    def work(i: int, url: str) -> None:
        answers[i] = styles.run_task(url)

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(urls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(answers)


@pytest.mark.usefixtures("_leaves_nothing")
def test_a_thread_pool(urls: list[str]) -> None:
    with ThreadPoolExecutor(10) as pool:
        check(list(pool.map(styles.run_task, urls)))


@pytest.fixture
def _helpers() -> None:
    """Starts the processes that multiprocessing keeps for itself."""
    for method in ("spawn", "forkserver"):
        context: Any = multiprocessing.get_context(method)
        process = context.Process(target=os.getpid)
        process.start()
        process.join()
        process.close()


METHODS = ["fork", "spawn", "forkserver"]
quiet_fork = pytest.mark.filterwarnings(
    "ignore:.*multi-threaded.*fork:DeprecationWarning"  # the very case that is tested
)


@quiet_fork
@pytest.mark.usefixtures("_helpers", "_leaves_nothing")
@pytest.mark.parametrize("method", METHODS)
def test_a_process_pool(urls: list[str], method: str) -> None:
    with multiprocessing.get_context(method).Pool(4) as pool:
        check(pool.map(styles.run_task, urls, chunksize=1))
        pool.close()
        pool.join()


@quiet_fork
@pytest.mark.usefixtures("_helpers", "_leaves_nothing")
@pytest.mark.parametrize("method", METHODS)
def test_a_process_pool_executor(urls: list[str], method: str) -> None:
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(4, mp_context=context) as pool:
        check(list(pool.map(styles.run_task, urls)))


@quiet_fork
@pytest.mark.usefixtures("_helpers", "_leaves_nothing")
@pytest.mark.parametrize("method", METHODS)
def test_a_process_that_fetched_exits_by_itself(urls: list[str], method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    process = context.Process(target=styles.run_task, args=(urls[0],))
    process.start()
    process.join(10)
    assert process.exitcode == 0
    process.close()
