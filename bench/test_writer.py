"""NdjsonWriter beside what crawlers use instead."""

from __future__ import annotations

from typing import Any

import writers


def test_many_threads_write_several_times_as_fast(benchmark: Any) -> None:
    found, micros = benchmark.pedantic(
        writers.rates, args=(8, 400_000, 5), rounds=1, iterations=1
    )
    benchmark.extra_info.update({name: round(rate) for name, rate in found.items()})
    # All eight threads share one core's worth here, the others wait for their locks: a
    # machine that is busy with other work slows this one most.
    assert found["NdjsonWriter"] >= 6 * found["lock"], (found, micros)
    assert found["NdjsonWriter"] >= 3 * found["queue"], found
