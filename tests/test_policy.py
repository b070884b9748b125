"""Failures in, verdicts and orders out: the parts of policy together."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hardfetch.budget import HostBudgets, RetryBudget
from hardfetch.classify import ORIGINS, TYPES
from hardfetch.errors import OptionError
from hardfetch.outcome import CloseGate, Failure, Final, ProxyUpdate, Retry, Verdict
from hardfetch.policy import Policy
from hardfetch.proxies import PoolOptions, ProxyPool
from hardfetch.retry import RetryPolicy

FAILURE = Failure(seq=1, host="h:80", error="connection_reset", elapsed=0.1)


def pool_of(count: int, **options: Any) -> ProxyPool:
    lines = [f"http://u{n}:s3cret@p{n}:8080" for n in range(count)]
    return ProxyPool(lines, PoolOptions(**options), random.Random(1))


def policy(pool: ProxyPool | None = None, **options: Any) -> Policy:
    retry = RetryPolicy(rng=random.Random(1), **options)
    made = Policy(retry, pool=pool)
    made.take_orders()
    return made


def one(made: Policy, event: Failure, now: float = 100.0) -> Verdict:
    (verdict,) = made.handle([event], now)
    return verdict


def state(pool: ProxyPool, number: int, now: float) -> str:
    return next(line.state for line in pool.health(now) if line.number == number)


def test_every_failure_gets_its_verdict_and_good_news_none() -> None:
    made = policy()
    events = [
        replace(FAILURE, seq=1),
        replace(FAILURE, seq=2, error="", status=200),
        replace(FAILURE, seq=3, error="invalid_request", origin="local"),
        replace(FAILURE, seq=4, error="", status=503),
    ]
    verdicts = made.handle(events, 1.0)
    # An error that is never retried is no failure to policy, but its transfer waits.
    assert [v.seq for v in verdicts] == [1, 3, 4]
    assert [v.retry for v in verdicts] == [True, False, True]


def test_a_refusal_closes_the_gate_and_the_retry_waits_for_it() -> None:
    made = policy()
    verdict = one(made, replace(FAILURE, error="", status=429, retry_after=7.0), 10.0)
    (order,) = made.take_orders()
    assert isinstance(order, CloseGate)
    assert order.host == "h:80"
    assert order.until >= 17.0
    assert verdict.delay == pytest.approx(order.wait)
    assert made.take_orders() == []
    other = one(made, replace(FAILURE, seq=2), 11.0)
    assert other.delay >= 6.0  # the gate is for all of the host's requests


def test_a_final_refusal_closes_the_gate_too() -> None:
    made = policy(retries=0)
    verdict = one(made, replace(FAILURE, error="", status=503))
    assert not verdict.retry
    assert verdict.denied == "attempts"
    assert isinstance(made.take_orders()[0], CloseGate)
    assert {429, 503} <= Policy(RetryPolicy(statuses=())).table().statuses


def test_a_deadline_that_the_gate_would_overrun_ends_the_request() -> None:
    made = policy()
    one(made, replace(FAILURE, seq=9, error="", status=429, retry_after=60.0), 10.0)
    verdict = one(made, replace(FAILURE, left=20.0), 11.0)
    assert verdict == Verdict(1, retry=False, denied="deadline")


def test_a_policy_of_ones_own_cannot_go_round_the_deadline() -> None:
    class Stubborn(RetryPolicy):
        def decide(self, failure: Failure) -> Retry | Final:
            return Retry(failure.elapsed + 5.0)

    made = Policy(Stubborn())
    assert one(made, replace(FAILURE, left=4.0)).denied == "deadline"
    assert one(made, replace(FAILURE, left=40.0)).retry


@pytest.mark.parametrize("given", [None, True, 0.5])
def test_a_policy_of_ones_own_that_decides_nothing_is_named(given: object) -> None:
    class Undecided(RetryPolicy):
        def decide(self, failure: Failure) -> Retry | Final:
            del failure
            return given  # type: ignore[return-value]

    with pytest.raises(TypeError, match=f"Undecided.decide: give .*, not {given}"):
        one(Policy(Undecided()), FAILURE)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"delay": -1}, "delay: -1 is not allowed; give a number, 0 to 31,000,000"),
        ({"delay": "x"}, "delay: 'x' is not allowed"),
        ({"delay": float("nan")}, "delay: nan is not allowed"),
        ({"delay": float("inf")}, "delay: inf is not allowed"),
        ({"delay": 0, "exit": "next"}, "exit: 'next' is not allowed"),
    ],
)
def test_a_retry_that_cannot_be_is_told_where_it_is_made(given: Any, told: str) -> None:
    with pytest.raises(OptionError, match=f"^Retry: {told}"):
        Retry(**given)


def test_the_silent_retry_is_made_once_and_costs_no_budget() -> None:
    made = Policy(RetryPolicy(retries=1), budget=RetryBudget(ratio=0, floor=0.1))
    stale = replace(FAILURE, reused=True)
    verdict = one(made, stale)
    assert (verdict.retry, verdict.fresh, verdict.delay) == (True, True, 0.0)
    assert made.budget.granted == 0
    again = one(made, replace(stale, attempt=2, reused=False))
    assert again.retry
    assert not again.silent
    assert made.stats.silent == made.stats.retries == made.budget.granted == 1
    assert one(made, replace(stale, attempt=3)).denied == "attempts"


def test_an_empty_budget_says_so() -> None:
    made = Policy(RetryPolicy(), budget=RetryBudget(ratio=0.0, floor=0.5, ttl=10.0))
    events = [replace(FAILURE, seq=n, host=f"h{n}:80") for n in range(20)]
    verdicts = made.handle(events, 1.0)
    assert sum(v.retry for v in verdicts) == 5
    assert {v.denied for v in verdicts if not v.retry} == {"budget"}
    assert made.stats.denied == {"budget": 15}


def test_a_hosts_budget_protects_the_site_and_no_other() -> None:
    made = policy()
    events = [replace(FAILURE, seq=n, host_requests=n + 1) for n in range(100)]
    verdicts = made.handle(events, 1.0)
    denied = [v for v in verdicts if not v.retry]
    assert {v.denied for v in denied} == {"host_budget"}
    assert 100 - len(denied) == 30  # 10 in all plus a fifth of 100
    assert one(made, replace(FAILURE, seq=500, host="other:80")).retry


def test_what_died_at_a_proxy_is_not_on_the_sites_account() -> None:
    pool = pool_of(30)
    made = Policy(RetryPolicy(), pool=pool, host_budgets=HostBudgets(0.0, 0.0))
    dead = replace(FAILURE, error="proxy_timeout", origin="proxy", sent=False)
    for n in range(20):
        assert one(made, replace(dead, seq=n, proxy=n)).retry
    assert one(made, replace(FAILURE, seq=99, proxy=1)).denied == "host_budget"


def test_the_requests_of_the_run_fill_the_budget() -> None:
    made = Policy(RetryPolicy(), budget=RetryBudget(ratio=0.2, floor=0.0))
    assert not made.handle([FAILURE], 1.0, requests=4)[0].retry
    assert made.handle([FAILURE], 1.0, requests=5)[0].retry
    assert not made.handle([FAILURE], 1.0, requests=5)[0].retry


# Exits


def test_a_retry_goes_over_another_exit() -> None:
    made = policy(pool_of(5))
    used = [0]
    event = replace(FAILURE, error="timeout", proxy=0)
    for attempt in (1, 2):
        verdict = one(made, replace(event, attempt=attempt, proxy=used[-1]))
        assert (
            verdict.proxy
            == f"http://u{verdict.proxy_number}:s3cret@p{verdict.proxy_number}:8080"
        )
        used.append(verdict.proxy_number)
    assert len(set(used)) == 3


def test_where_there_is_no_other_exit_the_same_serves_on_a_new_connection() -> None:
    made = policy(pool_of(1))
    verdict = one(made, replace(FAILURE, error="timeout", proxy=0))
    assert (verdict.retry, verdict.proxy_number, verdict.fresh) == (True, 0, True)


def test_refused_credentials_need_another_exit() -> None:
    refused = replace(FAILURE, error="proxy_auth", origin="proxy", sent=False)
    assert one(policy(), refused).denied == "no_other_exit"
    alone = policy(pool_of(1))
    assert one(alone, replace(refused, proxy=0)).denied == "no_other_exit"
    pool = pool_of(2)
    made = policy(pool)
    verdict = one(made, replace(refused, proxy=0))
    assert (verdict.retry, verdict.proxy_number) == (True, 1)
    (update,) = made.take_orders()
    assert isinstance(update, ProxyUpdate)
    assert [(row.number, row.state) for row in update.rows] == [(0, "dead")]


def test_a_pool_without_a_living_exit_is_told() -> None:
    pool = pool_of(2)
    made = policy(pool)
    refused = replace(FAILURE, error="proxy_auth", origin="proxy", sent=False)
    one(made, replace(refused, proxy=0))
    late = replace(FAILURE, seq=2, error="proxy_timeout", origin="proxy", proxy=1)
    assert one(made, late).retry  # the last one standing is used again
    one(made, replace(refused, seq=3, proxy=1))
    assert one(made, replace(late, seq=4)).denied == "no_exit"


def test_a_wait_for_an_exit_is_bounded() -> None:
    dead = replace(FAILURE, error="proxy_auth", origin="proxy", sent=False)
    for limit, denied in ((40.0, ""), (10.0, "no_exit")):
        pool = pool_of(3, wait_limit=limit, max_ejected=1.0)
        made = policy(pool)
        one(made, replace(dead, seq=7, proxy=2))
        for n in range(3):
            pool.failed(0, f"h{n}:80", 0.1, 100.0)
        pool.failed(1, "x:80", 0.1, 100.0, error="proxy_auth")
        event = replace(FAILURE, seq=8, error="proxy_timeout", origin="proxy", proxy=1)
        verdict = one(made, event)
        assert verdict.denied == denied
        if not denied:
            assert verdict.proxy_number == 0
            assert 30.0 <= verdict.delay <= 33.1


BUSY = replace(
    FAILURE, error="proxy_refused", origin="proxy", sent=False, exit_retry_after=20.0
)


def test_an_exit_that_asks_for_time_rests_and_its_host_does_not() -> None:
    pool = pool_of(3)
    made = policy(pool)
    verdict = one(made, replace(BUSY, proxy=1))
    assert verdict.proxy_number in {0, 2}
    assert verdict.delay < 1  # the others are not busy
    (update,) = made.take_orders()  # and no gate is closed
    assert isinstance(update, ProxyUpdate)
    (row,) = update.rows
    assert (row.number, row.state) == (1, "benched")
    assert 120.0 <= row.until <= 122.0
    assert state(pool, 1, 119.0) == "benched"
    assert state(pool, 1, 123.0) == "probe"
    assert next(e for e in pool.health(123.0) if e.number == 1).ejections == 0
    # What left before it said so changes nothing, unless it asks for longer.
    one(made, replace(BUSY, seq=2, host="b:1", proxy=1, exit_retry_after=5.0), 101.0)
    assert not made.take_orders()
    one(made, replace(BUSY, seq=3, host="c:1", proxy=1, exit_retry_after=60.0), 102.0)
    assert state(pool, 1, 161.0) == "benched"
    pool.succeeded(1, "h:80", 0.1, 170.0)
    assert state(pool, 1, 170.0) == "up"


def test_an_exit_may_not_ask_for_more_than_the_cap() -> None:
    pool = pool_of(3)
    made = policy(pool, retry_after_cap=40.0)
    one(made, replace(BUSY, proxy=1, exit_retry_after=1e12))
    assert state(pool, 1, 139.0) == "benched"
    assert state(pool, 1, 145.0) == "probe"


@pytest.mark.parametrize(("count", "number"), [(0, -1), (1, 0), (3, -1)])
def test_where_there_is_no_other_way_the_retry_waits_for_it(
    count: int, number: int
) -> None:
    pool = pool_of(count) if count else None
    made = policy(pool)
    verdict = one(made, replace(BUSY, proxy=number))
    assert (verdict.retry, verdict.proxy_number) == (True, number)
    assert verdict.delay == 20.0
    assert not made.take_orders()
    for left, denied in ((20.2, "deadline"), (21.0, "")):
        event = replace(BUSY, seq=2, proxy=number, left=left)
        assert one(made, event).denied == denied


def test_a_pool_does_not_wait_longer_for_its_only_exit_than_for_any() -> None:
    made = policy(pool_of(1, wait_limit=10.0))
    assert one(made, replace(BUSY, proxy=0)).denied == "no_exit"


def test_the_last_exits_are_used_whatever_they_ask_for() -> None:
    pool = pool_of(2)
    made = policy(pool)
    one(made, replace(BUSY, proxy=0))
    one(made, replace(BUSY, seq=2, proxy=1))
    assert [state(pool, n, 101.0) for n in (0, 1)] == ["benched", "up"]


def test_a_direct_request_is_repeated_directly() -> None:
    verdict = one(policy(pool_of(3)), FAILURE)
    assert (verdict.retry, verdict.proxy, verdict.proxy_number) == (True, "", -1)
    assert verdict.fresh


def test_only_proxy_failures_hurt_a_proxy() -> None:
    pool = pool_of(5)
    made = policy(pool)
    for seq in range(10):
        site = replace(FAILURE, seq=seq, host=f"h{seq}:80", error="dns_error", proxy=0)
        one(made, site)
    for seq in range(10, 20):
        ours = replace(FAILURE, seq=seq, error="too_many_open_files", origin="local")
        one(made, replace(ours, host=f"h{seq}:80", proxy=0))
    assert state(pool, 0, 100.0) == "up"
    for seq in range(20, 23):
        dead = replace(FAILURE, seq=seq, error="proxy_timeout", origin="proxy", proxy=0)
        one(made, replace(dead, host=f"h{seq}:80"))
    assert state(pool, 0, 100.0) == "benched"


def test_an_exit_that_swallows_what_others_carry_is_found_out() -> None:
    pool = pool_of(5)
    made = policy(pool)
    for seq in range(3):
        # Silence after a good tunnel: looks like the site's.
        silent = replace(FAILURE, seq=seq, host=f"h{seq}:80", error="tls_timeout")
        verdict = one(made, replace(silent, proxy=0, elapsed=5.0))
        assert state(pool, 0, 100.0) == "up"
        good = replace(silent, error="", status=200, attempt=2, elapsed=0.1)
        assert made.handle([replace(good, proxy=verdict.proxy_number)], 101.0) == []
    assert state(pool, 0, 101.0) == "benched"


def test_a_site_that_is_down_over_every_exit_blames_no_exit() -> None:
    pool = pool_of(5)
    made = policy(pool, retries=2)
    for seq in range(20):
        number = seq % 5
        event = replace(FAILURE, seq=seq, error="timeout", elapsed=10.0)
        for attempt in (1, 2, 3):
            verdict = one(made, replace(event, attempt=attempt, proxy=number))
            number = max(verdict.proxy_number, 0)
    assert all(line.failures == 0 for line in pool.health(100.0))


def test_silence_of_a_host_that_is_alive_is_the_exits() -> None:
    pool = pool_of(5)
    made = policy(pool)
    for seq in range(3):
        event = replace(FAILURE, seq=seq, error="timeout", host_alive=True)
        one(made, replace(event, host=f"h{seq}:80", proxy=0))
    assert state(pool, 0, 100.0) == "benched"


def test_a_blocked_exit_is_left_for_a_higher_tier() -> None:
    pool = ProxyPool(["a:1", "b:1", "c:1 tier=1"], rng=random.Random(1))
    made = policy(pool)
    verdict = one(made, replace(FAILURE, error="", status=429, proxy=0))
    assert verdict.proxy_number == 2
    assert state(pool, 0, 100.0) == "up"


def test_the_table_asks_for_all_that_the_pool_must_learn() -> None:
    nothing = RetryPolicy(0, statuses=(), rules=dict.fromkeys(TYPES[1:]))
    assert nothing.table().types == frozenset()
    table = Policy(nothing, pool=pool_of(2)).table()
    assert {"proxy_refused", "proxy_auth", "tls_timeout", "timeout"} <= table.types
    assert "invalid_request" not in table.types


def test_no_verdict_order_or_statistic_shows_credentials() -> None:
    pool = pool_of(3)
    made = Policy(RetryPolicy(), pool=pool)
    verdict = one(made, replace(FAILURE, error="timeout", proxy=0))
    assert "s3cret" in verdict.proxy
    shown = [repr(verdict), repr(made.take_orders()), repr(made.stats), repr(made)]
    assert all("s3cret" not in text for text in shown)


EVENTS = st.builds(
    Failure,
    seq=st.integers(0, 5),
    host=st.sampled_from(["a:80", "b:80"]),
    error=st.sampled_from(TYPES),
    origin=st.sampled_from(ORIGINS),
    status=st.sampled_from([0, 200, 403, 407, 429, 500, 503]),
    attempt=st.integers(1, 8),
    proxy=st.integers(-1, 9),
    elapsed=st.floats(0, 20),
    left=st.none() | st.floats(0, 50),
    retry_after=st.none() | st.floats(-10, 1e13),
    exit_retry_after=st.none() | st.floats(-10, 1e13),
    reused=st.booleans(),
    sent=st.booleans(),
    idempotent=st.booleans(),
    matched=st.booleans(),
    probe=st.booleans(),
    session=st.sampled_from(["", "s"]),
    host_alive=st.booleans(),
    host_requests=st.integers(-1, 100),
)


@given(events=st.lists(EVENTS, max_size=60), pooled=st.integers(0, 6))
@settings(max_examples=150)
def test_whatever_comes_the_promises_hold(events: list[Failure], pooled: int) -> None:
    pool = pool_of(pooled) if pooled else None
    made = policy(pool)
    now, granted = 1000.0, 0
    for event in events:
        now += 0.1
        for verdict in made.handle([event], now):
            assert verdict.seq == event.seq
            assert len(verdict.denied) < 32
            if not verdict.retry:
                continue
            granted += not verdict.silent
            assert 0 <= verdict.delay <= 400
            assert not verdict.denied
            if event.left is not None:
                assert verdict.delay + made.retry.min_attempt <= event.left + 1e-6
            if not event.idempotent and event.sent:
                assert not event.error
                assert event.status in {408, 425, 429}
        for order in made.take_orders():
            if isinstance(order, CloseGate):
                assert now < order.until <= now + 331
    assert granted <= 0.2 * len(events) + 10 * (0.1 * len(events) + 10)
    assert len(made._jobs) <= 6


def test_what_is_remembered_is_bounded() -> None:
    made = Policy(RetryPolicy(), max_jobs=10, budget=RetryBudget(floor=1e6))
    for seq in range(100):
        one(made, replace(FAILURE, seq=seq, host=f"h{seq}:80"))
    assert len(made._jobs) == 10
