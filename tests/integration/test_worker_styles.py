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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TASKS = 50
EXPECTED = ["late" if i % 3 == 0 else "refused" for i in range(TASKS)]


# By its name, so that other processes find it: tests are no package.
sys.path.insert(0, str(Path(__file__).parent))
styles: Any = importlib.import_module("worker_styles")


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of a server that accepts and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def urls(silent: str) -> list[str]:
    refused = f"http://127.0.0.1:{closed_port()}/"
    return [silent if i % 3 == 0 else refused for i in range(TASKS)]


def check(answers: list[tuple[str, float]]) -> None:
    assert [outcome for outcome, _ in answers] == EXPECTED
    for outcome, took in answers:
        assert took < styles.LIMIT + 0.5
        assert outcome != "late" or took >= styles.LIMIT


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


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
def test_plain_threads(silent: str) -> None:
    answers: list[Any] = [None] * TASKS

    def work(i: int, url: str) -> None:
        answers[i] = styles.run_task(url)

    threads = [
        threading.Thread(target=work, args=pair) for pair in enumerate(urls(silent))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(answers)


@pytest.mark.usefixtures("_leaves_nothing")
def test_a_thread_pool(silent: str) -> None:
    with ThreadPoolExecutor(10) as pool:
        check(list(pool.map(styles.run_task, urls(silent))))


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
def test_a_process_pool(silent: str, method: str) -> None:
    with multiprocessing.get_context(method).Pool(4) as pool:
        check(pool.map(styles.run_task, urls(silent), chunksize=1))
        pool.close()
        pool.join()


@quiet_fork
@pytest.mark.usefixtures("_helpers", "_leaves_nothing")
@pytest.mark.parametrize("method", METHODS)
def test_a_process_pool_executor(silent: str, method: str) -> None:
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(4, mp_context=context) as pool:
        check(list(pool.map(styles.run_task, urls(silent))))


@quiet_fork
@pytest.mark.usefixtures("_helpers", "_leaves_nothing")
@pytest.mark.parametrize("method", METHODS)
def test_a_process_that_fetched_exits_by_itself(silent: str, method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    process = context.Process(target=styles.run_task, args=(silent,))
    process.start()
    process.join(10)
    assert process.exitcode == 0
    process.close()
