"""Texts and regular expressions that an answer's body must not hold."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hardfetch.bodies import Expressions, parse_patterns, texts
from hardfetch.errors import OptionError
from hardfetch.options import Options
from hardfetch.retry import RetryPolicy


def test_texts_and_expressions_are_told_apart() -> None:
    given = ["é", b"b", "re:c", b"re:d", re.compile("e"), re.compile(b"f"), "é"]
    found = parse_patterns("retry_on_body", given)
    assert found == (
        "é".encode(), b"b", re.compile("c"), re.compile(b"d"), re.compile("e"),
        re.compile(b"f"), "é".encode(),
    )  # fmt: skip
    assert texts(found) == ["é".encode(), b"b"]
    assert Expressions(found)
    assert not Expressions(texts(found))
    assert parse_patterns("x", "one") == (b"one",)
    assert parse_patterns("x", re.compile("one")) == (re.compile("one"),)
    assert parse_patterns("x", "a re: in its midst") == (b"a re: in its midst",)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("re:(", "is no regular expression"),
        (b"re:[z-a]", "is no regular expression"),
        ("re:a{99999999999999999999}", "is no regular expression"),
        ("", "give text without NUL, re:REGEX, or a compiled"),
        ([b"a\0b"], "give text"),
        ([5], "5 is not allowed"),
        (["a"] * 65, "at most 64"),
    ],
)
def test_wrong_ones_are_refused_with_their_name(wrong: Any, why: str) -> None:
    with pytest.raises(OptionError, match=f"^retry_on_body: .*{re.escape(why)}"):
        Options.build(retry_on_body=wrong)


def test_text_is_seen_as_utf_8_and_bytes_as_they_are() -> None:
    text = Expressions([re.compile("^\\w+ ü$")])
    assert text.match("größe ü".encode())
    assert not text.match("größe ü".encode("latin-1"))
    assert Expressions([re.compile("\ufffd")]).match(b"cut in a character \xc3")
    raw = Expressions([re.compile(rb"\xff\x00")])
    assert raw.match(b"a\xff\x00b")
    assert not raw.match("ÿ\0".encode())


def test_those_of_a_policy_and_of_the_option_are_joined() -> None:
    mine, other = re.compile("mine"), re.compile("other")
    policy = RetryPolicy(retry_on_body=[mine, b"text"])
    options = Options.build(retry=policy, retry_on_body=[other])
    assert options.retry_on_body == (mine, b"text", other)
    assert options == Options.build(retry=policy, retry_on_body=[other])
