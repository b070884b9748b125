"""JSON in and out: orjson when it is there, the standard library when not.

Both give the same values and the same bytes. What is settled here:

* text is UTF-8, non-ASCII kept; lone surrogates are refused in both directions;
* NaN and infinity are refused in both directions;
* integers of any size survive (orjson alone would turn them into floats or fail);
* of duplicate keys the last one wins; object keys are strings;
* datetimes are RFC 3339, naive ones taken as UTC; dataclasses are objects;
* bytes are refused: JSON has none, and a guess would corrupt them.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import importlib
import json
import math
import uuid
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def _find_orjson() -> Any:
    try:
        return importlib.import_module("orjson")
    except ImportError:  # an optional dependency
        return None


_orjson = _find_orjson()

__all__ = [
    "JsonDecodeError",
    "JsonEncodeError",
    "dumps",
    "have_orjson",
    "line_dumper",
    "loaded_dumper",
    "loads",
    "loads_small",
]

_INT64_DIGITS = 19  # the shortest integer that may not fit 64 bits
_DIGITS = bytes(0x30 if 0x30 <= c <= 0x39 else c for c in range(256))
_LONG = b"0" * _INT64_DIGITS
_MAX_DEPTH_IN = 1024  # orjson's own limits, kept by the other side too
_MAX_DEPTH_OUT = 254


class JsonDecodeError(ValueError):
    """The bytes are no JSON document; the message says what and where."""


class JsonEncodeError(TypeError):
    """The object has no JSON form; the message names the type."""


def have_orjson() -> bool:
    """Tell whether orjson does the work."""
    return _orjson is not None


def loads(data: bytes | bytearray | memoryview | str) -> Any:
    """Parse one JSON document.

    Raises JsonDecodeError for anything that is not exactly one valid document.
    """
    if type(data) is not bytes:
        data = _to_bytes(data)
    # orjson reads an integer past 64 bits as a float, silently: those go the slow way.
    # (`find` and no `in`, which first tries its operand as a number: 0.1 us.)
    if _orjson is None or data.translate(_DIGITS).find(_LONG) >= 0:
        return _slow_loads(data)
    try:
        return _orjson.loads(data)
    except ValueError as exc:
        raise JsonDecodeError(str(exc)) from None


def _to_bytes(data: bytes | bytearray | memoryview | str) -> bytes:
    if not isinstance(data, str):
        return bytes(data)
    try:
        return data.encode()
    except UnicodeEncodeError as exc:
        raise JsonDecodeError("not valid Unicode: lone surrogate") from exc


def loads_small(data: bytes) -> Any:
    """Do as `loads`, but take integers past 64 bits for floats."""
    if _orjson is None:
        return _slow_loads(data)
    try:
        return _orjson.loads(data)
    except ValueError as exc:
        raise JsonDecodeError(str(exc)) from None


def dumps(obj: Any) -> bytes:
    """Return obj as one JSON document in UTF-8, without a newline.

    Raises JsonEncodeError for NaN, infinity, bytes, lone surrogates, keys that are not
    strings and types without a JSON form.
    """
    if _orjson is None:
        return _slow_dumps(obj)
    try:
        out: bytes = _orjson.dumps(obj, None, _OPTIONS)
    except TypeError:
        # Too large an integer is ours to write; all else fails again, with our text.
        return _slow_dumps(obj)
    if type(obj) is str:
        return out
    if out.find(b':60"') >= 0:
        # orjson rounds an offset of 1:59:45 to "+01:60", which no reader takes.
        return _slow_dumps(obj)
    if out.find(b"null") >= 0:
        # orjson writes NaN as null, which would be a silent loss.
        _refuse_nan(obj)
    return out


def loaded_dumper() -> Callable[[Any], bytes]:
    """Return f: f(obj) is `dumps(obj)` for what `loads` gave.

    The fastest there is: no NaN and no date can be in it. A TypeError may be of an
    integer that `dumps` can write.
    """
    return _slow_dumps if _orjson is None else _orjson.dumps


def line_dumper() -> tuple[Callable[[Any, None, Any], bytes], Any]:
    """Return f and x: f(obj, None, x) is obj as JSON with a line feed behind it.

    The fastest there is, and less strict than `dumps`: what has `null` in its text may
    have been NaN, what has `:60"` an offset that `dumps` rounds well, and a TypeError
    may be of an integer that `dumps` can write.
    """
    if _orjson is None:
        return lambda obj, _default, _option: _slow_dumps(obj) + b"\n", None
    return _orjson.dumps, _OPTIONS | _orjson.OPT_APPEND_NEWLINE


_OPTIONS = 0 if _orjson is None else _orjson.OPT_NAIVE_UTC | _orjson.OPT_UTC_Z


def _refuse_nan(obj: Any) -> None:
    if isinstance(obj, float):
        if not math.isfinite(obj):
            raise JsonEncodeError(f"{obj!r} has no JSON form")
    elif isinstance(obj, dict):
        for value in obj.values():
            _refuse_nan(value)
    elif isinstance(obj, (list, tuple)):
        for value in obj:
            _refuse_nan(value)
    elif isinstance(obj, enum.Enum):
        _refuse_nan(obj.value)
    elif dataclasses.is_dataclass(obj) and not isinstance(obj, type):
        for _, value in _attributes(obj):
            _refuse_nan(value)


def _attributes(obj: Any) -> Iterator[tuple[Any, Any]]:
    """Yield what is written of a dataclass: orjson takes all there is, if it can."""
    if hasattr(obj, "__dict__") and "__slots__" not in type(obj).__dict__:
        items: Iterable[tuple[Any, Any]] = vars(obj).items()
    else:
        names = (field.name for field in dataclasses.fields(obj))
        items = ((name, getattr(obj, name)) for name in names)
    for name, value in items:
        if not str(name).startswith("_"):
            yield name, value


def _constant(name: str) -> Any:
    raise JsonDecodeError(f"{name} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise JsonDecodeError("number is infinity when parsed as double")
    return value


def _slow_loads(data: bytes) -> Any:
    try:
        text = data.decode()
        if data.count(b"[") + data.count(b"{") > _MAX_DEPTH_IN:
            _check_depth(text)
        value = json.loads(text, parse_constant=_constant, parse_float=_float)
    except JsonDecodeError:
        raise
    except UnicodeDecodeError as exc:
        raise JsonDecodeError(f"not valid UTF-8 at byte {exc.start}") from None
    except RecursionError:
        raise JsonDecodeError("nested too deeply") from None
    except ValueError as exc:
        raise JsonDecodeError(str(exc)) from None
    if b"\\ud" in data or b"\\uD" in data:
        _refuse_surrogates(value)
    return value


def _check_depth(text: str) -> None:
    depth = 0
    inside = False
    skip = False
    for char in text:
        if skip:
            skip = False
        elif inside:
            skip = char == "\\"
            inside = char != '"'
        elif char == '"':
            inside = True
        elif char in "[{":
            depth += 1
            if depth > _MAX_DEPTH_IN:
                raise JsonDecodeError("nested too deeply")
        elif char in "]}":
            depth -= 1


def _refuse_surrogates(value: Any) -> None:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise JsonDecodeError("lone surrogate in a string") from None
    elif isinstance(value, dict):
        for key, item in value.items():
            _refuse_surrogates(key)
            _refuse_surrogates(item)
    elif isinstance(value, list):
        for item in value:
            _refuse_surrogates(item)


def _slow_dumps(obj: Any) -> bytes:
    out: list[str] = []
    _write(obj, out, 0)
    try:
        return "".join(out).encode()
    except UnicodeEncodeError:
        raise JsonEncodeError(
            "str is not valid UTF-8: surrogates not allowed"
        ) from None


def _write(obj: Any, out: list[str], depth: int) -> None:  # noqa: C901, PLR0912
    if obj is None:
        out.append("null")
    elif obj is True:
        out.append("true")
    elif obj is False:
        out.append("false")
    elif isinstance(obj, enum.Enum):  # before str and int: IntEnum is both
        _write(obj.value, out, depth)
    elif isinstance(obj, str):
        out.append(encode_basestring(str(obj)))
    elif isinstance(obj, int):
        try:
            out.append(int.__repr__(obj))
        except ValueError:  # past sys.get_int_max_str_digits()
            raise JsonEncodeError("the integer has too many digits") from None
    elif type(obj) is float:
        out.append(_float_text(obj))
    elif depth > _MAX_DEPTH_OUT:
        raise JsonEncodeError("nested too deeply")
    elif isinstance(obj, dict):
        _write_object(obj.items(), out, depth + 1)
    elif isinstance(obj, list) or type(obj) is tuple:
        for i, item in enumerate(obj):
            out.append("," if i else "[")
            _write(item, out, depth + 1)
        out.append("]" if obj else "[]")
    elif dataclasses.is_dataclass(obj) and not isinstance(obj, type):
        _write_object(_attributes(obj), out, depth + 1)
    else:
        out.append(f'"{_special(obj)}"')


def _write_object(items: Any, out: list[str], depth: int) -> None:
    first = True
    for key, value in items:
        if not isinstance(key, str):
            raise JsonEncodeError("Dict key must be str")
        out.append("{" if first else ",")
        first = False
        out.append(encode_basestring(str(key)))
        out.append(":")
        _write(value, out, depth)
    out.append("{}" if first else "}")


def _float_text(value: float) -> str:
    if not math.isfinite(value):
        raise JsonEncodeError(f"{value!r} has no JSON form")
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return mantissa
    power = int(exponent)
    if power == -5:
        sign, digits = ("-", mantissa[1:]) if mantissa[0] == "-" else ("", mantissa)
        return f"{sign}0.0000{digits.replace('.', '')}"
    return f"{mantissa}e{power:+d}"


def _special(obj: Any) -> str:
    if isinstance(obj, dt.datetime):
        offset = obj.utcoffset() or dt.timedelta()
        local = obj.replace(tzinfo=None).isoformat()
        seconds = offset.days * 86400 + offset.seconds
        if seconds == 0:
            return local + "Z"
        # RFC 3339 has no seconds there, and no hour 24: the nearest minute it has.
        minutes = min((abs(seconds) + 30) // 60, 23 * 60 + 59)
        sign = "-" if seconds < 0 else "+"
        return f"{local}{sign}{minutes // 60:02d}:{minutes % 60:02d}"
    if isinstance(obj, (dt.date, dt.time)):
        if isinstance(obj, dt.time) and obj.tzinfo is not None:
            raise JsonEncodeError("datetime.time must not have tzinfo set")
        return obj.isoformat()
    if isinstance(obj, uuid.UUID):
        return str(obj)
    if isinstance(obj, (bytes, bytearray, memoryview)):
        kind = type(obj).__name__
        raise JsonEncodeError(f"{kind} has no JSON form: decode it or use base64")
    raise JsonEncodeError(f"Type is not JSON serializable: {type(obj).__name__}")
