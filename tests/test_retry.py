"""What is retried, when and over which exit, and what never is."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from hardfetch import classify
from hardfetch.errors import OptionError
from hardfetch.outcome import Failure, Final, Retry
from hardfetch.retry import RetryPolicy, Rule

FAILURE = Failure(seq=0, host="h:80", error="connection_reset", phase="first_byte")


def policy(**options: object) -> RetryPolicy:
    return RetryPolicy(rng=random.Random(1), **options)  # type: ignore[arg-type]


def test_the_compiled_table_names_each_outcome_by_its_bit() -> None:
    table = policy(statuses={408, 429, 599}).table()
    bits = table.type_bits()
    named = {t for n, t in enumerate(classify.TYPES) if bits >> n & 1}
    assert named == table.types
    assert bits < 1 << 64
    packed = table.status_bytes()
    assert len(packed) == 75
    assert {n for n in range(600) if packed[n // 8] >> n % 8 & 1} == {408, 429, 599}


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


@pytest.mark.parametrize(
    "name", ["retries", "retry_after_cap", "exit_retries", "min_attempt"]
)
@pytest.mark.parametrize("value", [-1, "x", None, float("nan")])
def test_a_number_that_is_none_is_told_by_its_name(name: str, value: object) -> None:
    told = f"{name}: {value!r} is not allowed; give a number, 0 or more"
    with pytest.raises(OptionError, match=f"^{told}$"):
        policy(**{name: value})
