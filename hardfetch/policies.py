"""The options that policy is made of: retries, proxies, limits per host.

`settle` turns what was given one by one into the objects that the engine works with: a
`RetryPolicy`, a `LimitTable`, and, for more than one exit, a `ProxySource`.
"""

from __future__ import annotations

import inspect
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardfetch import values
from hardfetch.bodies import parse_patterns
from hardfetch.errors import OptionError
from hardfetch.limits import Limits, LimitTable, parse_limits, parse_rate
from hardfetch.proxy_health import PoolOptions
from hardfetch.proxy_source import ProxySource
from hardfetch.retry import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CHECKS", "proxy_url", "replace_proxies", "settle"]

PROXY_SCHEMES = ("http", "https", "socks4", "socks4a", "socks5", "socks5h")
_LIMITS_MOST = 16 << 20  # bytes of a limits file


def proxy_url(name: str, value: Any) -> str:
    """Return a proxy's URL with its scheme; "" stands for a direct connection.

    Raises OptionError, without the URL in its text, for another scheme, and where host
    or port is missing.
    """
    url = values.text(name, value).strip()
    if not url:
        return ""
    scheme, mark, rest = url.partition("://")
    if not mark:
        scheme, rest = "http", url
    if scheme.lower() not in PROXY_SCHEMES:
        hint = ", ".join(PROXY_SCHEMES)
        raise OptionError(f"{name}: the scheme of a proxy is one of {hint}")
    host = re.sub(r"^.*@", "", rest).split("/", 1)[0]
    server = re.fullmatch(
        r"(?:\[[0-9A-Fa-f:.%\w]+\]|[^\s:\[\]/?#]+):([0-9]{1,5})", host
    )
    if server is None or not 0 < int(server[1]) < 65536:
        raise OptionError(f"{name}: give a proxy as scheme://[user:password@]host:port")
    if re.search(r"[/?#\\]", rest.removesuffix("/")):
        raise OptionError(
            f"{name}: more than a server stands behind the scheme; "
            "escape '/', '?' and '#' in a password as %2F, %3F and %23"
        )
    return f"{scheme.lower()}://{rest}"


def _proxy(name: str, value: Any) -> dict[str, Any]:
    given = values.strings(name, value)
    if len(given) == 1:
        return {"proxy": proxy_url(name, given[0])}
    return {"_given": tuple(proxy_url(name, one) for one in given if one)}


def _proxies(name: str, value: Any) -> dict[str, Any]:
    if callable(value):
        return {"_call": value}
    given = values.strings(name, value)
    if not given:
        # Not silently by one's own address: the list was to be something else.
        raise OptionError(f"{name}: the list is empty; give at least one proxy")
    return {"_given": given}


def _proxy_file(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, (str, os.PathLike)):
        raise OptionError(f"{name}: give the path of a list of proxies")
    return {"_file": Path(os.fspath(value))}


def _limits(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, LimitTable):
        return {"_table": value}
    if not isinstance(value, (str, os.PathLike)):
        raise OptionError(f"{name}: give the path of a limits file, or a LimitTable")
    path = Path(os.fspath(value))
    try:
        return {
            "_limits_text": (values.read_file(path, _LIMITS_MOST).decode(), str(path))
        }
    except (OSError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or "not UTF-8"
        raise OptionError(f"{name}: {values.shown(str(path))}: {why}") from None


def _rate(name: str, value: Any) -> dict[str, Any]:
    try:
        return {"rate": parse_rate(value)}
    except OptionError:
        remedy = "give 5/s or 30/m"
        raise OptionError(
            f"{name}: {values.shown(value)} is not allowed; {remedy}"
        ) from None


def _wait(name: str, value: Any) -> dict[str, Any]:
    return {name: 0.0 if value in (0, "0") else values.seconds(name, value)}


def _share(name: str, value: Any) -> dict[str, Any]:
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = -1.0
    if not 0 <= share <= 10:
        raise OptionError(
            f"{name}: {values.shown(value)} is not allowed; give a share, as 0.5"
        )
    return {name: share}


def _retry(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, RetryPolicy):
        raise OptionError(f"{name}: give a RetryPolicy, or retries=N")
    return {"retry": value}


def _patterns(name: str, value: Any) -> dict[str, Any]:
    return {name: parse_patterns(name, value)}


def _validate(name: str, value: Any) -> dict[str, Any]:
    if not callable(value) or inspect.iscoroutinefunction(value):
        raise OptionError(
            f"{name}: give a function (no coroutine) that tells if a Result is good"
        )
    return {name: value}


def _robots(name: str, value: Any) -> dict[str, Any]:
    return {name: values.choice(name, value, ("obey", "ignore"))}


def _exclusive(name: str, value: Any) -> dict[str, Any]:
    return {name: values.choice(name, value, ("request", "session"))}


def _pool(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, PoolOptions):
        raise OptionError(f"{name}: give PoolOptions")
    return {"_pool": value}


def _count(name: str, value: Any) -> dict[str, Any]:
    return {name: values.count(name, value, least=0, most=1000)}


def _flag(name: str, value: Any) -> dict[str, Any]:
    return {name: values.flag(name, value)}


CHECKS: dict[str, Callable[[str, Any], dict[str, Any]]] = {
    "retries": _count,
    "retry": _retry,
    "retry_on_body": _patterns,
    "validate": _validate,
    "proxy": _proxy,
    "proxies": _proxies,
    "proxy_file": _proxy_file,
    "proxy_wait": _wait,
    "sticky": _wait,
    "exclusive": _exclusive,
    "pool": _pool,
    "rate": _rate,
    "delay": _wait,
    "jitter": _share,
    "adaptive": _flag,
    "breaker": _count,
    "limits": _limits,
    "robots": _robots,
}


def _settle_proxies(kept: dict[str, Any]) -> None:
    given = kept.pop("_given", ())
    path, call = kept.pop("_file", None), kept.pop("_call", None)
    wait, sticky = kept.pop("proxy_wait", None), kept.pop("sticky", None)
    pool = kept.pop("_pool", None) or PoolOptions()
    exclusive = kept.pop("exclusive", pool.exclusive)
    if not (given or path or call):
        return
    if kept.get("proxy"):
        given = (*given, kept.pop("proxy"))
    source = ProxySource(given, path, call)
    source.load()  # which refuses what is no list of proxies
    pool = replace(pool, exclusive=exclusive)
    if wait is not None:
        pool = replace(pool, wait_limit=wait)
    if sticky:
        pool = replace(pool, sticky_ttl=sticky)
    kept["proxies"], kept["pool"] = source, pool


def replace_proxies(source: ProxySource | None, value: Any) -> None:
    """Give a source what the option `proxies` takes, instead. Raises OptionError."""
    if source is None:
        raise OptionError(
            "proxies: there is no pool to replace; make the Fetcher with proxies=[…]"
        )
    given = _proxies("proxies", value)
    source.replace(given.get("_given", ()), given.get("_call"))


def _settle_limits(kept: dict[str, Any]) -> None:
    changes: dict[str, Any] = {
        name: kept.pop(name)
        for name in ("rate", "delay", "jitter", "adaptive")
        if name in kept
    }
    if "breaker" in kept:
        changes["breaker_failures"] = kept.pop("breaker")
    if "max_per_host" in kept:
        changes["max_per_host"] = kept["max_per_host"]
    default = Limits(**changes)
    table = kept.pop("_table", None)
    text = kept.pop("_limits_text", None)
    if text is not None:
        table = parse_limits(text[0], text[1], default)
    kept["limits"] = table if table is not None else LimitTable(default)


def settle(kept: dict[str, Any]) -> None:
    """Make the objects of what was given. Raises OptionError."""
    body = kept.get("retry_on_body", ())
    retry = kept.get("retry")
    if retry is None:
        kept["retry"] = RetryPolicy(kept.get("retries", 2), retry_on_body=body)
    else:
        if kept.get("retries", retry.retries) != retry.retries:
            raise OptionError(
                f"retries: the policy given as retry says {retry.retries}; "
                "give its number there, as RetryPolicy(retries)"
            )
        kept["retries"] = retry.retries
        kept["retry_on_body"] = (*retry.retry_on_body, *body)
    _settle_proxies(kept)
    _settle_limits(kept)
