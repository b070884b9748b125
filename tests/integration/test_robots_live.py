"""robots.txt obeyed: asked once per host, before anything else, and held to."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scripted import CLOSE, HOLD, Reply, Scripted, Seen

from hardfetch import Fetcher, Result

pytest.importorskip("protego")

RULES = b"User-agent: *\nDisallow: /private\n"


def site(robots: Reply) -> Scripted:
    return Scripted(lambda s: robots if s.path == "/robots.txt" else Reply())


def outcome(result: Result) -> str:
    return result.error.type if result.error else str(result.status_code)


def fetch_all(urls: list[Any], **options: Any) -> list[str]:
    """Return outcomes in the order of the inputs."""
    with Fetcher(robots="obey", **options) as fetcher:
        results = sorted(fetcher.map(urls), key=lambda r: r.record["seq"])
    assert len(results) == len(urls)
    return [outcome(result) for result in results]


def test_nobody_asks_where_robots_are_ignored() -> None:
    with site(Reply(body=RULES)) as server:
        with Fetcher() as fetcher:
            assert fetcher.fetch(server.url + "/private").status_code == 200
        assert [s.path for s in server.seen] == ["/private"]


def test_rules_are_asked_once_and_held_to() -> None:
    with site(Reply(body=RULES)) as server:
        paths = ["/open", "/private/1", "/private", "/"] * 25
        found = fetch_all([server.url + path for path in paths])
        asked = [s.path for s in server.seen]
    assert found == ["200", "robots_denied", "robots_denied", "200"] * 25
    assert asked[0] == "/robots.txt"
    assert asked.count("/robots.txt") == 1
    assert not [path for path in asked if "private" in path]


def test_a_denied_record_says_so_and_cost_no_connection() -> None:
    with site(Reply(body=RULES)) as server, Fetcher(robots="obey") as fetcher:
        result = fetcher.fetch(server.url + "/private")
        assert fetcher.stats().connects == 0
    assert result.error is not None
    assert (result.error.type, result.error.origin) == ("robots_denied", "local")
    assert result.error.phase == "queue"
    assert result.attempts == []


@pytest.mark.parametrize(
    ("robots", "expected"),
    [
        (Reply(404), "200"),
        (Reply(403), "200"),
        (Reply(500), "robots_denied"),
        (Reply(end=CLOSE), "robots_denied"),
        (Reply(body=b"\xef\xbb\xbfUser-agent: *\nDisallow: /\n"), "robots_denied"),
        (Reply(302, (("Location", "/robots.txt"),)), "200"),
        (Reply(body=b"<html>no rules here</html>"), "200"),
    ],
    ids=["404", "403", "500", "closed", "bom", "loop", "html"],
)
def test_what_the_fetch_of_the_rules_comes_to_decides(
    robots: Reply, expected: str
) -> None:
    with site(robots) as server:
        assert fetch_all([f"{server.url}/x"] * 3, retries=0) == [expected] * 3


def test_a_host_whose_rules_are_slow_holds_up_nobody() -> None:
    others = threading.Event()
    rules = Reply(wait=others, body=RULES)
    with site(rules) as slow, site(Reply(body=RULES)) as quick:
        urls = [slow.url + "/a"] * 3 + [quick.url + "/a"] * 30
        order = []
        with Fetcher(robots="obey", max_concurrency=4) as fetcher:
            for result in fetcher.map(urls):
                order.append(result.record["seq"])
                if len(order) == 30:
                    others.set()
    assert set(order[:30]) == set(range(3, 33))
    assert sorted(order[30:]) == [0, 1, 2]


def test_inputs_keep_their_order_within_a_host() -> None:
    with site(Reply(after=0.2, body=RULES)) as server:
        fetch_all([f"{server.url}/{n}" for n in range(20)], max_per_host=1)
        asked = [s.path for s in server.seen[1:]]
    assert asked == [f"/{n}" for n in range(20)]


def test_a_crawl_delay_is_kept() -> None:
    rules = b"User-agent: hardfetch\nCrawl-delay: 0.2\n"
    with site(Reply(body=rules)) as server:
        began = time.monotonic()
        fetch_all([server.url + "/x"] * 5)
        assert time.monotonic() - began >= 0.8


def test_only_our_own_name_counts() -> None:
    rules = b"User-agent: spider\nDisallow: /\n\nUser-agent: *\nAllow: /\n"
    with site(Reply(body=rules)) as server:
        assert fetch_all([server.url + "/x"]) == ["200"]
        assert fetch_all([server.url + "/x"], user_agent="Spider/2.0") == [
            "robots_denied"
        ]


def test_odd_inputs_are_answered_as_ever() -> None:
    with site(Reply(body=RULES)) as server:
        urls = ["", "ftp://x/", "http://[", b"http://x:99999/", server.url + "/\u00e9"]
        found = fetch_all(urls)
    assert found[:4] == ["invalid_request"] * 4
    assert found[4] == "200"


def test_a_deadline_ends_the_wait_for_rules() -> None:
    with site(Reply(end=HOLD)) as server:
        assert fetch_all([server.url + "/x"], deadline=0.5) == ["deadline"]


def test_a_stop_leaves_no_held_request_behind() -> None:
    with site(Reply(after=5.0)) as server, Fetcher(robots="obey") as fetcher:
        stream = fetcher.map([f"{server.url}/{n}" for n in range(10)])
        began = time.monotonic()
        fetcher.stop(0.0)
        found = Counter()  # type: Counter[str]
        for result in stream:
            found[outcome(result)] += 1
            fetcher.stop(0.0)
        assert time.monotonic() - began < 30
    assert set(found) <= {"shutdown", "200", "robots_denied"}


def test_amap_obeys_too() -> None:
    async def run(url: str) -> list[str]:
        async def inputs() -> Any:
            for path in ("/open", "/private", "/open"):
                yield url + path

        with Fetcher(robots="obey") as fetcher:
            found = [r async for r in fetcher.amap(inputs())]
        return [outcome(r) for r in sorted(found, key=lambda r: r.record["seq"])]

    with site(Reply(body=RULES)) as server:
        assert asyncio.run(run(server.url)) == ["200", "robots_denied", "200"]


def test_the_command_line_obeys_lines_of_every_kind(tmp_path: Path) -> None:
    def script(seen: Seen) -> Reply:
        return Reply(body=RULES) if seen.path == "/robots.txt" else Reply()

    with Scripted(script) as server:
        lines = [
            f"{server.url}/open", "# not this", "", f"  {server.url}/private  ",
            json.dumps({"url": server.url + "/private/x", "id": 7}), "rubbish",
            json.dumps({"url": server.url + "/y", "id": 8}), f"{server.url}/last",
        ]  # fmt: skip
        file = tmp_path / "urls"
        file.write_text("\n".join(lines))
        done = subprocess.run(
            [sys.executable, "-m", "hardfetch", "fetch", str(file), "--robots", "obey"],
            capture_output=True, check=False, timeout=60,
        )  # fmt: skip
        assert [s.path for s in server.seen].count("/robots.txt") == 1
    assert done.returncode == 0, done.stderr
    records = sorted(map(json.loads, done.stdout.splitlines()), key=lambda r: r["seq"])
    found = [r["error"]["type"] if r["error"] else r["status_code"] for r in records]
    assert found == [
        200, "robots_denied", "robots_denied", "invalid_request", 200, 200,
    ]  # fmt: skip
    assert [r["id"] for r in records] == [None, None, 7, None, 8, None]
