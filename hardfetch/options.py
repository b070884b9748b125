"""The options of a `Fetcher`, checked at once and frozen.

Names are those of the command line with underscores. Times are seconds (numbers, or
text as "0.3" and "2m"), sizes are bytes (integers, or text as "16M"). None stands for
the default of every option.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardfetch import policies, profiles, values
from hardfetch._version import __version__
from hardfetch.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hardfetch.bodies import Pattern
    from hardfetch.limits import LimitTable
    from hardfetch.proxy_health import PoolOptions
    from hardfetch.proxy_source import ProxySource
    from hardfetch.record import Result
    from hardfetch.retry import RetryPolicy

    _Check = Callable[[str, Any], dict[str, Any]]

HARD_GRACE = 5.0  # seconds that the hard limit lies behind the soft one
BODY_MODES = ("auto", "text", "base64", "none")
ECH_MODES = ("grease", "dns", "off")
FSYNC_MODES = ("never", "interval", "close")
HTTP_VERSIONS = ("1.0", "1.1", "2", "3")

#: Every field that a record can have, in the order in which it has them.
RECORD_FIELDS = (
    "schema", "seq", "id", "input", "input_base64", "url", "final_url", "method",
    "status_code", "http_version", "headers", "content_type", "charset",
    "charset_source", "body", "body_base64", "size", "wire_size", "decoded",
    "truncated", "redirects", "remote_ip", "remote_port", "reused", "proxy",
    "impersonate", "attempts", "timing", "elapsed", "limits", "error", "fetched_at",
    "meta",
)  # fmt: skip
_TWINS = {"body": "body_base64", "input": "input_base64"}
_SENSITIVE = (
    "Authorization", "Cookie", "Proxy-Authorization", "X-API-Key", "API-Key",
    "X-Auth-Token", "X-Access-Token", "X-CSRF-Token", "X-Amz-Security-Token",
)  # fmt: skip

_CA_MOST = 64 << 20  # bytes of a file of certificates


def default_loops() -> int:
    """Return one loop for every two processors that this process may use."""
    return max(1, len(os.sched_getaffinity(0)) // 2)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Checked options. Make it with `Options.build(**options)`, which does the checks.

    Limits in time are seconds; None means that the limit is off.
    """

    # How much at once.
    max_concurrency: int = 256
    max_per_host: int = 8  # per host:port; 0 = no limit
    loops: int = dataclasses.field(default_factory=default_loops)
    ring_bytes: int = 4 << 20  # per loop, a power of two
    window: int | None = None  # inputs accepted and unanswered; None = by the use
    window_bytes: int = 16 << 20

    # Deadlines.
    timeout: float = 10.0  # soft total of an attempt
    hard_timeout: float = 15.0
    connect_timeout: float = 5.0
    first_byte_timeout: float | None = None
    idle_timeout: float | None = None
    deadline: float | None = None  # the whole job from acceptance
    drain: float = 10.0  # what a stop leaves to fetches in flight
    stall_warning: float = 5.0  # an unread output is told on stderr after this

    # The request.
    method: str = ""
    headers: tuple[bytes, ...] = ()  # "Name: value"
    data: bytes | None = None  # a form's, unless a header gives its Content-Type
    user_agent: str = ""
    impersonate: str = ""
    http_version: str = ""
    retries: int = 2
    # Filled in by build; what they are made of is compared.
    retry: RetryPolicy | None = dataclasses.field(default=None, compare=False)
    retry_on_body: tuple[Pattern, ...] = ()
    validate: Callable[[Result], object] | None = None
    sensitive_headers: tuple[str, ...] = _SENSITIVE  # never sent across origins

    # The response.
    max_body: int = 16 << 20
    max_wire: int | None = None  # bytes before decoding; None = no limit
    max_ratio: int = 0  # of decoded to wire bytes; 0 = no limit
    max_headers: int = 300 << 10
    max_redirects: int = 10
    follow: bool = True

    # The record.
    body: str = "auto"
    record_headers: bool = True
    fields: tuple[str, ...] | None = None  # None = all

    # The output of run().
    fsync: str = "never"  # of files: never, interval (each second) or close
    rotate_size: int | None = None  # bytes of a part; needs {part} in the path
    rotate_time: float | None = None  # seconds of a part

    # The way.
    proxy: str = ""  # the one; several are proxies
    proxies: ProxySource | None = None
    pool: PoolOptions | None = None
    limits: LimitTable | None = dataclasses.field(default=None, compare=False)
    robots: str = "ignore"
    verify: bool = True
    cacert: str = ""
    tls_cache: str = ""  # file of TLS sessions for the next run
    dns_server: tuple[str, ...] = ()
    resolve: tuple[str, ...] = ()
    ip_version: int = 0  # 0 = both
    ech: str = "grease"
    deny_private: bool = False
    allow_net: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Fill in what only `build` can make, for those who make it directly."""
        if self.retry is None or self.limits is None:
            made: dict[str, Any] = {
                "retries": self.retries,
                "max_per_host": self.max_per_host,
            }
            policies.settle(made)
            object.__setattr__(self, "retry", self.retry or made["retry"])
            object.__setattr__(self, "limits", self.limits or made["limits"])

    @classmethod
    def build(cls, **given: Any) -> Options:
        """Check options. Raises OptionError, which names the option and the remedy."""
        kept: dict[str, Any] = {}
        for name, value in given.items():
            check = _CHECKS.get(name)
            if check is None:
                hint = values.near_miss(name, _CHECKS)
                raise OptionError(f"{name} is no option of a Fetcher{hint}")
            if value is not None:
                kept.update(_checked(check, name, value))
        _pair_limits(kept)
        _choose_fields(kept)
        if kept.pop("ipv4", False):
            kept["ip_version"] = 4
        if kept.pop("ipv6", False):
            if "ip_version" in kept:
                raise OptionError("ipv6: give ipv4 or ipv6, not both")
            kept["ip_version"] = 6
        if kept.get("data") is not None:
            kept.setdefault("method", "POST")
        policies.settle(kept)
        if not kept.get("impersonate"):
            kept.setdefault("user_agent", f"hardfetch/{__version__}")
        elif kept.get("user_agent"):  # else the browser's stands
            _name_agent(kept)
        return cls(**kept)

    def replace(self, **changes: Any) -> Options:
        """Return a copy with already checked values changed."""
        return dataclasses.replace(self, **changes)


def _name_agent(kept: dict[str, Any]) -> None:
    headers = kept.get("headers", ())
    if not values.has_header(headers, b"user-agent"):
        line = values.header_line("user_agent", "User-Agent", kept["user_agent"])
        kept["headers"] = (*headers, line)


def _checked(check: _Check, name: str, value: Any) -> dict[str, Any]:
    try:
        return check(name, value)
    except OptionError:
        raise
    except (TypeError, ValueError, ArithmeticError, OSError) as exc:
        # No check can foresee every kind of value: a path too long, a broken __iter__.
        reason = f"{values.shown(value)} is not allowed: {type(exc).__name__}"
        raise OptionError(f"{name}: {reason}") from exc


def _pair_limits(kept: dict[str, Any]) -> None:
    """Set the hard limit behind the soft one; refuse one that lies before it."""
    soft, hard = kept.get("timeout"), kept.get("hard_timeout")
    if hard is None:
        kept["hard_timeout"] = (soft or Options.timeout) + HARD_GRACE
    elif soft is None:
        kept["timeout"] = min(Options.timeout, hard)
    elif hard < soft:
        raise OptionError(
            f"hard_timeout: {hard:g} is not allowed; give at least timeout ({soft:g})"
        )


def _choose_fields(kept: dict[str, Any]) -> None:
    excluded = kept.pop("exclude_fields", ())
    if excluded:
        chosen = kept.get("fields") or RECORD_FIELDS
        kept["fields"] = tuple(name for name in chosen if name not in excluded)
        if not kept["fields"]:
            raise OptionError("exclude_fields: no field is left for the record")


def _fields(name: str, value: Any) -> tuple[str, ...]:
    given = set(values.names(name, value))
    for item in sorted(given):
        if item not in RECORD_FIELDS:
            hint = values.near_miss(item, RECORD_FIELDS)
            raise OptionError(
                f"{name}: {values.shown(item)} is no field of the record{hint}"
            )
        if item in _TWINS:
            given.add(_TWINS[item])
    if not given:
        raise OptionError(f"{name}: give at least one field of the record")
    return tuple(item for item in RECORD_FIELDS if item in given)


def _ring(name: str, value: Any) -> int:
    asked = values.size(name, value)
    if not 65536 <= asked <= 1 << 30:
        raise OptionError(f"{name}: {asked} is not allowed; give 64k to 1G")
    return 1 << (asked - 1).bit_length()


def _head(name: str, value: Any) -> int:
    asked = values.size(name, value)
    if not 1024 <= asked <= 16 << 20:
        raise OptionError(f"{name}: {asked} is not allowed; give 1k to 16M")
    return asked


def _data(name: str, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    raise OptionError(f"{name}: give a string or bytes, not {type(value).__name__}")


def _cacert(name: str, value: Any) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise OptionError(f"{name}: give the path of a PEM file")
    path = os.fsdecode(os.fspath(value))
    if not Path(path).is_file():
        raise OptionError(f"{name}: {values.shown(path)} is no file; give a PEM file")
    try:
        pem = values.read_file(Path(path), _CA_MOST)
    except OSError as exc:
        raise OptionError(f"{name}: {values.shown(path)}: {exc.strerror}") from None
    if not re.search(rb"-----BEGIN (TRUSTED |X509 )?CERTIFICATE-----", pem):
        raise OptionError(f"{name}: {values.shown(path)} holds no certificate in PEM")
    return values.text(name, path)


def _tls_cache(name: str, value: Any) -> str:
    if not isinstance(value, (str, os.PathLike)):
        raise OptionError(f"{name}: give the path of a file")
    path = Path(values.text(name, os.fsdecode(os.fspath(value))))
    if path.exists() and not path.is_file():
        raise OptionError(
            f"{name}: {values.shown(str(path))} is no file; give a file of its own"
        )
    if not path.absolute().parent.is_dir():
        raise OptionError(
            f"{name}: there is no folder {values.shown(str(path.parent))}"
        )
    return str(path)


def _headers(name: str, value: Any) -> dict[str, Any]:
    """Take request headers; "none" and "list" say what the record holds instead."""
    if isinstance(value, str) and ":" not in value:
        mode = values.choice(name, value, ("none", "list"))
        return {"record_headers": mode == "list"}
    return {"headers": values.headers(name, value)}


def _negated(target: str) -> _Check:
    def check(name: str, value: Any) -> dict[str, Any]:
        return {target: not values.flag(name, value)}

    return check


def _kept(check: Callable[..., Any], **bounds: Any) -> _Check:
    def run(name: str, value: Any) -> dict[str, Any]:
        return {name: check(name, value, **bounds)}

    return run


_choice = functools.partial(_kept, values.choice)
_CHECKS: dict[str, _Check] = {
    "max_concurrency": _kept(values.count),
    "max_per_host": _kept(values.count, least=0),
    "loops": _kept(values.count, most=256),
    "ring_bytes": _kept(_ring),
    "window": _kept(values.count, most=1 << 31),
    "window_bytes": _kept(values.size),
    "timeout": _kept(values.seconds),
    "hard_timeout": _kept(values.seconds),
    "connect_timeout": _kept(values.seconds),
    "first_byte_timeout": _kept(values.seconds),
    "idle_timeout": _kept(values.seconds),
    "deadline": _kept(values.seconds),
    "drain": _kept(values.seconds),
    "stall_warning": _kept(values.seconds),
    "method": _kept(values.method),
    "header": lambda name, value: {"headers": values.headers(name, value)},
    "headers": _headers,
    "data": _kept(_data),
    "user_agent": _kept(values.text),
    "impersonate": _kept(profiles.resolve),
    "http_version": _choice(allowed=HTTP_VERSIONS),
    "sensitive_headers": _kept(values.names),
    "max_body": _kept(values.size),
    "max_wire": _kept(values.size),
    "max_ratio": _kept(values.count, most=1 << 40),
    "max_headers": _kept(_head),
    "max_redirects": _kept(values.count, least=0, most=1000),
    "follow": _kept(values.flag),
    "no_redirects": _negated("follow"),
    "body": _choice(allowed=BODY_MODES),
    "record_headers": _kept(values.flag),
    "fields": _kept(_fields),
    "exclude_fields": _kept(_fields),
    "fsync": _choice(allowed=FSYNC_MODES),
    "rotate_size": _kept(values.size),
    "rotate_time": _kept(values.seconds),
    **policies.CHECKS,
    "verify": _kept(values.flag),
    "insecure": _negated("verify"),
    "cacert": _kept(_cacert),
    "tls_cache": _kept(_tls_cache),
    "dns_server": _kept(values.dns_servers),
    "resolve": _kept(values.resolutions),
    "ipv4": _kept(values.flag),
    "ipv6": _kept(values.flag),
    "ech": _choice(allowed=ECH_MODES),
    "deny_private": _kept(values.flag),
    "allow_net": _kept(values.nets),
}

#: Names that `Fetcher` takes.
OPTION_NAMES = frozenset(_CHECKS)
