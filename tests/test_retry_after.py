"""The Retry-After header, which servers fill with anything."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from hardfetch.retry_after import parse_http_date, parse_retry_after

WALL = 784111777.0  # Sun, 06 Nov 1994 08:49:37 GMT
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.mark.parametrize(
    ("values", "wait"),
    [
        (["-5"], None),
        (["0"], 0.0),
        (["1"], 1.0),
        (["1.5"], 1.5),
        ([" 2 "], 2.0),
        (["+3"], None),
        (["9999999999"], 300.0),
        (["9" * 400], 300.0),
        (["Sun, 06 Nov 1994 08:49:38 GMT"], 1.0),
        (["Sun, 06 Nov 1994 08:49:36 GMT"], 0.0),
        (["Sun, 06 Nov 2094 08:49:36 GMT"], 300.0),
        (["soon"], None),
        (["1", "4"], 4.0),
        (["4", "1"], 4.0),
        (["soon", "3"], 3.0),
        ([""], None),
        ([], None),
        (["1e3"], None),
        (["0x10"], None),
        (["1 2"], None),
        (["1,2"], None),
        (["inf"], None),
        (["nan"], None),
        (["\u0663"], None),
        ([".5"], None),
        (["1."], None),
    ],
)
def test_retry_after_is_read_without_trust(
    values: list[str], wait: float | None
) -> None:
    assert parse_retry_after(values, wall_now=WALL, date=DATE, cap=300.0) == wait


@pytest.mark.parametrize("skew", [-1e6, -3600.0, 0.0, 3600.0, 1e6])
def test_a_date_is_measured_by_the_servers_own_clock(skew: float) -> None:
    asked = ["Sun, 06 Nov 1994 08:49:38 GMT"]
    assert parse_retry_after(asked, wall_now=WALL + skew, date=DATE) == 1.0


def test_without_a_usable_date_header_our_clock_has_to_do() -> None:
    asked = ["Sun, 06 Nov 1994 08:49:47 GMT"]
    for date in (None, "", "soon", "Sun, 99 Nov 1994 08:49:37 GMT"):
        assert parse_retry_after(asked, wall_now=WALL, date=date) == 10.0


@pytest.mark.parametrize(
    "text",
    [
        DATE,
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        f"  {DATE}\t",
    ],
)
def test_all_three_forms_of_a_date(text: str) -> None:
    assert parse_http_date(text, WALL) == WALL


@pytest.mark.parametrize(
    "text",
    [
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 25:49:37 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sun, 06 Xyz 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 CET",
        "1.5",
        "1994",
        "",
    ],
)
def test_what_is_no_date(text: str) -> None:
    assert parse_http_date(text, WALL) is None


@given(st.text(max_size=60), st.text(max_size=40), st.floats(0, 4e9))
def test_no_text_breaks_the_parser_or_leaves_the_range(
    value: str, date: str, wall: float
) -> None:
    wait = parse_retry_after([value], wall_now=wall, date=date, cap=100.0)
    assert wait is None or 0.0 <= wait <= 100.0
