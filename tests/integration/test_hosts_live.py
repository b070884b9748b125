"""Hosts as they are spared: gates, breakers, rates and limits, all over loopback."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from scripted import CLOSE, Reply, Scripted, Seen, in_turn

from hardfetch import Fetcher, Result
from hardfetch.limits import LimitRow, Limits, LimitTable
from hardfetch.retry import RetryPolicy, Rule

NO_WAIT = {"connect_refused": Rule(base=0), "empty_reply": Rule(base=0)}


def fetch_all(urls: list[str], **options: Any) -> list[Result]:
    with Fetcher(**options) as fetcher:
        return list(fetcher.map(urls))


class TestGates:
    @pytest.mark.parametrize("status", [429, 503])
    def test_one_refusal_holds_the_whole_queue_and_one_probe_goes_first(
        self, status: int
    ) -> None:
        refusal = Reply(status, (("Retry-After", "1"),))

        def script(_: Seen) -> Reply:
            slow = Reply(after=0.3) if len(server.seen) == 2 else Reply()
            return refusal if len(server.seen) == 1 else slow

        with Scripted(script) as server, Scripted() as other:
            # One connection at first, so that the refusal is known before the others.
            urls = [f"{server.url}/{n}" for n in range(40)]
            with Fetcher(max_per_host=1) as fetcher:
                results = list(fetcher.map(urls))
            others = fetch_all([other.url] * 40)
            first, probe, *rest = server.times()
        assert [r.status_code for r in results] == [200] * 40
        assert probe - first >= 1.0  # and nobody in between
        assert rest[0] - probe >= 0.3  # nobody before the probe was answered
        assert len(others) == 40

    def test_the_other_hosts_do_not_notice(self) -> None:
        refusal = Reply(429, (("Retry-After", "300"),))
        with Scripted(in_turn([refusal])) as closed, Scripted() as open_:
            urls = [closed.url] * 8 + [open_.url] * 50
            with Fetcher(max_concurrency=4, max_per_host=2) as fetcher:
                found = []
                for result in fetcher.map(urls):
                    found.append(result)
                    if len(found) == 50:
                        fetcher.stop(0.0)
            assert len(closed.seen) <= 2
        assert [r.status_code for r in found[:50]] == [200] * 50
        assert {r.error.type for r in found[50:] if r.error} <= {"shutdown"}

    def test_refusals_that_had_left_before_do_not_make_the_wait_grow(self) -> None:
        """Eight at once are refused: that is one refusal, not eight."""
        all_there = threading.Event()

        def script(_: Seen) -> Reply:
            if len(server.seen) == 8:
                all_there.set()
            return Reply(429, wait=all_there) if len(server.seen) <= 8 else Reply()

        with Scripted(script) as server, Fetcher(max_per_host=8) as fetcher:
            results = []
            for result in fetcher.map([server.url] * 30):
                results.append(result)
                gates = fetcher.health()["gates"]
        assert [r.status_code for r in results] == [200] * 30
        assert gates == 1

    def test_a_probe_that_is_refused_makes_the_next_wait_longer(self) -> None:
        with Scripted(lambda _: Reply(429 if len(server.seen) <= 3 else 200)) as server:
            policy = RetryPolicy(5, rules={429: Rule(base=0)})
            results = fetch_all([server.url] * 5, max_per_host=1, retry=policy)
            first, second, third, fourth, *_ = server.times()
        assert [r.status_code for r in results] == [200] * 5
        waits = [second - first, third - second, fourth - third]
        assert waits[0] >= 0.5
        assert waits[1] >= 1.0
        assert waits[2] >= 2.0

    def test_gates_close_also_where_nothing_is_retried(self) -> None:
        with Scripted(in_turn([Reply(429, (("Retry-After", "1"),))])) as server:
            results = fetch_all([server.url] * 3, retries=0, max_per_host=1)
            first, second, _ = server.times()
        assert sorted(r.status_code or 0 for r in results) == [200, 200, 429]
        assert second - first >= 1.0


class TestBreaker:
    def test_a_host_that_is_not_there_rests_and_costs_no_connection(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.close()
        limits = LimitTable(Limits(breaker_failures=4, max_per_host=1))
        with Fetcher(retries=0, limits=limits, max_per_host=1) as fetcher:
            results = list(fetcher.map([url] * 50))
            stats = fetcher.stats()
            connects = stats.connects
        types = [r.error.type if r.error else "" for r in results]
        assert types.count("connect_refused") == 4
        assert types.count("host_unavailable") == 46
        assert connects == 4
        assert stats.breakers == 1
        refused = next(r for r in results if r.error and r.error.origin == "local")
        assert refused.attempts == []
        assert refused.error is not None
        assert refused.error.phase == "queue"

    def test_it_comes_back_by_one_probe(self) -> None:
        down = threading.Event()
        down.set()

        def script(_: Seen) -> Reply:
            return Reply(end=CLOSE) if down.is_set() else Reply(after=0.2)

        limits = LimitTable(Limits(breaker_failures=3, breaker_open=0.3))
        with (
            Scripted(script) as server,
            Fetcher(limits=limits, retries=0, max_per_host=8) as fetcher,
        ):
            for _ in range(3):
                assert fetcher.fetch(server.url).error
            assert fetcher.health()["hosts"][0]["opened"] == 1
            down.clear()
            time.sleep(0.4)
            before = len(server.seen)
            pool = [
                threading.Thread(target=fetcher.fetch, args=(server.url,))
                for _ in range(4)
            ]
            for thread in pool:
                thread.start()
            for thread in pool:
                thread.join()
            times = server.times()[before:]
        assert len(times) == 4
        assert times[1] - times[0] >= 0.2  # the probe alone, and then the others

    def test_the_breaker_can_be_turned_off(self) -> None:
        with Scripted(lambda _: Reply(end=CLOSE)) as server:
            results = fetch_all([server.url] * 30, breaker=0, retries=0)
            assert len(server.seen) == 30
        assert {r.error.type for r in results if r.error} == {"empty_reply"}

    def test_pages_that_fail_do_not_open_it(self) -> None:
        with Scripted(lambda _: Reply(500)) as server:
            results = fetch_all([server.url] * 40, retries=0)
        assert {r.status_code for r in results} == {500}


class TestPace:
    def test_a_rate_spaces_the_starts_whatever_the_concurrency(self) -> None:
        with Scripted() as server, Scripted() as other:
            began = time.monotonic()
            urls = [server.url, other.url] * 11
            results = fetch_all(urls, rate="20/s")
            took = time.monotonic() - began
            # Side by side.
            assert min(server.times()) < max(other.times())
            assert min(other.times()) < max(server.times())
            assert len(server.seen) == len(other.seen) == 11
        assert len(results) == 22
        assert took >= 0.5

    def test_a_delay_is_kept_between_starts(self) -> None:
        with Scripted() as server:
            began = time.monotonic()
            fetch_all([server.url] * 12, delay=0.05)
            assert time.monotonic() - began >= 0.55

    def test_jitter_is_added_to_it(self) -> None:
        with Scripted() as server:
            began = time.monotonic()
            fetch_all([server.url] * 21, delay=0.02, jitter=10)
            # 0.4 s without it; with it 2.4 s is usual, and the deviation 0.26 s.
            assert time.monotonic() - began >= 0.8

    def test_the_rate_holds_for_retries_too(self) -> None:
        with Scripted(lambda _: Reply(end=CLOSE)) as server:
            policy = RetryPolicy(3, rules=NO_WAIT)
            began = time.monotonic()
            fetch_all([server.url] * 3, rate="20/s", retry=policy, breaker=0)
            assert time.monotonic() - began >= 0.55
            assert len(server.seen) == 12

    def test_in_flight_per_host_is_bounded(self) -> None:
        with Scripted(lambda _: Reply(after=0.02)) as server:
            fetch_all([server.url] * 60, max_per_host=3)
            assert server.connections <= 3

    def test_adaptive_finds_a_rate_from_below(self) -> None:
        """The long form, against a site that refuses, is bench/policy_live.py."""
        with Scripted() as server:
            began = time.monotonic()
            fetch_all([server.url] * 30, adaptive=True)
            took = time.monotonic() - began
            times = server.times()
        assert took > 3.0
        assert times[29] - times[15] < times[14] - times[0]


class TestLimitFiles:
    def test_patterns_set_limits_host_by_host(self, tmp_path: Path) -> None:
        with Scripted() as slow, Scripted() as fast:
            file = tmp_path / "limits.json"
            row = {"match": f"127.0.0.1:{slow.port}", "rate": "5/s"}
            file.write_text(json.dumps({"default": {}, "host": [row]}))
            began = time.monotonic()
            fetch_all([slow.url, fast.url] * 6, limits=file)
            took = time.monotonic() - began
            assert max(fast.times()) < max(slow.times())
        assert took >= 1.0

    def test_a_table_does_the_same(self) -> None:
        with Scripted() as server:
            row = LimitRow("127.0.0.*", with_port=False, limits=Limits(rate=20))
            began = time.monotonic()
            fetch_all([server.url] * 5, limits=LimitTable(Limits(), (row,)))
            assert time.monotonic() - began >= 0.2
