"""`validate`: the caller's own look at an answer, and what policy makes of it."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import Any

import pytest
from scripted import RESET, Reply, Scripted, Seen, in_turn
from watching import wait_for

from hardfetch import Fetcher, HardfetchError, OptionError, Result, deadline
from hardfetch.errors import ClosedError
from hardfetch.retry import RetryPolicy

BAD = Reply(body=b"please wait")


def is_page(result: Result) -> bool:
    return "wait" not in result.text


def test_a_bad_answer_is_tried_again_and_only_the_good_one_given() -> None:
    def script(seen: Seen) -> Reply:
        asked = sum(s.path == seen.path for s in server.seen)
        return BAD if int(seen.path[1:]) % 3 == 0 and asked == 1 else Reply()

    with Scripted(script) as server, Fetcher(validate=is_page) as fetcher:
        results = list(fetcher.map([f"{server.url}/{n}" for n in range(30)]))
        stats = fetcher.stats()
    assert sorted(r.record["seq"] for r in results) == list(range(30))
    assert {r.text for r in results} == {"fine"}
    for result in results:
        tries = 2 if result.record["seq"] % 3 == 0 else 1
        assert [a.n for a in result.attempts] == list(range(1, tries + 1))
    assert (stats.records, stats.retries, stats.inputs) == (30, 10, 30)


def test_one_that_stays_bad_is_given_as_it_is_and_says_why() -> None:
    with Scripted(lambda _: BAD) as server, Fetcher(validate=is_page) as fetcher:
        result = fetcher.fetch(server.url)
        assert len(server.seen) == 3
    assert (result.status_code, result.text) == (200, "please wait")
    assert [a.rejected for a in result.attempts] == ["validate"] * 3
    assert result.attempts[-1].retry_denied == "attempts"


def test_expressions_are_looked_for_before_it_is_asked() -> None:
    script = in_turn([Reply(body=b"captcha"), BAD, Reply(body=b"a captcha again")])
    asked: list[str] = []

    def look(result: Result) -> bool:
        asked.append(result.text)
        return is_page(result)

    options = {"validate": look, "retry_on_body": "re:^cap|again$", "retries": 3}
    with Scripted(script) as server, Fetcher(**options) as fetcher:
        result = fetcher.fetch(server.url)
    assert result.text == "fine"
    assert asked == ["please wait", "fine"]
    found = [a.rejected for a in result.attempts]
    assert found == ["retry_on_body", "validate", "retry_on_body", None]


def test_without_retries_it_says_so_and_the_host_is_named() -> None:
    with (
        Scripted(lambda _: BAD) as server,
        Fetcher(validate=is_page, retries=0) as fetcher,
    ):
        (attempt,) = fetcher.fetch(server.url).attempts
        (host,) = fetcher.health()["hosts"]
        assert len(server.seen) == 1
    assert (attempt.rejected, attempt.retry_denied) == ("validate", "attempts")
    assert (host["host"], host["failures"], host["last"]) == (server.host, 1, "content")


def test_errors_are_not_put_before_it_and_count_among_the_attempts() -> None:
    asked: list[int] = []

    def look(result: Result) -> bool:
        asked.append(result.status_code or 0)
        return is_page(result)

    replies = [Reply(end=RESET), BAD]
    with Scripted(in_turn(replies)) as server, Fetcher(validate=look) as fetcher:
        result = fetcher.fetch(server.url)
    assert asked == [200, 200]
    assert [a.error for a in result.attempts] == ["connection_reset", None, None]
    assert [a.rejected for a in result.attempts] == [None, "validate", None]


def test_a_post_is_not_repeated_for_its_content() -> None:
    with Scripted(lambda _: BAD) as server, Fetcher(validate=is_page) as fetcher:
        result = fetcher.fetch(server.url, method="POST", body=b"x")
        assert len(server.seen) == 1
    assert result.attempts[-1].retry_denied == "method"


def test_the_next_try_goes_over_another_exit() -> None:
    slow = Reply(body=b"please wait", after=0.05)
    with Scripted(lambda _: slow) as blocked, Scripted() as clean:
        exits = [blocked.url, clean.url]
        with Fetcher(proxies=exits, validate=is_page, max_per_host=2) as fetcher:
            results = list(fetcher.map(["http://site.test/"] * 40))
        assert {r.text for r in results} == {"fine"}
        assert len(blocked.seen) < 20  # the host is kept off it after a few


def test_what_it_raises_reaches_the_caller() -> None:
    def broken(result: Result) -> bool:
        raise ZeroDivisionError(result.url)

    with Scripted() as server, Fetcher(validate=broken) as fetcher:
        with pytest.raises(ZeroDivisionError):
            fetcher.fetch(server.url)
        with pytest.raises(ZeroDivisionError):
            list(fetcher.map([server.url] * 5))


def test_no_exception_of_its_keeps_others_waiting() -> None:
    closed = Fetcher()
    closed.close()

    def look(result: Result) -> bool:
        if result.text == "exit":
            sys.exit(3)
        if result.text == "closed":
            closed.fetch(result.record["url"])
        return True

    def script(seen: Seen) -> Reply:
        return Reply(body=seen.path[1:].encode())

    with Scripted(script) as server, Fetcher(validate=look) as fetcher:
        for _ in range(3):
            with pytest.raises(SystemExit):
                fetcher.fetch(f"{server.url}/exit")
            with pytest.raises(ClosedError):
                fetcher.fetch(f"{server.url}/closed")
        assert fetcher.fetch(f"{server.url}/page").text == "page"


def test_it_is_told_when_it_would_wait_for_itself() -> None:
    with Scripted() as server:

        def look(result: Result) -> bool:
            return fetcher.fetch(result.record["url"]).ok

        fetcher = Fetcher(validate=look)
        with fetcher, pytest.raises(HardfetchError, match="make another"):
            fetcher.fetch(server.url)


def test_a_cancel_does_not_wait_for_its_verdict() -> None:
    looking, free = threading.Event(), threading.Event()

    def look(_: Result) -> bool:
        looking.set()
        free.wait(60)
        return False

    found: list[Result] = []
    with Scripted(lambda _: BAD) as server, Fetcher(validate=look) as fetcher:
        thread = threading.Thread(
            target=lambda: found.append(fetcher.fetch(server.url, id="one"))
        )
        thread.start()
        assert looking.wait(60)
        fetcher.cancel("one")
        # Told, before a verdict comes that the engine might take together with it.
        wait_for(lambda: fetcher.stats().records == 1)
        free.set()
        thread.join(60)
        assert len(server.seen) == 1
    assert [r.attempts[-1].retry_denied for r in found] == ["unchecked"]


def test_a_deadline_ends_the_tries() -> None:
    with Scripted(lambda _: BAD) as server:
        policy = RetryPolicy(1000)
        with Fetcher(validate=is_page, deadline=1.0, retry=policy) as fetcher:
            began = time.monotonic()
            (result,) = fetcher.map([server.url])
    assert time.monotonic() - began < 3
    assert result.error is not None or result.attempts[-1].retry_denied


def test_amap_and_many_threads() -> None:
    def script(_: Seen) -> Reply:
        return BAD if len(server.seen) % 4 == 0 else Reply()

    async def collect(fetcher: Fetcher) -> list[Result]:
        return [r async for r in fetcher.amap([server.url] * 30)]

    with Scripted(script) as server, Fetcher(validate=is_page, retries=6) as fetcher:
        results = asyncio.run(collect(fetcher))
        found: list[Result] = []
        threads = [
            threading.Thread(target=lambda: found.append(fetcher.fetch(server.url)))
            for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert len(results) == 30
    assert len(found) == 20
    assert all(is_page(r) or r.attempts[-1].retry_denied for r in results + found)


def test_a_stop_gives_each_input_once() -> None:
    with Scripted(lambda _: BAD) as server:
        policy = RetryPolicy(1000)
        with Fetcher(validate=is_page, retry=policy, max_per_host=16) as fetcher:
            seqs = []
            for result in fetcher.map([server.url] * 60):
                seqs.append(result.record["seq"])
                fetcher.stop(0.0)
            timer = threading.Timer(0.3, fetcher.stop, (0.0,))
            timer.start()
            again = [r.record["seq"] for r in fetcher.map([server.url] * 60)]
    assert len(set(again)) == len(again)
    assert len(set(seqs)) == len(seqs)


def test_a_stop_while_records_wait_for_room_ends() -> None:
    with Scripted(lambda _: Reply(body=b"x" * 100_000)) as server:
        urls = [f"{server.url}/{n}" for n in range(40)]
        options: dict[str, Any] = {"ring_bytes": "64k", "validate": lambda _: True}
        with Fetcher(loops=1, **options) as fetcher, deadline(30):
            seqs = []
            for result in fetcher.map(urls):
                seqs.append(result.seq)
                if len(seqs) == 1:
                    while len(server.seen) < 8:
                        time.sleep(0.01)
                    fetcher.stop(0.0)
    assert len(set(seqs)) == len(seqs)


def test_a_slow_reader_of_large_pages_gets_each_once() -> None:
    """The ring is full: provisional records park as others do."""
    large = Reply(body=b"x" * 60_000)

    def script(seen: Seen) -> Reply:
        asked = sum(s.path == seen.path for s in server.seen)
        return Reply(body=b"wait" * 15_000) if asked == 1 else large

    options: dict[str, Any] = {"ring_bytes": 65536, "retries": 3}
    with Scripted(script) as server, Fetcher(validate=is_page, **options) as fetcher:
        results = []
        for result in fetcher.map([f"{server.url}/{n}" for n in range(20)]):
            results.append(result)
            time.sleep(0.01)
    assert sorted(r.record["seq"] for r in results) == list(range(20))


def test_run_has_no_results_to_look_at(tmp_path: Any) -> None:
    with (
        Fetcher(validate=is_page) as fetcher,
        pytest.raises(OptionError, match="validate"),
    ):
        fetcher.run(["http://127.0.0.1:9"], tmp_path / "out")

    async def look(_: Result) -> bool:
        return True

    for slip in (5, look):
        with pytest.raises(OptionError, match="validate"):
            Fetcher(validate=slip)
