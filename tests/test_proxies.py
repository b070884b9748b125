"""Which exit is used, which is left alone, and what is never shown."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hardfetch.classify import Mark
from hardfetch.proxies import Choice, NoExit, PoolOptions, ProxyPool

SECRETS = ("s3cret", "hunter2")
HOST = "site:80"


def pool_of(count: int, **options: Any) -> ProxyPool:
    lines = [f"http://user{n}:s3cret@p{n}:8080" for n in range(count)]
    return ProxyPool(lines, PoolOptions(**options), random.Random(1))


def chosen(pool: ProxyPool, now: float = 0.0, **more: Any) -> int:
    found = pool.choose(HOST, now, **more)
    assert isinstance(found, Choice)
    return found.number


def spread(pool: ProxyPool, now: float, host: str = HOST, count: int = 300) -> set[int]:
    """Return the exits over which many requests at once are spread."""
    numbers = []
    for _ in range(count):
        found = pool.choose(host, now)
        assert isinstance(found, Choice)
        pool.start(found.number, now)
        numbers.append(found.number)
    for number in numbers:
        pool.end(number)
    return set(numbers)


def prove(pool: ProxyPool, now: float = 0.0, latency: float = 0.1) -> None:
    for line in pool.health(now):
        pool.succeeded(line.number, "other:80", latency, now)


def fail(pool: ProxyPool, number: int, now: float, times: int = 3) -> None:
    for _ in range(times):
        pool.failed(number, f"h{times}:80", 0.01, now)


def state(pool: ProxyPool, number: int, now: float) -> str:
    return next(line.state for line in pool.health(now) if line.number == number)


def test_no_text_of_the_pool_holds_credentials() -> None:
    pool = pool_of(3)
    fail(pool, 0, 1.0)
    rows = pool.take_rows()
    shown = [
        repr(pool),
        repr(rows),
        repr(pool.health(1.0)),
        repr(pool.choose(HOST, 1.0)),
    ]
    assert all(secret not in text for text in shown for secret in (*SECRETS, "user0"))
    assert "s3cret" in rows[0].url


# Choosing


def test_load_spreads_over_all_exits() -> None:
    pool = pool_of(10)
    prove(pool)
    counts: Counter[int] = Counter()
    for _ in range(1000):
        number = chosen(pool)
        pool.start(number, 0.0)
        counts[number] += 1
    assert len(counts) == 10
    assert max(counts.values()) < 1.3 * min(counts.values())


def test_the_faster_of_two_is_used_more() -> None:
    pool = pool_of(2)
    pool.succeeded(0, HOST, 0.1, 0.0)
    pool.succeeded(1, HOST, 1.0, 0.0)
    counts: Counter[int] = Counter()
    for _ in range(110):
        number = chosen(pool)
        pool.start(number, 0.0)
        counts[number] += 1
    assert counts[0] == 100
    assert counts[1] == 10


def test_latency_rises_at_once_and_falls_slowly() -> None:
    pool = pool_of(2)
    pool.succeeded(0, HOST, 0.1, 0.0)
    pool.succeeded(0, HOST, 5.0, 1.0)
    assert pool.health(1.0)[0].latency == 5.0
    pool.succeeded(0, HOST, 0.1, 2.0)
    assert 4.0 < pool.health(2.0)[0].latency < 5.0
    pool.succeeded(0, HOST, 0.1, 100.0)
    assert pool.health(100.0)[0].latency < 0.2


def test_weights_divide_the_load() -> None:
    pool = ProxyPool(["a:1 weight=3", "b:1"], rng=random.Random(2))
    prove(pool)
    counts: Counter[int] = Counter()
    for _ in range(400):
        number = chosen(pool)
        pool.start(number, 0.0)
        counts[number] += 1
    assert counts[0] == pytest.approx(300, abs=5)


def test_an_exit_that_never_answered_gets_few_requests() -> None:
    pool = pool_of(5, unproven_limit=4)
    for _ in range(20):
        pool.start(chosen(pool), 0.0)
    assert pool.choose(HOST, 0.0) == NoExit(math.inf)
    assert {line.in_flight for line in pool.health(0.0)} == {4}
    pool.end(2)
    pool.succeeded(2, HOST, 0.1, 0.1)
    for _ in range(50):
        pool.start(chosen(pool, 0.1), 0.1)
    assert max(line.in_flight for line in pool.health(0.1)) == 53


def test_the_only_exit_is_neither_limited_nor_benched() -> None:
    pool = pool_of(1)
    for _ in range(100):
        pool.start(chosen(pool), 0.0)
    fail(pool, 0, 1.0, times=50)
    assert chosen(pool, 1.0) == 0


def test_the_cheap_tier_is_used_while_it_lives() -> None:
    pool = ProxyPool(["a:1", "b:1", "c:1 tier=2", "d:1 tier=1"], rng=random.Random(3))
    prove(pool)
    assert {chosen(pool) for _ in range(50)} == {0, 1}
    assert {chosen(pool, exclude={0, 1}) for _ in range(20)} == {3}
    assert {chosen(pool, tier=2) for _ in range(20)} == {2}
    assert {chosen(pool, tier=9) for _ in range(20)} == {2}


def test_a_host_that_refuses_cheap_exits_starts_one_tier_up() -> None:
    pool = ProxyPool(["a:1", "b:1", "c:1 tier=1"], PoolOptions(tier_ttl=600.0))
    prove(pool)
    for number in (0, 1, 0):
        pool.blocked(number, HOST, 1.0)
    assert chosen(pool, 2.0) == 2
    assert pool.choose("other:80", 2.0) != Choice(2, pool.get(2))  # type: ignore[arg-type]
    assert chosen(pool, 700.0) in {0, 1}


def test_a_retry_prefers_an_exit_that_has_answered() -> None:
    pool = pool_of(20)
    pool.succeeded(7, HOST, 3.0, 0.0)
    assert {chosen(pool, again=True, exclude={1, 2}) for _ in range(50)} == {7}
    assert chosen(pool, again=True, exclude={7}) != 7


def test_excluded_exits_are_not_chosen() -> None:
    pool = pool_of(12)
    prove(pool)
    kept = {3, 4}
    exclude = set(range(12)) - kept
    assert {chosen(pool, exclude=exclude) for _ in range(50)} == kept
    assert isinstance(pool.choose(HOST, 0.0, exclude=set(range(12))), NoExit)


# Health


def test_failures_in_a_row_bench_an_exit_for_growing_times() -> None:
    pool = pool_of(5, bench=30.0, bench_max=300.0)
    prove(pool)
    now, benches = 10.0, []
    fail(pool, 0, now)
    for _ in range(14):
        assert state(pool, 0, now) == "benched"
        start = now
        while state(pool, 0, now) == "benched":
            now += 1.0
        benches.append(now - start)
        pool.start(0, now)
        pool.end(0)
        pool.failed(0, HOST, 0.0, now)
    for count, bench in enumerate(benches, 1):
        expected = min(30.0 * count, 300.0)
        assert expected <= bench <= expected * 1.1 + 1


def test_a_success_between_failures_starts_the_count_anew() -> None:
    pool = pool_of(5)
    for n in range(20):
        pool.failed(0, HOST, 0.01, float(n))
        pool.failed(0, HOST, 0.01, float(n))
        pool.succeeded(0, HOST, 0.01, n + 0.5)
    assert state(pool, 0, 20.0) == "up"


def test_a_benched_exit_comes_back_by_one_probe() -> None:
    pool = pool_of(3)
    prove(pool)
    fail(pool, 0, 1.0)
    assert 0 not in {chosen(pool, 20.0) for _ in range(50)}
    found = pool.choose(HOST, 50.0)
    assert found == Choice(0, found.proxy, probe=True)  # type: ignore[union-attr]
    pool.start(0, 50.0)
    assert 0 not in {chosen(pool, 50.0) for _ in range(50)}
    pool.end(0)
    pool.succeeded(0, HOST, 0.1, 50.1)
    assert state(pool, 0, 50.1) == "up"
    assert 0 in spread(pool, 50.2)


def test_a_retry_is_no_probe() -> None:
    pool = pool_of(3)
    prove(pool)
    fail(pool, 0, 1.0)
    assert 0 not in {chosen(pool, 50.0, again=True) for _ in range(50)}


def test_a_probe_that_told_nothing_is_repeated() -> None:
    pool = pool_of(3)
    fail(pool, 0, 1.0)
    pool.start(0, 50.0)
    pool.end(0)
    assert chosen(pool, 50.0) == 0


def test_failures_of_before_the_bench_count_once() -> None:
    pool = pool_of(4)
    pool.start(0, 0.0)
    for _ in range(12):
        pool.failed(0, HOST, 5.0, 5.0)
    line = pool.health(5.0)[0]
    assert (line.number, line.failures, line.ejections) == (0, 12, 1)
    assert line.wasted == 60.0


def test_a_failure_is_not_charged_to_an_exit_that_answered_meanwhile() -> None:
    pool = pool_of(4)
    pool.succeeded(0, HOST, 0.1, 3.0)
    for _ in range(9):
        pool.failed(0, HOST, 5.0, 5.0)  # began at 0, before the answer at 3
    assert state(pool, 0, 5.0) == "up"


def test_a_suspicion_alone_benches_nobody_and_a_charge_does() -> None:
    pool = pool_of(4)
    for n in range(5):
        pool.failed(0, f"h{n}:80", 5.0, 10.0 + n, mark=Mark.SUSPECT)
    assert state(pool, 0, 20.0) == "up"
    for n in range(3):
        pool.charge(0, 5.0 + n, 5.0, 20.0)
    assert state(pool, 0, 20.0) == "benched"


def test_a_pair_that_fails_is_avoided_while_the_exit_serves_others() -> None:
    pool = pool_of(2, pair_failures=2, pair_bench=60.0)
    prove(pool)
    for _ in range(2):
        pool.failed(0, HOST, 0.1, 1.0, mark=Mark.SUSPECT)
    assert {chosen(pool, 2.0) for _ in range(50)} == {1}
    assert 0 not in spread(pool, 30.0)
    assert 0 in spread(pool, 30.0, host="other:80")
    assert 0 in spread(pool, 62.0)


def test_an_avoided_pair_is_better_than_nothing() -> None:
    pool = pool_of(1)
    for _ in range(5):
        pool.failed(0, HOST, 0.1, 1.0, mark=Mark.SUSPECT)
    assert chosen(pool, 1.0) == 0


def test_refused_credentials_end_an_exit_until_they_are_renewed() -> None:
    pool = pool_of(2)
    pool.failed(0, HOST, 0.1, 1.0, error="proxy_auth")
    assert state(pool, 0, 1e6) == "dead"
    assert {chosen(pool, 1e6) for _ in range(20)} == {1}
    pool.failed(1, HOST, 0.1, 1.0, error="proxy_auth")
    assert pool.empty()
    assert pool.choose(HOST, 2.0) == NoExit(math.inf)
    pool.replace([line for n in (0, 1) if (line := pool.get(n))], 10.0)
    assert state(pool, 0, 10.0) == "probe"
    assert not pool.empty()


def test_one_407_of_an_exit_that_served_is_no_end() -> None:
    pool = pool_of(3)
    prove(pool)
    pool.failed(0, HOST, 0.1, 1.0, error="proxy_auth")
    assert state(pool, 0, 1.0) == "up"
    for _ in range(2):
        pool.failed(0, HOST, 0.1, 2.0, error="proxy_auth")
    assert state(pool, 0, 2.0) == "dead"


@given(
    count=st.integers(2, 12),
    share=st.floats(0, 1),
    seed=st.integers(0, 1000),
)
@settings(max_examples=50)
def test_never_more_than_the_share_is_benched_and_never_all(
    count: int, share: float, seed: int
) -> None:
    pool = pool_of(count, max_ejected=share)
    rng = random.Random(seed)
    for step in range(300):
        pool.failed(rng.randrange(count), HOST, 0.0, step * 0.01)
    benched = sum(line.state != "up" for line in pool.health(3.0))
    assert 1 <= benched <= min(max(1, int(share * count)), count - 1)
    assert isinstance(pool.choose(HOST, 3.0), Choice)


def test_when_none_is_left_it_is_told_until_when() -> None:
    pool = pool_of(2)
    fail(pool, 0, 1.0)
    found = pool.choose(HOST, 1.0, exclude={1})
    assert isinstance(found, NoExit)
    assert found.number == 0
    assert 31.0 <= found.until <= 34.0


# Sessions and leases


def test_a_session_leaves_by_one_exit_while_it_lives() -> None:
    pool = pool_of(10, sticky_ttl=100.0)
    prove(pool)
    first = chosen(pool, 0.0, session="s")
    assert {chosen(pool, now, session="s") for now in range(100)} == {first}
    later = {chosen(pool, 101.0 + n * 101, session="s") for n in range(30)}
    assert len(later) > 1


def test_a_session_moves_on_when_its_exit_fails() -> None:
    pool = pool_of(10)
    prove(pool)
    first = chosen(pool, 0.0, session="s")
    second = chosen(pool, 1.0, session="s", exclude={first}, again=True)
    assert second != first
    assert chosen(pool, 2.0, session="s") == second
    fail(pool, second, 3.0)
    assert chosen(pool, 4.0, session="s") != second


def test_exclusive_exits_serve_one_request_at_a_time() -> None:
    pool = pool_of(3, exclusive="request")
    prove(pool)
    used = set()
    for _ in range(3):
        number = chosen(pool)
        pool.start(number, 0.0)
        used.add(number)
    assert used == {0, 1, 2}
    assert isinstance(pool.choose(HOST, 0.0), NoExit)
    pool.end(1)
    assert chosen(pool) == 1


def test_exclusive_sessions_share_no_exit() -> None:
    pool = pool_of(3, exclusive="session", sticky_ttl=100.0)
    prove(pool)
    owners = {chosen(pool, 0.0, session=s) for s in ("a", "b", "c")}
    assert len(owners) == 3
    assert isinstance(pool.choose(HOST, 1.0, session="d"), NoExit)
    pool.release("b")
    assert chosen(pool, 1.0, session="d") in owners
    assert isinstance(pool.choose(HOST, 99.0, session="e"), NoExit)
    assert isinstance(pool.choose(HOST, 101.0, session="e"), Choice)


def test_what_is_remembered_is_bounded() -> None:
    pool = pool_of(3, max_pairs=20)
    prove(pool)
    for n in range(500):
        pool.choose(HOST, 0.0, session=f"s{n}")
        pool.failed(0, f"h{n}:80", 0.1, 0.0, mark=Mark.SUSPECT)
        pool.blocked(0, f"h{n}:80", 0.0)
    memory = pool._memory
    assert len(memory._sessions) == len(memory._pairs) == len(memory._tiers) == 20
