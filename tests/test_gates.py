"""How long a host's whole queue waits after a refusal."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hardfetch.gates import Gates
from hardfetch.outcome import Failure

HOST = "site:80"


def refusal(elapsed: float = 0.1, **more: Any) -> Failure:
    return Failure(seq=0, host=HOST, status=429, elapsed=elapsed, **more)


def test_a_gate_waits_longer_each_time_its_probe_is_refused() -> None:
    gates = Gates(base=1.0, cap=60.0, rng=random.Random(1))
    now, waits = 100.0, []
    for n in range(10):
        order = gates.close(refusal(probe=n > 0), now, 300.0)
        assert order is not None
        waits.append(order.wait)
        now = order.until + 0.2
    for n, wait in enumerate(waits):
        full = min(60.0, 2.0**n)
        assert full / 2 <= wait <= full


def test_a_gate_that_opened_well_starts_anew() -> None:
    gates = Gates(rng=random.Random(1))
    now = 0.0
    for n in range(5):
        order = gates.close(refusal(probe=n > 0), now, 300.0)
        assert order is not None
        now = order.until + 0.2
    order = gates.close(refusal(), now + 1000.0, 300.0)
    assert order is not None
    assert order.wait <= 1.0


def test_refusals_of_one_moment_close_a_gate_once() -> None:
    gates = Gates(rng=random.Random(1))
    first = gates.close(refusal(), 10.0, 300.0)
    assert first is not None
    for n in range(1, 8):
        assert gates.close(refusal(elapsed=0.1 + n / 100), 10 + n / 100, 300.0) is None
    longer = gates.close(refusal(elapsed=0.5, retry_after=30.0), 10.4, 300.0)
    assert longer is not None
    assert longer.wait >= 30.0
    assert gates.until(HOST) == longer.until


@pytest.mark.parametrize("asked", [None, 0.0, 1.0, 7.0, 1e12, -5.0])
def test_a_gate_holds_for_retry_after_within_bounds(asked: float | None) -> None:
    gates = Gates(base=1.0, rng=random.Random(1))
    order = gates.close(refusal(retry_after=asked), 10.0, 300.0)
    assert order is not None
    assert order.wait >= 0.5
    assert order.wait >= min(asked or 0.0, 300.0)
    assert order.wait <= 330.0


def test_gates_are_bounded() -> None:
    gates = Gates(max_hosts=10)
    for n in range(100):
        gates.close(Failure(seq=n, host=f"h{n}", status=503), 1.0, 300.0)
    assert len(gates._gates) == 10
