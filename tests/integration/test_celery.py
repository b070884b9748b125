from __future__ import annotations

import importlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from watching import starved

from hardfetch import fetcher
from hardfetch.client import Client
from hardfetch.errors import DeadlineExceeded, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

exceptions = pytest.importorskip("celery.exceptions")

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("celery")
    for name in ("queue", "control", "results"):
        (folder / name).mkdir()
    os.environ["HARDFETCH_TEST_FOLDER"] = str(folder)
    sys.path.insert(0, str(HERE))
    try:
        yield importlib.import_module("celery_tasks")
    finally:
        sys.path.remove(str(HERE))
        del os.environ["HARDFETCH_TEST_FOLDER"]


@pytest.fixture  # of one test: it would take the tasks of workers that come later
def worker(tasks: Any) -> Iterator[subprocess.Popen[bytes]]:
    process = start_worker("--concurrency", "2")
    try:
        assert tasks.sleep.delay(0).get(timeout=60) is None
        yield process
    finally:
        stop(process)


def start_worker(*options: str) -> subprocess.Popen[bytes]:
    command = "-W ignore -m celery -A celery_tasks worker --loglevel ERROR"
    return subprocess.Popen(
        [sys.executable, *command.split(), "--without-mingle", *options],
        cwd=HERE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
        stdout=subprocess.DEVNULL,
    )


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of a server that accepts and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


# In this process.


def test_run_is_limited_wherever_it_is_called(tasks: Any) -> None:
    start, before = time.monotonic(), starved()
    with pytest.raises(DeadlineExceeded):
        tasks.sleep(5)
    assert 0.5 <= time.monotonic() - start < 0.8 + starved() - before
    assert isinstance(tasks.sleep.apply(args=[5]).result, DeadlineExceeded)
    assert tasks.sleep.apply(args=[0.01]).result is None


def test_where_celery_does_not_keep_its_soft_limit_it_is_kept(tasks: Any) -> None:
    start = time.monotonic()
    result = tasks.celerys_limit.apply().result
    assert isinstance(result, exceptions.SoftTimeLimitExceeded)
    assert 1.0 <= time.monotonic() - start < 1.3


def test_a_fetch_ends_as_a_result_before_the_tasks_limit(
    tasks: Any, silent: str
) -> None:
    for task in (tasks.crawl, tasks.celerys_limit_in_fetch):
        start = time.monotonic()
        record = task.apply(args=[silent]).result
        assert record["error"]["type"] == "deadline"
        assert 0.8 <= time.monotonic() - start < 1.0


def test_an_engine_that_is_slow_to_start_takes_nothing_from_the_first_fetch(
    tasks: Any, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hardfetch import celery

    class Slow(Client):
        def __init__(self, *args: Any) -> None:
            time.sleep(0.3)
            super().__init__(*args)

    celery.close()
    monkeypatch.setattr(fetcher, "Client", Slow)
    assert tasks.crawl.apply(args=[silent]).result["error"]["type"] == "deadline"
    celery.close()


def test_a_hard_limit_below_the_soft_one_is_refused(tasks: Any) -> None:
    with pytest.raises(OptionError, match="hard_timeout"):
        tasks.wrong_limits()


def test_green_threads_are_refused(tasks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Patched:
        @staticmethod
        def is_module_patched(name: str) -> bool:
            return name == "threading"

    monkeypatch.setitem(sys.modules, "gevent.monkey", Patched)
    with pytest.raises(Exception, match="gevent and eventlet pools are not supported"):
        tasks.sleep(0)


def test_without_celery_one_sentence_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['celery'] = None\n"
        "try:\n    import hardfetch.celery\n"
        "except ImportError as exc:\n    print(exc)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    sentence = "hardfetch.celery needs Celery: pip install 'hardfetch[celery]'\n"
    assert done.stdout == sentence


# In prefork children.


@pytest.mark.slow
@pytest.mark.usefixtures("worker")
def test_children_keep_soft_and_hard_limits(tasks: Any, silent: str) -> None:
    start = time.monotonic()
    jobs = [
        tasks.sleep.delay(5),
        tasks.crawl.delay(silent),
        tasks.celerys_limit.delay(),
        tasks.celerys_limit_in_fetch.delay(silent),
        tasks.stuck.delay(),
        *[tasks.crawl.delay("http://127.0.0.1:1/") for _ in range(5)],
    ]
    sleep, hung, celerys, fetched, stuck, *rest = (
        job.get(timeout=60, propagate=False) for job in jobs
    )
    assert type(sleep).__name__ == "DeadlineExceeded"
    assert hung["error"]["type"] == "deadline"
    assert isinstance(celerys, exceptions.SoftTimeLimitExceeded)
    assert fetched["error"]["type"] == "deadline"
    assert isinstance(stuck, exceptions.WorkerLostError)
    assert "70" in str(stuck)
    # Refused; and once that is clear, the host's breaker says so at once.
    kinds = {r["error"]["type"] for r in rest}
    assert kinds <= {"connect_refused", "host_unavailable"}
    assert time.monotonic() - start < 20


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_other_pools_keep_soft_limits(tasks: Any, silent: str, pool: str) -> None:
    # It alone takes the task: no other worker runs by now.
    process = start_worker("--pool", pool, "--concurrency", "2")
    try:
        hung = tasks.crawl.delay(silent).get(timeout=60)
        assert hung["error"]["type"] == "deadline"
        assert hung["elapsed"] < 1
        assert hung["pid"] == process.pid
    finally:
        stop(process)
