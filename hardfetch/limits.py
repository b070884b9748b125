"""Limits per host: their values, their file, and the table that a scheduler reads.

The file is TOML or JSON, checked whole::

    [default]
    max_per_host = 8

    [[host]]
    match = ["*.example.com", "example.com:8443"]
    rate = "30/m"
    delay = 0.5
    adaptive = true

The first ``host`` entry that matches holds; what it leaves out comes from the default.
A pattern is a shell glob over the host, or over host:port when it ends in a port.
"""

from __future__ import annotations

import json
import math
import re
from collections import OrderedDict
from dataclasses import dataclass, fields, replace
from fnmatch import translate
from importlib import import_module
from typing import Any

from hardfetch.errors import OptionError

__all__ = ["LimitRow", "LimitTable", "Limits", "parse_limits", "parse_rate"]

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:/\s*(\d*)\s*([smhd]))?", re.ASCII)
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PORT = re.compile(r":[\d*?]+$", re.ASCII)


def parse_rate(value: object) -> float:
    """Return requests per second of ``5/s``, ``30/m``, ``1/10s`` or a number.

    Raises:
        OptionError: not a rate, zero, negative or not finite.
    """
    rate = math.nan
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        rate = float(value)
    elif isinstance(value, str):
        match = _RATE.fullmatch(value.strip())
        if match:
            count, times, unit = match.groups()
            seconds = float(times or 1) * _UNITS[unit or "s"]
            rate = float(count) / seconds if seconds else math.nan
    if not 0 < rate < math.inf:
        raise OptionError(f"rate: {value!r} is not a rate such as 5/s or 30/m")
    return rate


@dataclass(frozen=True, slots=True)
class Limits:
    """What one host (host:port) is spared; times in seconds, 0 = off."""

    max_per_host: int = 8  # in flight
    rate: float = 0.0  # requests started per second, evenly spaced
    delay: float = 0.0  # between two starts, at least
    jitter: float = 0.5  # up to this share of delay is added at random
    adaptive: bool = False  # find the rate; rate is then its maximum
    breaker_failures: int = 10  # in a row
    breaker_open: float = 30.0

    def __post_init__(self) -> None:
        """Refuse values that can't work."""
        if min(self.max_per_host, self.breaker_failures) < 0:
            raise OptionError("limits: counts must not be negative")
        times = (self.rate, self.delay, self.jitter, self.breaker_open)
        if not all(0 <= value < math.inf for value in times):
            raise OptionError("limits: rate, delay and jitter must not be negative")


@dataclass(frozen=True, slots=True)
class LimitRow:
    """One pattern with the whole of its limits, as the compiled table holds it."""

    pattern: str  # glob as of fnmatch(3), lower case
    with_port: bool  # match host:port, else the host alone
    limits: Limits


class LimitTable:
    """Limits by host. What matched is remembered for the last ``max_hosts`` hosts."""

    def __init__(
        self,
        default: Limits | None = None,
        rows: tuple[LimitRow, ...] = (),
        max_hosts: int = 100_000,
    ) -> None:
        self.default = default or Limits()
        self.rows = rows
        self._max_hosts = max_hosts
        self._compiled = [
            (re.compile(translate(row.pattern)), row.with_port, row.limits)
            for row in rows
        ]
        self._known: OrderedDict[str, Limits] = OrderedDict()

    def lookup(self, host: str) -> Limits:
        """Return the limits of a host:port."""
        if not self._compiled:
            return self.default
        limits = self._known.get(host)
        if limits is None:
            limits = self._known[host] = self._match(host.lower())
            if len(self._known) > self._max_hosts:
                self._known.popitem(last=False)
        return limits

    def _match(self, host: str) -> Limits:
        name = _PORT.sub("", host)
        for pattern, with_port, limits in self._compiled:
            if pattern.match(host if with_port else name):
                return limits
        return self.default


def _integer(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise OptionError(f"{name}: {value!r} is not a whole number")
    return value


def _number(name: str, value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise OptionError(f"{name}: {value!r} is not a number")
    return float(value)


def _switch(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise OptionError(f"{name}: {value!r} is neither true nor false")
    return value


_READERS = {
    "int": _integer,
    "float": _number,
    "bool": _switch,
}


def _read_limits(base: Limits, entry: dict[str, Any]) -> Limits:
    known = {item.name: str(item.type) for item in fields(Limits)}
    changes: dict[str, Any] = {}
    for name, value in entry.items():
        if name not in known:
            raise OptionError(f"{name}: unknown; known are {', '.join(sorted(known))}")
        if name == "rate":
            changes[name] = parse_rate(value)
        else:
            changes[name] = _READERS[known[name]](name, value)
    return replace(base, **changes)


def _read_patterns(value: object) -> list[str]:
    patterns = [value] if isinstance(value, str) else value
    if not isinstance(patterns, list) or not patterns:
        raise OptionError("match: needs a pattern or a list of patterns")
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern or "/" in pattern:
            raise OptionError(f"match: {pattern!r} is not a host pattern")
    return [pattern.lower() for pattern in patterns]


def _read_rows(base: Limits, entry: object) -> list[LimitRow]:
    if not isinstance(entry, dict):
        raise OptionError("is not a table")
    values = dict(entry)
    patterns = _read_patterns(values.pop("match", None))
    limits = _read_limits(base, values)
    return [LimitRow(p, bool(_PORT.search(p)), limits) for p in patterns]


def _load(text: str, name: str) -> Any:
    try:
        if name.lower().endswith(".json") or text.lstrip().startswith("{"):
            return json.loads(text)
        return import_module("tomllib").loads(text)
    except ModuleNotFoundError:
        remedy = "TOML needs Python 3.11 or newer; write it as JSON"
        raise OptionError(f"{name}: {remedy}") from None
    except ValueError as error:
        raise OptionError(f"{name}: {error}") from None


def parse_limits(
    text: str, name: str = "limits", default: Limits | None = None
) -> LimitTable:
    """Read a limits file.

    Args:
        text: TOML, or JSON of the same shape.
        name: the file's name, for messages; ``.json`` decides the format.
        default: limits from the command line, under those of the file.

    Raises:
        OptionError: names the file, the entry and what is wrong.
    """
    data = _load(text, name)
    if not isinstance(data, dict) or not data.keys() <= {"default", "host"}:
        raise OptionError(f"{name}: only [default] and [[host]] may stand here")
    hosts = data.get("host", [])
    base = data.get("default", {})
    if not isinstance(base, dict) or not isinstance(hosts, list):
        raise OptionError(f"{name}: default is one table, host a list of tables")
    where = "default"
    try:
        limits = _read_limits(default or Limits(), base)
        rows: list[LimitRow] = []
        for number, entry in enumerate(hosts, 1):
            where = f"host {number}"
            rows += _read_rows(limits, entry)
    except OptionError as error:
        raise OptionError(f"{name}: {where}: {error}") from None
    return LimitTable(limits, tuple(rows))
