"""One request as the caller gives it, and its packed form for the core.

An input that is no request is packed too, with the reason: it gets its record, and the
run goes on. So nothing here raises for what an input holds, except `Request` methods
that say so.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hardfetch import jsonio, profiles, values
from hardfetch.errors import OptionError
from hardfetch.options import HTTP_VERSIONS, Options
from hardfetch.policies import proxy_url

if TYPE_CHECKING:
    from collections.abc import Callable

    _Pack = Callable[[str, Any], bytes]

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

_ITEM = struct.Struct("<BI")
_LONG_ITEM = struct.Struct("<BIq")
_LENGTH = struct.Struct("<I")
_FIRST = struct.Struct("<IBI")  # a frame's length and its first item's head
_PASSWORD = re.compile(rb"(://[^/?#\s:@\"]*:)[^/?#\s\"]*@")


@dataclass(frozen=True, kw_only=True)
class _Fields:
    """All that a request can say besides its URL; None means the fetcher's option."""

    id: object = None  # any JSON value
    method: str | None = None
    headers: Mapping[str, str] | list[tuple[str, str]] | None = None
    body: bytes | str | None = None  # text goes out as UTF-8
    proxy: str | None = None  # "" = direct
    session: str | None = None  # requests of one id share cookies and connections
    fresh: bool = False  # on a connection of its own
    timeout: float | str | None = None  # seconds, or "300ms", as the next five
    hard_timeout: float | str | None = None
    deadline: float | str | None = None
    connect_timeout: float | str | None = None
    first_byte_timeout: float | str | None = None
    idle_timeout: float | str | None = None
    impersonate: str | None = None
    http_version: str | None = None
    meta: object = None  # any JSON value; comes back in the record


@dataclass(frozen=True)
class Request(_Fields):
    """One request. What it holds is checked when it is taken, and answered by a record.

    `url` may be bytes; those that are not UTF-8 are percent-encoded on the wire.
    """

    url: str | bytes


REQUEST_OPTIONS = frozenset(f.name for f in dataclasses.fields(_Fields))
REQUEST_KEYS = REQUEST_OPTIONS | {"url", "body_base64"}  # of a JSON line
_TIMES = {
    "connect_timeout": TAG_CONNECT_TIMEOUT,
    "first_byte_timeout": TAG_FIRST_BYTE_TIMEOUT,
    "idle_timeout": TAG_IDLE_TIMEOUT,
    "deadline": TAG_DEADLINE,
}
TIME_OPTIONS = frozenset(_TIMES) | {"timeout", "hard_timeout"}


class _Invalid(Exception):  # noqa: N818 - never leaves this module
    """Why an input is no request."""


def mask_passwords(raw: bytes) -> bytes:
    """Replace the password in every user info of raw by ***."""
    return _PASSWORD.sub(rb"\1***@", raw) if b"@" in raw else raw


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
    return invalid_frame(reason, item(TAG_INPUT, mask_passwords(start)[:MAX_ECHO]))


class Packer:
    """Packs inputs for the core, with the limits of one Fetcher.

    It keeps no state but a cache of profile names, so any thread may call it.
    """

    def __init__(self, options: Options) -> None:
        self._timeout = options.timeout
        self._hard = options.hard_timeout
        self._grace = options.hard_timeout - options.timeout
        self._targets: dict[str, bytes] = {}

    def line(self, line: bytes) -> bytes:
        """Return the frame of one JSON line, without its line end."""
        try:
            obj = jsonio.loads(line)
        except ValueError as exc:
            # orjson's and json's texts differ and may quote the input: keep the place.
            return self._refused(f"the line is not valid JSON: {exc}", line)
        if type(obj) is not dict:
            return self._refused("the line is not a JSON object", line)
        return self.mapping(obj, line)

    def mapping(self, obj: Mapping[str, Any], raw: bytes | None = None) -> bytes:
        """Return the frame of a request given as a mapping of the JSON keys."""
        url = obj.get("url")
        if type(url) is not str:
            return self._refused(_no_url(obj), raw if raw is not None else _echo(obj))
        try:
            data = url.encode()
            if len(obj) == 1:
                return _FIRST.pack(5 + len(data), TAG_URL, len(data)) + data
            if len(obj) == 2 and "id" in obj:
                ident = jsonio.dumps(obj["id"])
                total = 10 + len(data) + len(ident)
                return (
                    _FIRST.pack(total, TAG_URL, len(data))
                    + data
                    + _ITEM.pack(TAG_ID, len(ident))
                    + ident
                )
        except (UnicodeEncodeError, jsonio.JsonEncodeError, RecursionError):
            pass  # told by the long way
        return self._packed(url, obj)

    def request(self, request: Request) -> bytes:
        """Return the frame of a Request."""
        given = {
            name: value
            for name in REQUEST_OPTIONS
            if (value := getattr(request, name)) is not None and value is not False
        }
        return self._packed(request.url, given)

    def plain(self, url: str) -> bytes:
        """Return the frame of a URL and nothing else."""
        try:
            data = url.encode()
        except UnicodeEncodeError:
            return self._packed(url, {})
        return _FIRST.pack(5 + len(data), TAG_URL, len(data)) + data

    def item(self, obj: object) -> bytes:
        """Return the frame of one input of any kind that `Fetcher.map` takes."""
        if isinstance(obj, str):
            if not obj.startswith("{"):
                return self.plain(obj.strip())
            obj = obj.encode("utf-8", "surrogatepass")
        if isinstance(obj, (bytes, bytearray, memoryview)):
            raw = bytes(obj).rstrip(b"\r\n")
            if len(raw) > MAX_LINE:
                return too_long_frame(raw)
            return self.line(raw) if raw[:1] == b"{" else self._packed(raw.strip(), {})
        if isinstance(obj, Request):
            return self.request(obj)
        if isinstance(obj, Mapping):
            return self.mapping(obj)
        kind = type(obj).__name__
        reason = f"an input is a URL, a mapping or a Request, not {kind}"
        return self._refused(reason, values.shown(obj).encode())

    def _refused(self, reason: str, raw: bytes) -> bytes:
        return invalid_frame(reason, item(TAG_INPUT, mask_passwords(raw)[:MAX_ECHO]))

    def _packed(self, url: Any, given: Mapping[str, Any]) -> bytes:
        head = item(TAG_URL, _url_bytes(url))
        parts = [head]
        reason = ""
        for key in ("id", "meta"):
            # First of all, so that a refused request still has them in its record.
            if given.get(key) is not None:
                try:
                    tag = TAG_ID if key == "id" else TAG_META
                    parts.append(item(tag, jsonio.dumps(given[key])))
                except (jsonio.JsonEncodeError, RecursionError) as exc:
                    reason = f"{key}: {exc}"
        if not reason:
            try:
                return frame(b"".join([*parts, *self._options(url, given)]))
            except (_Invalid, OptionError) as exc:
                reason = str(exc)
            except (TypeError, ValueError, ArithmeticError, RecursionError) as exc:
                # No check foresees every value; one input must never end the others.
                reason = f"the request can't be read: {type(exc).__name__}"
        return invalid_frame(reason, b"".join(parts))

    def _options(self, url: Any, given: Mapping[str, Any]) -> list[bytes]:
        _check_url(url)
        parts: list[bytes] = []
        for key, value in given.items():
            if value is None or key in _DONE:
                continue
            simple = _SIMPLE.get(key)
            if simple is not None:
                parts.append(simple(key, value))
            elif key == "headers":
                parts += [item(TAG_HEADER, x) for x in values.headers(key, value)]
            elif key == "impersonate":
                parts.append(item(TAG_IMPERSONATE, self._target(key, value)))
            elif key not in _PAIR:
                hint = values.near_miss(str(key), REQUEST_KEYS)
                raise _Invalid(f"unknown key {values.shown(key)}{hint}")
        if given.get("body") is not None and given.get("body_base64") is not None:
            raise _Invalid("body: give body or body_base64, not both")
        return parts + self._limits(given)

    def _target(self, key: str, value: Any) -> bytes:
        if not isinstance(value, str):
            raise _Invalid(f"{key}: give a string, not {type(value).__name__}")
        target = self._targets.get(value)
        if target is None:
            target = profiles.resolve(key, value).encode()
            if len(self._targets) < 1000:
                self._targets[value] = target
        return target

    def _limits(self, given: Mapping[str, Any]) -> list[bytes]:
        """Pack soft and hard limit together: one given alone moves the other along."""
        soft, hard = given.get("timeout"), given.get("hard_timeout")
        if soft is None and hard is None:
            return []
        soft = None if soft is None else values.seconds("timeout", soft)
        hard = None if hard is None else values.seconds("hard_timeout", hard)
        if hard is None and soft is not None:
            hard = soft + self._grace
        elif soft is None and hard is not None:
            soft = min(self._timeout, hard)
        if soft is None or hard is None or hard < soft:
            raise _Invalid(f"hard_timeout: {hard:g} is below timeout, {soft:g}")
        return [_time(TAG_TIMEOUT, soft), _time(TAG_HARD_TIMEOUT, hard)]


def _time(tag: int, value: float) -> bytes:
    return _LONG_ITEM.pack(tag, 8, max(1, round(value * 1e6)))


def _no_url(obj: Mapping[str, Any]) -> str:
    if obj.get("url") is None:
        unknown = [str(key) for key in obj if key not in REQUEST_KEYS]
        return "the request has no url" + (
            f"; unknown key {values.shown(unknown[0])}" if unknown else ""
        )
    return f"url: give a string, not {type(obj['url']).__name__}"


def _echo(obj: Mapping[str, Any]) -> bytes:
    try:
        return jsonio.dumps(dict(obj))
    except (TypeError, RecursionError):
        return repr(list(obj))[:MAX_ECHO].encode("utf-8", "replace")


def _url_bytes(url: Any) -> bytes:
    if isinstance(url, bytes):
        return url
    # File names and such carry raw bytes as surrogates; other ones are refused below.
    try:
        return str(url).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return str(url).encode("utf-8", "replace")


def _check_url(url: Any) -> None:
    if not isinstance(url, (str, bytes)):
        raise _Invalid(f"url: give a string or bytes, not {type(url).__name__}")
    if isinstance(url, str):
        try:
            url.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise _Invalid("url: lone surrogates cannot be sent") from None


def _text_item(tag: int, check: Callable[[str, Any], str]) -> _Pack:
    def pack(key: str, value: Any) -> bytes:
        return item(tag, check(key, value).encode())

    return pack


def _time_item(tag: int) -> _Pack:
    return lambda key, value: _time(tag, values.seconds(key, value))


def _version(key: str, value: Any) -> str:
    return values.choice(key, value, HTTP_VERSIONS)


def _body_item(key: str, value: Any) -> bytes:
    if isinstance(value, str):
        try:
            value = value.encode()
        except UnicodeEncodeError:
            raise _Invalid(f"{key}: lone surrogates cannot be sent") from None
    if not isinstance(value, bytes):
        raise _Invalid(f"{key}: give a string or bytes, not {type(value).__name__}")
    return item(TAG_BODY, value)


def _base64_item(key: str, value: Any) -> bytes:
    if not isinstance(value, (str, bytes)):
        raise _Invalid(f"{key}: give a string, not {type(value).__name__}")
    try:
        return item(TAG_BODY, base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError):
        raise _Invalid(f"{key}: not valid base64") from None


def _fresh_item(key: str, value: Any) -> bytes:
    return item(TAG_FRESH, b"") if values.flag(key, value) else b""


_DONE = frozenset({"url", "id", "meta"})
_PAIR = frozenset({"timeout", "hard_timeout"})
_SIMPLE: dict[str, _Pack] = {
    "method": _text_item(TAG_METHOD, values.method),
    "proxy": _text_item(TAG_PROXY, proxy_url),
    "session": _text_item(TAG_SESSION, values.text),
    "http_version": _text_item(TAG_HTTP_VERSION, _version),
    "body": _body_item,
    "body_base64": _base64_item,
    "fresh": _fresh_item,
    **{name: _time_item(tag) for name, tag in _TIMES.items()},
}
