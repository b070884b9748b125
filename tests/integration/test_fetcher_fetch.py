"""`fetch` and `afetch` over loopback; forks, threads and interpreter exits."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from scripted import Scripted
from strict import read as records
from watching import LIMIT, wait_for

import hardfetch
from hardfetch import Fetcher, errors, frames
from hardfetch.testing import FaultSite


class TestFetch:
    def test_connections_are_kept_between_calls(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        assert fetcher.fetch(site.url("/1k")).record["reused"] is False
        for _ in range(5):
            assert fetcher.fetch(site.url("/1k")).record["reused"] is True

    def test_a_request_goes_out_as_asked(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        result = fetcher.fetch(
            site.url("/echo"), method="PUT", headers={"X-A": "b"}, json={"é": 1}, id=[1]
        )
        seen = result.json()
        assert seen["method"] == "PUT"
        sent = {name.lower(): value for name, value in seen["headers"]}
        assert sent["x-a"] == "b"
        assert sent["content-type"] == "application/json"
        assert result.id == [1]

    @pytest.mark.parametrize(
        "fields", [{"a": [1, "&"], "é": ""}, [("a", 1), ("a", "&"), ("é", "")]]
    )
    def test_a_mapping_or_pairs_as_data_are_a_form(
        self, site: FaultSite, fetcher: Fetcher, fields: Any
    ) -> None:
        seen = fetcher.fetch(site.url("/echo"), data=fields).json()
        assert (seen["method"], seen["body"]) == ("POST", "a=1&a=%26&%C3%A9=")
        sent = {name.lower(): value for name, value in seen["headers"]}
        assert sent["content-type"] == "application/x-www-form-urlencoded"
        seen = fetcher.fetch(
            site.url("/echo"), data=fields, headers={"content-type": "x/y"}
        ).json()
        sent = {name.lower(): value for name, value in seen["headers"]}
        assert sent["content-type"] == "x/y"

    @pytest.mark.parametrize("fields", [["a"], [1], [("a", 1, 2)], {"a": "\ud800"}])
    def test_a_form_that_is_none_is_refused(
        self, fetcher: Fetcher, fields: Any
    ) -> None:
        with pytest.raises(errors.OptionError, match="^data: a form is a mapping"):
            fetcher.fetch("http://x.test/", data=fields)

    def test_a_body_that_is_none_is_none(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        for name in ("body", "data", "json"):
            seen = fetcher.fetch(site.url("/echo"), **{name: None}).json()
            assert seen["method"] == "GET"
            sent = {key.lower(): value for key, value in seen["headers"]}
            assert not {"content-type", "content-length"} & set(sent)

    @pytest.mark.parametrize("one", ["body", "data"])
    def test_two_bodies_are_refused(
        self, site: FaultSite, fetcher: Fetcher, one: str
    ) -> None:
        two: dict[str, Any] = {one: "YQ==", "json": {}}
        told = f"^json: there is a {one} already"
        with pytest.raises(errors.OptionError, match=told):
            fetcher.fetch(site.url("/echo"), **two)

    def test_headers_without_a_value_go_along_with_json(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        headers = {"X-Empty": "", "X-Colons": "a: b"}
        seen = fetcher.fetch(site.url("/echo"), headers=headers, json=[]).json()
        sent = {key.lower(): value for key, value in seen["headers"]}
        assert (sent["x-empty"], sent["x-colons"]) == ("", "a: b")

    @pytest.mark.parametrize(
        ("options", "request_options", "told"),
        [
            ({"data": "a=1"}, {}, "application/x-www-form-urlencoded"),
            ({"data": b"", "method": "put"}, {}, "application/x-www-form-urlencoded"),
            ({"data": "{}", "headers": {"content-type": "a/b"}}, {}, "a/b"),
            ({"data": "{}"}, {"headers": {"Content-Type": "a/b"}}, "a/b"),
            ({"data": "a=1"}, {"data": "b=1"}, None),
            ({"data": "a=1"}, {"json": {}}, "application/json"),
            ({"data": "a=1"}, {"method": "get"}, None),
            ({}, {"data": b"b=1", "method": "post"}, None),
            ({}, {"method": "POST"}, None),
            ({}, {}, None),
        ],
    )
    def test_the_default_body_is_a_form_and_of_others_nothing_is_said(
        self, options: Any, request_options: Any, told: str | None
    ) -> None:
        with Scripted() as server, Fetcher(**options) as fetch:
            fetch.fetch(server.url, **request_options)
            (seen,) = server.seen
        assert seen.headers.get("content-type") == told
        assert seen.method == seen.method.upper()
        assert "expect" not in seen.headers

    def test_failures_are_results_and_raise_when_asked(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        result = fetcher.fetch(site.fault("silent-after-accept").url, timeout=0.3)
        assert result.error is not None
        assert 0.3 <= result.elapsed < 1.5
        with pytest.raises(TimeoutError):
            result.raise_for_status()
        missing = fetcher.fetch(site.url("/status/404"))
        assert missing.error is None
        with pytest.raises(errors.HTTPError):
            missing.raise_for_status()
        bad = fetcher.fetch("http://")
        with pytest.raises(errors.InvalidRequest):
            bad.raise_for_status()

    def test_a_wrong_option_is_refused_at_once(self, fetcher: Fetcher) -> None:
        for wrong in ({"timeout": 0}, {"timeout": float("nan")}, {"tmeout": 1}):
            with pytest.raises(errors.OptionError):
                fetcher.fetch("http://127.0.0.1/", **wrong)

    def test_many_threads_share_one_engine_and_get_their_own_results(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        failures: list[object] = []

        def work(thread: int) -> None:
            for n in range(50):
                ident = f"{thread}-{n}"
                result = fetcher.fetch(site.url(f"/1k?{ident}"), id=ident)
                if result.id != ident or not result.ok:
                    failures.append(result)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
        assert not failures
        assert fetcher.stats().records == 400

    def test_afetch_gathers(self, site: FaultSite, fetcher: Fetcher) -> None:
        async def main() -> list[Any]:
            calls = [fetcher.afetch(site.url("/1k"), id=n) for n in range(50)]
            return [result.id for result in await asyncio.gather(*calls)]

        assert asyncio.run(main()) == list(range(50))

    def test_a_cancelled_task_cancels_its_request(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        async def main() -> None:
            silent = site.fault("silent-after-accept").url
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(fetcher.afetch(silent), 0.2)

        asyncio.run(main())
        wait_for(lambda: fetcher.stats().in_flight_now == 0)
        assert fetcher.stats().errors() == {"cancelled": 1}

    def test_closing_answers_waiting_calls_and_refuses_new_ones(
        self, site: FaultSite
    ) -> None:
        fetcher = Fetcher()
        results: list[hardfetch.Result] = []
        silent = site.fault("silent-after-accept").url
        thread = threading.Thread(target=lambda: results.append(fetcher.fetch(silent)))
        thread.start()
        wait_for(lambda: fetcher.stats().in_flight_now == 1)
        began = time.monotonic()
        fetcher.close()
        thread.join(LIMIT)
        assert time.monotonic() - began < 3
        assert results[0].error is not None
        assert results[0].error.type == "shutdown"
        with pytest.raises(errors.ClosedError):
            fetcher.fetch(site.url("/1k"))
        fetcher.close()

    def test_calls_that_race_with_a_close_all_end(self, site: FaultSite) -> None:
        silent = site.fault("silent-after-accept").url
        source = random.Random(7)
        wrong: list[object] = []
        before = set(threading.enumerate())  # other tests may have theirs

        def work(fetcher: Fetcher, url: str) -> None:
            try:
                for _ in range(100):
                    error = fetcher.fetch(url).error
                    if error is not None and error.type != "shutdown":
                        wrong.append(error)
            except errors.ClosedError:
                return
            except Exception as exc:  # noqa: BLE001 - named below
                wrong.append((repr(exc), repr(exc.__cause__)))

        for _ in range(40):
            fetcher = Fetcher(max_per_host=0)
            threads = [
                threading.Thread(target=work, args=(fetcher, url))
                for url in [silent, site.url("/1k")] * 4
            ]
            for thread in threads:
                thread.start()
            time.sleep(source.random() * 0.01)
            fetcher.close()
            for thread in threads:
                thread.join(LIMIT)
                assert not thread.is_alive()
        assert not wrong
        left = set(threading.enumerate()) - before
        assert "hardfetch-dispatcher" not in {thread.name for thread in left}

    def test_a_slip_while_results_are_read_reaches_who_waits(
        self, site: FaultSite, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        slip = ZeroDivisionError("a slip")

        def slips(_data: bytearray) -> Iterator[hardfetch.Result]:
            raise slip

        monkeypatch.setattr(frames, "parse_frames", slips)
        with pytest.raises(errors.EngineError, match="dispatcher:.*a slip") as told:
            fetcher.fetch(site.url("/1k"))
        assert told.value.__cause__ is not None
        assert told.value.__cause__.__cause__ is slip

    def test_a_fetcher_that_was_stopped_fetches_again(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        assert fetcher.fetch(site.url("/1k")).ok
        fetcher.stop(0.0)

        def answered() -> bool:
            try:
                return fetcher.fetch(site.url("/1k")).ok
            except errors.ClosedError:  # the stopped engine is on its way out
                return False

        wait_for(answered)

    def test_the_module_function_takes_options_of_both_kinds(
        self, site: FaultSite
    ) -> None:
        assert hardfetch.fetch(site.url("/1k"), timeout=5).ok
        assert len(hardfetch.fetch(site.url("/30k"), max_body=100).content) == 100


# Python warns of a fork beside threads, which is what this is about.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
class TestProcesses:
    def test_a_child_is_refused_and_the_parent_goes_on(
        self, site: FaultSite, fetcher: Fetcher
    ) -> None:
        assert fetcher.fetch(site.url("/1k")).ok
        child = os.fork()
        if child == 0:
            code = 1
            try:
                try:
                    fetcher.fetch(site.url("/1k"))
                except errors.ForkError:
                    fetcher.close()
                    with Fetcher() as own:
                        code = 0 if own.fetch(site.url("/1k")).ok else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        for _ in range(20):
            assert fetcher.fetch(site.url("/1k")).ok

    @pytest.mark.parametrize(
        "ending",
        ["pass", "sys.exit(0)", "raise ValueError", "os.kill(os.getpid(), 15)"],
    )
    @pytest.mark.parametrize("use", ["fetch", "map", "run"])
    def test_the_interpreter_ends_without_close(
        self, site: FaultSite, use: str, ending: str
    ) -> None:
        code = f"""
import hardfetch, io, os, sys, threading, time
f = hardfetch.Fetcher(max_per_host=0)
silent, good, use = sys.argv[1:]
if use == "fetch":
    for n in range(20):
        threading.Thread(target=f.fetch, args=(silent,), daemon=True).start()
    assert f.fetch(good).ok
    while f.stats().in_flight_now < 20:  # who comes later is refused, and says so
        time.sleep(0.01)
elif use == "map":
    results = f.map([silent] * 20 + [good])
    assert next(results).ok
else:
    urls = [silent] * 20 + [good]
    threading.Thread(target=f.run, args=(urls, 1), daemon=True).start()
    while f.stats().records < 1:
        time.sleep(0.01)
{ending}
"""
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", code, site.fault("silent-after-accept").url,
             site.url("/1k"), use],
            capture_output=True, timeout=LIMIT, check=False,
        )  # fmt: skip
        assert time.monotonic() - began < 8
        expected = {"raise ValueError": 1, "os.kill(os.getpid(), 15)": -15}
        assert done.returncode == expected.get(ending, 0), done.stderr.decode()
        if done.stdout:
            records(done.stdout)
        if not expected.get(ending):
            assert done.stderr == b""


@pytest.mark.parametrize(
    ("cert", "says"),
    [
        ("expired", "has expired"),
        ("wronghost", "is for another host"),
        ("untrusted", "is not signed by a trusted authority"),
    ],
)
def test_a_bad_certificate_says_why(site: FaultSite, cert: str, says: str) -> None:
    with Fetcher(cacert=site.cafile, retries=0) as fetcher:
        error = fetcher.fetch(site.fault(f"tls-{cert}").url).error
    assert error is not None
    assert error.type == "certificate_error"
    assert says in error.message
