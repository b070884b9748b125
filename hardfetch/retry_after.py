"""The ``Retry-After`` header (RFC 9110, 10.2.3), read without trust.

A value is whole or decimal seconds, or one of the three HTTP dates. Anything else is
junk and reads as absent, so that the normal back-off applies: a sign, words, empty. A
date is measured against the server's own ``Date`` where there is one, so that a wrong
clock on either side does not matter.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["parse_http_date", "parse_retry_after"]

_MONTHS = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_MONTH = r"(?P<b>[A-Z][a-z]{2})"
_TIME = r"(?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)"
_FORMS = tuple(
    re.compile(form, re.ASCII)
    for form in (
        # Sun, 06 Nov 1994 08:49:37 GMT
        rf"[A-Z][a-z]{{2}}, (?P<d>\d\d) {_MONTH} (?P<Y>\d{{4}}) {_TIME} GMT",
        # Sunday, 06-Nov-94 08:49:37 GMT
        rf"[A-Z][a-z]+, (?P<d>\d\d)-{_MONTH}-(?P<y>\d\d) {_TIME} GMT",
        # Sun Nov  6 08:49:37 1994
        rf"[A-Z][a-z]{{2}} {_MONTH} (?P<d>[ \d]\d) {_TIME} (?P<Y>\d{{4}})",
    )
)
# A decimal is not in the grammar, but what it means is beyond doubt and waiting for it
# is polite. 12 digits hold any sane wait and cannot overflow anything.
_SECONDS = re.compile(r"\d{1,12}(?:\.\d{1,9})?", re.ASCII)
_MANY_DIGITS = re.compile(r"\d{13,}(?:\.\d*)?", re.ASCII)
_MAX_VALUE = 1e12


def parse_http_date(text: str, wall_now: float = 0.0) -> float | None:
    """Return the seconds since 1970 of an HTTP date, None when it is not one.

    ``wall_now`` (seconds since 1970) settles the century of two-digit years: not more
    than 50 years ahead, as RFC 9110 asks.
    """
    text = text.strip(" \t")
    for form in _FORMS:
        match = form.fullmatch(text)
        if match is None:
            continue
        part = match.groupdict()
        if part["b"] not in _MONTHS:
            return None
        year = int(part["Y"]) if "Y" in part else _full_year(int(part["y"]), wall_now)
        second = min(int(part["S"]), 59)  # a leap second is legal
        try:
            moment = datetime(
                year,
                _MONTHS.index(part["b"]) + 1,
                int(part["d"]),
                int(part["H"]),
                int(part["M"]),
                second,
                tzinfo=timezone.utc,
            )
        except ValueError:
            return None
        return moment.timestamp()
    return None


def _full_year(two: int, wall_now: float) -> int:
    this = datetime.fromtimestamp(wall_now, timezone.utc).year
    year = this - this % 100 + two
    return year - 100 if year > this + 50 else year


def _parse_one(value: str, server_now: float) -> float | None:
    value = value.strip(" \t")
    if _SECONDS.fullmatch(value):
        return float(value)
    if _MANY_DIGITS.fullmatch(value):
        return _MAX_VALUE
    moment = parse_http_date(value, server_now)
    return None if moment is None else max(0.0, moment - server_now)


def parse_retry_after(
    values: Iterable[str],
    *,
    wall_now: float,
    date: str | None = None,
    cap: float = _MAX_VALUE,
) -> float | None:
    """Return the wait in seconds that a response asks for, in [0, cap].

    Args:
        values: the values of all ``Retry-After`` headers; of several, the longest
            usable one holds.
        wall_now: our wall clock, seconds since 1970.
        date: the response's ``Date``, by which a date is measured where it is usable.
        cap: seconds; longer wishes are cut to this.

    Returns:
        None when there is no usable value.
    """
    server_now = parse_http_date(date, wall_now) if date is not None else None
    if server_now is None:
        server_now = wall_now
    waits = [_parse_one(value, server_now) for value in values]
    usable = [wait for wait in waits if wait is not None]
    return min(max(usable), cap) if usable else None
