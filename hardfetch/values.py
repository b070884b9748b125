"""Checks of single values, shared by options, requests and the command line.

Each takes the option's name first and raises OptionError with the name, the value and
what would be right. Passwords never get into these messages: URLs are not echoed.
"""

from __future__ import annotations

import difflib
import errno
import ipaddress
import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from hardfetch.errors import OptionError

if TYPE_CHECKING:
    from pathlib import Path

_Number = TypeVar("_Number", bound=float)

_SECONDS = re.compile(
    r"\s*([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)\s*(us|ms|s|m|h|d)?\s*", re.IGNORECASE
)
_SECOND_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)
_SIZE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
# Those of RFC 9110 and PATCH (RFC 5789).
_METHODS = frozenset(
    ("CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE")
)
_FORBIDDEN = re.compile(r"[\x00\r\n]")
_PASSWORD = re.compile(r"((?:/|^['\"]|[,\s])[^/?#\s:@]*:)[^\s]*@")
_MAX_DIGITS = 20  # no count is longer
_LEAST = 1e-6  # seconds: the core counts microseconds, and 0 of them are no limit
MAX_SECONDS = 31e6  # the core takes a year, and the hard limit comes on top
_MAX_SIZE = 1 << 40  # the core takes no more
_MAX_TOLD = 2000  # characters of what an exception says


def near_miss(name: str, names: Iterable[str]) -> str:
    """Return " (did you mean …?)" for the closest of names, or ""."""
    close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def shown(value: Any) -> str:
    """Return value for a message, without passwords, cut to 80 characters.

    Of what holds other values, as headers, only the kind is told.
    """
    holds = isinstance(value, (Mapping, list, tuple)) and value
    try:
        text = f"this {type(value).__name__}" if holds else repr(value)
    except Exception:  # noqa: BLE001 - an integer with very many digits, or any __repr__
        text = f"this {type(value).__name__}"
    text = masked(text)
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 80 else text[:77] + "..."


def masked(text: str) -> str:
    """Return text without passwords of URLs: a URL may stand where a path was meant."""
    return _PASSWORD.sub(r"\1***@", text)


def described(exc: BaseException) -> str:
    """Return an exception in one line of valid text: its class and what it says."""
    name = type(exc).__name__
    try:
        text = str(exc)
    except Exception:  # noqa: BLE001 - any __str__, of an exception of the caller's
        text = ""
    text = " ".join(text[: 2 * _MAX_TOLD].split())
    text = text.encode("utf-8", "backslashreplace").decode()
    text = text if len(text) <= _MAX_TOLD else text[: _MAX_TOLD - 3] + "..."
    return f"{name}: {text}" if text else name


def read_file(path: Path, most: int) -> bytes:
    """Return what a file holds, which an option names.

    Raises OSError, EFBIG too: a device, say, of which there is no end.
    """
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it holds more than {most >> 20} MiB")
    return data


def _refuse(name: str, value: Any, remedy: str) -> OptionError:
    return OptionError(f"{name}: {shown(value)} is not allowed; {remedy}")


def seconds(name: str, value: Any) -> float:
    """Return seconds, at least 1e-6. Takes numbers and "0.3", "500ms", "2m"."""
    remedy = 'give seconds greater than 0, as 0.3 or "2m"'
    number = value
    if isinstance(value, str):
        match = _SECONDS.fullmatch(value)
        if match is None:
            raise _refuse(name, value, remedy)
        number = float(match[1]) * _SECOND_UNITS[(match[2] or "s").lower()]
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise _refuse(name, value, remedy)
    # As it is: not every integer has a float. NaN and infinity fail here, too.
    if not 0 < number <= MAX_SECONDS:
        raise _refuse(name, value, remedy)
    return max(float(number), _LEAST)


def number(name: str, value: _Number, most: float = math.inf) -> _Number:
    """Return a number from 0 to most, as it is."""
    if isinstance(value, (int, float)) and 0 <= value <= most:
        return value
    upper = "or more" if most == math.inf else f"to {most:,.0f}"
    raise _refuse(name, value, f"give a number, 0 {upper}")


def size(name: str, value: Any) -> int:
    """Return a size in bytes, at least 1. Takes integers and "300k", "16M", "2G"."""
    remedy = 'give bytes, at least 1, as 65536 or "16M"'
    number = value
    if isinstance(value, str):
        match = _SIZE.fullmatch(value)
        if match is None:
            raise _refuse(name, value, remedy)
        # The least that is too large instead of infinity, which no integer is.
        most = float(_MAX_SIZE + 1)
        number = int(min(float(match[1]) * _SIZE_UNITS[match[2].lower()], most))
    if isinstance(number, bool) or not isinstance(number, int):
        raise _refuse(name, value, remedy)
    if not 1 <= number <= _MAX_SIZE:
        raise _refuse(name, value, remedy)
    return number


def count(name: str, value: Any, least: int = 1, most: int = 1_000_000) -> int:
    """Return an integer from least to most. Takes integers and decimal text."""
    number = value
    if isinstance(value, str) and len(value) <= _MAX_DIGITS:
        digits = value.strip()
        number = int(digits) if digits.isascii() and digits.isdigit() else value
    if isinstance(number, bool) or not isinstance(number, int):
        raise _refuse(name, value, f"give an integer from {least} to {most}")
    if not least <= number <= most:
        raise _refuse(name, value, f"give an integer from {least} to {most}")
    return number


def flag(name: str, value: Any) -> bool:
    """Return a bool; nothing else is taken for one."""
    if not isinstance(value, bool):
        raise _refuse(name, value, "give True or False")
    return value


def choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Return value, which must be one of allowed."""
    listed = ", ".join(allowed)
    if not isinstance(value, str):
        raise _refuse(name, value, f"give a string, one of {listed}")
    if value not in allowed:
        raise _refuse(name, value, f"give one of {listed}{near_miss(value, allowed)}")
    return value


def text(name: str, value: Any) -> str:
    """Return a string without NUL, CR, LF and lone surrogates."""
    if not isinstance(value, str):
        raise _refuse(name, value, "give a string")
    if _FORBIDDEN.search(value):
        raise OptionError(f"{name}: NUL, CR and LF are not allowed")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise OptionError(f"{name}: lone surrogates are not allowed") from None
    return value


def method(name: str, value: Any) -> str:
    """Return an HTTP method: a token of RFC 9110.

    Case counts in it, and no server knows a "post": those of the standards are put into
    capitals, as by requests and httpx; others stay as they are.
    """
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        raise _refuse(name, value, "give a token, as GET")
    capitals = value.upper()
    return capitals if capitals in _METHODS else value


def strings(name: str, value: Any) -> tuple[str, ...]:
    """Return a tuple of strings; one string counts as a list of one."""
    if isinstance(value, str):
        value = (value,)
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise _refuse(name, value, "give a string or a list of strings")
    return tuple(text(name, item) for item in value)


def names(name: str, value: Any) -> tuple[str, ...]:
    """Return a tuple of names, also from one string with commas."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    return tuple(item for item in strings(name, value) if item)


def header_line(name: str, key: Any, value: Any) -> bytes:
    """Return "Name: value" as bytes, after the checks of RFC 9110.

    Text goes out as UTF-8; bytes go out as they are.
    """
    if isinstance(key, bytes):
        key = key.decode("latin-1")
    if not isinstance(key, str) or not _TOKEN.fullmatch(key):
        # Only its start: a line without a colon may hold a credential.
        known = _TOKEN.match(key) if isinstance(key, str) else None
        at = f" at {known[0]}" if known else ""
        raise OptionError(f"{name}: a header's name is a token, as Accept{at}")
    if isinstance(value, str):
        try:
            value = value.encode()
        except UnicodeEncodeError:
            raise OptionError(
                f"{name}: {key}: lone surrogates cannot be sent"
            ) from None
    if not isinstance(value, bytes):
        kind = type(value).__name__
        raise OptionError(f"{name}: {key}: give a string as the value, not {kind}")
    value = value.strip(b" \t")
    if b"\r" in value or b"\n" in value or b"\0" in value:
        raise OptionError(f"{name}: {key}: NUL, CR and LF are not allowed in a value")
    return b"%s: %s" % (key.encode(), value)


def has_header(lines: Iterable[bytes], name: bytes) -> bool:
    """Tell whether a line is of that header; ``name`` in lower case."""
    return any(line.lower().startswith(name + b":") for line in lines)


def headers(name: str, value: Any) -> tuple[bytes, ...]:
    """Return header lines from a mapping, a list of pairs or "Name: value" strings."""
    if isinstance(value, Mapping):
        return tuple(header_line(name, k, v) for k, v in value.items())
    if isinstance(value, str):
        value = (value,)
    if isinstance(value, bytes) or not isinstance(value, Iterable):
        raise _refuse(name, value, "give an object or a list of pairs")
    lines = []
    for item in value:
        if isinstance(item, str):
            key, colon, rest = item.partition(":")
            if not colon:
                # Not shown: it may be a credential.
                raise OptionError(f'{name}: a line without a colon; give "Name: value"')
            lines.append(header_line(name, key, rest))
        elif isinstance(item, (list, tuple)) and len(item) == 2:
            lines.append(header_line(name, item[0], item[1]))
        else:
            kind = type(item).__name__
            raise OptionError(f"{name}: give pairs of name and value, not {kind}")
    return tuple(lines)


def dns_servers(name: str, value: Any) -> tuple[str, ...]:
    """Return name servers, each IP or IP:PORT, from a list or text with commas."""
    servers = names(name, value)
    if not servers and value not in ((), []):
        raise OptionError(f"{name}: it is empty; give IP or IP:PORT")
    for server in servers:
        host, port = server, ""
        bracketed = re.fullmatch(r"\[(.+)\](?::([0-9]+))?", server)
        if bracketed:
            host, port = bracketed[1], bracketed[2] or ""
        elif server.count(":") == 1:
            host, port = server.split(":")
        try:
            ipaddress.ip_address(host)
            good = not port or 0 < int(port) < 65536
        except ValueError:
            good = False
        if not good:
            raise OptionError(
                f"{name}: {shown(server)} is not allowed; give IP or IP:PORT"
            )
    return servers


def resolutions(name: str, value: Any) -> tuple[str, ...]:
    """Return entries HOST:PORT:ADDR[,ADDR]."""
    entries = strings(name, value)
    for entry in entries:
        if not _is_resolution(entry):
            raise OptionError(
                f"{name}: {shown(entry)} is not allowed; give HOST:PORT:ADDR, "
                "ADDR an IP"
            )
    return entries


def _is_resolution(entry: str) -> bool:
    # libcurl would take a name for an address, and then find none.
    match = re.fullmatch(r"\+?(?:\[[^\]]+\]|[^:\s]+):([0-9]{1,5}):(\S+)", entry)
    if match is None or not 0 < int(match[1]) < 65536:
        return False
    try:
        for address in match[2].split(","):
            ipaddress.ip_address(re.sub(r"^\[(.*)\]$", r"\1", address))
    except ValueError:
        return False
    return True


def nets(name: str, value: Any) -> tuple[str, ...]:
    """Return networks as CIDR."""
    found = []
    for item in names(name, value):
        try:
            found.append(str(ipaddress.ip_network(item, strict=False)))
        except ValueError:
            raise OptionError(
                f"{name}: {shown(item)} is not allowed; give CIDR as 10.0.0.0/8"
            ) from None
    return tuple(found)
