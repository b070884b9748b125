"""Starting threads where the system has none left."""

from __future__ import annotations

import _thread
import threading

import pytest

from hardfetch._threads import start
from hardfetch.errors import EngineError


def refuse(*_: object) -> None:
    raise RuntimeError("can't start new thread")


def test_the_thread_itself_can_be_one_too_many() -> None:
    class Last(threading.Thread):
        def start(self) -> None:
            refuse()

    with pytest.raises(EngineError, match="can't start new thread; allow more"):
        start(Last())


def test_so_can_be_the_one_that_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    with pytest.raises(EngineError, match="can't start new thread; allow more"):
        start(threading.Thread(target=lambda: None))
