"""How one host is spared: limits, rate, delay, gate, breaker, adaptive rate."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hardfetch.hosts import Admission, Hosts
from hardfetch.limits import Limits, LimitTable

HOST = "site:80"


def hosts_with(max_hosts: int = 100_000, **limits: Any) -> Hosts:
    table = LimitTable(Limits(**limits))
    return Hosts(table, max_hosts=max_hosts, rng=random.Random(1))


def go(hosts: Hosts, now: float, host: str = HOST) -> Admission:
    admission = hosts.admit(host, now)
    assert admission.answer == "go"
    return admission


def answer(hosts: Hosts, now: float, status: int = 200, elapsed: float = 0.0) -> None:
    hosts.finish(HOST, go(hosts, now), now, status=status, elapsed=elapsed)


def break_it(hosts: Hosts, now: float, times: int = 10) -> None:
    for _ in range(times):
        hosts.finish(HOST, go(hosts, now), now, error="connect_refused")


# In flight, rate, delay


def test_no_more_than_the_limit_are_in_flight() -> None:
    hosts = hosts_with(max_per_host=3)
    held = [go(hosts, 0.0) for _ in range(3)]
    assert hosts.admit(HOST, 0.0) == Admission("wait", math.inf)
    assert hosts.admit("other:80", 0.0).answer == "go"
    hosts.finish(HOST, held[0], 1.0, status=200)
    go(hosts, 1.0)
    assert hosts.admit(HOST, 1.0).answer == "wait"


@given(
    rate=st.floats(0.1, 200),
    steps=st.lists(st.floats(0, 2), min_size=1, max_size=200),
)
def test_a_rate_is_kept_over_any_time(rate: float, steps: list[float]) -> None:
    hosts = hosts_with(rate=rate, max_per_host=0)
    now, starts = 0.0, []
    for step in steps:
        now += step
        if hosts.admit(HOST, now).answer == "go":
            starts.append(now)
    for first in range(len(starts)):
        for last in range(first, len(starts)):
            assert last - first <= (starts[last] - starts[first]) * rate + 1e-6


def test_whoever_waits_for_the_rate_is_told_until_when() -> None:
    hosts = hosts_with(rate=2.0)
    go(hosts, 10.0)
    assert hosts.admit(HOST, 10.1) == Admission("wait", 10.5)
    assert go(hosts, 10.5).limited
    assert not go(hosts, 20.0).limited


def test_a_delay_is_a_least_distance_and_jitter_only_adds() -> None:
    hosts = hosts_with(delay=2.0, jitter=0.5, max_per_host=0)
    now, pauses = 0.0, []
    for _ in range(200):
        go(hosts, now)
        until = hosts.admit(HOST, now).until
        pauses.append(until - now)
        now = until
    assert min(pauses) >= 2.0
    assert 2.9 < max(pauses) <= 3.0


def test_the_stricter_of_rate_delay_and_crawl_delay_holds() -> None:
    hosts = hosts_with(delay=1.0, jitter=0.0, rate=10.0)
    go(hosts, 0.0)
    assert hosts.admit(HOST, 0.0).until == 1.0
    hosts.set_delay(HOST, 5.0, 1.0)
    go(hosts, 1.0)
    assert hosts.admit(HOST, 1.0).until == 6.0


# Gate


def test_a_gate_stops_the_whole_host_and_opens_by_one_probe() -> None:
    hosts = hosts_with()
    answer(hosts, 0.0)
    hosts.close_gate(HOST, 10.0, 1.0)
    assert hosts.admit(HOST, 9.9) == Admission("wait", 10.0)
    assert hosts.admit("other:80", 9.9).answer == "go"
    probe = go(hosts, 10.0)
    assert probe.probe
    assert hosts.admit(HOST, 10.5) == Admission("wait", math.inf)
    hosts.finish(HOST, probe, 11.0, status=200, elapsed=1.0)
    assert not go(hosts, 11.0).probe
    assert not go(hosts, 11.0).probe


def test_answers_from_before_do_not_open_a_gate() -> None:
    hosts = hosts_with()
    old = go(hosts, 0.0)
    hosts.close_gate(HOST, 10.0, 1.0)
    hosts.finish(HOST, old, 2.0, status=200, elapsed=2.0)
    assert hosts.admit(HOST, 3.0).answer == "wait"
    assert go(hosts, 10.0).probe


def test_a_gate_that_was_closed_for_longer_meanwhile_is_not_opened_by_a_probe() -> None:
    hosts = hosts_with()
    hosts.close_gate(HOST, 10.0, 1.0)
    probe = go(hosts, 10.0)
    hosts.close_gate(HOST, 20.0, 10.5)
    hosts.finish(HOST, probe, 11.0, status=200, elapsed=1.0)
    assert hosts.admit(HOST, 11.0) == Admission("wait", 20.0)
    assert go(hosts, 20.0).probe


def test_time_outs_through_a_proxy_do_not_slow_the_host() -> None:
    rates = []
    for via_proxy in (False, True):
        hosts = hosts_with(adaptive=True)
        one = go(hosts, 0.0)
        hosts.finish(
            HOST, one, 5.0, error="tls_timeout", elapsed=5.0, via_proxy=via_proxy
        )
        rates.append(hosts.rate(HOST))
    assert rates[0] < rates[1] == 2.0


def test_a_refused_probe_leaves_the_gate_to_policy() -> None:
    hosts = hosts_with()
    hosts.close_gate(HOST, 10.0, 1.0)
    hosts.finish(HOST, go(hosts, 10.0), 10.1, status=429)
    hosts.close_gate(HOST, 12.0, 10.1)
    assert hosts.admit(HOST, 11.0) == Admission("wait", 12.0)
    assert go(hosts, 12.0).probe


@pytest.mark.parametrize(
    ("error", "origin"), [("timeout", "site"), ("proxy_refused", "proxy")]
)
def test_a_probe_that_told_nothing_is_followed_by_another(
    error: str, origin: str
) -> None:
    hosts = hosts_with()
    hosts.close_gate(HOST, 10.0, 1.0)
    hosts.finish(HOST, go(hosts, 10.0), 11.0, error=error, origin=origin, elapsed=1.0)
    again = hosts.admit(HOST, 11.0)
    assert (again.answer, again.until) == ("wait", 12.0)
    assert go(hosts, 12.0).probe


# Breaker


def test_ten_failures_in_a_row_open_the_breaker_for_thirty_seconds() -> None:
    hosts = hosts_with()
    break_it(hosts, 1.0, times=9)
    go(hosts, 1.0)
    hosts.finish(HOST, Admission("go"), 1.0, error="connect_refused")
    assert hosts.admit(HOST, 1.0) == Admission("refuse", 31.0)
    assert hosts.admit(HOST, 30.9).answer == "refuse"
    probe = go(hosts, 31.0)
    assert probe.probe
    assert hosts.admit(HOST, 31.0).answer == "wait"
    hosts.finish(HOST, probe, 31.5, status=404, elapsed=0.5)
    assert not go(hosts, 31.5).probe


def test_a_failed_probe_opens_it_again() -> None:
    hosts = hosts_with()
    break_it(hosts, 1.0)
    hosts.finish(HOST, go(hosts, 31.0), 32.0, error="connect_timeout", elapsed=1.0)
    assert hosts.admit(HOST, 61.0) == Admission("refuse", 62.0)
    assert go(hosts, 62.0).probe


@pytest.mark.parametrize(
    ("error", "origin", "status"),
    [
        ("proxy_timeout", "proxy", 0),
        ("tls_error", "proxy", 0),
        ("too_many_open_files", "local", 0),
        ("deadline", "local", 0),
        ("", "site", 500),
        ("", "site", 404),
        ("redirect_loop", "site", 0),
    ],
)
def test_only_a_host_that_is_not_there_opens_the_breaker(
    error: str, origin: str, status: int
) -> None:
    hosts = hosts_with()
    for _ in range(50):
        hosts.finish(
            HOST, go(hosts, 1.0), 1.0, error=error, origin=origin, status=status
        )
    assert hosts.admit(HOST, 1.0).answer == "go"


def test_an_answer_in_between_starts_the_count_anew() -> None:
    hosts = hosts_with()
    for n in range(10):
        break_it(hosts, float(n), times=9)
        answer(hosts, float(n))
    assert hosts.admit(HOST, 10.0).answer == "go"


def test_a_mass_of_late_time_outs_does_not_blame_a_host_that_serves() -> None:
    hosts = hosts_with(max_per_host=0)
    late = [go(hosts, 0.0) for _ in range(100)]
    answer(hosts, 5.0)
    for one in late:
        hosts.finish(HOST, one, 10.0, error="timeout", elapsed=10.0, via_proxy=True)
    assert hosts.admit(HOST, 10.0).answer == "go"
    assert hosts.is_alive(HOST, 4.0)
    assert not hosts.is_alive(HOST, 5.0)


def test_the_breaker_can_be_switched_off() -> None:
    hosts = hosts_with(breaker_failures=0)
    break_it(hosts, 1.0, times=100)
    assert hosts.admit(HOST, 1.0).answer == "go"


def test_the_worst_hosts_are_told() -> None:
    hosts = hosts_with()
    break_it(hosts, 1.0, times=4)
    hosts.close_gate("gated:80", 5.0, 1.0)
    answer(hosts, 1.0)
    worst = hosts.worst()
    assert [(line.host, line.failures, line.gates) for line in worst] == [
        (HOST, 4, 0),
        ("gated:80", 0, 1),
    ]


# Memory


def test_idle_hosts_are_forgotten_and_busy_ones_are_not() -> None:
    hosts = hosts_with(max_hosts=10)
    go(hosts, 0.0, "busy:80")
    hosts.close_gate("gated:80", 1e9, 0.0)
    for n in range(1000):
        one = go(hosts, float(n), f"h{n}:80")
        hosts.finish(f"h{n}:80", one, float(n), status=200)
    assert len(hosts) <= 12
    assert hosts.requests("busy:80") == 1
    assert hosts.admit("gated:80", 1000.0).answer == "wait"
    assert hosts.requests("h0:80") == -1


# Adaptive rate


def test_errors_never_speed_a_host_up() -> None:
    hosts = hosts_with(adaptive=True, max_per_host=0)
    now = 0.0
    for n in range(500):
        now += 1 / hosts.rate(HOST) if n else 0.0
        one = go(hosts, now)
        status, error = [(404, ""), (500, ""), (0, "connection_reset")][n % 3]
        hosts.finish(HOST, one, now, status=status, error=error, elapsed=0.001)
    assert hosts.rate(HOST) <= 2.0
