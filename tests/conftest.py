"""Every Result of every test is held against the record's schema."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hardfetch import frames
from hardfetch.record import Result

pytest.register_assert_rewrite("strict", "truth")


@pytest.fixture(autouse=True)
def _results_fit_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    import strict  # not before its asserts are rewritten

    original = frames.parse_frames

    def checked(data: bytearray) -> Iterator[Result]:
        for result in original(data):
            strict.check(strict.parse(result._line))
            yield result

    monkeypatch.setattr(frames, "parse_frames", checked)
