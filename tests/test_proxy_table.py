"""The pool as a table: replaced while in use, mirrored by the compiled side."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hardfetch.proxies import Choice, PoolOptions, ProxyPool

HOST = "site:80"


def pool_of(count: int, **options: Any) -> ProxyPool:
    lines = [f"http://user{n}:s3cret@p{n}:8080" for n in range(count)]
    return ProxyPool(lines, PoolOptions(**options), random.Random(1))


def chosen(pool: ProxyPool, now: float = 0.0, **more: Any) -> int:
    found = pool.choose(HOST, now, **more)
    assert isinstance(found, Choice)
    return found.number


def prove(pool: ProxyPool, now: float = 0.0, latency: float = 0.1) -> None:
    for line in pool.health(now):
        pool.succeeded(line.number, "other:80", latency, now)


def fail(pool: ProxyPool, number: int, now: float, times: int = 3) -> None:
    for _ in range(times):
        pool.failed(number, f"h{times}:80", 0.01, now)


def test_a_reload_keeps_the_health_of_those_who_stay() -> None:
    pool = ProxyPool(["http://u:s3cret@a:1", "b:1"])
    pool.take_rows()
    fail(pool, 0, 1.0)
    pool.replace(["http://u:s3cret@a:1 weight=2", "c:1"], 2.0)
    rows = {row.number: row for row in pool.take_rows()}
    assert rows[0].state == "benched"
    assert rows[0].weight == 2.0
    assert rows[1].state == "gone"
    assert rows[2].state == "up"
    assert pool.take_rows() == ()
    pool.failed(1, HOST, 0.1, 3.0)  # late news of one that is gone
    assert len(pool) == 2
    with pytest.raises(ValueError, match="line 2"):
        pool.replace(["a:1", "nonsense"], 3.0)
    assert len(pool) == 2


def test_other_credentials_are_another_exit() -> None:
    pool = ProxyPool(["http://u:s3cret@a:1"])
    pool.replace(["http://u:other@a:1"], 1.0)
    states = [row.state for row in pool.take_rows()]
    assert states == ["gone", "up"]


def test_rows_tell_what_the_compiled_side_has_to_know() -> None:
    pool = pool_of(2)
    assert [row.state for row in pool.take_rows()] == ["up", "up"]
    fail(pool, 1, 1.0)
    (row,) = pool.take_rows()
    assert (row.number, row.state) == (1, "benched")
    assert 31.0 <= row.until <= 34.0
    pool.succeeded(1, HOST, 0.1, 40.0)
    (row,) = pool.take_rows()
    assert (row.number, row.state, row.until) == (1, "up", 0.0)


def test_counts_of_the_compiled_side_are_taken_over() -> None:
    pool = pool_of(2)
    prove(pool)
    pool.observe(0, 500, 0.1, 1.0)
    assert {chosen(pool, 1.0) for _ in range(20)} == {1}


def test_a_large_pool_costs_no_more_per_choice() -> None:
    draws = 0

    class Counting(random.Random):
        def random(self) -> float:
            nonlocal draws
            draws += 1
            return super().random()

    pool = ProxyPool((f"p{n}:80" for n in range(10_000)), rng=Counting(1))
    prove(pool)
    draws = 0
    for _ in range(100):
        chosen(pool)
    assert draws <= 300
