"""The exception tree and its table."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from hardfetch import errors
from hardfetch.record import Error

ERR_H = (Path(__file__).parents[1] / "csrc" / "err.h").read_text()


def types_of_the_core() -> list[str]:
    found = re.findall(r'X\([A-Z0-9_]+,\s+"([a-z0-9_]*)"\)', ERR_H)
    assert found[0] == ""
    return found[1:]


def test_every_type_of_the_core_has_its_class_in_the_same_order() -> None:
    # The order matters: hf_stats counts by number, and Stats names by this table.
    assert list(errors.TYPE_CLASSES) == types_of_the_core()


def test_every_public_class_is_below_the_root_and_in_the_picture() -> None:
    for name, thing in vars(errors).items():
        if isinstance(thing, type) and thing.__module__ == errors.__name__:
            assert issubclass(thing, errors.HardfetchError), name
            assert re.search(rf"\b{name}\b", errors.__doc__ or ""), name


def test_the_picture_shows_the_real_bases() -> None:
    stack: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"    ((?:[│├└─ ]{4})*)([A-Z]\w+)(?: \((\w+)\))?", line)
        if match is None:
            continue
        depth = len(match[1]) // 4
        cls = getattr(errors, match[2])
        if depth:
            assert issubclass(cls, getattr(errors, stack[depth - 1])), line
        if match[3]:
            assert match[3] in {base.__name__ for base in cls.__mro__}, line
        stack[depth:] = [match[2]]


@pytest.mark.parametrize("name", [n for n in errors.TYPE_CLASSES if "timeout" in n])
def test_every_timeout_is_a_timeout_error(name: str) -> None:
    cls = errors.error_class(name)
    assert {TimeoutError, errors.Timeout} <= set(cls.__mro__)


def test_a_type_of_a_later_version_is_still_a_fetch_error() -> None:
    assert errors.error_class("quantum_error") is errors.FetchError


@pytest.mark.parametrize("cls", sorted({*errors.TYPE_CLASSES.values()}, key=str))
def test_fetch_errors_survive_pickle_with_what_they_carry(
    cls: type[errors.FetchError],
) -> None:
    error = Error("timeout", "site", "body", "too slow")
    back = pickle.loads(pickle.dumps(cls("too slow (http://x/)", error)))
    assert type(back) is cls
    assert str(back) == "too slow (http://x/)"
    assert back.error == error


def test_a_sink_error_keeps_errno_and_name() -> None:
    error = errors.SinkError(28, "No space left on device", "out.ndjson")
    assert error.errno == 28
    assert "out.ndjson" in str(error)
    assert isinstance(error, OSError)
