"""The packed form of a request: csrc/api.h has the format.

What most lines of an input repeat is checked and packed once, and remembered: methods,
proxies, limits, headers.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from typing import TYPE_CHECKING, Any

from hardfetch import profiles, values
from hardfetch.options import HTTP_VERSIONS
from hardfetch.policies import proxy_url

if TYPE_CHECKING:
    from collections.abc import Callable

    Pack = Callable[[Any, Any], bytes]

# Tags of csrc/api.h; a test compares them.
TAG_URL = 1
TAG_INPUT = 2
TAG_ID = 3
TAG_META = 4
TAG_METHOD = 5
TAG_HEADER = 6
TAG_BODY = 7
TAG_PROXY = 8
TAG_SESSION = 9
TAG_IMPERSONATE = 10
TAG_HTTP_VERSION = 11
TAG_CONNECT_TIMEOUT = 12
TAG_FIRST_BYTE_TIMEOUT = 13
TAG_IDLE_TIMEOUT = 14
TAG_TIMEOUT = 15
TAG_HARD_TIMEOUT = 16
TAG_DEADLINE = 17
TAG_FRESH = 18
TAG_INVALID = 19

MAX_LINE = 1 << 20  # bytes of one input line
MAX_ECHO = 4096  # bytes of a line that has no URL, kept for its record
_MAX_REASON = 300
_KNOWN = 1024  # pairs that a Memory holds at most
_SHORT = 200  # characters of the texts in them, at most

_ITEM = struct.Struct("<BI")
_LONG_ITEM = struct.Struct("<BIq")
_LENGTH = struct.Struct("<I")
_FIRST = struct.Struct("<IBI")  # a frame's length and its first item's head
_PASSWORD = re.compile(rb"(://[^/?#\s:@\"]*:)[^/?#\s\"]*(?:@|$)")
# Header values in objects, pairs and "Name: value", quoted in any way, maybe cut.
_SECRET = re.compile(
    rb"""(?i)((?:authorization|cookie)["']?\s*[:,]\s*)"""
    rb"""(?:"(?:[^"\\]|\\.)*|'(?:[^'\\]|\\.)*|[^"'\s](?:[^"\\]|\\.)*)"""
)

TIMES = {
    "connect_timeout": TAG_CONNECT_TIMEOUT,
    "first_byte_timeout": TAG_FIRST_BYTE_TIMEOUT,
    "idle_timeout": TAG_IDLE_TIMEOUT,
    "deadline": TAG_DEADLINE,
}


class Invalid(Exception):  # noqa: N818 - never leaves these two modules
    """Why an input is no request."""


def echo(raw: bytes) -> bytes:
    """Return the item of an input that has no URL: its start, without secrets.

    For the password in every user info and the values of headers that are credentials
    it has ***.
    """
    masked = _PASSWORD.sub(rb"\1***@", raw)
    return item(TAG_INPUT, _SECRET.sub(rb"\1***", masked)[:MAX_ECHO])


def item(tag: int, data: bytes) -> bytes:
    """Return one item of a frame."""
    return _ITEM.pack(tag, len(data)) + data


def frame(items: bytes) -> bytes:
    """Return a frame around its items."""
    return _LENGTH.pack(len(items)) + items


def frames_of(frames: bytes) -> list[bytes]:
    """Cut packed requests apart."""
    out, at = [], 0
    while at < len(frames):
        end = at + _LENGTH.size + _LENGTH.unpack_from(frames, at)[0]
        out.append(frames[at:end])
        at = end
    return out


def invalid_frame(reason: str, head: bytes = b"") -> bytes:
    """Return the frame of an input that gets its record only; head holds more items."""
    sentence = " ".join(reason.split())[:_MAX_REASON].encode("utf-8", "replace")
    return frame(head + item(TAG_INVALID, sentence))


def too_long_frame(start: bytes) -> bytes:
    """Return the frame of a line over MAX_LINE bytes that begins with start."""
    reason = f"the line is longer than {MAX_LINE >> 20} MiB"
    return invalid_frame(reason, echo(start))


def url_frame(data: bytes) -> bytes:
    """Return the frame of a URL and nothing else."""
    return _FIRST.pack(5 + len(data), TAG_URL, len(data)) + data


def _time(tag: int, value: float) -> bytes:
    return _LONG_ITEM.pack(tag, 8, max(1, round(value * 1e6)))


class Memory(dict[tuple[Any, Any], bytes]):
    """What pairs are packed as: `memory[a, b]` packs them when they are new to it.

    Only for pairs of text, int, float and None, never of bool: True equals 1, but is no
    time. Any thread. Raises what packing raises.
    """

    __slots__ = ("_pack",)

    def __init__(self, pack: Pack) -> None:
        super().__init__()
        self._pack = pack

    def __missing__(self, pair: tuple[Any, Any]) -> bytes:
        packed = self._pack(*pair)
        if not any(type(x) is str and len(x) > _SHORT for x in pair):
            if len(self) >= _KNOWN:
                self.clear()  # what is said again comes back soon
            self[pair] = packed
        return packed


def limits(default: float, grace: float, soft: Any, hard: Any) -> bytes:
    """Pack timeout and hard_timeout of a request: one alone moves the other along.

    `default` is the timeout that holds without, `grace` what the hard one has more.
    Raises Invalid, OptionError.
    """
    soft = None if soft is None else values.seconds("timeout", soft)
    hard = None if hard is None else values.seconds("hard_timeout", hard)
    if hard is None and soft is not None:
        hard = soft + grace
    elif soft is None and hard is not None:
        soft = min(default, hard)
    if soft is None or hard is None or hard < soft:
        raise Invalid(f"hard_timeout: {hard:g} is below timeout, {soft:g}")
    return _time(TAG_TIMEOUT, soft) + _time(TAG_HARD_TIMEOUT, hard)


def _text_item(tag: int, check: Callable[[str, Any], str]) -> Pack:
    return lambda key, value: item(tag, check(key, value).encode())


def _time_item(tag: int) -> Pack:
    return lambda key, value: _time(tag, values.seconds(key, value))


def _header_item(name: Any, value: Any) -> bytes:
    return item(TAG_HEADER, values.header_line("headers", name, value))


#: Of header lines, by name and value.
known_headers = Memory(_header_item)


def _version(key: str, value: Any) -> str:
    return values.choice(key, value, HTTP_VERSIONS)


def _body_item(key: str, value: Any) -> bytes:
    if isinstance(value, str):
        try:
            value = value.encode()
        except UnicodeEncodeError:
            raise Invalid(f"{key}: lone surrogates cannot be sent") from None
    if not isinstance(value, bytes):
        raise Invalid(f"{key}: give a string or bytes, not {type(value).__name__}")
    return item(TAG_BODY, value)


def _base64_item(key: str, value: Any) -> bytes:
    if not isinstance(value, (str, bytes)):
        raise Invalid(f"{key}: give a string, not {type(value).__name__}")
    try:
        return item(TAG_BODY, base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError):
        raise Invalid(f"{key}: not valid base64") from None


def _headers_item(key: str, value: Any) -> bytes:
    return b"".join(item(TAG_HEADER, line) for line in values.headers(key, value))


def _profile(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise Invalid(f"{key}: give a string, not {type(value).__name__}")
    return profiles.resolve(key, value)


def _fresh_item(key: str, value: Any) -> bytes:
    return item(TAG_FRESH, b"") if values.flag(key, value) else b""


#: How the value of each key of a request is checked and packed that stands by itself.
OPTIONS: dict[str, Pack] = {
    "method": _text_item(TAG_METHOD, values.method),
    "proxy": _text_item(TAG_PROXY, proxy_url),
    "session": _text_item(TAG_SESSION, values.text),
    "headers": _headers_item,
    "impersonate": _text_item(TAG_IMPERSONATE, _profile),
    "http_version": _text_item(TAG_HTTP_VERSION, _version),
    "body": _body_item,
    "body_base64": _base64_item,
    "fresh": _fresh_item,
    **{name: _time_item(tag) for name, tag in TIMES.items()},
}
