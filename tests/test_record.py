"""Results, headers and frames."""

from __future__ import annotations

import json
import pickle
import struct
from typing import Any

import pytest

from hardfetch import errors, jsonio
from hardfetch.frames import parse_frames
from hardfetch.record import Attempt, Error, Headers, Redirect, Result

RECORD: dict[str, Any] = {
    "schema": 1,
    "seq": 41,
    "id": "a",
    "input": "http://u:***@x.test/a",
    "url": "http://x.test/a",
    "final_url": "http://x.test/b",
    "method": "GET",
    "status_code": 200,
    "http_version": "1.1",
    "headers": [["Set-Cookie", "a=1"], ["X", "y"], ["set-cookie", "b=2"]],
    "content_type": "text/html",
    "charset": "utf-8",
    "redirects": [{"url": "http://x.test/a", "status_code": 302, "location": "/b"}],
    "remote_ip": "127.0.0.1",
    "remote_port": 80,
    "proxy": None,
    "attempts": [
        {"n": 1, "proxy": None, "status_code": 200, "error": None, "elapsed": 0.1,
         "wait": 0.0}
    ],
    "timing": {"queue": 0.0, "dns": None},
    "elapsed": 0.12,
    "error": None,
    "meta": {"k": 1},
}  # fmt: skip


def make(content: bytes = b"", **changes: Any) -> Result:
    return Result(jsonio.dumps({**RECORD, **changes}), content)


FAILED: dict[str, Any] = {
    "type": "connect_timeout",
    "origin": "site",
    "phase": "connect",
    "message": "no connection within 5 s",
    "curl_code": 28,
    "retryable": True,
}


def test_a_result_has_the_records_data_under_the_fields_own_names() -> None:
    result = make(b"body")
    assert (result.seq, result.id, result.meta) == (41, "a", {"k": 1})
    assert result.url == "http://x.test/b"
    assert result.request_url == "http://x.test/a"
    assert result.status_code == 200
    assert result.ok
    assert result.content == b"body"
    assert result.text == "body"
    assert result.http_version == "1.1"
    assert result.elapsed == pytest.approx(0.12)
    assert result.history == [Redirect("http://x.test/a", 302, "/b")]
    assert result.attempts == [Attempt(1, None, 200, None, 0.1, 0.0)]
    assert result.primary_ip == "127.0.0.1"
    assert result.error is None
    result.raise_for_status()


def test_headers_know_any_case_order_and_duplicates() -> None:
    headers = make().headers
    assert headers["SET-COOKIE"] == "a=1, b=2"
    assert headers.get_all("set-cookie") == ["a=1", "b=2"]
    assert headers.get("missing") is None
    assert headers.get_all("missing") == []
    assert "x" in headers
    assert list(headers) == ["Set-Cookie", "X"]
    assert len(headers) == 2
    assert headers.multi_items() == [
        ("Set-Cookie", "a=1"),
        ("X", "y"),
        ("set-cookie", "b=2"),
    ]
    assert dict(headers.items()) == {"Set-Cookie": "a=1, b=2", "X": "y"}
    assert not Headers([])


def test_a_status_of_400_and_above_is_an_answer_that_can_be_raised() -> None:
    result = make(status_code=404)
    assert not result.ok
    result.raise_for_error()
    with pytest.raises(errors.HTTPError, match="404") as caught:
        result.raise_for_status()
    assert caught.value.result is result


def test_an_error_is_raised_as_its_class_with_the_result() -> None:
    result = make(status_code=None, error=FAILED, final_url=None)
    assert not result.ok
    assert result.error == Error(**FAILED)
    with pytest.raises(errors.ConnectTimeout, match="no connection within") as caught:
        result.raise_for_status()
    assert caught.value.result is result
    with pytest.raises(TimeoutError):
        result.raise_for_error()


@pytest.mark.parametrize(
    ("charset", "raw", "text"),
    [
        ("utf-8", b"\xef\xbb\xbf\xc3\xa9", "é"),
        ("windows-1252", b"\x80", "€"),
        ("gbk", "中文€".encode("gb18030"), "中文€"),
        ("shift_jis", "①日本".encode("cp932"), "①日本"),
        ("euc-kr", "똠".encode("cp949"), "똠"),
        ("utf-16le", b"\xff\xfea\x00", "a"),
        ("x-user-defined", b"a", "a"),
        ("no-such-charset", b"a", "a"),
        (None, b"\xff", "\ufffd"),
    ],
)
def test_text_follows_the_charset_and_never_raises(
    charset: str | None, raw: bytes, text: str
) -> None:
    assert make(raw, charset=charset).text == text


def test_json_of_the_body() -> None:
    assert make(b'\xef\xbb\xbf{"a":1}').json() == {"a": 1}
    assert make(b'{\x00"\x00a\x00"\x00:\x001\x00}\x00', charset="utf-16le").json() == {
        "a": 1
    }
    with pytest.raises(ValueError):
        make(b"<html>").json()


def test_json_of_a_fetch_that_failed_tells_why() -> None:
    failed = {"type": "connect_refused", "message": "the port is shut"}
    failed |= {"origin": "site", "phase": "connect"}
    with pytest.raises(errors.FetchError, match="the port is shut"):
        make(b"", error=failed).json()
    assert make(b"[1]", error=failed).json() == [1]  # what came may be of use


def test_a_result_survives_pickle() -> None:
    result = make(b"\xff\x00")
    assert result.headers  # parsed state is no obstacle
    back = pickle.loads(pickle.dumps(result))
    assert back == result
    assert back.content == b"\xff\x00"


def test_repr_is_short() -> None:
    assert repr(make()) == "<Result [200] seq=41 http://x.test/b>"
    failed = make(error=FAILED, final_url=None, url=None)
    assert repr(failed) == "<Result [connect_timeout] seq=41 >"
    assert len(repr(make(final_url="http://x/" + "a" * 5000))) < 200


def test_a_missing_field_is_none() -> None:
    bare = Result(b'{"schema":1,"seq":0,"elapsed":0.0}', b"")
    assert (bare.status_code, bare.url, bare.error, bare.proxy) == (None,) * 4
    assert bare.redirects == []
    assert len(bare.headers) == 0
    assert not bare.ok


@pytest.mark.parametrize("large", [1 << 70, [1 << 70], {"n": [-(1 << 70)]}])
@pytest.mark.parametrize("name", ["id", "meta"])
def test_large_integers_of_the_caller_s_come_back_as_they_were(
    name: str, large: Any
) -> None:
    assert getattr(make(**{name: large}), name) == large


def frame(seq: int, line: bytes, body: bytes, flag: int = 0) -> bytes:
    size = 20 + len(line) + len(body)
    return struct.pack("<IIQQ", size, len(line) | flag << 31, seq, 1) + line + body


def test_frames_are_taken_apart() -> None:
    lines = [(b'{"seq":%d}' % n, b"x" * (n * 7)) for n in range(5)]
    stream = b"".join(frame(1 << 40, *pair, flag=1) for pair in lines)
    results = list(parse_frames(stream))
    assert [(r.line, r.content) for r in results] == lines
    assert [(r.seq, r._provisional) for r in results] == [(1 << 40, True)] * 5
    assert list(parse_frames(b"")) == []


def test_seq_is_known_without_parsing() -> None:
    (result,) = parse_frames(frame(123, b"no JSON", b""))
    assert result.seq == 123
    assert not result._provisional


def test_seq_outlives_pickling() -> None:
    (result,) = parse_frames(frame(7, b'{"seq":7}', b""))
    assert pickle.loads(pickle.dumps(result)).seq == 7


def test_a_body_of_which_nothing_is_known_stands_in_the_line_as_base64() -> None:
    assert Result(b'{"seq":7}', b"\xff").ndjson() == b'{"seq":7,"body_base64":"/w=="}\n'
    assert Result(b"{}", b"abc").ndjson() == b'{"body_base64":"YWJj"}\n'
    assert Result(b'{"seq":7}', b"").ndjson() == b'{"seq":7}\n'


@pytest.mark.parametrize(
    "parts",
    [("{}", b""), (b"{}", "a"), (b"{}", None), (b"{", b""), (b"{}", b"", "")],
)
def test_what_is_no_record_makes_no_line(parts: Any) -> None:
    line, content, *form = parts
    with pytest.raises(TypeError):
        Result(line, content, 1, *form).ndjson()


@pytest.mark.parametrize("form", [0, 1, 5, 511, 1 << 31, (1 << 64) - 1])
def test_no_form_does_harm(form: int) -> None:
    line = Result(b"{}", b"abc\xff", 1, form).ndjson()
    assert json.loads(line).keys() <= {"body", "body_base64"}


@pytest.mark.parametrize(("status", "failed"), [(200, 0), (0, 1), (999, 1), (404, 0)])
def test_a_form_tells_status_and_error_without_parsing(
    status: int, failed: int
) -> None:
    form = 1 << 63 | failed << 62 | status << 48 | 1
    result = Result(b"no JSON", b"", 1, form)
    assert result.status_code == (status or None)
    if failed:
        with pytest.raises(jsonio.JsonDecodeError):
            _ = result.error
    else:
        assert result.error is None
        assert result.ok == (status < 400)
