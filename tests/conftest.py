"""Every Result of every test is held against the record's schema."""

from __future__ import annotations

import signal

import pytest

from hardfetch import frames
from hardfetch.record import Result

pytest.register_assert_rewrite("strict", "truth")

# A shell ignores it for what it starts in the background, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _results_fit_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    import strict  # not before its asserts are rewritten

    original = frames.parse_frames

    def checked(data: frames.Bytes) -> list[Result]:
        results = original(data)
        for result in results:
            strict.check(strict.parse(result._line))
        return results

    monkeypatch.setattr(frames, "parse_frames", checked)
