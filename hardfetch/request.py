"""One request as the caller gives it, and its packed form for the core.

An input that is no request is packed too, with the reason: it gets its record, and the
run goes on. So nothing here raises for what an input holds, except `Request` methods
that say so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hardfetch import jsonio, profiles, values
from hardfetch.errors import OptionError
from hardfetch.packed import (
    MAX_ECHO,
    MAX_LINE,
    SIMPLE,
    TAG_ID,
    TAG_IMPERSONATE,
    TAG_INPUT,
    TAG_META,
    TAG_URL,
    TIMES,
    Invalid,
    frame,
    invalid_frame,
    item,
    limits,
    mask_passwords,
    put_headers,
    too_long_frame,
    url_frame,
)

if TYPE_CHECKING:
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
                return url_frame(data)
            ident, meta = obj.get("id"), obj.get("meta")
            if len(obj) == 1 + ("id" in obj) + ("meta" in obj):
                items = item(TAG_URL, data)
                if ident is not None:
                    items += item(TAG_ID, jsonio.dumps(ident))
                if meta is not None:
                    items += item(TAG_META, jsonio.dumps(meta))
                return frame(items)
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
        return url_frame(data)

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
        parts = [item(TAG_URL, _url_bytes(url))]
        reason = ""
        for key, tag in _TOLD:
            # First of all, so that a refused request still has them in its record.
            value = given.get(key)
            if value is not None:
                try:
                    parts.append(item(tag, jsonio.dumps(value)))
                except (jsonio.JsonEncodeError, RecursionError) as exc:
                    reason = f"{key}: {exc}"
        told = len(parts)
        if not reason:
            try:
                _check_url(url)
                self._options(given, parts)
                return frame(b"".join(parts))
            except (Invalid, OptionError) as exc:
                reason = str(exc)
            except (TypeError, ValueError, ArithmeticError, RecursionError) as exc:
                # No check foresees every value; one input must never end the others.
                reason = f"the request can't be read: {type(exc).__name__}"
        return invalid_frame(reason, b"".join(parts[:told]))

    def _options(self, given: Mapping[str, Any], parts: list[bytes]) -> None:
        for key, value in given.items():
            if value is None or key in _DONE:
                continue
            simple = SIMPLE.get(key)
            if simple is not None:
                parts.append(simple(key, value))
            elif key == "headers":
                put_headers(value, parts)
            elif key == "impersonate":
                parts.append(item(TAG_IMPERSONATE, self._target(key, value)))
            elif key not in _PAIR:
                hint = values.near_miss(str(key), REQUEST_KEYS)
                raise Invalid(f"unknown key {values.shown(key)}{hint}")
        if given.get("body_base64") is not None and given.get("body") is not None:
            raise Invalid("body: give body or body_base64, not both")
        soft, hard = given.get("timeout"), given.get("hard_timeout")
        if soft is not None or hard is not None:
            parts.append(limits(self._timeout, self._grace, soft, hard))

    def _target(self, key: str, value: Any) -> bytes:
        if not isinstance(value, str):
            raise Invalid(f"{key}: give a string, not {type(value).__name__}")
        target = self._targets.get(value)
        if target is None:
            target = profiles.resolve(key, value).encode()
            if len(self._targets) < 1000:
                self._targets[value] = target
        return target


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
        raise Invalid(f"url: give a string or bytes, not {type(url).__name__}")
    if isinstance(url, str) and not url.isascii():
        try:
            url.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise Invalid("url: lone surrogates cannot be sent") from None


_DONE = frozenset({"url", "id", "meta"})
_PAIR = frozenset({"timeout", "hard_timeout"})
_TOLD = (("id", TAG_ID), ("meta", TAG_META))
