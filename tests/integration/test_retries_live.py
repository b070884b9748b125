"""Retries as they happen: a server that fails as told, and what the record says."""

from __future__ import annotations

import re
import threading
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from scripted import CLOSE, HOLD, RESET, Reply, Scripted, Seen, in_turn

from hardfetch import Fetcher, Result
from hardfetch.outcome import Failure, Final, Retry
from hardfetch.retry import Decision, RetryPolicy, Rule

FAST = {500: Rule(base=0.01, cap=0.05)}


def once(server: Scripted, request: Any = None, **options: Any) -> Result:
    with Fetcher(**options) as fetcher:
        (result,) = fetcher.map([request or server.url])
    return result


def quick(**options: Any) -> RetryPolicy:
    """A policy whose waits are short."""
    return RetryPolicy(
        options.pop("retries", 2), rules={**FAST, **options.pop("rules", {})}, **options
    )


def stopped(
    fetcher: Fetcher, server: Scripted, urls: list[str], drain: float
) -> list[Result]:
    """What `map` gives that is stopped once the server has seen as many requests."""
    found: list[Result] = []
    caller = threading.Thread(target=lambda: found.extend(fetcher.map(urls)))
    caller.start()
    end = time.monotonic() + 30
    while len(server.seen) < len(urls) and time.monotonic() < end:
        time.sleep(0.01)
    fetcher.stop(drain)
    caller.join(30)
    return found


class TestWhatIsRetried:
    @pytest.mark.parametrize(
        "first",
        [
            Reply(500), Reply(502), Reply(408), Reply(425), Reply(503),
            Reply(429), Reply(end=CLOSE), Reply(end=RESET),
        ],
        ids=lambda reply: reply.end or str(reply.status),
    )  # fmt: skip
    def test_a_passing_failure_is_a_page_at_the_second_try(self, first: Reply) -> None:
        with Scripted(in_turn([first])) as server:
            result = once(server)
        assert (result.status_code, result.text) == (200, "fine")
        one, two = result.attempts
        assert (one.n, two.n) == (1, 2)
        assert one.status_code == (None if first.end else first.status)
        assert (one.error is not None) == bool(first.end)
        assert (two.status_code, two.error) == (200, None)
        assert one.wait == 0
        assert result.elapsed >= one.elapsed + two.wait + two.elapsed - 0.01

    @pytest.mark.parametrize("status", [200, 301, 400, 401, 403, 404, 410, 501])
    def test_an_answer_is_an_answer(self, status: int) -> None:
        with Scripted(in_turn([Reply(status)])) as server:
            result = once(server)
            assert len(server.seen) == 1
        assert result.status_code == status
        assert len(result.attempts) == 1

    def test_a_failure_that_stays_ends_with_the_last_one_and_says_why(self) -> None:
        with Scripted(lambda _: Reply(end=RESET)) as server:
            result = once(server, retry=quick(rules={"connection_reset": Rule(base=0)}))
            assert len(server.seen) == 3
        assert result.error is not None
        assert result.error.type == "connection_reset"
        assert result.attempts[-1].retry_denied == "attempts"
        assert [a.error for a in result.attempts] == ["connection_reset"] * 3

    def test_without_retries_there_is_one_attempt(self) -> None:
        with Scripted(lambda _: Reply(500)) as server:
            result = once(server, retries=0)
            assert len(server.seen) == 1
        assert result.status_code == 500

    def test_the_waits_grow_and_the_record_tells_them(self) -> None:
        rules = {500: Rule(base=0.2, cap=0.4)}
        policy = RetryPolicy(3, rules=rules)
        policy.backoff = lambda failure, rule: rule.base * failure.tries  # type: ignore[method-assign]
        with Scripted(lambda _: Reply(500)) as server:
            result = once(server, retry=policy)
            starts = server.times()
        waits = [a.wait for a in result.attempts]
        assert waits == pytest.approx([0, 0.2, 0.4, 0.6], abs=0.001)
        assert starts[3] - starts[0] >= 1.2

    def test_time_outs_are_tried_again_at_once(self) -> None:
        with Scripted(in_turn([Reply(end=HOLD)])) as server:
            result = once(server, timeout=0.4)
        assert result.status_code == 200
        assert result.attempts[0].error in ("timeout", "first_byte_timeout")
        assert result.attempts[1].wait <= 0.1


class TestMethods:
    @pytest.mark.parametrize("end", [CLOSE, RESET])
    def test_a_post_that_may_have_been_acted_on_is_not_repeated(self, end: str) -> None:
        with Scripted(lambda _: Reply(end=end)) as server:
            request = {"url": server.url, "method": "POST", "body": "x"}
            result = once(server, request)
            assert len(server.seen) == 1
        assert result.error is not None
        assert result.attempts[-1].retry_denied == "method"

    def test_a_post_that_was_refused_unread_is(self) -> None:
        with Scripted(in_turn([Reply(429)])) as server:
            result = once(server, {"url": server.url, "method": "POST", "body": "x"})
        assert result.status_code == 200
        assert [s.method for s in server.seen] == ["POST", "POST"]

    def test_a_post_is_repeated_where_that_is_allowed(self) -> None:
        with Scripted(in_turn([Reply(end=RESET)])) as server:
            request = {"url": server.url, "method": "POST", "body": "x"}
            result = once(server, request, retry=RetryPolicy(allow_unsafe=True))
        assert result.status_code == 200


class TestDeadConnections:
    def test_a_reused_connection_that_died_costs_no_retry(self) -> None:
        """The server closes as the second request comes in: nobody's fault."""

        def script(seen: Seen) -> Reply:
            again = sum(s.connection == seen.connection for s in server.seen) > 1
            return Reply(end=CLOSE) if again else Reply()

        with Scripted(script) as server, Fetcher(retries=1, max_per_host=1) as fetcher:
            results = [fetcher.fetch(server.url) for _ in range(4)]
            assert [r.status_code for r in results] == [200] * 4
            report = fetcher.stats()
            assert server.connections == 4
        assert report.retries == 0

    def test_also_for_a_post_nothing_is_repeated_that_was_sent(self) -> None:
        def script(seen: Seen) -> Reply:
            again = sum(s.connection == seen.connection for s in server.seen) > 1
            return Reply(end=CLOSE) if again else Reply()

        with Scripted(script) as server, Fetcher(max_per_host=1) as fetcher:
            assert fetcher.fetch(server.url).status_code == 200
            result = fetcher.fetch(server.url, method="POST", body=b"x")
        assert result.error is not None
        assert len([s for s in server.seen if s.method == "POST"]) == 1


class TestDeadline:
    def test_no_attempt_is_begun_that_cannot_end(self) -> None:
        rules = {500: Rule(base=0, cap=0)}
        with Scripted(lambda _: Reply(500, after=0.3)) as server:
            result = once(server, deadline=0.8, retry=RetryPolicy(50, rules=rules))
            assert len(server.seen) <= 3
        assert result.error is None or result.error.type == "deadline"
        assert result.elapsed < 1.0
        assert result.attempts[0].status_code == 500

    def test_a_wait_that_is_too_long_ends_at_once(self) -> None:
        reply = Reply(429, (("Retry-After", "30"),))
        with Scripted(lambda _: reply) as server:
            began = time.monotonic()
            result = once(server, deadline=5)
            assert len(server.seen) == 1
        assert time.monotonic() - began < 1.5
        assert (result.status_code, result.error) == (429, None)

    def test_a_deadline_in_the_queue_behind_a_gate_tells_the_last_attempt(self) -> None:
        with Scripted(lambda _: Reply(429)) as server:
            policy = RetryPolicy(5, rules={429: Rule(base=0, cap=0)})
            result = once(server, deadline=1.5, retry=policy)
        assert result.elapsed < 2.0
        assert result.attempts[-1].status_code == 429


class TestContent:
    def test_a_body_that_holds_a_pattern_failed(self) -> None:
        trap = Reply(200, body=b"<p>please solve this CAPTCHA</p>")
        with Scripted(in_turn([trap])) as server:
            result = once(server, retry=RetryPolicy(2, retry_on_body=[b"CAPTCHA"]))
        assert result.text == "fine"
        assert [a.status_code for a in result.attempts] == [200, 200]

    def test_the_option_does_the_same_in_the_first_64_kib_only(self) -> None:
        early = Reply(body=b"x" * 65_530 + b"robot?")
        late = Reply(body=b"x" * 65_536 + b"robot?")
        for reply, tries in ((early, 2), (late, 1)):
            with Scripted(in_turn([reply])) as server:
                once(server, retry_on_body="robot?", retries=1)
                assert len(server.seen) == tries

    def test_a_page_that_stays_bad_is_kept(self) -> None:
        with Scripted(lambda _: Reply(body=b"captcha")) as server:
            result = once(server, retry_on_body="captcha", retries=1)
            assert len(server.seen) == 2
        assert (result.status_code, result.text) == (200, "captcha")
        assert [a.rejected for a in result.attempts] == ["retry_on_body"] * 2


class TestExpressions:
    @pytest.mark.parametrize(
        "pattern",
        [
            re.compile(rb"cap\w+a", re.IGNORECASE),
            re.compile("ARE YOU . rôbot", re.IGNORECASE),
            "re:(?i)captcha|blocked",
            b"re:(?i)captcha|blocked",
            ["nowhere", "re:^<p>A"],
        ],
        ids=str,
    )  # fmt: skip
    def test_a_body_in_which_one_is_found_failed(self, pattern: Any) -> None:
        trap = Reply(body="<p>Are you a rôbot? CAPTCHA!".encode())
        for body in (trap, Reply(status=404, body=trap.body)):
            with Scripted(in_turn([body])) as server:
                result = once(server, retry_on_body=pattern)
            assert result.text == "fine"
            assert [a.rejected for a in result.attempts] == ["retry_on_body", None]

    def test_one_of_a_policy_counts_too(self) -> None:
        policy = RetryPolicy(1, retry_on_body=[re.compile(b"c.ptcha"), b"robot"])
        for body in (b"captcha", b"robot"):
            with Scripted(in_turn([Reply(body=body)])) as server:
                assert once(server, retry=policy).text == "fine"

    @pytest.mark.parametrize(
        "body", [b"", b"fine", b"x" * 65_536 + b"captcha", b"\xff"]
    )
    def test_what_it_is_not_found_in_is_an_answer(self, body: bytes) -> None:
        with Scripted(lambda _: Reply(body=body)) as server:
            result = once(server, retry_on_body=["re:captcha|Captcha"])
            assert len(server.seen) == 1
        assert result.content == body
        assert [a.rejected for a in result.attempts] == [None]

    def test_its_first_64_kib_count(self) -> None:
        with Scripted(in_turn([Reply(body=b"x" * 65_529 + b"captcha")])) as server:
            assert once(server, retry_on_body="re:captcha$").text == "fine"

    def test_a_page_that_stays_bad_is_kept_and_denials_are_told(self) -> None:
        with Scripted(lambda _: Reply(body=b"captcha")) as server:
            result = once(server, retry_on_body="re:captcha", retries=1)
            unsafe = once(
                server,
                {"url": server.url, "method": "POST"},
                retry_on_body="re:captcha",
            )
        assert (result.status_code, result.text) == (200, "captcha")
        assert [a.rejected for a in result.attempts] == ["retry_on_body"] * 2
        assert result.attempts[-1].retry_denied == "attempts"
        assert unsafe.attempts[-1].retry_denied == "method"
        assert unsafe.attempts[-1].rejected == "retry_on_body"

    def test_an_error_goes_its_way_and_a_failed_search_finds_nothing(
        self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with Scripted(in_turn([Reply(end=RESET), Reply(503)])) as server:
            result = once(server, retry_on_body="re:captcha", retry=quick(retries=3))
        assert [a.status_code for a in result.attempts] == [None, 503, 200]

        def slip(*_: Any) -> bool:
            raise RecursionError("too deep")

        monkeypatch.setattr("hardfetch.bodies.Expressions.match", slip)
        with Scripted() as server:
            assert once(server, retry_on_body="re:captcha").text == "fine"
        assert "too deep" in capfd.readouterr().err

    def test_many_answers_pass_and_the_exits_heal_by_them(self, tmp_path: Path) -> None:
        def page(_: Seen) -> Reply:
            bad = len(server.seen) % 10 == 0
            return Reply(body=b"captcha" if bad else b"y" * 100_000)

        out = tmp_path / "out"
        with (
            Scripted(page) as server,
            Fetcher(
                retry_on_body=re.compile("captcha"), proxies=[server.url],
                body="none", retry=quick(retries=9), validate=None,
            ) as fetcher,
        ):  # fmt: skip
            summary = fetcher.run([f"http://page.test/{n}" for n in range(300)], out)
        assert summary.records == 300
        assert summary.statuses == {"2xx": 300}
        assert summary.stats.retries == len(server.seen) - 300 > 10
        assert summary.policy["proxies"][0]["state"] == "up"

    def test_a_stop_leaves_what_is_with_policy_as_it_is(self) -> None:
        with (
            Scripted(lambda _: Reply(body=b"captcha")) as server,
            Fetcher(retry_on_body="re:captcha", retries=9) as fetcher,
        ):
            found = stopped(fetcher, server, [server.url] * 4, drain=0)
        assert len(found) == 4
        assert {r.status_code for r in found} <= {200, None}
        assert not any(r.attempts[-1].retry_denied for r in found if r.attempts)

    def test_a_stop_denies_what_failed_its_retries(self) -> None:
        def refuse_slowly(seen: Seen) -> Reply:
            return Reply(503, after=1.0) if "late" in seen.path else Reply(500)

        class Patient(RetryPolicy):
            def decide(self, failure: Failure) -> Decision:
                assert failure.status in (500, 503)
                return Retry(60.0)

        with (
            Scripted(refuse_slowly) as server,
            Fetcher(retry=Patient()) as fetcher,
        ):
            urls = [f"{server.url}/{name}" for name in ("late", "early")]
            found = stopped(fetcher, server, urls, drain=20)
        told = {r.status_code: r.attempts[-1].retry_denied for r in found}
        assert told == {500: "shutdown", 503: "shutdown"}


class TestOwnPolicies:
    def test_a_subclass_decides(self) -> None:
        class Mine(RetryPolicy):
            def decide(self, failure: Failure) -> Decision:
                if failure.status == 404 and failure.tries < 4:
                    return Retry(0.0, "same")
                return Final("mine")

        with Scripted(lambda _: Reply(404)) as server:
            result = once(server, retry=Mine(statuses={404}))
            assert len(server.seen) == 4
        assert result.status_code == 404

    def test_one_that_raises_ends_the_request_and_not_the_run(
        self, capfd: pytest.CaptureFixture[str]
    ) -> None:
        class Broken(RetryPolicy):
            def decide(self, failure: Failure) -> Decision:
                raise ZeroDivisionError(failure.host)

        with Scripted(lambda seen: Reply(500 if "bad" in seen.path else 200)) as server:
            urls = [f"{server.url}/{'bad' if n % 2 else 'good'}" for n in range(20)]
            with Fetcher(retry=Broken()) as fetcher:
                results = list(fetcher.map(urls))
        assert sorted(r.status_code or 0 for r in results) == [200] * 10 + [500] * 10
        told = capfd.readouterr().err
        assert told.count("the retry policy failed") == 1
        assert "ZeroDivisionError" in told


class TestBudgets:
    def test_a_host_that_always_fails_gets_few_retries(self) -> None:
        """20 % of its first attempts and 10 in all, whatever each might have."""
        with Scripted(lambda _: Reply(500)) as server:
            with Fetcher(retry=quick(), max_per_host=4) as fetcher:
                results = list(fetcher.map([server.url] * 100))
            assert len(server.seen) <= 100 + 30 + 4
        assert len(results) == 100
        assert {r.status_code for r in results} == {500}
        assert any(r.attempts[-1].retry_denied == "host_budget" for r in results)


# Retry-After, every row of the catalogue of field faults. The seconds that the next
# attempt must wait at least and at most; the back-off of junk is that of the gate.

JUNK = (0.45, 1.05)
ROWS: dict[str, tuple[list[str], tuple[float, float]]] = {
    "minus": (["-5"], JUNK),
    "zero": (["0"], JUNK),
    "one": (["1"], (1.0, 1.15)),
    "decimal": (["1.5"], (1.5, 1.7)),
    "blanks": ([" 2 "], (2.0, 2.25)),
    "plus": (["+3"], JUNK),
    "words": (["soon"], JUNK),
    "two headers": (["1", "2"], (2.0, 2.25)),
    "a junk one first": (["soon", "2"], (2.0, 2.25)),
    "empty": ([""], JUNK),
    "none": ([], JUNK),
}


def check_wait(refusal: Reply, bounds: tuple[float, float], **options: Any) -> None:
    """By our clock it waits so long at most, and by the server's at least."""
    with Scripted(in_turn([refusal])) as server:
        result = once(server, **options)
        first, second = server.times()
    assert result.status_code == 200
    assert second - first >= bounds[0]
    assert result.attempts[1].wait <= bounds[1]


class TestRetryAfter:
    @pytest.mark.parametrize("status", [429, 503])
    @pytest.mark.parametrize("row", ROWS)
    def test_each_value_is_read_as_it_is_meant(self, row: str, status: int) -> None:
        values, bounds = ROWS[row]
        headers = tuple(("Retry-After", value) for value in values)
        check_wait(Reply(status, headers), bounds)

    @pytest.mark.parametrize("skew", [0.0, 86_400.0, -3600.0])
    def test_a_date_is_measured_by_the_server_s_own_clock(self, skew: float) -> None:
        now = time.time() + skew
        headers = (
            ("Date", formatdate(now, usegmt=True)),
            ("Retry-After", formatdate(now + 2, usegmt=True)),
        )
        check_wait(Reply(429, headers), (1.9, 2.25))

    def test_a_date_that_is_past_is_no_wait(self) -> None:
        headers = (("Retry-After", "Sun, 06 Nov 1994 08:49:37 GMT"),)
        check_wait(Reply(429, headers), JUNK)

    def test_an_absurd_wait_is_cut(self) -> None:
        headers = (("Retry-After", "9999999999"),)
        policy = RetryPolicy(retry_after_cap=1.0)
        check_wait(Reply(429, headers), (1.0, 1.15), retry=policy)
