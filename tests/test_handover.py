"""The compiled lines between threads that write and the one that drains them."""

from __future__ import annotations

import gc
import math
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from hardfetch import jsonio
from hardfetch.handover import LOOK, ODD, SEALED, Lines

NAN = float("nan")
ODDITIES: list[Any] = [
    *(NAN, {"a": [NAN]}, [None, {"b": -math.inf}], (None,), Path),
    *(1 << 70, b"{}", object()),
]


class Helper:
    """Notes what it is called for."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, Any]] = []

    def __call__(self, what: int, obj: Any) -> None:
        self.calls.append((what, obj))


def make() -> tuple[Lines, Helper]:
    helper = Helper()
    lines = Lines(*jsonio.line_dumper(), helper)
    lines.look(1 << 40)
    return lines, helper


def taken(lines: Lines) -> bytes:
    view = lines.take()
    return b"" if view is None else bytes(view)


def test_what_is_written_is_taken_once_in_order() -> None:
    lines, helper = make()
    lines.write({"a": "é"})
    lines.put(b"2\n3\n")
    assert taken(lines) == '{"a":"é"}\n2\n3\n'.encode()
    lines.write(4)
    assert taken(lines) == b"4\n"
    assert taken(lines) == b""
    assert lines.total() == 17
    assert helper.calls == []


@pytest.mark.parametrize(
    "obj", [None, {"a": [None, 1.5, True], "b": {}, "c": "x", "d": 7}, "null", [[]]]
)
def test_nulls_that_are_no_floats_are_written(obj: Any) -> None:
    lines, helper = make()
    lines.write(obj)
    assert helper.calls == []
    assert jsonio.loads(taken(lines)) == obj


@pytest.mark.parametrize("obj", ODDITIES)
def test_what_may_not_be_json_goes_to_the_helper(obj: Any) -> None:
    lines, helper = make()
    lines.write(obj)
    assert [(what, id(o)) for what, o in helper.calls] == [(ODD, id(obj))]
    assert taken(lines) == b""


def test_the_helper_is_asked_from_a_size_on() -> None:
    lines, helper = make()
    lines.look(6)
    lines.write(1)
    lines.write(22)
    assert helper.calls == []
    lines.write(3)
    lines.write(4)
    assert helper.calls == [(LOOK, None)] * 2
    assert taken(lines) == b"1\n22\n3\n4\n"
    lines.write(5)
    assert len(helper.calls) == 2


def test_sealed_lines_refuse_and_keep_what_they_have() -> None:
    lines, helper = make()
    lines.write(1)
    lines.seal()
    lines.write(2)
    lines.put(b"3\n")
    assert helper.calls == [(SEALED, None)] * 2
    assert taken(lines) == b"1\n"
    assert lines.total() == 2


def test_what_the_helper_raises_is_raised() -> None:
    def helper(*call: object) -> None:
        raise KeyError(call)

    lines = Lines(*jsonio.line_dumper(), helper)  # looks at each line
    with pytest.raises(KeyError):
        lines.write(1)
    assert taken(lines) == b"1\n"
    with pytest.raises(TypeError):
        lines.put("text")  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        lines.look(-1)


def test_an_encoder_s_other_errors_pass() -> None:
    def dumps(obj: Any, *_: object) -> bytes:
        raise obj

    lines = Lines(dumps, None, Helper())
    with pytest.raises(ZeroDivisionError):
        lines.write(ZeroDivisionError())
    assert taken(lines) == b""


def test_a_large_burst_is_taken_whole_and_its_memory_given_back() -> None:
    lines, _ = make()
    for n in range(100_000):
        lines.write([n, "x" * 30])
    found = taken(lines).splitlines()
    assert len(found) == 100_000
    assert found[-1].startswith(b"[99999,")
    assert taken(lines) == b""
    lines.write(1)
    assert taken(lines) == b"1\n"


def test_threads_lose_nothing_while_one_takes() -> None:
    lines, _ = make()

    def work(k: int) -> None:
        for n in range(20_000):
            lines.write([k, n])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        out = b""
        while any(thread.is_alive() for thread in threads):
            out += taken(lines)
    finally:
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()
    out += taken(lines)
    assert lines.total() == len(out)
    found = [jsonio.loads(line) for line in out.splitlines()]
    for k in range(4):
        assert [n for thread, n in found if thread == k] == list(range(20_000))


def test_nothing_is_kept_alive() -> None:
    lines, helper = make()
    lines.write(1)
    view = lines.take()
    gone = weakref.ref(helper)
    del view, lines, helper
    gc.collect()
    assert gone() is None


def test_objects_are_not_leaked() -> None:
    lines, _ = make()
    record = {"text": "x"}
    odd = object()
    before = sys.getrefcount(record), sys.getrefcount(odd), sys.getrefcount(None)
    for _ in range(1000):
        lines.write(record)
        lines.take()
    forgetful = Lines(*jsonio.line_dumper(), lambda *_: None)
    for _ in range(1000):
        forgetful.write(odd)
    after = sys.getrefcount(record), sys.getrefcount(odd), sys.getrefcount(None)
    assert after[:2] == before[:2]
    assert abs(after[2] - before[2]) < 500
