"""A kept-alive request costs two system calls: one send, one recv.

The engine's own counters tell it everywhere; strace, where it may trace, tells it from
outside, and knows of calls that nobody counts.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hardfetch.testing import FaultSite

REQUESTS = 4000
CONNECTIONS = 16
LIMIT = 120  # seconds for a run, traced or not


def command(
    folder: Path, site: FaultSite, n: int, page: str = "/1k", output: str = ""
) -> list[str]:
    """Return the command that fetches n URLs by one loop, and tells in `summary`."""
    urls = folder / "urls"
    urls.write_text("".join(f"{site.url(page)}?{k}\n" for k in range(n)))
    output = output or str(folder / "records")
    return [
        *(sys.executable, "-m", "hardfetch", "fetch", "--quiet", "--loops", "1"),
        *("-c", str(CONNECTIONS), "--max-per-host", "0", str(urls)),
        *("-o", output, "--summary", str(folder / "summary")),
    ]


def run(words: list[str]) -> None:
    done = subprocess.run(
        words, capture_output=True, timeout=LIMIT, check=False, text=True
    )
    assert done.returncode == 0, done.stderr


def stats(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary").read_text())
    assert found["records"] == REQUESTS
    assert found["by_status_class"] == {"2xx": REQUESTS}
    return {"connects": found["connects"], **found["loop"]}


def test_the_engine_tells_the_kernel_nothing_about_a_kept_connection(
    site: FaultSite, tmp_path: Path
) -> None:
    run(command(tmp_path, site, REQUESTS))
    counted = stats(tmp_path)
    assert counted["connects"] == CONNECTIONS
    # ADD, MOD to reading and DEL for each socket, and two of the loop's own.
    assert counted["epoll_ctls"] <= 6 * CONNECTIONS + 8
    assert counted["timer_sets"] <= REQUESTS // 100
    # One per answer, one per iteration for all that start in it, and what connecting
    # takes.
    waits = counted["epoll_waits"]
    assert 0 < waits <= 1.1 * REQUESTS
    most = REQUESTS + 1.1 * waits + 8 * CONNECTIONS
    assert REQUESTS <= counted["socket_actions"] <= most


def calls_by_name(folder: Path, words: list[str]) -> dict[str, int]:
    """Run words under strace and count the calls of all its threads."""
    told = folder / "strace"
    run(["strace", "-f", "-c", "-o", str(told), *words])
    row = re.compile(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$")
    found = map(row.match, told.read_text().splitlines())
    return {m[2]: int(m[1]) for m in found if m is not None and m[2] != "total"}


def can_trace() -> bool:
    if shutil.which("strace") is None:
        return False
    probe = subprocess.run(
        ["strace", "-f", "-c", "-o", "/dev/null", "true"],
        capture_output=True,
        timeout=LIMIT,
        check=False,
    )
    return probe.returncode == 0


needs_strace = pytest.mark.skipif(
    not can_trace(), reason="no strace that may trace; the counters are tested above"
)


@needs_strace
def test_a_kept_alive_request_is_one_send_and_one_recv(
    site: FaultSite, tmp_path: Path
) -> None:
    base = calls_by_name(tmp_path, command(tmp_path, site, CONNECTIONS))
    calls = calls_by_name(tmp_path, command(tmp_path, site, REQUESTS))
    stats(tmp_path)
    each = {
        name: (n - base.get(name, 0)) / (REQUESTS - CONNECTIONS)
        for name, n in calls.items()
    }
    assert 0.99 <= each["sendto"] <= 1.01, each
    assert 0.99 <= each["recvfrom"] <= 1.01, each
    assert each["epoll_wait"] <= 1.1, each
    rare = "epoll_ctl", "timerfd_settime", "poll", "setsockopt", "getsockname", "ioctl"
    for name in rare:
        assert each.get(name, 0) <= 0.02, (name, each)
    # The loop's wake-ups, the writer's waits and writes are shared by many.
    assert sum(each.values()) <= 8, each


@needs_strace
@pytest.mark.parametrize("output", ["", "/dev/null"])
def test_a_large_record_takes_few_writes_where_none_can_block(
    site: FaultSite, tmp_path: Path, output: str
) -> None:
    calls = calls_by_name(tmp_path, command(tmp_path, site, 100, "/200k", output))
    assert 100 <= calls["writev"] <= 100 * 8, calls
    assert calls.get("ppoll", 0) <= 100, calls


@needs_strace
def test_hosts_in_flight_share_the_parsed_certificates(
    site: FaultSite, tmp_path: Path
) -> None:
    def opened(n: int) -> int:
        port = site.https.rpartition(":")[2]
        names = [f"h{k}.test" for k in range(n)]
        urls = tmp_path / "urls"
        urls.write_text("".join(f"https://{name}:{port}/1k\n" for name in names))
        told = tmp_path / "strace"
        traced = ["strace", "-f", "-e", "openat", "-P", str(site.cafile), "-o", told]
        resolve = [f"--resolve={name}:{port}:127.0.0.1" for name in names]
        run(
            [
                *map(str, traced),
                *(sys.executable, "-m", "hardfetch", "fetch", "--quiet", "--loops=1"),
                *("-c", str(n), "--cacert", str(site.cafile), "--retries=0", *resolve),
                *("-o", str(tmp_path / "records"), str(urls)),
            ]
        )
        lines = (tmp_path / "records").read_text().splitlines()
        assert len(lines) == n
        # They stand for no such name, which takes a check against the CAs.
        assert {json.loads(line)["error"]["type"] for line in lines} == {
            "certificate_error"
        }
        return told.read_text().count("openat(")

    assert opened(100) == opened(1) > 0
