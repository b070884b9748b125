"""Green threads are refused at once: with them a fetch would hang for ever."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

import hardfetch
from hardfetch.errors import EngineError


@pytest.fixture(params=["gevent", "eventlet"])
def patched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "gevent":
        name, asked, module = "gevent.monkey", "is_module_patched", "threading"
    else:
        name, asked, module = "eventlet.patcher", "is_monkey_patched", "thread"
    fake = SimpleNamespace(**{asked: lambda what: what == module})
    monkeypatch.setitem(sys.modules, name, fake)


@pytest.mark.usefixtures("patched")
def test_every_way_to_fetch_says_that_green_threads_are_not_supported() -> None:
    with hardfetch.Fetcher() as fetcher:
        for way in (
            lambda: fetcher.fetch("http://127.0.0.1:1/"),
            lambda: list(fetcher.map(["http://127.0.0.1:1/"])),
            lambda: fetcher.run(["http://127.0.0.1:1/"], "/dev/null"),
        ):
            with pytest.raises(EngineError, match="gevent and eventlet are not"):
                way()


def test_a_patch_of_other_modules_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(is_module_patched=lambda what: what == "socket")
    monkeypatch.setitem(sys.modules, "gevent.monkey", fake)
    with hardfetch.Fetcher(retries=0) as fetcher:
        result = fetcher.fetch("http://127.0.0.1:1/")
    assert result.error is not None
    assert result.error.type == "connect_refused"
