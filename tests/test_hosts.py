"""How one host is spared: limits, rate, delay, gate, breaker, adaptive rate."""

from __future__ import annotations

import json
import math
import random
import sys
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hardfetch.adaptive import AdaptiveRate
from hardfetch.gates import Gates
from hardfetch.hosts import Admission, Hosts
from hardfetch.limits import Limits, LimitTable, parse_limits, parse_rate
from hardfetch.outcome import Failure

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


def test_errors_never_speed_a_host_up() -> None:
    hosts = hosts_with(adaptive=True, max_per_host=0)
    now = 0.0
    for n in range(500):
        now += 1 / hosts.rate(HOST) if n else 0.0
        one = go(hosts, now)
        status, error = [(404, ""), (500, ""), (0, "connection_reset")][n % 3]
        hosts.finish(HOST, one, now, status=status, error=error, elapsed=0.001)
    assert hosts.rate(HOST) <= 2.0


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


# Configuration


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("5/s", 5.0),
        ("30/m", 0.5),
        ("36/h", 0.01),
        ("1/10s", 0.1),
        ("2.5 / s", 2.5),
        ("7", 7.0),
        (3, 3.0),
    ],
)
def test_a_rate_is_read(text: object, rate: float) -> None:
    assert parse_rate(text) == pytest.approx(rate)


@pytest.mark.parametrize(
    "text",
    ["0/s", "-1/s", "5/x", "", "s", "5/0s", 0, -1, True, None, math.nan, "1e3/s"],
)
def test_what_is_no_rate(text: object) -> None:
    with pytest.raises(ValueError, match="rate: "):
        parse_rate(text)


CONFIG = {
    "default": {"max_per_host": 4},
    "host": [
        {"match": "api.example.com:8443", "rate": "30/m"},
        {"match": ["*.example.com", "example.com"], "delay": 1, "adaptive": True},
        {"match": "*", "breaker_failures": 5},
    ],
}

TOML = """\
[default]
max_per_host = 4
[[host]]
match = "api.example.com:8443"
rate = "30/m"
[[host]]
match = ["*.example.com", "example.com"]
delay = 1
adaptive = true
[[host]]
match = "*"
breaker_failures = 5
"""


def test_the_first_pattern_that_matches_holds() -> None:
    table = parse_limits(json.dumps(CONFIG), default=Limits(max_per_host=2, delay=0.5))
    api = table.lookup("api.example.com:8443")
    assert (api.rate, api.max_per_host, api.delay) == (0.5, 4, 0.5)
    assert table.lookup("api.example.com:443").adaptive
    assert table.lookup("EXAMPLE.com:80").delay == 1.0
    other = table.lookup("[::1]:80")
    assert (other.breaker_failures, other.delay, other.adaptive) == (5, 0.5, False)
    assert table.lookup("notexample.com:80").breaker_failures == 5
    assert [row.with_port for row in table.rows] == [True, False, False, False]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is of 3.11")
def test_toml_says_the_same_as_json() -> None:
    toml, same = parse_limits(TOML, "x.toml"), parse_limits(json.dumps(CONFIG))
    assert toml.rows == same.rows
    assert toml.default == same.default


@pytest.mark.skipif(sys.version_info >= (3, 11), reason="tomllib is of 3.11")
def test_toml_on_an_old_python_is_refused_in_plain_words() -> None:
    with pytest.raises(ValueError, match="JSON"):
        parse_limits(TOML, "x.toml")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"hosts": []}, "only"),
        ({"host": {}}, "list"),
        ({"host": [1]}, "host 1"),
        ({"host": [{"rate": "5/s"}]}, "match"),
        ({"host": [{"match": "http://x/"}]}, "pattern"),
        ({"host": [{"match": []}]}, "match"),
        ({"host": [{"match": "x", "rat": "5/s"}]}, "rat: unknown"),
        ({"host": [{"match": "x", "rate": "0/s"}]}, "host 1: rate"),
        ({"host": [{"match": "x", "max_per_host": -1}]}, "host 1"),
        ({"host": [{"match": "x", "max_per_host": 1.5}]}, "whole"),
        ({"host": [{"match": "x", "adaptive": 1}]}, "true nor false"),
        ({"default": {"delay": "1s"}}, "default: delay"),
        ([], "only"),
    ],
)
def test_a_wrong_file_is_refused_by_name_and_entry(config: object, said: str) -> None:
    with pytest.raises(ValueError, match=r"limits\.json: ") as caught:
        parse_limits(json.dumps(config), "limits.json")
    assert said in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match=r"limits\.json: "):
        parse_limits("{", "limits.json")


def test_lookups_are_remembered_within_bounds() -> None:
    rows = parse_limits(json.dumps(CONFIG)).rows
    table = LimitTable(rows=rows, max_hosts=10)
    for n in range(100):
        table.lookup(f"h{n}.example.com:80")
    assert len(table._known) == 10
