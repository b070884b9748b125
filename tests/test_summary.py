"""Counters and what they amount to."""

from __future__ import annotations

import types

import pytest

from hardfetch import jsonio
from hardfetch.summary import TYPE_NAMES, Stats, Summary


def stats(**changes: object) -> Stats:
    by_type = [0] * 48
    by_type[TYPE_NAMES.index("timeout")] = 3
    by_type[0] = 7
    overrun = [0] * 128
    overrun[3 * 4 + 1], overrun[9 * 4 + 2] = 99, 1  # 10 to 12 us, 768 to 896 us
    defaults: dict[str, object] = {
        "inputs": 10,
        "records": 10,
        "by_class": (3, 0, 5, 0, 2, 0),
        "by_type": tuple(by_type),
        "overrun": tuple(overrun),
        "overrun_max": 0.0009,
        "deadlines_fired": 100,
    }
    return Stats(**{**defaults, **changes})  # type: ignore[arg-type]


def test_counts_are_named_and_zeros_left_out() -> None:
    assert stats().errors() == {"timeout": 3}
    assert stats().statuses() == {"none": 3, "2xx": 5, "4xx": 2}


def test_quantiles_are_upper_bounds_of_buckets_and_never_above_the_maximum() -> None:
    assert stats().overrun_quantile(0.5) == pytest.approx(12e-6)
    assert stats().overrun_quantile(0.99) == pytest.approx(12e-6)
    assert stats().overrun_quantile(1.0) == pytest.approx(0.000896)
    assert Stats().overrun_quantile(0.99) == 0.0


def test_a_summary_is_json_and_adds_up() -> None:
    summary = Summary.of(stats(), elapsed=2.0, cpu=0.5, interrupted=False)
    assert summary.ok == 7
    out = jsonio.loads(jsonio.dumps(summary.to_dict()))
    assert out["inputs"] == out["records"] == 10
    assert out["statuses"] == {"none": 3, "2xx": 5, "4xx": 2}
    assert out["errors"] == {"timeout": 3}
    assert out["overrun"]["max"] == pytest.approx(0.0009)
    assert out["elapsed"] == 2.0
    assert out["ring"]["lost_wakeups"] == 0


def test_stats_are_read_from_the_cores_struct() -> None:
    raw = types.SimpleNamespace(
        **{
            name: 5
            for name in Stats.__dataclass_fields__
            if name not in ("overrun_max", "stalled", "stalled_call")
        }
    )
    raw.overrun_max, raw.stalled_us = 1500, 250_000
    raw.stalled_call = [b"a", b"b", b"\0", b"x"]
    raw.by_class, raw.by_type, raw.overrun = [1] * 6, [0] * 48, [0] * 32
    made = Stats.of(raw)
    assert made.inputs == 5
    assert made.stalled_call == "ab"
    assert (made.overrun_max, made.stalled) == (0.0015, 0.25)
