"""Where redirects lead to: asked as politely as if it had been an input."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from scripted import Reply, Scripted, Seen

from hardfetch import Fetcher, Request, Result
from hardfetch.limits import LimitRow, Limits, LimitTable
from hardfetch.retry import RetryPolicy

LOOPS = pytest.mark.parametrize("loops", [1, 4])


def to(target: str) -> Callable[[Seen], Reply]:
    """Answer everything with a redirect to the same path of another place."""
    return lambda seen: Reply(302, (("Location", target + seen.path),))


def only(server: Scripted, **changes: Any) -> LimitTable:
    """Limit one server alone."""
    limits = Limits(**{"max_per_host": 0, **changes})
    row = LimitRow(server.host, with_port=True, limits=limits)
    return LimitTable(Limits(max_per_host=0), (row,))


def outcome(result: Result) -> str:
    return result.error.type if result.error else str(result.status_code)


def fetch_all(urls: list[Any], **options: Any) -> list[Result]:
    with Fetcher(**options) as fetcher:
        return sorted(fetcher.map(urls), key=lambda r: r.record["seq"])


@LOOPS
def test_a_rate_holds_for_those_who_were_sent_there(loops: int) -> None:
    with Scripted() as target, Scripted(to(target.url)) as start:
        urls = [f"{start.url}/{n}" for n in range(11)]
        began = time.monotonic()
        results = fetch_all(urls, loops=loops, limits=only(target, rate=20.0))
        took = time.monotonic() - began
    assert [outcome(r) for r in results] == ["200"] * 11
    assert took >= 0.5
    for result in results:
        (attempt,) = result.attempts
        assert [hop.url for hop in result.redirects] == [result.record["url"]]
        assert attempt.status_code == 200
    assert sum(r.attempts[0].wait for r in results) > 2.0  # 0.05, 0.1 … 0.5


def test_a_password_in_a_location_is_used_and_not_told() -> None:
    def script(seen: Seen) -> Reply:
        target = server.url.replace("//", "//user:s3cret@")
        return (
            Reply(302, (("Location", target + "/b"),)) if seen.path == "/a" else Reply()
        )

    with Scripted(script) as server:
        (result,) = fetch_all([server.url + "/a"])
    assert server.seen[1].headers["authorization"].startswith("Basic ")
    assert result.status_code == 200
    (hop,) = result.redirects
    assert hop.location == server.url.replace("//", "//user:***@") + "/b"
    assert b"s3cret" not in result.ndjson()


def test_a_rate_holds_for_hops_within_a_host() -> None:
    def script(seen: Seen) -> Reply:
        last = seen.path.endswith("/3")
        return Reply() if last else Reply(302, (("Location", f"{seen.path}/3"),))

    with Scripted(script) as server:
        began = time.monotonic()
        results = fetch_all([f"{server.url}/{n}" for n in (1, 2)], rate="10/s")
        assert time.monotonic() - began >= 0.3
        assert len(server.seen) == 4
    assert [outcome(r) for r in results] == ["200"] * 2


@LOOPS
def test_in_flight_per_host_is_bounded_over_all_who_send_there(loops: int) -> None:
    with Scripted(lambda _: Reply(after=0.02)) as target:
        starts = [Scripted(to(target.url)) for _ in range(4)]
        for start in starts:
            start.__enter__()
        urls = [f"{starts[n % 4].url}/{n}" for n in range(40)]
        urls += [f"{target.url}/{n}" for n in range(10)]
        results = fetch_all(urls, loops=loops, max_per_host=2)
        most = 2 * loops  # kept-alive connections are a loop's own
        assert target.connections <= most
        for start in starts:
            start.__exit__(None, None, None)
    assert [outcome(r) for r in results] == ["200"] * 50


@LOOPS
def test_a_refusal_closes_the_gate_of_the_host_that_refused(loops: int) -> None:
    def script(_: Seen) -> Reply:
        if len(target.seen) == 1:
            return Reply(429, (("Retry-After", "1"),))
        return Reply(after=0.3) if len(target.seen) == 2 else Reply()

    with Scripted(script) as target, Scripted(to(target.url)) as start:
        urls = [f"{start.url}/{n}" for n in range(20)]
        options: dict[str, Any] = {
            "loops": loops,
            "limits": only(target, max_per_host=1),
        }
        with Fetcher(**options) as fetcher:
            results = []
            for result in fetcher.map(urls):
                results.append(result)
                health = fetcher.health()
        refused, probe, *_ = target.times()
    assert sorted(outcome(r) for r in results) == ["200"] * 20
    assert probe - refused > 0.9
    assert [line["host"] for line in health["hosts"]] == [target.host]
    assert health["hosts"][0]["gates"] == 1


@LOOPS
def test_a_host_that_is_not_there_rests_for_those_who_are_sent_there(
    loops: int,
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    gone = f"127.0.0.1:{listener.getsockname()[1]}"
    listener.close()
    limits = LimitTable(Limits(breaker_failures=4, max_per_host=1))
    with Scripted(to(f"http://{gone}")) as start:
        urls = [f"{start.url}/{n}" for n in range(30)]
        results = fetch_all(urls, loops=loops, limits=limits, retries=0)
        assert len(start.seen) == 30  # which did nothing wrong
    found = [outcome(r) for r in results]
    assert found.count("connect_refused") == 4
    assert found.count("host_unavailable") == 26
    refused = next(r for r in results if outcome(r) == "host_unavailable")
    assert refused.error is not None
    assert (refused.error.origin, refused.error.phase) == ("local", "queue")
    assert refused.status_code is None
    assert refused.final_url == f"http://{gone}/{refused.record['seq']}"
    assert len(refused.redirects) == 1
    assert [a.error for a in refused.attempts] == ["host_unavailable"]


@LOOPS
def test_a_wait_is_not_the_attempts_time(loops: int) -> None:
    with Scripted() as target, Scripted(to(target.url)) as start:
        urls = [f"{start.url}/{n}" for n in range(4)]
        limits = only(target, rate=1.0)
        results = fetch_all(urls, loops=loops, limits=limits, timeout=2, retries=0)
    assert [outcome(r) for r in results] == ["200"] * 4  # the last one after 3 s
    assert max(r.elapsed for r in results) >= 3
    assert max(r.timing["total"] or 0 for r in results) < 2


@LOOPS
def test_the_jobs_deadline_goes_on_while_a_hop_waits(loops: int) -> None:
    with Scripted() as target, Scripted(to(target.url)) as start:
        urls = [f"{start.url}/{n}" for n in range(3)]
        limits = only(target, rate=0.01)
        results = fetch_all(urls, loops=loops, limits=limits, deadline=1.5)
    late = [r for r in results if outcome(r) == "deadline"]
    assert len(late) == 2
    for result in late:
        assert result.elapsed >= 1.5
        assert len(result.redirects) == 1
        assert [(a.status_code, a.error) for a in result.attempts] == [
            (None, "deadline")
        ]


@LOOPS
def test_a_hop_that_waits_can_be_cancelled(loops: int) -> None:
    with Scripted() as target, Scripted(to(target.url)) as start:
        requests = [Request(f"{start.url}/{n}", id=n) for n in range(3)]
        with Fetcher(loops=loops, limits=only(target, rate=0.01)) as fetcher:
            found = []
            for result in fetcher.map(requests):
                found.append(outcome(result))
                # Both others have been sent there by now, or are cancelled sooner.
                for request in requests:
                    fetcher.cancel(request.id)
    assert sorted(found) == ["200", "cancelled", "cancelled"]


@LOOPS
def test_a_sessions_cookies_come_along(loops: int) -> None:
    with Scripted() as target:
        location = ("Location", target.url + "/page")
        reply = Reply(302, (location, ("Set-Cookie", "k=1")))
        with Scripted(lambda _: reply) as start:
            for n in range(6):
                fetch_all([Request(start.url, session=f"s{n}")], loops=loops)
        assert [seen.headers.get("cookie") for seen in target.seen] == ["k=1"] * 6


def test_an_exclusive_exit_stays_with_a_request_between_its_hops() -> None:
    def script(seen: Seen) -> Reply:
        if "start.test" in seen.path:
            target = seen.path.replace("start.test", "target.test")
            return Reply(302, (("Location", target),))
        return Reply()

    with Scripted(script) as gateway:
        row = LimitRow("target.test", with_port=False, limits=Limits(rate=5.0))
        results = fetch_all(
            [f"http://start.test/{n}" for n in range(4)],
            proxies=[gateway.url],
            exclusive="request",
            limits=LimitTable(Limits(), (row,)),
        )
        order = [seen.path.rsplit("/", 1)[1] for seen in gateway.seen]
    assert [outcome(r) for r in results] == ["200"] * 4
    assert order == ["0", "0", "1", "1", "2", "2", "3", "3"]


@LOOPS
def test_who_waits_for_an_exit_stands_not_before_who_holds_it(loops: int) -> None:
    waiting = threading.Event()

    def script(seen: Seen) -> Reply:
        if "start.test" not in seen.path:
            return Reply()
        target = seen.path.replace("start.test", "target.test")
        return Reply(302, (("Location", target),), wait=waiting)

    with Scripted(script) as gateway:
        options: dict[str, Any] = {"proxies": [gateway.url], "exclusive": "request"}
        with Fetcher(loops=loops, proxy_wait=60.0, **options) as fetcher:
            urls = ["http://start.test/0", "http://target.test/1"]
            results = fetcher.map(urls)
            threading.Timer(0.3, waiting.set).start()
            found = sorted(results, key=lambda r: r.seq)
    assert [outcome(r) for r in found] == ["200"] * 2
    assert max(r.elapsed for r in found) < 30


def test_a_retry_starts_over_and_waits_again() -> None:
    def script(_: Seen) -> Reply:
        return Reply(500 if len(target.seen) == 1 else 200)

    with Scripted(script) as target, Scripted(to(target.url)) as start:
        policy = RetryPolicy(2)
        (result,) = fetch_all([start.url], loops=4, retry=policy)
        assert len(start.seen) == len(target.seen) == 2
    assert [a.status_code for a in result.attempts] == [500, 200]
    assert len(result.redirects) == 1


def test_stops_and_closes_leave_no_hop_behind() -> None:
    for drain in (0.0, 0.2):
        with Scripted() as target, Scripted(to(target.url)) as start:
            urls = [f"{start.url}/{n}" for n in range(60)]
            limits = only(target, rate=20.0)
            with Fetcher(loops=4, limits=limits) as fetcher:
                seqs = []
                for result in fetcher.map(urls):
                    seqs.append(result.record["seq"])
                    fetcher.stop(drain)
            assert len(set(seqs)) == len(seqs)
    with Scripted() as target, Scripted(to(target.url)) as start:
        limits = only(target, rate=0.01)
        fetcher = Fetcher(loops=4, limits=limits)

        def fetch() -> None:
            with suppress(Exception):
                fetcher.fetch(start.url)

        threads = [threading.Thread(target=fetch) for _ in range(8)]
        for thread in threads:
            thread.start()
        while len(start.seen) < 8:
            time.sleep(0.01)
        fetcher.close()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads)


class TestRobots:
    RULES = Reply(body=b"User-agent: *\nDisallow: /private\n")

    def site(self, script: Callable[[Seen], Reply], rules: Reply = RULES) -> Scripted:
        return Scripted(lambda s: rules if s.path == "/robots.txt" else script(s))

    @LOOPS
    def test_a_redirect_to_what_is_denied_is_not_followed(self, loops: int) -> None:
        pytest.importorskip("protego")
        with self.site(lambda _: Reply()) as target:
            with self.site(to(target.url), Reply(404)) as start:
                urls = [f"{start.url}/{p}" for p in ("private/1", "open", "private/2")]
                results = fetch_all(urls * 5, robots="obey", loops=loops)
            asked = [seen.path for seen in target.seen]
        assert [outcome(r) for r in results] == [
            "robots_denied", "200", "robots_denied",
        ] * 5  # fmt: skip
        assert asked[0] == "/robots.txt"
        assert sorted(asked[1:]) == ["/open"] * 5
        denied = results[0]
        assert denied.error is not None
        assert (denied.error.origin, denied.error.phase) == ("local", "queue")
        assert denied.final_url == f"{target.url}/private/1"
        assert len(denied.redirects) == 1

    def test_so_is_one_within_a_host(self) -> None:
        pytest.importorskip("protego")
        path = Reply(302, (("Location", "/private"),))
        with self.site(lambda _: path) as server:
            (result,) = fetch_all([server.url + "/door"], robots="obey")
            assert [seen.path for seen in server.seen] == ["/robots.txt", "/door"]
        assert outcome(result) == "robots_denied"

    def test_nobody_is_asked_where_robots_are_ignored(self) -> None:
        with self.site(lambda _: Reply()) as target, Scripted(to(target.url)) as start:
            (result,) = fetch_all([start.url + "/private"])
            assert [seen.path for seen in target.seen] == ["/private"]
        assert outcome(result) == "200"
