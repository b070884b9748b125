"""`Fetcher.replace_proxies`: other exits for what runs, and for what comes later."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scripted import Reply, Scripted

from hardfetch import Fetcher, OptionError, Result
from hardfetch.retry import RetryPolicy, Rule

LIMIT = 30.0  # seconds that no test needs
TARGET = "http://page.test/"  # which only the proxies know


@pytest.fixture
def pair() -> Iterator[tuple[Scripted, Scripted]]:
    with Scripted() as old, Scripted() as new:
        yield old, new


def until(ready: Callable[[], object]) -> None:
    end = time.monotonic() + LIMIT
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.02)


def in_use(fetch: Fetcher) -> set[str]:
    return {line["proxy"] for line in fetch.health()["proxies"]}


def replace(fetch: Fetcher, *proxies: str) -> None:
    """Replace, and wait until the running job knows."""
    fetch.replace_proxies(proxies)
    until(lambda: in_use(fetch) == set(proxies))


def test_running_and_later_jobs_use_the_new_ones(
    pair: tuple[Scripted, Scripted], tmp_path: Path
) -> None:
    old, new = pair
    with Fetcher(proxies=[old.url]) as fetch:
        assert fetch.fetch(TARGET).proxy == old.url
        replace(fetch, new.url)
        assert fetch.fetch(TARGET).proxy == new.url
        assert [r.proxy for r in fetch.map([TARGET] * 3)] == [new.url] * 3
        fetch.run([TARGET] * 3, tmp_path / "out.ndjson")
        assert len(old.seen) == 1
        # And back, as a callable.
        fetch.replace_proxies(lambda: [old.url])
        until(lambda: in_use(fetch) == {old.url})
        assert fetch.fetch(TARGET).proxy == old.url


def test_a_run_changes_over_in_its_midst(
    pair: tuple[Scripted, Scripted], tmp_path: Path
) -> None:
    old, new = pair
    inputs = 0

    def urls() -> Iterator[str]:
        nonlocal inputs
        until(fetch.health)
        while not new.seen:
            inputs += 1
            yield TARGET
            if inputs == 5:
                fetch.replace_proxies([new.url])
            time.sleep(0.02)

    with Fetcher(proxies=[old.url], body="none") as fetch:
        summary = fetch.run(urls(), tmp_path / "out.ndjson")
        assert summary.statuses == {"2xx": inputs}
    assert len(old.seen) + len(new.seen) == inputs
    assert min(len(old.seen), len(new.seen)) > 0


def test_what_is_in_flight_over_one_that_is_gone_goes_on_to_its_end() -> None:
    free = threading.Event()
    with Scripted(lambda _: Reply(wait=free)) as old, Scripted() as new:
        got: list[Result] = []
        with Fetcher(proxies=[old.url], timeout=LIMIT) as fetch:
            caller = threading.Thread(target=lambda: got.append(fetch.fetch(TARGET)))
            caller.start()
            until(lambda: old.seen)
            replace(fetch, new.url)
            assert fetch.fetch(TARGET).proxy == new.url
            assert not got
            free.set()
            caller.join(LIMIT)
    assert (got[0].status_code, got[0].proxy) == (200, old.url)
    assert len(old.seen) == 1


def test_a_retry_that_waits_for_one_that_is_gone_takes_another(
    pair: tuple[Scripted, Scripted],
) -> None:
    """Its next exit was chosen when the old ones were in use."""
    old, new = pair
    old.script = lambda _: Reply(500)
    policy = RetryPolicy(1, rules={500: Rule(base=0.0, exit="same")})
    policy.backoff = lambda *_: 1.5  # type: ignore[method-assign]
    with Fetcher(proxies=[old.url], retry=policy) as fetch:
        got: list[Result] = []
        caller = threading.Thread(target=lambda: got.append(fetch.fetch(TARGET)))
        caller.start()
        until(lambda: old.seen)
        replace(fetch, new.url)
        caller.join(LIMIT)
        assert not caller.is_alive()
    assert [a.proxy for a in got[0].attempts] == [old.url, new.url]
    assert got[0].status_code == 200
    assert len(old.seen) == 1


def test_a_lease_of_one_that_stays_is_kept_and_one_that_is_gone_leases_nothing() -> (
    None
):
    free = threading.Event()
    results: list[Result] = []
    with Scripted(lambda _: Reply(wait=free)) as held, Scripted() as other:

        def fetch_one() -> None:
            results.append(fetch.fetch(TARGET))

        with Fetcher(
            proxies=[held.url], exclusive="request", timeout=LIMIT, max_per_host=0
        ) as fetch:
            first = threading.Thread(target=fetch_one)
            first.start()
            until(lambda: held.seen)
            replace(fetch, held.url, other.url)
            for _ in range(5):  # the one that is held serves nobody else
                assert fetch.fetch(TARGET).proxy == other.url
            replace(fetch, other.url)
            assert fetch.fetch(TARGET).proxy == other.url
            assert len(held.seen) == 1
            free.set()
            first.join(LIMIT)
    assert [r.proxy for r in results] == [held.url]


def test_a_session_moves_where_its_exit_is_gone_and_stays_where_it_stays(
    pair: tuple[Scripted, Scripted],
) -> None:
    one, two = pair
    with (
        Scripted() as three,
        Fetcher(proxies=[one.url, two.url], exclusive="session") as fetch,
    ):
        a = fetch.fetch(TARGET, session="a").proxy
        b = fetch.fetch(TARGET, session="b").proxy
        assert {a, b} == {one.url, two.url}
        assert a is not None
        replace(fetch, a, three.url)
        assert fetch.fetch(TARGET, session="a").proxy == a
        assert fetch.fetch(TARGET, session="b").proxy == three.url
        assert fetch.fetch(TARGET, session="a").proxy == a


def test_a_supplier_that_hangs_does_not_keep_the_old_ones(
    pair: tuple[Scripted, Scripted],
) -> None:
    old, new = pair
    calling, free = threading.Event(), threading.Event()

    def supply() -> list[str]:
        if threading.current_thread().name == "hardfetch-proxies":
            calling.set()
            free.wait(60)
        return [old.url]

    with Fetcher(proxies=supply) as fetch:
        assert fetch.fetch(TARGET).proxy == old.url
        fetch.reload_proxies()
        assert calling.wait(LIMIT)
        replace(fetch, new.url)
        free.set()
        assert fetch.fetch(TARGET).proxy == new.url
        assert in_use(fetch) == {new.url}


def test_a_file_is_not_looked_at_any_more(
    pair: tuple[Scripted, Scripted], tmp_path: Path
) -> None:
    old, new = pair
    file = tmp_path / "proxies.txt"
    file.write_text(old.url)
    with Fetcher(proxy_file=file) as fetch:
        fetch.fetch(TARGET)
        replace(fetch, new.url)
        file.write_text(f"{old.url}\n# another size\n")
        fetch.reload_proxies()
        end = time.monotonic() + 0.6  # when it would have been read
        while time.monotonic() < end:
            assert fetch.fetch(TARGET).proxy == new.url
            time.sleep(0.05)


def test_many_threads_replace_and_fetch() -> None:
    with Scripted() as one, Scripted() as two, Scripted() as three:
        lists = [[one.url, two.url], [two.url, three.url], [three.url], [one.url]]
        slips: list[object] = []
        with Fetcher(proxies=lists[0]) as fetch:

            def work(n: int) -> None:
                for step in range(20):
                    if n % 2:
                        fetch.replace_proxies(lists[(n + step) % 4])
                    found = fetch.fetch(TARGET)
                    if found.status_code != 200:
                        slips.append(found)

            callers = [threading.Thread(target=work, args=(n,)) for n in range(8)]
            for caller in callers:
                caller.start()
            for caller in callers:
                caller.join(LIMIT)
            assert not slips
            replace(fetch, two.url)
            assert fetch.fetch(TARGET).proxy == two.url


def test_wrong_ones_are_told_by_their_line_and_change_nothing(
    pair: tuple[Scripted, Scripted],
) -> None:
    old, _ = pair
    with Fetcher(proxies=[old.url]) as fetch:
        for wrong, why in (
            (["http://a:1", "ftp://u:hunter2@h:1"], r"line 2: .*scheme"),
            (["http://u:hunter2@h"], r"line 1: .*port"),
            ([], "the list is empty"),
            ("# none", "the list is empty"),
            (lambda: ["no port"], "callable: line 1"),
            (list, "the list is empty"),
            (17, "proxies: 17"),
            ([17], "proxies: 17"),
            (None, "proxies: None"),
        ):
            with pytest.raises(OptionError, match=why) as caught:
                fetch.replace_proxies(wrong)  # type: ignore[arg-type]
            assert "hunter2" not in str(caught.value)
        assert fetch.fetch(TARGET).proxy == old.url


@pytest.mark.parametrize("options", [{}, {"proxy": "http://127.0.0.1:9"}])
def test_without_a_pool_there_is_nothing_to_replace(options: dict[str, str]) -> None:
    with (
        Fetcher(**options) as fetch,
        pytest.raises(OptionError, match=r"no pool to replace; make .* with proxies="),
    ):
        fetch.replace_proxies(["http://127.0.0.1:9"])
