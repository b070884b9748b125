"""What `retry_on_body` looks for: texts, which the core finds, and regular expressions.

Each answer that has a body goes to the policy thread where there are expressions: they
are Python's. They see its first 64 KiB, and one that backtracks without end holds up
policy, so give plain ones.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

from hardfetch import values
from hardfetch.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable

    Pattern: TypeAlias = bytes | re.Pattern[str] | re.Pattern[bytes]

__all__ = ["Expressions", "parse_patterns", "texts"]

_MOST = 64
_PREFIX = "re:"


def parse_patterns(name: str, value: Any) -> tuple[Pattern, ...]:
    """Return what an option gives: texts as bytes, and compiled expressions.

    Text that begins with "re:" is an expression. Raises OptionError.
    """
    given = [value] if isinstance(value, (str, bytes, re.Pattern)) else list(value)
    if len(given) > _MOST:
        raise OptionError(f"{name}: {len(given)} texts; give at most {_MOST}")
    return tuple(_parse(name, item) for item in given)


def _parse(name: str, item: Any) -> Pattern:
    if isinstance(item, re.Pattern):
        return item
    prefix: Any = _PREFIX.encode() if isinstance(item, bytes) else _PREFIX
    if isinstance(item, (str, bytes)) and item.startswith(prefix):
        try:
            return re.compile(item[len(prefix) :])
        except (re.error, OverflowError, RecursionError) as exc:
            raise OptionError(
                f"{name}: {values.shown(item)} is no regular expression: {exc}"
            ) from None
    text = item.encode() if isinstance(item, str) else item
    if not isinstance(text, bytes) or not text or b"\0" in text:
        raise OptionError(
            f"{name}: {values.shown(item)} is not allowed; give text without NUL, "
            "re:REGEX, or a compiled expression"
        )
    return text


def texts(patterns: Iterable[Pattern]) -> list[bytes]:
    """Return those that the core finds by itself, each once."""
    return [one for one in dict.fromkeys(patterns) if not isinstance(one, re.Pattern)]


class Expressions:
    """The compiled ones among patterns."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        found = [one for one in dict.fromkeys(patterns) if isinstance(one, re.Pattern)]
        self._bytes = [one.search for one in found if isinstance(one.pattern, bytes)]
        self._text = [one.search for one in found if isinstance(one.pattern, str)]

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._bytes or self._text)

    def match(self, body: bytes) -> bool:
        """Tell whether one is found in the start of a body.

        Those of text see it as UTF-8, with U+FFFD for what is none.
        """
        if any(search(body) for search in self._bytes):
            return True
        if not self._text:
            return False
        text = body.decode("utf-8", "replace")
        return any(search(text) for search in self._text)
