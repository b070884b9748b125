"""CPU per request beside others on the same machine in the same minute.

Ratios are asserted, never times: both sides of one are measured in turn, round by
round, so that whatever else the machine does falls on both.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
from clients import Cost, Place, measure
from compare import sites
from workloads import WORKLOADS, Workload

if TYPE_CHECKING:
    from servers import Site

ROUNDS = 5
BY_NAME = {work.name: work for work in WORKLOADS}


class Pair:
    """hardfetch and another client in turn, on one workload."""

    def __init__(self, work: Workload, other: str, site: Site, place: Place) -> None:
        self.work = replace(work, count=work.count // 2)
        self.names = ("hardfetch", other)
        self.site = site
        self.place = place
        self.base = {name: self.cpu(name, 1) for name in self.names for _ in range(2)}
        self.micros: dict[str, list[float]] = {name: [] for name in self.names}

    def cpu(self, name: str, n: int) -> float:
        cost: Cost = measure(name, self.work, self.site, self.place, n)
        return cost.cpu

    def round(self) -> None:
        for name in self.names:
            n = self.work.number(name)
            taken = self.cpu(name, n) - self.base[name]
            self.micros[name].append(taken / n * 1e6)

    def ratio(self) -> float:
        """Return the median over the rounds of ours by theirs."""
        ours, theirs = (self.micros[name] for name in self.names)
        return median(a / b for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize(
    ("workload", "other", "most"),
    [
        ("1k", "curl_cffi", 1 / 4),
        ("30k", "curl_cffi", 1 / 4),
        ("1k", "floor", 2.0),
        ("30k", "floor", 2.2),
        ("1k", "pycurl", 1.0),
        ("30k", "pycurl", 1.0),
    ],
)
def test_a_request_costs_at_most_a_share_of_what_it_does_elsewhere(
    benchmark: Any,
    workload: str,
    other: str,
    most: float,
    site: Site | None,
    place: Place,
) -> None:
    with sites(BY_NAME[workload], site, place) as served:
        assert served is not None
        pair = Pair(BY_NAME[workload], other, served, place)
        benchmark.pedantic(pair.round, rounds=ROUNDS, iterations=1)
    for name in pair.names:
        benchmark.extra_info[f"{name} us/request"] = round(median(pair.micros[name]), 1)
    benchmark.extra_info["ratio"] = round(pair.ratio(), 3)
    assert pair.ratio() <= most, pair.micros
