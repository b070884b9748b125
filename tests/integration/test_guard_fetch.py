"""`deadline()` around our own blocking calls, which must let go of the thread."""

from __future__ import annotations

import asyncio
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hardfetch
from hardfetch.errors import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT = 0.3
SLACK = 0.05
TRIES = 3


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of a server that accepts and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


def fetch(fetcher: hardfetch.Fetcher, url: str) -> Any:
    return fetcher.fetch(url)


def iterate(fetcher: hardfetch.Fetcher, url: str) -> Any:
    return list(fetcher.map([url, url]))


def feed(fetcher: hardfetch.Fetcher, url: str) -> Any:
    """More inputs than the window holds: the caller waits for room."""
    return list(fetcher.map(url for _ in range(5000)))


def limited(act: Callable[[hardfetch.Fetcher, str], Any], url: str) -> float:
    """The seconds that it took until the right exception."""
    with hardfetch.Fetcher(timeout=30, max_concurrency=8) as fetcher:
        start = time.monotonic()
        with pytest.raises(DeadlineExceeded), hardfetch.deadline(LIMIT):
            act(fetcher, url)
        return time.monotonic() - start


@pytest.mark.parametrize("act", [fetch, iterate, feed])
@pytest.mark.parametrize("where", ["main", "thread", "to_thread"])
def test_a_fetch_of_a_silent_url_ends_on_time(
    silent: str, act: Callable[[hardfetch.Fetcher, str], Any], where: str
) -> None:
    took = 0.0
    for _ in range(TRIES):
        if where == "main":
            took = limited(act, silent)
        elif where == "thread":
            with ThreadPoolExecutor(1) as pool:
                took = pool.submit(limited, act, silent).result()
        else:
            took = asyncio.run(asyncio.to_thread(limited, act, silent))
        assert took >= LIMIT
        if took < LIMIT + SLACK:
            return
    pytest.fail(f"{took:.3f} s")


def test_the_fetcher_goes_on_after_a_deadline(silent: str) -> None:
    with hardfetch.Fetcher(timeout=30) as fetcher:
        for _ in range(3):
            with pytest.raises(DeadlineExceeded), hardfetch.deadline(0.1):
                fetcher.fetch(silent)
        assert fetcher.fetch(silent, timeout=0.1).error is not None
        end = time.monotonic() + 2
        while fetcher.stats().in_flight_now and time.monotonic() < end:
            time.sleep(0.01)
        assert fetcher.stats().in_flight_now == 0


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_fifty_threads_a_third_of_them_hanging(silent: str) -> None:
    def act(i: int) -> str:
        try:
            with hardfetch.deadline(0.5), hardfetch.Fetcher(timeout=30) as fetcher:
                if i % 3 == 0:
                    fetcher.fetch(silent)
                return "done"
        except DeadlineExceeded:
            return "late"

    before = open_descriptors()
    with ThreadPoolExecutor(50) as pool:
        outcomes = list(pool.map(act, range(50)))
    assert outcomes == ["late" if i % 3 == 0 else "done" for i in range(50)]
    assert open_descriptors() <= before + 1
