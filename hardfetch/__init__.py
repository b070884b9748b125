"""hardfetch: URLs in, one NDJSON record for each out, whatever the network does.

`Fetcher` is the engine, `fetch` its shortest use. Names load when they are first used,
so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hardfetch._version import __version__

if TYPE_CHECKING:
    from hardfetch.errors import (
        ClosedError,
        DeadlineExceeded,
        EngineError,
        FetchError,
        ForkError,
        HardfetchError,
        HTTPError,
        OptionError,
        SinkError,
    )
    from hardfetch.fetcher import Fetcher, fetch
    from hardfetch.guard import Deadline, deadline
    from hardfetch.limits import Limits, LimitTable
    from hardfetch.options import Options
    from hardfetch.outcome import Failure, Final, Retry
    from hardfetch.record import Error, Headers, Result
    from hardfetch.request import Request
    from hardfetch.retry import RetryPolicy, Rule
    from hardfetch.summary import Stats, Summary
    from hardfetch.writer import NdjsonWriter

_HOMES = {
    "errors": (
        "ClosedError",
        "DeadlineExceeded",
        "EngineError",
        "FetchError",
        "ForkError",
        "HTTPError",
        "HardfetchError",
        "OptionError",
        "SinkError",
    ),
    "fetcher": ("Fetcher", "fetch"),
    "guard": ("Deadline", "deadline"),
    "limits": ("LimitTable", "Limits"),
    "options": ("Options",),
    "outcome": ("Failure", "Final", "Retry"),
    "record": ("Error", "Headers", "Result"),
    "request": ("Request",),
    "retry": ("RetryPolicy", "Rule"),
    "summary": ("Stats", "Summary"),
    "writer": ("NdjsonWriter",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ClosedError",
    "Deadline",
    "DeadlineExceeded",
    "EngineError",
    "Error",
    "Failure",
    "FetchError",
    "Fetcher",
    "Final",
    "ForkError",
    "HTTPError",
    "HardfetchError",
    "Headers",
    "LimitTable",
    "Limits",
    "NdjsonWriter",
    "OptionError",
    "Options",
    "Request",
    "Result",
    "Retry",
    "RetryPolicy",
    "Rule",
    "SinkError",
    "Stats",
    "Summary",
    "__version__",
    "deadline",
    "fetch",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'hardfetch' has no attribute {name!r}")
    if home == "guard":
        # What a block is likely to do first: a limit that passes in the middle of an
        # import would come out as whatever that makes of it.
        importlib.import_module("hardfetch.fetcher")
    value = getattr(importlib.import_module(f"hardfetch.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
