"""Proxies are loaded again beside the crawl, whatever a callable does."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from hardfetch.errors import OptionError
from hardfetch.proxy import Proxy
from hardfetch.proxy_loader import ProxyLoader
from hardfetch.proxy_source import ProxySource


def loader_of(call: Callable[[], Iterable[Proxy | str]]) -> ProxyLoader:
    return ProxyLoader(ProxySource(call=call))


def result(loader: ProxyLoader, now: float) -> list[Proxy] | None:
    """Look until the load that runs is over."""
    end = time.monotonic() + 30
    while loader._load is not None:
        found = loader.look(now, live=True)
        if found is not None:
            return found
        assert time.monotonic() < end
        time.sleep(0.001)
    return None


def test_nothing_is_loaded_without_a_reason() -> None:
    calls: list[int] = []
    loader = loader_of(lambda: calls.append(1) or ["a:1"])  # type: ignore[func-returns-value]
    for now in (0.0, 100.0, 200.0):
        assert loader.look(now, live=True) is None
    assert not calls
    loader.ask()
    assert loader.asked
    assert loader.look(300.0, live=True) is None
    found = result(loader, 300.0)
    assert [str(proxy) for proxy in found or ()] == ["http://a:1"]
    assert len(calls) == 1


def test_a_pool_without_a_live_exit_asks_now_and_then() -> None:
    calls: list[int] = []
    loader = loader_of(lambda: calls.append(1) or ["a:1"])  # type: ignore[func-returns-value]
    for now in (10.0, 11.0, 14.9, 15.1):
        loader.look(now, live=False)
        result(loader, now)
    assert len(calls) == 2


def test_a_call_that_hangs_holds_up_nobody_and_is_told(
    capfd: pytest.CaptureFixture[str],
) -> None:
    free = threading.Event()
    calls: list[int] = []

    def supply() -> list[str]:
        calls.append(1)
        free.wait(60)
        return ["a:1"]

    loader = loader_of(supply)
    loader.ask()
    for now in (0.0, 1.0, 29.0, 31.0, 40.0):
        assert loader.look(now, live=True) is None
        loader.ask()  # which waits for the one that runs
    assert capfd.readouterr().err.count("no answer for 30 s") == 1
    free.set()
    assert result(loader, 41.0)
    assert len(calls) == 1
    loader.look(42.0, live=True)
    assert result(loader, 42.0)
    assert len(calls) == 2


@pytest.mark.parametrize(
    "slip", [RuntimeError("the supplier is down"), SystemExit(3), OptionError("odd")]
)
def test_what_it_raises_changes_nothing(
    slip: BaseException, capfd: pytest.CaptureFixture[str]
) -> None:
    def supply() -> list[str]:
        raise slip

    loader = loader_of(supply)
    loader.ask()
    loader.look(0.0, live=True)
    assert result(loader, 0.0) is None
    assert "proxies kept as they are" in capfd.readouterr().err


def test_an_empty_list_and_one_without_end_change_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def endless() -> Iterator[Any]:
        return (f"h{n}:1" for n in itertools.count())

    for call, why in ((list, "the list is empty"), (endless, "more than 100,000")):
        loader = loader_of(call)
        loader.ask()
        loader.look(0.0, live=True)
        assert result(loader, 0.0) is None
        assert why in capfd.readouterr().err
