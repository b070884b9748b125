"""The rate that a host bears, found by asking."""

from __future__ import annotations

import pytest

from hardfetch.adaptive import AdaptiveRate


def test_good_answers_raise_the_rate_and_refusals_cut_it() -> None:
    rate = AdaptiveRate(start=2.0)
    for n in range(100):
        rate.answered(0.1, n * 0.5, limited=True)
    high = rate.rate
    assert high > 4.0
    rate.complained(49.9, 50.0)
    assert rate.rate < 0.7 * high
    cut = rate.rate
    rate.complained(49.95, 50.1)  # had left before the cut
    assert rate.rate == cut
    rate.complained(51.0, 51.1)
    assert 0.8 * cut < rate.rate < 0.95 * cut


def test_a_rate_that_does_not_hold_anybody_back_is_not_raised() -> None:
    rate = AdaptiveRate(start=2.0)
    for n in range(1000):
        rate.answered(0.1, float(n), limited=False)
    assert rate.rate == 2.0


def test_growing_latency_cuts_the_rate() -> None:
    rate = AdaptiveRate(start=2.0)
    for n in range(200):
        rate.answered(0.1, n * 0.1, limited=True)
    before = rate.rate
    for n in range(30):
        rate.answered(2.0, 20 + n * 0.1, limited=True)
    assert rate.rate < before


def test_the_rate_stays_within_its_bounds() -> None:
    rate = AdaptiveRate(maximum=5.0, start=2.0)
    for n in range(1000):
        rate.answered(0.1, n * 0.5, limited=True)
    assert rate.rate == 5.0
    for n in range(1000):
        rate.complained(1000.0 + n, 1000.5 + n)
    assert rate.rate == pytest.approx(AdaptiveRate.MINIMUM)
