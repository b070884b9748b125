"""What is retried, when, and what never is; Retry-After; budgets; the tables."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from hardfetch import classify
from hardfetch.budget import HostBudgets, RetryBudget
from hardfetch.classify import Mark, host_mark, proxy_mark
from hardfetch.outcome import Failure, Final, Retry
from hardfetch.retry import RetryPolicy, Rule
from hardfetch.retry_after import parse_http_date, parse_retry_after

WALL = 784111777.0  # Sun, 06 Nov 1994 08:49:37 GMT
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"

FAILURE = Failure(seq=0, host="h:80", error="connection_reset", phase="first_byte")


def policy(**options: object) -> RetryPolicy:
    return RetryPolicy(rng=random.Random(1), **options)  # type: ignore[arg-type]


def listed(name: str) -> list[str]:
    header = Path(__file__).parent.parent / "csrc" / "err.h"
    body = header.read_text().split(f"#define {name}(X)")[1].split("\n\n")[0]
    return re.findall(r'X\(\w+, "(\w*)"\)', body)


# Tables


def test_types_and_their_numbers_are_those_of_the_core() -> None:
    assert list(classify.TYPES) == listed("HF_TYPE_LIST")


def test_phases_and_origins_are_those_of_the_core() -> None:
    header = (Path(__file__).parent.parent / "csrc" / "err.h").read_text()
    enums = re.findall(r"enum \{([^}]*)\}", header)
    names = [re.findall(r"HF_[PO]_(\w+)", one) for one in enums]
    assert [*map(str.upper, classify.PHASES), "COUNT"] in names
    assert [*map(str.upper, classify.ORIGINS), "COUNT"] in names


def test_only_what_the_site_bears_hurts_the_host() -> None:
    assert host_mark("connect_refused", "site") is Mark.HURT
    assert host_mark("connect_refused", "proxy") is Mark.NONE
    assert host_mark("too_many_open_files", "local") is Mark.NONE
    assert host_mark("redirect_loop", "site") is Mark.HEAL
    assert host_mark("", "site") is Mark.HEAL


def test_only_what_the_proxy_bears_hurts_the_proxy() -> None:
    assert proxy_mark("tls_error", "proxy") is Mark.HURT
    assert proxy_mark("proxy_refused", "proxy", 502) is Mark.HURT
    assert proxy_mark("timeout", "site") is Mark.SUSPECT
    assert proxy_mark("redirect_loop", "site") is Mark.HEAL
    assert proxy_mark("deadline", "local") is Mark.NONE
    assert proxy_mark("", "site", 404) is Mark.HEAL
    assert proxy_mark("", "site", 502) is Mark.SUSPECT


def test_the_compiled_table_names_each_outcome_by_its_bit() -> None:
    table = policy(statuses={408, 429, 599}).table()
    bits = table.type_bits()
    named = {t for n, t in enumerate(classify.TYPES) if bits >> n & 1}
    assert named == table.types
    assert bits < 1 << 64
    packed = table.status_bytes()
    assert len(packed) == 75
    assert {n for n in range(600) if packed[n // 8] >> n % 8 & 1} == {408, 429, 599}


# Decisions


@pytest.mark.parametrize(
    "error",
    [
        "invalid_request",
        "blocked_address",
        "cancelled",
        "shutdown",
        "deadline",
        "robots_denied",
        "host_unavailable",
        "redirect_loop",
        "too_many_redirects",
        "bad_redirect",
        "headers_too_large",
    ],
)
def test_what_a_second_try_cannot_help_is_final(error: str) -> None:
    assert policy().decide(replace(FAILURE, error=error)) == Final()


@pytest.mark.parametrize("status", [200, 301, 400, 401, 403, 404, 410, 501])
def test_other_statuses_are_results(status: int) -> None:
    assert policy().decide(replace(FAILURE, error="", status=status)) == Final()


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 520, 524])
def test_statuses_that_pass_are_retried(status: int) -> None:
    decision = policy().decide(replace(FAILURE, error="", status=status))
    assert isinstance(decision, Retry)


def test_retries_end() -> None:
    decide = policy(retries=2).decide
    assert isinstance(decide(replace(FAILURE, attempt=2)), Retry)
    assert decide(replace(FAILURE, attempt=3)) == Final("attempts")
    assert policy(retries=0).decide(FAILURE) == Final("attempts")


def test_a_rule_can_only_lower_the_number_of_retries() -> None:
    tls = replace(FAILURE, error="tls_error", attempt=2)
    assert policy(retries=5).decide(tls) == Final("attempts")
    rules = {"tls_error": Rule(retries=9)}
    assert isinstance(policy(retries=2, rules=rules).decide(tls), Retry)
    assert policy(retries=1, rules=rules).decide(tls) == Final("attempts")


def test_dead_exits_of_a_pool_do_not_use_up_the_retries() -> None:
    dead = replace(FAILURE, error="proxy_refused", origin="proxy", attempt=4, proxy=3)
    assert isinstance(policy().decide(dead), Retry)
    assert policy().decide(replace(dead, attempt=7)) == Final("attempts")
    assert policy().decide(replace(dead, proxy=-1)) == Final("attempts")
    assert policy(retries=0).decide(replace(dead, attempt=1)) == Final("attempts")


def test_a_request_that_may_have_been_acted_on_is_not_repeated() -> None:
    post = replace(FAILURE, idempotent=False)
    assert policy().decide(post) == Final("method")
    assert isinstance(policy().decide(replace(post, sent=False)), Retry)
    assert isinstance(policy(allow_unsafe=True).decide(post), Retry)
    answered = replace(post, error="")
    assert policy().decide(replace(answered, status=500)) == Final("method")
    assert policy().decide(replace(answered, status=503)) == Final("method")
    assert isinstance(policy().decide(replace(answered, status=429)), Retry)


def test_a_reused_connection_that_died_is_replaced_once_in_silence() -> None:
    stale = replace(FAILURE, reused=True)
    silent = Retry(0.0, "same", fresh=True, silent=True)
    assert policy().decide(stale) == silent
    assert policy(retries=0).decide(stale) == silent
    again = policy().decide(replace(stale, attempt=2, silent=1))
    assert isinstance(again, Retry)
    assert not again.silent
    assert not policy().is_stale(replace(stale, status=200))
    assert not policy().is_stale(replace(stale, error="timeout"))
    assert policy().decide(replace(stale, idempotent=False)) == Final("method")


def test_credentials_that_were_refused_are_not_tried_again() -> None:
    refused = replace(FAILURE, error="proxy_auth", origin="proxy", sent=False)
    decision = policy().decide(refused)
    assert isinstance(decision, Retry)
    assert decision.exit == "only_other"


def test_a_body_that_matches_is_retried_over_another_exit() -> None:
    seen = replace(FAILURE, error="", status=200, matched=True)
    decision = policy(retry_on_body=[b"captcha"]).decide(seen)
    assert isinstance(decision, Retry)
    assert decision.exit == "higher"
    assert policy(retry_on_body=[b"captcha"]).table().body == (b"captcha",)


@given(
    attempt=st.integers(1, 200),
    seed=st.integers(),
    error=st.sampled_from(["timeout", "connection_reset", "connect_refused"]),
)
def test_back_off_is_full_jitter_under_its_cap(
    attempt: int, seed: int, error: str
) -> None:
    rule = RetryPolicy().rule(replace(FAILURE, error=error))
    assert rule is not None
    chosen = RetryPolicy(retries=1000, rng=random.Random(seed))
    delay = chosen.backoff(replace(FAILURE, error=error, attempt=attempt), rule)
    assert 0 <= delay <= min(rule.cap, rule.base * 2 ** min(attempt - 1, 60))


def test_jitter_spreads_over_the_whole_interval() -> None:
    chosen = policy()
    rule = Rule(base=8.0, cap=8.0)
    delays = [chosen.backoff(FAILURE, rule) for _ in range(1000)]
    assert min(delays) < 0.5
    assert max(delays) > 7.5
    assert 3.5 < sum(delays) / 1000 < 4.5


def test_time_outs_are_retried_quickly_and_refusals_slowly() -> None:
    chosen = policy(retries=100)
    late = replace(FAILURE, attempt=50)
    timeouts = chosen.rule(replace(late, error="timeout"))
    refusals = chosen.rule(replace(late, error="", status=429))
    assert timeouts is not None
    assert refusals is not None
    assert timeouts.cap <= 1.0
    assert refusals.cap >= 30.0


def test_no_attempt_is_started_that_cannot_finish() -> None:
    chosen = policy(min_attempt=0.5)
    assert chosen.decide(replace(FAILURE, left=0.4)) == Final("deadline")
    for seed in range(50):
        one = RetryPolicy(retries=50, min_attempt=0.5, rng=random.Random(seed))
        decision = one.decide(replace(FAILURE, left=2.0, attempt=20))
        assert isinstance(decision, Retry)
        assert decision.delay <= 1.5
    asked = replace(FAILURE, error="", status=503, retry_after=3.0, left=3.4)
    assert chosen.decide(asked) == Final("deadline")


def test_a_retry_after_is_waited_for_and_no_longer_than_the_cap() -> None:
    asked = replace(FAILURE, error="", status=429, retry_after=7.0)
    decision = policy().decide(asked)
    assert isinstance(decision, Retry)
    assert decision.delay == 7.0
    decision = policy(retry_after_cap=20.0).decide(replace(asked, retry_after=1e12))
    assert isinstance(decision, Retry)
    assert decision.delay == 20.0


def test_a_retry_after_of_zero_does_not_switch_the_back_off_off() -> None:
    asked = replace(FAILURE, error="", status=429, retry_after=0.0, attempt=5)
    delays = []
    for seed in range(20):
        decision = RetryPolicy(retries=9, rng=random.Random(seed)).decide(asked)
        assert isinstance(decision, Retry)
        delays.append(decision.delay)
    assert max(delays) > 5.0


def test_a_policy_of_ones_own() -> None:
    class Mine(RetryPolicy):
        def decide(self, failure: Failure) -> Retry | Final:
            if failure.status == 403 and failure.tries == 1:
                return Retry(0.4, "higher")
            return super().decide(failure)

    mine = Mine(statuses={403, *RetryPolicy.STATUSES})
    assert 403 in mine.table().statuses
    assert mine.decide(replace(FAILURE, error="", status=403)) == Retry(0.4, "higher")
    assert isinstance(mine.decide(FAILURE), Retry)


@pytest.mark.parametrize(
    "options",
    [
        {"retries": -1},
        {"retry_after_cap": float("nan")},
        {"statuses": {99}},
        {"statuses": {600}},
        {"rules": {"no_such_type": Rule()}},
    ],
)
def test_senseless_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        policy(**options)


# Retry-After


@pytest.mark.parametrize(
    ("values", "wait"),
    [
        (["-5"], None),
        (["0"], 0.0),
        (["1"], 1.0),
        (["1.5"], 1.5),
        ([" 2 "], 2.0),
        (["+3"], None),
        (["9999999999"], 300.0),
        (["9" * 400], 300.0),
        (["Sun, 06 Nov 1994 08:49:38 GMT"], 1.0),
        (["Sun, 06 Nov 1994 08:49:36 GMT"], 0.0),
        (["Sun, 06 Nov 2094 08:49:36 GMT"], 300.0),
        (["soon"], None),
        (["1", "4"], 4.0),
        (["4", "1"], 4.0),
        (["soon", "3"], 3.0),
        ([""], None),
        ([], None),
        (["1e3"], None),
        (["0x10"], None),
        (["1 2"], None),
        (["1,2"], None),
        (["inf"], None),
        (["nan"], None),
        (["\u0663"], None),
        ([".5"], None),
        (["1."], None),
    ],
)
def test_retry_after_is_read_without_trust(
    values: list[str], wait: float | None
) -> None:
    assert parse_retry_after(values, wall_now=WALL, date=DATE, cap=300.0) == wait


@pytest.mark.parametrize("skew", [-1e6, -3600.0, 0.0, 3600.0, 1e6])
def test_a_date_is_measured_by_the_servers_own_clock(skew: float) -> None:
    asked = ["Sun, 06 Nov 1994 08:49:38 GMT"]
    assert parse_retry_after(asked, wall_now=WALL + skew, date=DATE) == 1.0


def test_without_a_usable_date_header_our_clock_has_to_do() -> None:
    asked = ["Sun, 06 Nov 1994 08:49:47 GMT"]
    for date in (None, "", "soon", "Sun, 99 Nov 1994 08:49:37 GMT"):
        assert parse_retry_after(asked, wall_now=WALL, date=date) == 10.0


@pytest.mark.parametrize(
    "text",
    [
        DATE,
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        f"  {DATE}\t",
    ],
)
def test_all_three_forms_of_a_date(text: str) -> None:
    assert parse_http_date(text, WALL) == WALL


@pytest.mark.parametrize(
    "text",
    [
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 25:49:37 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sun, 06 Xyz 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 CET",
        "1.5",
        "1994",
        "",
    ],
)
def test_what_is_no_date(text: str) -> None:
    assert parse_http_date(text, WALL) is None


@given(st.text(max_size=60), st.text(max_size=40), st.floats(0, 4e9))
def test_no_text_breaks_the_parser_or_leaves_the_range(
    value: str, date: str, wall: float
) -> None:
    wait = parse_retry_after([value], wall_now=wall, date=date, cap=100.0)
    assert wait is None or 0.0 <= wait <= 100.0


# Budgets


def test_the_budget_is_a_share_of_the_requests_plus_a_floor() -> None:
    budget = RetryBudget(ratio=0.2, floor=10.0, ttl=10.0)
    assert sum(budget.take(0.0) for _ in range(500)) == 100
    budget.count(1000, 0.0)
    assert sum(budget.take(0.0) for _ in range(500)) == 200
    assert budget.denied == 700
    assert sum(budget.take(20.0) for _ in range(500)) == 100


@given(
    st.lists(
        st.tuples(st.floats(0, 5), st.integers(0, 50), st.integers(0, 50)), max_size=60
    )
)
def test_over_any_time_the_budget_holds(steps: list[tuple[float, int, int]]) -> None:
    budget = RetryBudget(ratio=0.2, floor=2.0, ttl=10.0)
    now, requests, granted = 0.0, 0, 0
    for pause, asked, retries in steps:
        now += pause
        budget.count(asked, now)
        requests += asked
        granted += sum(budget.take(now) for _ in range(retries))
        assert granted <= 0.2 * requests + 2.0 * (now + 10.0) + 1e-9


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=40))
def test_a_hosts_budget_has_no_clock(steps: list[tuple[int, int]]) -> None:
    budgets = HostBudgets()
    requests, granted = 0, 0
    for asked, retries in steps:
        requests += asked
        budgets.count("h:80", requests)
        granted += sum(budgets.take("h:80") for _ in range(retries))
        assert granted <= 10 + 0.2 * requests
    assert budgets.take("other:80")


def test_host_budgets_are_bounded() -> None:
    budgets = HostBudgets(max_hosts=5)
    for n in range(50):
        budgets.seen(f"h{n}:80")
    assert len(budgets._hosts) == 5
