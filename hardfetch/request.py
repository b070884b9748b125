"""One request as the caller gives it, and its packed form for the core.

An input that is no request is packed too, with the reason: it gets its record, and the
run goes on. So nothing here raises for what an input holds, except `Request` methods
that say so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from hardfetch import jsonio, values
from hardfetch._ffi import has_long_number, pack
from hardfetch.errors import OptionError
from hardfetch.packed import (
    MAX_ECHO,
    MAX_LINE,
    OPTIONS,
    TAG_ID,
    TAG_META,
    TAG_URL,
    TIMES,
    Invalid,
    Memory,
    echo,
    frame,
    invalid_frame,
    item,
    known_headers,
    limits,
    too_long_frame,
    url_frame,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from hardfetch.options import Options


@dataclass(frozen=True, kw_only=True)
class _Fields:
    """All that a request can say besides its URL; None means the fetcher's option."""

    id: object = None  # any JSON value
    method: str | None = None
    headers: Mapping[str, str] | list[tuple[str, str]] | None = None
    body: bytes | str | None = None  # text goes out as UTF-8; Content-Type is headers'
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
TIME_OPTIONS = frozenset(TIMES) | {"timeout", "hard_timeout"}


_JSON = ("{", '"', '["', "[{")  # as hf_line_is_json of csrc/request.h
_JSON_BYTES = tuple(start.encode() for start in _JSON)


class Packer:
    """Packs inputs for the core, with the limits of one Fetcher.

    It keeps no state but what it remembers of them, so any thread may call it.
    """

    def __init__(self, options: Options) -> None:
        default, grace = options.timeout, options.hard_timeout - options.timeout
        self._limits = partial(limits, default, grace)
        self._known_limits = Memory(self._limits)
        self._dumps_loaded = jsonio.loaded_dumper()

    def line(self, line: bytes) -> bytes:
        """Return the frame of one JSON line, without its line end."""
        loads = jsonio.loads if has_long_number(line) else jsonio.loads_small
        try:
            obj = loads(line)
        except ValueError as exc:
            # orjson's and json's texts differ and may quote the input: keep the place.
            return self._refused(f"the line is not valid JSON: {exc}", line)
        if type(obj) is not dict:
            return self._refused("the line is not a JSON object", line)
        return self._known(obj, self._dumps_loaded) or self._odd(obj, line)

    def mapping(self, obj: Mapping[str, Any]) -> bytes:
        """Return the frame of a request given as a mapping of the JSON keys."""
        packed = self._known(obj) if type(obj) is dict else None
        return packed or self._odd(obj, None)

    def _odd(self, obj: Mapping[str, Any], raw: bytes | None) -> bytes:
        url = obj.get("url")
        if type(url) is str:
            return self._packed(url, obj)
        head = echo(raw if raw is not None else _shown(obj))
        return invalid_frame(_no_url(obj), head + _told(obj)[0])

    def request(self, request: Request) -> bytes:
        """Return the frame of a Request."""
        given: dict[str, Any] = {
            name: value
            for name in REQUEST_OPTIONS
            if (value := getattr(request, name)) is not None and value is not False
        }
        given["url"] = request.url
        return self._known(given) or self._packed(request.url, given)

    def plain(self, url: str) -> bytes:
        """Return the frame of a URL and nothing else."""
        try:
            data = url.encode()
        except UnicodeEncodeError:
            return self._packed(url, {})
        return url_frame(data)

    def item(self, obj: object) -> bytes:
        """Return the frame of one input of any kind that `Fetcher.map` takes."""
        if isinstance(obj, str):
            if not obj.startswith(_JSON):
                return self.plain(obj.strip())
            obj = obj.encode("utf-8", "surrogatepass")
        if isinstance(obj, (bytes, bytearray, memoryview)):
            raw = bytes(obj).rstrip(b"\r\n")
            if len(raw) > MAX_LINE:
                return too_long_frame(raw)
            json = raw.startswith(_JSON_BYTES)
            return self.line(raw) if json else self._packed(raw.strip(), {})
        if isinstance(obj, Request):
            return self.request(obj)
        if isinstance(obj, Mapping):
            return self.mapping(obj)
        kind = type(obj).__name__
        reason = f"an input is a URL, a mapping or a Request, not {kind}"
        return self._refused(reason, values.shown(obj).encode())

    def _refused(self, reason: str, raw: bytes) -> bytes:
        return invalid_frame(reason, echo(raw))

    def _known(
        self, given: dict[str, Any], dumps: Callable[[Any], bytes] = jsonio.dumps
    ) -> bytes | None:
        """Return the frame of a request that holds nothing odd; None for another."""
        return pack(
            given,
            _known_options,
            known_headers,
            self._known_limits,
            dumps,
            _option,
        )

    def _packed(self, url: Any, given: Mapping[str, Any]) -> bytes:
        """Return the frame of any request, with the reason where it is refused."""
        data, reason = _url_bytes(url)
        # First of all, so that a refused request still has id and meta in its record.
        told, untold = _told(given)
        told = item(TAG_URL, data) + told
        reason = untold or reason
        if not reason:
            try:
                return frame(told + self._options(given))
            except (Invalid, OptionError) as exc:
                reason = str(exc)
            except (TypeError, ValueError, ArithmeticError, RecursionError) as exc:
                # No check foresees every value; one input must never end the others.
                reason = f"the request can't be read: {type(exc).__name__}"
        return invalid_frame(reason, told)

    def _options(self, given: Mapping[str, Any]) -> bytes:
        packed = b"".join(
            _option(key, value)
            for key, value in given.items()
            if value is not None and key not in _APART
        )
        if given.get("body_base64") is not None and given.get("body") is not None:
            raise Invalid("body: give body or body_base64, not both")
        soft, hard = given.get("timeout"), given.get("hard_timeout")
        if soft is not None or hard is not None:
            packed += self._limits(soft, hard)
        return packed


def _option(key: str, value: Any) -> bytes:
    pack = OPTIONS.get(key)
    if pack is None:
        hint = values.near_miss(str(key), REQUEST_KEYS)
        raise Invalid(f"unknown key {values.shown(key)}{hint}")
    return pack(key, value)


_known_options = Memory(_option)


def _no_url(obj: Mapping[str, Any]) -> str:
    if obj.get("url") is None:
        unknown = [str(key) for key in obj if key not in REQUEST_KEYS]
        return "the request has no url" + (
            f"; unknown key {values.shown(unknown[0])}" if unknown else ""
        )
    return f"url: give a string, not {type(obj['url']).__name__}"


def _told(given: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return what the record repeats of a request, packed, and why some of it can't."""
    told, reason = b"", ""
    for key, tag in _TOLD:
        value = given.get(key)
        if value is not None:
            try:
                told += item(tag, jsonio.dumps(value))
            except (jsonio.JsonEncodeError, RecursionError) as exc:
                reason = f"{key}: {exc}"
    return told, reason


def _shown(obj: Mapping[str, Any]) -> bytes:
    try:
        return jsonio.dumps(dict(obj))
    except (TypeError, RecursionError):
        return repr(list(obj))[:MAX_ECHO].encode("utf-8", "replace")


def _url_bytes(url: Any) -> tuple[bytes, str]:
    """Return a URL's bytes, and why it is none."""
    if isinstance(url, bytes):
        return url, ""
    if not isinstance(url, str):
        reason = f"url: give a string or bytes, not {type(url).__name__}"
        return str(url).encode("utf-8", "replace"), reason
    try:
        # File names and such carry raw bytes as surrogates; other ones are refused.
        return url.encode("utf-8", "surrogateescape"), ""
    except UnicodeEncodeError:
        return url.encode("utf-8", "replace"), "url: lone surrogates cannot be sent"


_APART = frozenset({"url", "id", "meta", "timeout", "hard_timeout"})
_TOLD = (("id", TAG_ID), ("meta", TAG_META))
