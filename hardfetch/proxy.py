"""One proxy: its identity, how it is written, and how it is shown.

Identity is scheme, host, port, user and password; two proxies that differ in any of
them never share a connection. Only ``Proxy.url`` shows the credentials; ``str``,
``repr`` and every error here leave them out.
"""

from __future__ import annotations

import ipaddress
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from hardfetch.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["SCHEMES", "Proxy", "parse_proxies", "parse_proxy"]

SCHEMES = ("http", "https", "socks4", "socks4a", "socks5", "socks5h")

_HOST_NAME = re.compile(
    r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252}[A-Za-z0-9_.])?", re.ASCII
)
# What hosts of proxies sell as a list: host:port:user:password
_FOUR = re.compile(r"([^:@/\s\[\]]+):(\d{1,5}):([^:@/\s]+):(\S+)", re.ASCII)
_MAX_PORT = 65535
_MAX_URL = 511  # bytes; hf_exit_row and hf_verdict of csrc/api.h have no room for more


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy with its place in the pool. Equal when identity is equal."""

    scheme: str
    host: str
    port: int
    user: str | None = field(default=None, repr=False)  # decoded
    password: str | None = field(default=None, repr=False)  # decoded
    weight: float = field(
        default=1.0, compare=False
    )  # twice the weight, twice the load
    tier: int = field(default=0, compare=False)  # 0 is used first

    def __post_init__(self) -> None:
        """Refuse what the core has no room for."""
        if len(self.url.encode()) > _MAX_URL:
            raise _fail(f"the URL is longer than {_MAX_URL} bytes")

    @property
    def url(self) -> str:
        """The URL with credentials, for the connection and for nothing else."""
        if self.user is None:
            return str(self)
        name = quote(self.user, safe="")
        if self.password is not None:
            name += ":" + quote(self.password, safe="")
        return f"{self.scheme}://{name}@{self._authority}"

    @property
    def _authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        """Return the URL without credentials."""
        return f"{self.scheme}://{self._authority}"


def _fail(what: str) -> OptionError:
    return OptionError(f"proxy: {what}")


def _port(text: str) -> int:
    if not re.fullmatch(r"\d{1,5}", text, re.ASCII) or not 1 <= int(text) <= _MAX_PORT:
        raise _fail("needs a port from 1 to 65535, as in http://host:8080")
    return int(text)


def _host_port(text: str) -> tuple[str, int]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or not rest.startswith(":"):
            raise _fail("needs a port, as in http://[::1]:8080")
        try:
            ipaddress.IPv6Address(host.partition("%")[0])
        except ValueError:
            raise _fail("the address in brackets is not IPv6") from None
        return host, _port(rest[1:])
    host, colon, port = text.rpartition(":")
    if not colon:
        raise _fail("needs a port, as in http://host:8080")
    if not _HOST_NAME.fullmatch(host):
        raise _fail("the host is not a name or an address")
    return host.lower(), _port(port)


def parse_proxy(text: str, *, weight: float = 1.0, tier: int = 0) -> Proxy:
    """Read ``[scheme://][user[:password]@]host:port`` or ``host:port:user:password``.

    Without a scheme it is ``http``. Credentials may be percent-encoded.

    Raises:
        OptionError: it is not a proxy; the message holds no part of the text.
    """
    text = text.strip()
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "http", text
        four = _FOUR.fullmatch(text)
        if four:
            host, port, user, password = four.groups()
            host, number = _host_port(f"{host}:{port}")
            return Proxy("http", host, number, user, password, weight, tier)
    scheme = scheme.lower()
    if scheme not in SCHEMES:
        raise _fail("the scheme must be one of " + ", ".join(SCHEMES))
    rest = rest.removesuffix("/")
    # A password may hold any character but this one: the last @ divides.
    login, at, place = rest.rpartition("@")
    host, number = _host_port(place)
    if not at:
        return Proxy(scheme, host, number, weight=weight, tier=tier)
    name, colon, secret = login.partition(":")
    return Proxy(
        scheme,
        host,
        number,
        unquote(name),
        unquote(secret) if colon else None,
        weight,
        tier,
    )


def _parse_line(line: str) -> Proxy:
    text, *words = line.split()
    weight, tier = 1.0, 0
    for word in words:
        key, _, value = word.partition("=")
        try:
            if key == "weight":
                weight = float(value)
            elif key == "tier":
                tier = int(value)
            else:
                raise _fail("after the URL only weight=N and tier=N may stand")
        except ValueError:
            raise _fail("after the URL only weight=N and tier=N may stand") from None
    if not 0 < weight < math.inf or tier < 0:
        raise _fail("weight must be above 0, tier not below")
    return parse_proxy(text, weight=weight, tier=tier)


def parse_proxies(lines: Iterable[str]) -> list[Proxy]:
    """Read a proxy list: one a line, ``weight=N`` and ``tier=N`` behind it if wanted.

    Blank lines and those that start with ``#`` are passed over; of equal identities the
    last one holds.

    Raises:
        OptionError: names the line's number and what is wrong, not its text.
    """
    found: dict[Proxy, Proxy] = {}
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        try:
            proxy = _parse_line(stripped)
        except OptionError as error:
            why = str(error).removeprefix("proxy: ")
            raise OptionError(f"line {number}: {why}") from None
        found.pop(proxy, None)
        found[proxy] = proxy
    return list(found.values())
