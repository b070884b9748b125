"""JSON in and out: orjson and the standard library give the same."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import random
import struct
import subprocess
import sys
import uuid
from typing import Any

import pytest

from hardfetch import jsonio

BOTH = ["orjson", "stdlib"]


@pytest.fixture(params=BOTH)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name = str(request.param)
    if name == "stdlib":
        monkeypatch.setattr(jsonio, "_orjson", None)
    elif not jsonio.have_orjson():
        pytest.skip("orjson is not installed")
    return name


class Colour(enum.Enum):
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


@dataclasses.dataclass
class Point:
    x: int
    y: list[float]
    _hidden: int = 0


@dataclasses.dataclass
class Slotted:
    __slots__ = ("_own", "x")
    x: int
    _own: int


def with_attributes(**changed: Any) -> Point:
    """Return a dataclass's instance that has got more, or less, than its fields."""
    point = Point(1, [0.5])
    for name, value in changed.items():
        setattr(point, name, value)
    return point


def without_x() -> Point:
    point = Point(1, [0.5])
    del point.x
    return point


def offset(**of: int) -> dt.datetime:
    return dt.datetime(2026, 1, 2, tzinfo=dt.timezone(dt.timedelta(**of)))


IST = dt.timezone(dt.timedelta(hours=5, minutes=30))
WEST = dt.timezone(-dt.timedelta(hours=3, minutes=30))

WRITTEN: list[tuple[Any, bytes]] = [
    (None, b"null"),
    (True, b"true"),
    ("é\u2028\U0001f600\x7f", '"é\u2028\U0001f600\x7f"'.encode()),
    ('a"b\\c\n\t\r\b\f\x00\x1f/', b'"a\\"b\\\\c\\n\\t\\r\\b\\f\\u0000\\u001f/"'),
    ([], b"[]"),
    ({}, b"{}"),
    ((1, [2, {}]), b"[1,[2,{}]]"),
    ({"b": 1, "a": None}, b'{"b":1,"a":null}'),
    (1.0, b"1.0"),
    (-0.0, b"-0.0"),
    (1e16, b"1e+16"),
    (1e-5, b"0.00001"),
    (-1.5e-5, b"-0.000015"),
    (1e-6, b"1e-6"),
    (5e-324, b"5e-324"),
    (2**63, b"9223372036854775808"),
    (2**64, b"18446744073709551616"),
    (-(10**40), b"-1" + b"0" * 40),
    ([10**30, "é", 0.1], b"[1" + b"0" * 30 + ',"é",0.1]'.encode()),
    (Colour.RED, b'"red"'),
    (Number.ONE, b"1"),
    (Point(1, [0.5]), b'{"x":1,"y":[0.5]}'),
    (dt.datetime(2026, 1, 2, 3, 4, 5), b'"2026-01-02T03:04:05Z"'),  # noqa: DTZ001
    (
        dt.datetime(2026, 1, 2, 3, 4, 5, 6000, IST),
        b'"2026-01-02T03:04:05.006000+05:30"',
    ),
    (dt.datetime(2026, 1, 2, tzinfo=WEST), b'"2026-01-02T00:00:00-03:30"'),
    (dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc), b'"2026-01-02T00:00:00Z"'),
    (with_attributes(z="more", _z=1), b'{"x":1,"y":[0.5],"z":"more"}'),
    (without_x(), b'{"y":[0.5]}'),
    (Slotted(1, 2), b'{"x":1}'),
    (offset(minutes=19, seconds=32), b'"2026-01-02T00:00:00+00:20"'),
    (offset(minutes=-19, seconds=-32), b'"2026-01-02T00:00:00-00:20"'),
    (offset(seconds=29), b'"2026-01-02T00:00:00+00:00"'),
    (offset(seconds=-20), b'"2026-01-02T00:00:00-00:00"'),
    (offset(microseconds=40), b'"2026-01-02T00:00:00Z"'),
    (offset(hours=1, seconds=3585), b'"2026-01-02T00:00:00+02:00"'),
    ({"at": offset(hours=-1, seconds=-3585)}, b'{"at":"2026-01-02T00:00:00-02:00"}'),
    (offset(hours=23, seconds=3599), b'"2026-01-02T00:00:00+23:59"'),
    (["12:60", 'a:60"', None], b'["12:60","a:60\\"",null]'),
    (dt.date(2026, 1, 2), b'"2026-01-02"'),
    (dt.time(1, 2, 3), b'"01:02:03"'),
    (uuid.UUID(int=5), b'"00000000-0000-0000-0000-000000000005"'),
]


@pytest.mark.parametrize(("value", "expected"), WRITTEN)
def test_a_value_is_written_in_the_same_bytes_by_both(
    parser: str, value: Any, expected: bytes
) -> None:
    assert parser in BOTH
    assert jsonio.dumps(value) == expected


REFUSED_OUT: list[Any] = [
    float("nan"),
    float("inf"),
    [None, {"a": -float("inf")}],
    Point(1, [float("nan")]),
    with_attributes(z=float("nan")),
    "\ud800",
    {"\udfff": 1},
    {1: 2},
    {None: 2},
    b"bytes",
    bytearray(b"x"),
    {1, 2},
    object(),
    Point,
]


@pytest.mark.parametrize("value", REFUSED_OUT, ids=repr)
def test_a_value_without_json_form_is_refused_by_both(parser: str, value: Any) -> None:
    assert parser in BOTH
    with pytest.raises(jsonio.JsonEncodeError):
        jsonio.dumps(value)


def test_bytes_are_refused_with_the_remedy(parser: str) -> None:
    assert parser in BOTH
    with pytest.raises(jsonio.JsonEncodeError, match="base64"):
        jsonio.dumps({"body": b"\xff"})


def test_deep_nesting_is_an_error_of_ours(parser: str) -> None:
    assert parser in BOTH
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(jsonio.JsonEncodeError):
        jsonio.dumps(deep)
    for depth, good in ((500, True), (1025, False), (200_000, False)):
        document = b"[" * depth + b"]" * depth
        if good:
            jsonio.loads(document)
        else:
            with pytest.raises(jsonio.JsonDecodeError):
                jsonio.loads(document)


def test_brackets_inside_strings_do_not_nest(parser: str) -> None:
    assert parser in BOTH
    text = '[{"\\"' * 500 + "\\\\"
    document = jsonio.dumps([text] * 3)
    assert jsonio.loads(document) == [text] * 3


READ: list[tuple[bytes | str, Any]] = [
    (b'{"a":1,"a":2}', {"a": 2}),
    (b"18446744073709551616", 2**64),
    (b"-9223372036854775809", -(2**63) - 1),
    (
        b'{"n":[123456789012345678901234567890]}',
        {"n": [123456789012345678901234567890]},
    ),
    (b"1E5", 100000.0),
    (b"123456789012345678901234567890.5", 1.2345678901234568e29),
    (b'"\\ud83d\\ude00"', "\U0001f600"),
    (b'"\\u0000"', "\0"),
    ('"é"', "é"),
    (b"  [1] \r\n", [1]),
    (b'"\x7f"', "\x7f"),
]


@pytest.mark.parametrize(("document", "expected"), READ)
def test_a_document_is_read_as_the_same_value_by_both(
    parser: str, document: bytes | str, expected: Any
) -> None:
    assert parser in BOTH
    value = jsonio.loads(document)
    assert value == expected
    assert type(value) is type(expected)


REFUSED_IN: list[bytes | str] = [
    b"", b" ", b"NaN", b"Infinity", b"-Infinity", b"1e400", b"[1,]", b"01", b"1.",
    b"{]", b'"\x01"', b'"\xff"', b'"\xed\xa0\x80"', b'"\\ud800"', b'"\\uDC00x"',
    b'{"\\udc00":1}', b"\xef\xbb\xbf1", b"[1]\x00", b"1 2", b"'a'", b"\xff\xfe1\x00",
    "\ud800", '"\udfff"', b"+1", b"tru", b'{"a" 1}', b"123456789012345678901e999",
]  # fmt: skip


@pytest.mark.parametrize("document", REFUSED_IN, ids=repr)
def test_what_is_no_json_is_refused_by_both(parser: str, document: bytes | str) -> None:
    assert parser in BOTH
    with pytest.raises(jsonio.JsonDecodeError):
        jsonio.loads(document)


@pytest.mark.parametrize("view", [bytearray, memoryview])
def test_other_buffers_are_read_too(parser: str, view: Any) -> None:
    assert parser in BOTH
    assert jsonio.loads(view(b'{"a":[1]}')) == {"a": [1]}


def test_random_floats_are_the_same_bytes_in_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not jsonio.have_orjson():
        pytest.skip("orjson is not installed")
    source = random.Random(1)
    values = [struct.unpack("<d", source.randbytes(8))[0] for _ in range(20_000)]
    values += [
        source.uniform(-1, 1) * 10 ** source.randint(-9, 19) for _ in range(20_000)
    ]
    values = [value for value in values if value - value == 0]
    with_orjson = jsonio.dumps(values)
    monkeypatch.setattr(jsonio, "_orjson", None)
    assert jsonio.dumps(values) == with_orjson
    assert jsonio.loads(with_orjson) == values


def test_the_package_works_where_orjson_cannot_be_imported() -> None:
    code = (
        "import sys; sys.modules['orjson'] = None\n"
        "from hardfetch import jsonio\n"
        "assert not jsonio.have_orjson()\n"
        "assert jsonio.loads(jsonio.dumps({'é': [1.5]})) == {'é': [1.5]}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
