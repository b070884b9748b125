"""Proxies as they carry: rotation, health, sessions, leases, reloads, no secrets."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scripted import HOLD, Reply, Scripted, Seen

from hardfetch import Fetcher, OptionError, Result
from hardfetch.judge import Judge
from hardfetch.proxies import PoolOptions
from hardfetch.retry import RetryPolicy, Rule
from hardfetch.testing import FaultSite

LIMIT = 30.0  # seconds that no test needs
DEAD = (
    "connect-silent", "connect-silent-mid-reply", "connect-200-silent",
    "connect-407", "connect-502", "connect-garbage", "connect-200-noise",
)  # fmt: skip


@pytest.fixture(scope="module")
def nobody() -> Iterator[str]:
    """An address that refuses connections."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def gateway(site: FaultSite, count: int) -> list[str]:
    """Return so many identities behind one address."""
    proxy = site.fault("proxy-http").proxy
    assert proxy is not None
    return [proxy.replace("://", f"://user{n}:s3cr3t{n}@") for n in range(count)]


def fetcher(site: FaultSite, proxies: Any, **options: Any) -> Fetcher:
    return Fetcher(proxies=proxies, cacert=str(site.cafile), **options)


def carriers(results: list[Result]) -> Counter[str]:
    return Counter(result.json()["proxy_user"] for result in results)


def run(fetch: Fetcher, urls: list[Any], tmp_path: Path) -> tuple[list[Any], Any]:
    out = tmp_path / "out.ndjson"
    summary = fetch.run(urls, out)
    lines = out.read_bytes().splitlines()
    return [json.loads(line) for line in lines], summary


class TestRotation:
    @pytest.mark.parametrize("scheme", ["http", "https"])
    def test_each_identity_carries_its_own_requests(
        self, site: FaultSite, scheme: str
    ) -> None:
        """Two users of one gateway never share a connection."""
        base = site.http if scheme == "http" else site.https
        users = gateway(site, 2)
        urls = [
            {"url": f"{base}/whoami?{n}", "proxy": users[n % 2], "id": n}
            for n in range(200)
        ]
        with fetcher(site, None) as fetch:
            results = list(fetch.map(urls))
        assert len(results) == 200
        for result in results:
            assert result.json()["proxy_user"] == f"user{result.id % 2}"
        connections = {
            user: {
                r.json()["proxy_connection"]
                for r in results
                if r.json()["proxy_user"] == user
            }
            for user in ("user0", "user1")
        }
        assert not connections["user0"] & connections["user1"]

    @pytest.mark.parametrize("scheme", ["http", "https"])
    def test_a_pool_uses_all_its_exits(self, site: FaultSite, scheme: str) -> None:
        base = site.http if scheme == "http" else site.https
        with fetcher(site, gateway(site, 8), max_per_host=16) as fetch:
            results = list(fetch.map([f"{base}/whoami"] * 200))
        found = carriers(results)
        assert len(found) == 8
        assert min(found.values()) >= 5
        shown = {result.record["proxy"] for result in results}
        assert len(shown) == 1
        assert "s3cr3t" not in str(shown)

    def test_no_tls_session_crosses_from_one_exit_to_another(
        self, site: FaultSite
    ) -> None:
        """Each exit's first connection must do a full handshake."""
        with fetcher(site, gateway(site, 6), max_per_host=1) as fetch:
            results = list(fetch.map([f"{site.https}/whoami"] * 60))
        first: dict[str, bool] = {}
        for result in sorted(results, key=lambda r: r.json()["connection"]):
            seen = result.json()
            first.setdefault(seen["proxy_user"], seen["resumed"])
        assert set(first.values()) == {False}

    def test_fresh_is_a_new_connection_each_time(self, site: FaultSite) -> None:
        request = {"url": f"{site.https}/whoami", "fresh": True}
        with fetcher(site, gateway(site, 2)) as fetch:
            results = list(fetch.map([request] * 20))
        assert len({r.json()["proxy_connection"] for r in results}) == 20

    def test_the_environment_s_proxies_are_not_used(
        self, site: FaultSite, monkeypatch: pytest.MonkeyPatch, nobody: str
    ) -> None:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://{nobody}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        urls = [f"{site.http}/whoami", f"{site.https}/whoami"]
        with fetcher(site, None) as fetch:
            direct = list(fetch.map(urls))
        with fetcher(site, gateway(site, 2)) as fetch:
            through = list(fetch.map(urls))
        assert [r.json()["proxy_user"] for r in direct] == [None, None]
        assert all(r.json()["proxy_user"] for r in through)

    @pytest.mark.parametrize(
        "name",
        [
            "connect-400", "connect-403", "connect-407", "connect-407-bare",
            "connect-429", "connect-502", "connect-503", "connect-garbage",
            "connect-close", "connect-200-html",
        ],
    )  # fmt: skip
    def test_a_refused_tunnel_is_the_proxy_s_and_the_next_exit_takes_over(
        self, site: FaultSite, name: str
    ) -> None:
        bad = site.fault(name).proxy
        (good,) = gateway(site, 1)
        pool = PoolOptions(failures=1)
        with fetcher(site, [bad, good], pool=pool) as fetch:
            results = list(fetch.map([f"{site.https}/1k"] * 20))
        assert [r.status_code for r in results] == [200] * 20
        errors = [a for r in results for a in r.attempts if a.error]
        assert errors
        assert {a.proxy for a in errors} == {bad}
        assert all(r.headers.get("Set-Cookie") is None for r in results)


class TestHealth:
    @pytest.mark.parametrize("scheme", ["http", "https"])
    def test_eight_of_twenty_are_dead_and_every_page_comes(
        self, site: FaultSite, nobody: str, tmp_path: Path, scheme: str
    ) -> None:
        """Dead in eight ways; bench/policy_live.py prints the figures."""
        base = site.http if scheme == "http" else site.https
        dead = [f"http://{nobody}", *(site.fault(name).proxy for name in DEAD)]
        with fetcher(
            site, gateway(site, 12) + dead, connect_timeout=0.7, timeout=1.5,
            max_per_host=64, max_concurrency=64, body="none",
        ) as fetch:  # fmt: skip
            records, summary = run(
                fetch, [f"{base}/1k?{n}" for n in range(600)], tmp_path
            )
        assert summary.errors == {}
        assert summary.statuses == {"2xx": 600}
        by_exit = summary.policy["proxies"]
        for line in by_exit:
            assert line["failures"] <= 12, line
            assert not (line["failures"] and line["successes"] > 50), line
            # Nobody is left in service who has failed that often and never served.
            dead_weight = line["failures"] >= PoolOptions().failures
            assert line["successes"] or not dead_weight or line["state"] != "up", line
        # What a proxy did is not the site's fault: nothing slowed it or closed it.
        assert summary.policy["gates"] == 0
        assert not any(r["error"] for r in records)

    def test_a_benched_exit_comes_back_when_it_is_well(self, site: FaultSite) -> None:
        sick = [True]

        def proxy(_: Seen) -> Reply:
            return Reply(502 if sick[0] else 200, body=b"from the proxy")

        pool = PoolOptions(failures=2, bench=0.4, bench_max=0.4)
        with Scripted(proxy) as flaky, Scripted() as steady:
            proxies = [flaky.url, steady.url]
            target = site.http + "/1k"
            with Fetcher(proxies=proxies, pool=pool) as fetch:
                while len(flaky.seen) < 2:
                    assert fetch.fetch(target).status_code == 200
                before = len(flaky.seen)
                assert before <= 6
                sick[0] = False
                time.sleep(0.6)
                # Alone, each request would go by the quicker one.
                callers = [
                    threading.Thread(target=fetch.fetch, args=(target,))
                    for _ in range(40)
                ]
                for caller in callers:
                    caller.start()
                for caller in callers:
                    caller.join()
                assert len(flaky.seen) - before >= 5

    def test_exits_that_stall_cost_little(self, tmp_path: Path) -> None:
        """Three of ten hold every request; the crawl goes on over the seven."""
        with Scripted(lambda _: Reply(end=HOLD)) as stuck, FaultSite() as site:
            users = gateway(site, 7)
            hung = [stuck.url.replace("://", f"://u{n}:p@") for n in range(3)]
            with fetcher(
                site, users + hung, timeout=1, max_per_host=32, body="none"
            ) as fetch:
                records, summary = run(fetch, [f"{site.http}/1k"] * 400, tmp_path)
            assert len(stuck.seen) <= 3 * 8
        assert summary.statuses == {"2xx": 400}
        assert len(records) == 400
        assert summary.elapsed < 6

    @pytest.mark.parametrize(("late", "at_once"), [(0, 4), (0.3, 1)])
    def test_failures_now_and_then_bench_nobody(
        self,
        site: FaultSite,
        tmp_path: Path,
        late: float,
        at_once: int,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Policy hears of failures only; the core tells it of the answers between.

        So it does where policy comes late and finds many failures at once.
        """
        judge = Judge._judge

        def judge_late(self: Judge, events: list[Any], now: float) -> None:
            time.sleep(late)
            judge(self, events, now + late)

        monkeypatch.setattr(Judge, "_judge", judge_late)

        def proxy(_: Seen) -> Reply:
            return Reply(200 if len(busy.seen) % 10 else 407)

        with (
            Scripted(proxy) as busy,
            Scripted(lambda _: Reply(after=0.05)) as slow,
            Fetcher(proxies=[busy.url, slow.url], max_per_host=at_once) as fetch,
        ):
            _, summary = run(fetch, [f"{site.http}/1k"] * 300, tmp_path)
        assert summary.statuses == {"2xx": 300}
        line = next(p for p in summary.policy["proxies"] if p["proxy"] == busy.url)
        assert line["failures"] >= 5
        assert (line["state"], line["ejections"]) == ("up", 0)

    def test_where_no_exit_is_left_requests_wait_and_then_say_so(
        self, nobody: str
    ) -> None:
        proxies = [f"http://{nobody}", f"http://u:p@{nobody}"]
        pool = PoolOptions(failures=1, max_ejected=1.0, wait_limit=0.5)
        with Fetcher(
            proxies=proxies, pool=pool, retry=RetryPolicy(1, exit_retries=1)
        ) as fetch:
            began = time.monotonic()
            results = list(fetch.map(["http://127.0.0.1:9/"] * 20))
            took = time.monotonic() - began
        types = Counter(r.error.type if r.error else "" for r in results)
        assert set(types) <= {"connect_refused", "no_proxy_available"}
        assert took < 15

    def test_dead_credentials_leave_nothing_and_every_request_ends(
        self, site: FaultSite
    ) -> None:
        bad = site.fault("connect-407").proxy
        assert bad is not None
        proxies = [bad.replace("://", f"://u{n}:p@") for n in range(3)]
        with fetcher(site, proxies, proxy_wait=0.5) as fetch:
            results = list(fetch.map([f"{site.https}/1k"] * 30))
        types = Counter(r.error.type if r.error else "" for r in results)
        assert set(types) == {"proxy_auth", "no_proxy_available"}
        gone = next(r for r in results if r.error and "no_proxy" in r.error.type)
        assert gone.error is not None
        assert (gone.error.origin, gone.error.phase) == ("local", "queue")


class TestSessions:
    def test_a_session_leaves_by_one_exit(self, site: FaultSite) -> None:
        urls = [
            {"url": f"{site.http}/whoami", "session": f"s{n % 10}", "id": n % 10}
            for n in range(200)
        ]
        with fetcher(site, gateway(site, 8), max_per_host=16) as fetch:
            results = list(fetch.map(urls))
        users: dict[int, set[str]] = {}
        for result in results:
            users.setdefault(result.id, set()).add(result.json()["proxy_user"])
        assert all(len(found) == 1 for found in users.values())
        assert len({next(iter(found)) for found in users.values()}) > 1

    def test_its_time_ends(self, site: FaultSite) -> None:
        request = {"url": f"{site.http}/whoami", "session": "s"}
        users = set()
        with fetcher(site, gateway(site, 12), sticky=0.05) as fetch:
            for _ in range(12):
                result = fetch.fetch(request["url"], session="s")
                users.add(result.json()["proxy_user"])
                time.sleep(0.06)
        assert len(users) > 1

    def test_a_session_whose_exit_dies_moves_for_good(
        self, site: FaultSite, nobody: str
    ) -> None:
        proxies = [f"http://{nobody}", *gateway(site, 3)]
        with fetcher(site, proxies, pool=PoolOptions(failures=1)) as fetch:
            users: dict[int, set[str]] = {}
            for _ in range(3):
                for n in range(12):
                    result = fetch.fetch(f"{site.http}/whoami", session=f"s{n}")
                    users.setdefault(n, set()).add(result.json()["proxy_user"])
        assert all(len(found) == 1 for found in users.values())

    def test_an_exclusive_exit_serves_one_request_at_a_time(
        self, site: FaultSite
    ) -> None:
        def busy(_: Seen) -> Reply:
            return Reply(after=0.03)

        with Scripted(busy) as one, Scripted(busy) as two:
            with Fetcher(
                proxies=[one.url, two.url], exclusive="request", max_per_host=0
            ) as fetch:
                results = list(fetch.map([f"{site.http}/1k"] * 30))
            for server in (one, two):
                times = sorted(server.times())
                assert len(times) > 5
                gaps = [b - a for a, b in pairwise(times)]
                assert min(gaps) >= 0.029
        assert [r.status_code for r in results] == [200] * 30

    def test_sessions_wait_for_their_own_exclusive_exit_and_hold_up_nobody(
        self, site: FaultSite
    ) -> None:
        def busy(_: Seen) -> Reply:
            return Reply(after=0.02)

        with (
            Scripted(busy) as one,
            Scripted(busy) as two,
            Fetcher(
                proxies=[one.url, two.url], exclusive="request", max_per_host=0
            ) as fetch,
        ):
            urls = [
                {"url": f"{site.http}/1k", "session": f"s{n // 10}"} for n in range(20)
            ]
            results = list(fetch.map([*urls, *[f"{site.http}/1k"] * 10]))
        assert [r.status_code for r in results] == [200] * 30

    def test_a_lease_keeps_others_off(self, site: FaultSite) -> None:
        urls = [
            {"url": f"{site.http}/whoami", "session": f"s{n % 3}", "id": n % 3}
            for n in range(60)
        ]
        with fetcher(
            site, gateway(site, 3), exclusive="session", max_per_host=0
        ) as fetch:
            results = list(fetch.map(urls))
        pairs = {(r.id, r.json()["proxy_user"]) for r in results}
        assert len(pairs) == 3
        assert len({user for _, user in pairs}) == 3


class TestTiers:
    def test_cheap_exits_first_and_the_next_tier_for_who_refuses_them(self) -> None:
        """A site that blocks the cheap ones costs three refusals, not one each."""

        def cheap(seen: Seen) -> Reply:
            return Reply(403 if "strict" in seen.path else 200, after=0.02)

        with Scripted(cheap) as low, Scripted() as high:
            lines = [low.url, low.url.replace("://", "://b:p@"), f"{high.url} tier=1"]
            blocked = Rule(base=0.05, exit="higher", refused=True)
            policy = RetryPolicy(rules={403: blocked})
            with Fetcher(proxies=lines, retry=policy, max_per_host=1) as fetch:
                results = list(fetch.map(["http://strict.test/"] * 30))
                easy = list(fetch.map(["http://easy.test/"] * 30))
            assert {r.status_code for r in results + easy} == {200}
            refused = [s for s in low.seen if "strict" in s.path]
            assert len(refused) < 15  # policy may be slow, but not one each
            assert len([s for s in high.seen if "easy" in s.path]) == 0


class TestReload:
    def test_a_file_that_changes_is_read_again(
        self, site: FaultSite, tmp_path: Path
    ) -> None:
        file = tmp_path / "proxies.txt"
        old, new = gateway(site, 2)
        file.write_text(f"# mine\n{old}\n")
        with fetcher(site, None, proxy_file=file) as fetch:
            first = fetch.fetch(f"{site.http}/whoami").json()["proxy_user"]
            other = tmp_path / "next"
            other.write_text(f"{new} weight=2\n")
            other.rename(file)
            end = time.monotonic() + LIMIT
            while True:
                user = fetch.fetch(f"{site.http}/whoami").json()["proxy_user"]
                if user != first:
                    break
                assert time.monotonic() < end
                time.sleep(0.02)
        assert (first, user) == ("user0", "user1")

    def test_a_file_that_went_wrong_changes_nothing_and_is_told(
        self, site: FaultSite, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "proxies.txt"
        (proxy,) = gateway(site, 1)
        file.write_text(proxy)
        told = ""
        with fetcher(site, None, proxy_file=file) as fetch:
            fetch.fetch(f"{site.http}/1k")
            for text in ("ftp://user:t0psecret@nowhere:1\n", ""):
                file.write_text(text)
                end = time.monotonic() + LIMIT
                while "kept as they are" not in told:
                    result = fetch.fetch(f"{site.http}/whoami")
                    assert result.json()["proxy_user"] == "user0"
                    told = capfd.readouterr().err
                    assert time.monotonic() < end
                    time.sleep(0.02)
                assert "t0psecret" not in told
                told = ""

    def test_a_callable_is_asked_again_on_demand(self, site: FaultSite) -> None:
        users = gateway(site, 3)
        calls: list[int] = []

        def supply() -> list[str]:
            calls.append(1)
            if len(calls) == 3:
                raise RuntimeError("the supplier is down")
            return [users[min(len(calls), 3) - 1]]

        with fetcher(site, supply) as fetch:
            before = len(calls)
            seen = {fetch.fetch(f"{site.http}/whoami").json()["proxy_user"]}
            end = time.monotonic() + LIMIT
            while len(seen) < 2:
                fetch.reload_proxies()
                seen.add(fetch.fetch(f"{site.http}/whoami").json()["proxy_user"])
                assert time.monotonic() < end
                time.sleep(0.05)
        assert len(calls) > before

    def test_a_callable_that_hangs_holds_up_no_verdict(self, site: FaultSite) -> None:
        (proxy,) = gateway(site, 1)
        calling, free = threading.Event(), threading.Event()
        calls: list[int] = []

        def supply() -> list[str]:
            calls.append(1)
            if threading.current_thread().name == "hardfetch-proxies":
                calling.set()
                free.wait(120)
            return [proxy]

        with fetcher(site, supply, retries=2) as fetch:
            fetch.fetch(f"{site.http}/1k")
            fetch.reload_proxies()
            assert calling.wait(LIMIT)
            before = len(calls)
            for n in range(5):  # each needs two verdicts
                found = fetch.fetch(f"{site.http}/status/500?{n}")
                assert len(found.attempts) == 3
            assert fetch.health()["retries"] == 10
            assert len(calls) == before
            free.set()

    def test_a_hang_up_makes_the_command_read_its_file(
        self, site: FaultSite, tmp_path: Path
    ) -> None:
        file = tmp_path / "proxies.txt"
        old, new = gateway(site, 2)
        file.write_text(old)
        stat = file.stat()
        command = [
            sys.executable, "-m", "hardfetch", "fetch", "--proxy-file", str(file),
            "--no-progress", "-",
        ]  # fmt: skip
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, bufsize=0,
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None

            def user() -> str:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(f"{site.http}/whoami\n".encode())
                record = json.loads(process.stdout.readline())
                found: str = json.loads(record["body"])["proxy_user"]
                return found

            assert user() == "user0"
            # The same size and time: only the signal can tell.
            file.write_text(new)
            os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            process.send_signal(signal.SIGHUP)
            end = time.monotonic() + LIMIT
            while user() != "user1":
                assert time.monotonic() < end
                time.sleep(0.05)
            process.stdin.close()
            told = process.stderr.read() if process.stderr else b""
            assert process.wait(LIMIT) == 0
        assert b"s3cr3t" not in told


class TestSecrets:
    def test_credentials_stand_in_no_record_log_error_or_summary(
        self, site: FaultSite, nobody: str, tmp_path: Path
    ) -> None:
        secret = "t0p-s3cr3t"
        names = ["connect-407", "connect-502", "connect-garbage", "connect-200-noise"]
        bad = [site.fault(name).proxy or "" for name in names] + [f"http://{nobody}"]
        bad.append(bad[0].replace("http://", "socks5h://"))
        file = tmp_path / "proxies.txt"
        lines = [one.replace("://", f"://{secret}:{secret}@") for one in bad]
        file.write_text("\n".join(lines))
        urls = tmp_path / "urls"
        row = {"url": f"{site.https}/1k", "proxy": lines[0]}
        urls.write_text(f"{site.https}/1k\n{site.http}/1k\n{json.dumps(row)}\n" * 10)
        done = subprocess.run(
            [
                sys.executable, "-m", "hardfetch", "fetch", str(urls), "--proxy-file",
                str(file), "--timeout", "1", "--proxy-wait", "1", "--summary", "-",
                "-k",
            ],
            capture_output=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0
        assert len(done.stdout.splitlines()) == 30
        assert secret.encode() not in done.stdout
        assert secret.encode() not in done.stderr

    @pytest.mark.parametrize(
        "line",
        ["http://u:t0psecret@bad host:1", "ftp://u:t0psecret@h:1", "u:t0psecret@h"],
    )
    def test_a_wrong_proxy_is_told_without_it(self, line: str, tmp_path: Path) -> None:
        file = tmp_path / "proxies.txt"
        file.write_text(line)
        with pytest.raises(OptionError) as told:
            Fetcher(proxy_file=file)
        assert "t0psecret" not in str(told.value)
        with pytest.raises(OptionError) as told:
            Fetcher(proxies=[line, "http://h:1"])
        assert "t0psecret" not in str(told.value)
