"""Requests and their packed form, read back by an unpacker of the test's own."""

from __future__ import annotations

import json
import random
import re
import struct
import sys
import timeit
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from hardfetch import packed as module, request, robots_gate
from hardfetch._ffi import has_long_number
from hardfetch.options import Options
from hardfetch.request import Packer, Request

API_H = (Path(__file__).parents[1] / "csrc" / "api.h").read_text()
NAMES = {v: k for k, v in vars(module).items() if k.startswith("TAG_")}


@pytest.fixture
def packer() -> Packer:
    return Packer(Options.build())


def unpack(frame: bytes) -> list[tuple[str, Any]]:
    (total,) = struct.unpack_from("<I", frame)
    assert total == len(frame) - 4
    items: list[tuple[str, Any]] = []
    at = 4
    while at < len(frame):
        tag, size = struct.unpack_from("<BI", frame, at)
        data: Any = frame[at + 5 : at + 5 + size]
        assert len(data) == size
        if module.TAG_CONNECT_TIMEOUT <= tag <= module.TAG_DEADLINE:
            (data,) = struct.unpack("<q", data)
        items.append((NAMES[tag], data))
        at += 5 + size
    return items


def reason(frame: bytes) -> str:
    items = unpack(frame)
    assert items[-1][0] == "TAG_INVALID", items
    return bytes(items[-1][1]).decode()


def test_tags_are_those_of_the_core() -> None:
    found = dict(re.findall(r"HF_(TAG_[A-Z0-9_]+) = (\d+)", API_H))
    assert int(found.pop("TAG_HOLD")) == vars(robots_gate)["_TAG_HOLD"]
    assert {name: int(value) for name, value in found.items()} == {
        name: value for value, name in NAMES.items()
    }


def test_a_bare_url_and_one_with_an_id_are_packed(packer: Packer) -> None:
    assert unpack(packer.line(b'{"url":"http://x/"}')) == [("TAG_URL", b"http://x/")]
    assert unpack(packer.line(b'{"id":[1,"\xc3\xa9"],"url":"http://x/"}')) == [
        ("TAG_URL", b"http://x/"),
        ("TAG_ID", '[1,"é"]'.encode()),
    ]


def test_a_long_number_is_found_wherever_it_stands() -> None:
    source = random.Random(7)
    for _ in range(20_000):
        data = bytes(source.choices(b"00000079a/:\xb0", k=source.randrange(90)))
        assert has_long_number(data) == bool(re.search(rb"[0-9]{19}", data)), data
    assert not has_long_number(b"9" * 18)
    assert has_long_number(b"9" * 19)
    with pytest.raises(TypeError):
        has_long_number("9" * 19)  # type: ignore[arg-type]


def test_everything_a_line_can_say_is_packed(packer: Packer) -> None:
    line = (
        b'{"url":"http://x/","id":7,"method":"PUT","headers":{"A":"b","C":"d"},'
        b'"body":"\xc3\xa9","proxy":"socks5h://u:p@h:1","session":"s","fresh":true,'
        b'"timeout":1.5,"hard_timeout":2,"deadline":9,"impersonate":"chrome131",'
        b'"http_version":"2","meta":{"k":[123456789012345678901234567890]}}'
    )
    assert sorted(unpack(packer.line(line)), key=str) == sorted(
        [
            ("TAG_URL", b"http://x/"),
            ("TAG_ID", b"7"),
            ("TAG_METHOD", b"PUT"),
            ("TAG_HEADER", b"A: b"),
            ("TAG_HEADER", b"C: d"),
            ("TAG_BODY", "é".encode()),
            ("TAG_PROXY", b"socks5h://u:p@h:1"),
            ("TAG_SESSION", b"s"),
            ("TAG_FRESH", b""),
            ("TAG_TIMEOUT", 1_500_000),
            ("TAG_HARD_TIMEOUT", 2_000_000),
            ("TAG_DEADLINE", 9_000_000),
            ("TAG_IMPERSONATE", b"chrome131"),
            ("TAG_HTTP_VERSION", b"2"),
            ("TAG_META", b'{"k":[123456789012345678901234567890]}'),
        ],
        key=str,
    )


def test_a_request_is_packed_as_the_same_line_would_be(packer: Packer) -> None:
    request = Request(
        "http://x/", id="a", headers=[("A", "b")], body=b"\xff", connect_timeout=0.5
    )
    assert sorted(unpack(packer.item(request)), key=str) == sorted(
        [
            ("TAG_URL", b"http://x/"),
            ("TAG_ID", b'"a"'),
            ("TAG_HEADER", b"A: b"),
            ("TAG_BODY", b"\xff"),
            ("TAG_CONNECT_TIMEOUT", 500_000),
        ],
        key=str,
    )


def test_nulls_stand_for_the_fetchers_options(packer: Packer) -> None:
    line = b'{"url":"http://x/","timeout":null,"headers":null,"fresh":false,"id":null}'
    assert unpack(packer.line(line)) == [("TAG_URL", b"http://x/")]


def test_headers_may_be_pairs_and_repeat(packer: Packer) -> None:
    frame = packer.line(b'{"url":"http://x/","headers":[["A","1"],["A","2"]]}')
    assert unpack(frame)[1:] == [("TAG_HEADER", b"A: 1"), ("TAG_HEADER", b"A: 2")]


def test_a_body_may_be_base64(packer: Packer) -> None:
    frame = packer.line(b'{"url":"http://x/","body_base64":"/wA="}')
    assert unpack(frame)[1:] == [("TAG_BODY", b"\xff\x00")]


def test_an_empty_proxy_means_direct(packer: Packer) -> None:
    assert unpack(packer.line(b'{"url":"http://x/","proxy":""}'))[1:] == [
        ("TAG_PROXY", b"")
    ]


@pytest.mark.parametrize(
    ("given", "soft", "hard"),
    [
        ({"timeout": 30}, 30, 35),
        ({"hard_timeout": 3}, 3, 3),
        ({"hard_timeout": 60}, 10, 60),
    ],
)
def test_one_limit_moves_the_other_along(
    packer: Packer, given: dict[str, Any], soft: int, hard: int
) -> None:
    items = dict(unpack(packer.item({"url": "http://x/", **given})))
    assert items["TAG_TIMEOUT"] == soft * 1_000_000
    assert items["TAG_HARD_TIMEOUT"] == hard * 1_000_000


def test_times_may_have_a_unit(packer: Packer) -> None:
    given = {"url": "http://x/", "timeout": "2s", "idle_timeout": "300ms"}
    items = dict(unpack(packer.item(given)))
    assert items["TAG_TIMEOUT"] == 2_000_000
    assert items["TAG_IDLE_TIMEOUT"] == 300_000


def test_bytes_of_a_url_go_through_untouched(packer: Packer) -> None:
    assert unpack(packer.item(b"http://x/\xff\xe9\r\n")) == [
        ("TAG_URL", b"http://x/\xff\xe9")
    ]
    surrogates = b"http://x/\xff".decode("utf-8", "surrogateescape")
    assert unpack(packer.item(Request(surrogates))) == [("TAG_URL", b"http://x/\xff")]


INVALID: list[tuple[Any, str]] = [
    ({"url": "http://x/", "retry": 1}, "unknown key 'retry'"),
    ({"url": "http://x/", "timout": 1}, "did you mean timeout"),
    ({"url": "http://x/", "timeout": 0}, "timeout: 0 is not allowed"),
    ({"url": "http://x/", "timeout": -1}, "timeout"),
    ({"url": "http://x/", "timeout": "5 parsecs"}, "timeout: '5 parsecs' is not"),
    ({"url": "http://x/", "timeout": True}, "timeout"),
    ({"url": "http://x/", "timeout": 2, "hard_timeout": 1}, "hard_timeout: 1 is below"),
    ({"url": "http://x/", "deadline": float("nan")}, "deadline"),
    ({"url": "http://x/", "method": "GE T"}, "method"),
    ({"url": "http://x/", "method": 5}, "method"),
    ({"url": "http://x/", "headers": {"X": "\ud800"}}, "headers: X"),
    ({"url": "http://x/", "headers": {"X": "a\r\nB: c"}}, "headers: X"),
    ({"url": "http://x/", "headers": {"X": 1}}, "headers: X"),
    ({"url": "http://x/", "headers": "X"}, "headers"),
    ({"url": "http://x/", "proxy": "foo://u:s3cret@h:1"}, "proxy: the scheme"),
    ({"url": "http://x/", "proxy": 1}, "proxy"),
    ({"url": "http://x/", "body": {"a": 1}}, "body: give a string or bytes, not dict"),
    ({"url": "http://x/", "body": "a", "body_base64": "YQ=="}, "not both"),
    ({"url": "http://x/", "body_base64": "***"}, "body_base64: not valid base64"),
    ({"url": "http://x/", "session": 5}, "session"),
    ({"url": "http://x/", "session": "a\nb"}, "session"),
    ({"url": "http://x/", "fresh": 1}, "fresh"),
    ({"url": "http://x/", "impersonate": "chrme"}, "did you mean"),
    ({"url": "http://x/", "impersonate": 1}, "impersonate"),
    ({"url": "http://x/", "http_version": "9"}, "http_version"),
    ({"url": "http://x/", "meta": b"x"}, "meta"),
    ({"url": "http://x/", "id": {1, 2}}, "id"),
    ({"url": 5}, "url: give a string, not int"),
    ({"URL": "http://x/"}, "the request has no url; unknown key 'URL'"),
    ({}, "the request has no url"),
    (Request(5), "url: give a string or bytes, not int"),  # type: ignore[arg-type]
    ("http://x/\ud800", "lone surrogates"),
    (5, "not int"),
    (None, "not NoneType"),
    (["http://x/"], "not list"),
    (b"{not json", "not valid JSON"),
    (b'{"url":"http://x/\\ud800"}', "not valid JSON"),
    (b"{" + b"x" * (1 << 20), "longer than 1 MiB"),
]


@pytest.mark.parametrize(("given", "expected"), INVALID, ids=lambda v: repr(v)[:60])
def test_an_input_that_is_no_request_is_packed_with_the_reason(
    packer: Packer, given: Any, expected: str
) -> None:
    frame = packer.item(given)
    text = reason(frame)
    assert expected in text
    assert "\n" not in text
    assert b"s3cret" not in frame
    first = unpack(frame)[0]
    assert first[0] in ("TAG_URL", "TAG_INPUT")
    assert len(first[1]) <= module.MAX_ECHO


#: One each of what goes the compiled way, and of what Python looks at.
VALID: list[dict[str, Any]] = [
    {},
    {"id": None, "meta": None, "timeout": None, "headers": None},
    {"id": "a", "meta": {"k": [1 << 70, "é"]}},
    {"method": "PUT", "session": "s", "proxy": "", "http_version": "2"},
    {"headers": {"A": "b", "C": "é"}, "body": "é", "fresh": True},
    {"headers": [["A", "b"], ["A", "c"]], "body_base64": "/wA=", "fresh": False},
    {"headers": "A: b", "body": b"\xff"},
    {"headers": {f"X-{n}": "y" for n in range(100)}},
    {"headers": {"A": b"b"}},
    {"timeout": 1},
    {"timeout": 1.5, "hard_timeout": "2s"},
    {"hard_timeout": 3, "deadline": 1, "connect_timeout": "300ms"},
    {"impersonate": "chrome", "body": "x" * 1000, "session": "y" * 1000},
]


@pytest.mark.parametrize("given", VALID, ids=lambda v: repr(v)[:60])
@pytest.mark.parametrize("url", ["http://x/", "http://é/", "http://x/\udcff"])
def test_both_ways_of_packing_lead_to_the_same(
    packer: Packer, url: str, given: dict[str, Any]
) -> None:
    obj = {**given, "url": url}
    wanted = packer._packed(url, obj)
    assert unpack(wanted)[-1][0] != "TAG_INVALID"
    for _ in range(2):  # the second time it is remembered
        assert packer.mapping(obj) == wanted
        assert packer.mapping(MappingProxyType(obj)) == wanted


def test_the_compiled_way_takes_all_but_the_odd(packer: Packer) -> None:
    taken = [packer._known({**given, "url": "http://x/"}) for given in VALID]
    assert [n for n, frame in enumerate(taken) if frame is None] == [7, 8]
    assert packer._known({"url": "http://x/\udcff"}) is None
    assert packer._known({"url": "http://x/", "body": "a", "body_base64": ""}) is None
    assert packer._known({"url": b"http://x/"}) is None
    assert packer._known({1: 2, "url": "http://x/"}) is None  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ({"timeout": 1}, {"timeout": True}),
        ({"timeout": 1.0, "hard_timeout": 1}, {"timeout": 1, "hard_timeout": True}),
        ({"idle_timeout": 1}, {"idle_timeout": True}),
        ({"fresh": True}, {"fresh": 1}),
        ({"headers": {"A": "b"}}, {"headers": {"A": ["b"]}}),
    ],
)
def test_what_is_remembered_is_not_taken_for_what_equals_it(
    packer: Packer, good: dict[str, Any], bad: dict[str, Any]
) -> None:
    for _ in range(2):
        frame = packer.item({"url": "http://x/", **good})
        assert unpack(frame)[-1][0] != "TAG_INVALID"
        assert next(iter(bad)) in reason(packer.item({"url": "http://x/", **bad}))


def test_only_so_much_is_remembered(packer: Packer) -> None:
    known = request._known_options
    known.clear()
    for n in range(3 * module._KNOWN):
        frame = packer.item({"url": "http://x/", "session": f"s{n}"})
        assert unpack(frame)[1] == ("TAG_SESSION", b"s%d" % n)
        assert len(known) <= module._KNOWN
    known.clear()
    packer.item({"url": "http://x/", "session": "s" * (module._SHORT + 1)})
    packer.item({"url": "http://x/", "session": "a\nb"})
    assert known == {}


def test_an_interrupt_while_packing_is_not_lost(packer: Packer) -> None:
    def interrupted(_obj: object) -> bytes:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        packer._known({"url": "http://x/", "id": 7}, interrupted)


def test_packing_keeps_hold_of_nothing(packer: Packer) -> None:
    class Text(str):
        __slots__ = ()

    def counts(values: list[Any]) -> list[int]:
        return [sys.getrefcount(value) for value in values]

    for session, refused in (("s", False), ("a\nb", True)):
        values = [Text("http://x/é"), [Text("id")], Text("m"), 12345.5, Text(session)]
        names = ("url", "id", "meta", "timeout", "session")
        before = counts(values)
        for _ in range(10):
            frame = packer.item(dict(zip(names, values, strict=True)))
            assert (unpack(frame)[-1][0] == "TAG_INVALID") == refused
        packer._known_limits.clear()
        assert counts(values) == before


def test_an_invalid_request_keeps_its_id_and_meta(packer: Packer) -> None:
    frame = packer.line(b'{"url":"http://x/","id":3,"meta":[1],"timeout":0}')
    assert unpack(frame)[:-1] == [
        ("TAG_URL", b"http://x/"),
        ("TAG_ID", b"3"),
        ("TAG_META", b"[1]"),
    ]


@pytest.mark.parametrize("start", ['"ulr":"http://x/",', '"url":5,', '"url":null,', ""])
def test_a_request_without_a_url_keeps_its_id_and_meta(
    packer: Packer, start: str
) -> None:
    line = f'{{{start}"id":3,"meta":[1]}}'.encode()
    for frame in packer.line(line), packer.mapping(json.loads(line)):
        given = unpack(frame)
        assert given[0][0] == "TAG_INPUT"
        assert given[1:-1] == [("TAG_ID", b"3"), ("TAG_META", b"[1]")]


def test_a_line_that_is_echoed_hides_its_passwords(packer: Packer) -> None:
    line = b'{"ulr":"http://u:s3cret@h/","proxy":"socks5://v:s3cret@p:1"}'
    kind, echoed = unpack(packer.line(line))[0]
    assert kind == "TAG_INPUT"
    assert echoed == b'{"ulr":"http://u:***@h/","proxy":"socks5://v:***@p:1"}'


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('{"headers":{"Authorization":"Bearer S"}}', '"Authorization":***"}}'),
        ('{"url":"http://h/","headers":{"COOKIE" : "a=S"}', '"COOKIE" : ***"}'),
        ('{"headers":[["proxy-authorization", "S\\"S"]]', '", ***"]]'),
        ('{"headers":["Cookie: a=\'S\'; S", "X: y"]', '["Cookie: ***", "X: y"]'),
        ('{"headers":{"Cookie":"a=\'S\'; S"}', '"Cookie":***"}'),
        ("{'headers': {'Authorization': 'Basic S'}}", "'Authorization': ***'}}"),
        ('{"id":1,"headers":{"cookie":"a=b; SSS', '{"cookie":***'),
        ('{"headers":{"Cookie":"S\\', '"Cookie":***\\'),
        ('{"headers":{"Accept":"a/b"},"x":"y"}', '"Accept":"a/b"},"x":"y"}'),
        ('"Authorization": "Basic S",', '"Authorization": ***",'),
        ('["http://u:S@h/"]', '["http://u:***@h/"]'),
        ('[{"url":"http://u:S@h/"}]', '[{"url":"http://u:***@h/"}]'),
        ('{"url":"http://u:S', '{"url":"http://u:***@'),
    ],
)
def test_a_line_that_is_echoed_hides_its_credentials(
    packer: Packer, line: str, shown: str
) -> None:
    kind, echoed = unpack(packer.item(line))[0]
    assert kind == "TAG_INPUT"
    assert echoed.decode().endswith(shown)
    assert b"S" not in echoed


def test_packing_a_line_is_cheap(packer: Packer) -> None:
    line = b'{"url":"http://127.0.0.1:8080/1k?12345","id":"abc-12345"}'
    best = min(timeit.repeat(lambda: packer.line(line), number=2000, repeat=7)) / 2000
    # 2 us on the machine of the first measurement; the bound is loose for busy ones.
    assert best < 20e-6
