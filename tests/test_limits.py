"""Limits per host: values, patterns and their file."""

from __future__ import annotations

import json
import math
import sys

import pytest

from hardfetch.limits import Limits, LimitTable, parse_limits, parse_rate


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("5/s", 5.0),
        ("30/m", 0.5),
        ("36/h", 0.01),
        ("1/10s", 0.1),
        ("2.5 / s", 2.5),
        ("7", 7.0),
        (3, 3.0),
    ],
)
def test_a_rate_is_read(text: object, rate: float) -> None:
    assert parse_rate(text) == pytest.approx(rate)


@pytest.mark.parametrize(
    "text",
    ["0/s", "-1/s", "5/x", "", "s", "5/0s", 0, -1, True, None, math.nan, "1e3/s"],
)
def test_what_is_no_rate(text: object) -> None:
    with pytest.raises(ValueError, match="rate: "):
        parse_rate(text)


CONFIG = {
    "default": {"max_per_host": 4},
    "host": [
        {"match": "api.example.com:8443", "rate": "30/m"},
        {"match": ["*.example.com", "example.com"], "delay": 1, "adaptive": True},
        {"match": "*", "breaker_failures": 5},
    ],
}

TOML = """\
[default]
max_per_host = 4
[[host]]
match = "api.example.com:8443"
rate = "30/m"
[[host]]
match = ["*.example.com", "example.com"]
delay = 1
adaptive = true
[[host]]
match = "*"
breaker_failures = 5
"""


def test_the_first_pattern_that_matches_holds() -> None:
    table = parse_limits(json.dumps(CONFIG), default=Limits(max_per_host=2, delay=0.5))
    api = table.lookup("api.example.com:8443")
    assert (api.rate, api.max_per_host, api.delay) == (0.5, 4, 0.5)
    assert table.lookup("api.example.com:443").adaptive
    assert table.lookup("EXAMPLE.com:80").delay == 1.0
    other = table.lookup("[::1]:80")
    assert (other.breaker_failures, other.delay, other.adaptive) == (5, 0.5, False)
    assert table.lookup("notexample.com:80").breaker_failures == 5
    assert [row.with_port for row in table.rows] == [True, False, False, False]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is of 3.11")
def test_toml_says_the_same_as_json() -> None:
    toml, same = parse_limits(TOML, "x.toml"), parse_limits(json.dumps(CONFIG))
    assert toml.rows == same.rows
    assert toml.default == same.default


@pytest.mark.skipif(sys.version_info >= (3, 11), reason="tomllib is of 3.11")
def test_toml_on_an_old_python_is_refused_in_plain_words() -> None:
    with pytest.raises(ValueError, match="JSON"):
        parse_limits(TOML, "x.toml")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"hosts": []}, "only"),
        ({"host": {}}, "list"),
        ({"host": [1]}, "host 1"),
        ({"host": [{"rate": "5/s"}]}, "match"),
        ({"host": [{"match": "http://x/"}]}, "pattern"),
        ({"host": [{"match": []}]}, "match"),
        ({"host": [{"match": "x", "rat": "5/s"}]}, "rat: unknown"),
        ({"host": [{"match": "x", "rate": "0/s"}]}, "host 1: rate"),
        ({"host": [{"match": "x", "max_per_host": -1}]}, "host 1"),
        ({"host": [{"match": "x", "max_per_host": 1.5}]}, "whole"),
        ({"host": [{"match": "x", "adaptive": 1}]}, "true nor false"),
        ({"default": {"delay": "1s"}}, "default: delay"),
        ([], "only"),
    ],
)
def test_a_wrong_file_is_refused_by_name_and_entry(config: object, said: str) -> None:
    with pytest.raises(ValueError, match=r"limits\.json: ") as caught:
        parse_limits(json.dumps(config), "limits.json")
    assert said in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match=r"limits\.json: "):
        parse_limits("{", "limits.json")


def test_lookups_are_remembered_within_bounds() -> None:
    rows = parse_limits(json.dumps(CONFIG)).rows
    table = LimitTable(rows=rows, max_hosts=10)
    for n in range(100):
        table.lookup(f"h{n}.example.com:80")
    assert len(table._known) == 10
