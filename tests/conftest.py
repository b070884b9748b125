"""What many tests fetch from and with. Every Result is held against the schema."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from hardfetch import Fetcher, frames
from hardfetch.record import Result
from hardfetch.testing import FaultSite

pytest.register_assert_rewrite("strict", "truth")

# A shell ignores it for what it starts in the background, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


# No case of a property has a bound in time: a busy machine would break it.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


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


@pytest.fixture(scope="module")
def site() -> Iterator[FaultSite]:
    with FaultSite() as running:
        yield running


@pytest.fixture
def fetcher() -> Iterator[Fetcher]:
    with Fetcher(timeout=10) as made:
        yield made
