"""`map` and `amap` over loopback, and every way to leave them."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from watching import LIMIT, descriptors, wait_for

import hardfetch
from hardfetch import Fetcher, errors
from hardfetch.stream import Stream, _handed_over
from hardfetch.testing import FaultSite


class TestMap:
    def test_results_come_once_for_each_input(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        inputs = ({"url": site.url(f"/1k?{n}"), "id": n} for n in range(500))
        results = list(fetcher.map(inputs))
        assert sorted(r.id for r in results) == list(range(500))
        assert {r.status_code for r in results} == {200}
        assert all(len(r.content) == 1024 for r in results)

    @pytest.mark.parametrize("kind", [list, tuple, iter])
    def test_a_list_longer_than_the_window_is_fetched_whole(
        self, site: FaultSite, kind: Callable[[list[str]], Any]
    ) -> None:
        urls = [site.url(f"/1k?{n}") for n in range(700)]
        with Fetcher(max_concurrency=8, max_per_host=0) as fetcher:
            results = sorted(fetcher.map(kind(urls)), key=lambda result: result.seq)
        assert [result.input for result in results] == urls
        assert [result.seq for result in results] == list(range(700))

    def test_results_are_let_go_one_by_one(self) -> None:
        class Thing:
            pass

        things: list[Any] = [Thing() for _ in range(5)]
        refs = [weakref.ref(thing) for thing in things]
        given = _handed_over(things)
        for n in range(5):
            assert next(given) is refs[n]()
            assert [ref() is None for ref in refs] == [k <= n for k in range(5)]

    def test_a_result_tells_all(self, site: FaultSite, fetcher: Fetcher) -> None:
        (result,) = fetcher.map([site.url("/redirect/2")])
        assert result.ok
        assert result.url == result.final_url == site.url("/1k")
        assert result.request_url == site.url("/redirect/2")
        assert [hop.status_code for hop in result.history] == [302, 302]
        assert result.headers["content-length"] == "1024"
        assert result.http_version == "1.1"
        assert 0 < result.elapsed < LIMIT
        assert result.primary_ip == "127.0.0.1"
        assert len(result.attempts) == 1
        assert result.text

    def test_inputs_that_end_as_they_come_in_have_their_times(
        self, fetcher: Fetcher
    ) -> None:
        # Accepted while the loop works, often after its last look at the clock.
        results = list(fetcher.map("http://" for _ in range(1000)))
        assert len(results) == 1000
        assert all(0 <= result.elapsed < LIMIT for result in results)

    def test_bodies_of_all_sizes_arrive_whole(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        sizes = [0, 1, 1000, 262_143, 262_144, 262_145, 3_000_000]
        inputs = [{"url": site.url(f"/bytes/{n}"), "id": n} for n in sizes]
        results = {r.id: r for r in fetcher.map(inputs)}
        assert {n: len(r.content) for n, r in results.items()} == {n: n for n in sizes}

    def test_inputs_are_pulled_only_a_bounded_number_ahead(
        self, site: FaultSite
    ) -> None:
        pulled = 0

        def inputs() -> Iterator[str]:
            nonlocal pulled
            while True:
                pulled += 1
                yield site.url("/1k")

        with Fetcher(max_concurrency=4, window=8, ring_bytes=65536) as fetcher:
            results = fetcher.map(inputs())
            for _ in range(10):
                next(results)
            before = -1
            while before != pulled:  # until the feeder stands still
                before = pulled
                time.sleep(0.3)
            assert pulled < 200
            results.close()

    def test_what_the_inputs_raise_comes_after_the_results(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        def inputs() -> Iterator[str]:
            yield site.url("/1k")
            raise LookupError("no more")

        results = fetcher.map(inputs())
        assert next(results).ok
        with pytest.raises(LookupError, match="no more"):
            next(results)

    def test_breaking_out_cancels_the_rest_and_leaves_nothing_open(
        self, site: FaultSite
    ) -> None:
        silent = site.fault("silent-after-accept").url
        before = descriptors()
        with Fetcher(max_per_host=0) as fetcher:
            began = time.monotonic()
            for result in fetcher.map([silent] * 50 + [site.url("/1k")]):
                assert result.ok
                break
            assert time.monotonic() - began < 8
        wait_for(lambda: descriptors() <= before)

    @pytest.mark.parametrize(
        "inputs", ["http://x/", b"http://x/", {"url": "http://x/"}, 5]
    )
    def test_a_single_input_is_refused(self, fetcher: Fetcher, inputs: Any) -> None:
        async def first() -> hardfetch.Result:
            return await anext(fetcher.amap(inputs))

        with pytest.raises(errors.OptionError, match="^inputs: "):
            fetcher.map(inputs)
        with pytest.raises(errors.OptionError, match="^inputs: "):
            asyncio.run(first())

    def test_one_is_cancelled_by_its_id_and_the_others_do_not_notice(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        silent = site.fault("silent-after-accept").url
        results = fetcher.map(
            [{"url": silent, "id": "hung"}, {"url": site.url("/1k"), "id": "good"}]
        )
        first = next(results)
        assert (first.id, first.ok) == ("good", True)
        assert fetcher.cancel("hung")
        second = next(results)
        assert second.error is not None
        assert (second.id, second.error.type) == ("hung", "cancelled")
        assert next(results, None) is None
        assert not fetcher.cancel("hung")

    def test_ids_are_forgotten_with_their_results(self) -> None:
        bad = [{"url": "http://", "id": k} for k in range(5_000)]  # answered at once
        with Fetcher() as fetcher:
            results = fetcher.map(iter(bad))
            assert next(results).id == 0
            stream = fetcher._active[0]()
            assert isinstance(stream, Stream)
            assert sum(1 for _ in results) == len(bad) - 1
            stream._inlet.forget([])
            assert not stream._inlet.ids
            assert not stream._inlet._id_of

    def test_closing_gives_what_is_in_flight_the_error_shutdown(
        self, site: FaultSite
    ) -> None:
        silent = site.fault("silent-after-accept").url
        fetcher = Fetcher(max_per_host=0)
        results = fetcher.map([{"url": silent, "id": n} for n in range(50)])

        def end() -> None:
            wait_for(lambda: fetcher.stats().in_flight_now == 50)
            for n in range(25):
                fetcher.cancel(n)
            fetcher.close()
            fetcher.close()

        threading.Thread(target=end).start()
        began = time.monotonic()
        types = [r.error.type for r in results if r.error is not None]
        assert time.monotonic() - began < 8
        assert types.count("cancelled") == 25
        assert types.count("shutdown") == 25

    def test_an_option_is_refused_when_the_fetcher_is_made(self) -> None:
        with pytest.raises(errors.OptionError, match="did you mean timeout"):
            Fetcher(timeot=1)


class TestAmap:
    def test_results_come_for_sync_and_async_inputs(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        async def inputs() -> AsyncIterator[dict[str, Any]]:
            for n in range(100):
                yield {"url": site.url(f"/1k?{n}"), "id": n}
                if n % 10 == 0:
                    await asyncio.sleep(0)

        async def both() -> tuple[list[Any], list[Any]]:
            first = [r.id async for r in fetcher.amap(inputs())]
            listed = [{"url": site.url("/1k"), "id": n} for n in range(100)]
            return first, [r.id async for r in fetcher.amap(listed)]

        for ids in asyncio.run(both()):
            assert sorted(ids) == list(range(100))

    def test_the_loop_stays_free_while_fetches_hang(self, site: FaultSite) -> None:
        async def main() -> tuple[int, int]:
            ticks = 0
            done = False

            async def tick() -> None:
                nonlocal ticks
                while not done:
                    ticks += 1
                    await asyncio.sleep(0.01)

            ticker = asyncio.create_task(tick())
            cpu = time.process_time()
            silent = site.fault("silent-after-accept").url
            with Fetcher(timeout=0.5) as fetcher:
                async for result in fetcher.amap([silent]):
                    assert result.error is not None
            done = True
            await ticker
            return ticks, int((time.process_time() - cpu) * 1000)

        ticks, cpu_ms = asyncio.run(main())
        assert ticks > 15
        assert cpu_ms < 400  # a descriptor left readable would spin

    def test_leaving_the_loop_early_cancels_the_rest(self, site: FaultSite) -> None:
        async def main() -> None:
            silent = site.fault("silent-after-accept").url
            with Fetcher(max_per_host=0) as fetcher:
                results = fetcher.amap([silent] * 20 + [site.url("/1k")])
                async for result in results:
                    assert result.ok
                    break
                await results.aclose()

        began = time.monotonic()
        asyncio.run(main())
        assert time.monotonic() - began < 8

    def test_what_async_inputs_raise_comes_after_the_results(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        async def inputs() -> AsyncIterator[str]:
            yield site.url("/1k")
            raise LookupError("no more")

        async def gather(results: Any, found: list[bool]) -> None:
            async for result in results:
                found.append(result.ok)  # noqa: PERF401 - it raises at the end

        async def main() -> list[bool]:
            found: list[bool] = []
            with pytest.raises(LookupError):
                await gather(fetcher.amap(inputs()), found)
            return found

        assert asyncio.run(main()) == [True]
