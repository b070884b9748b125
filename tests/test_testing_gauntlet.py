"""The gauntlet's runner, against clients that hold their deadline and that don't."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from hardfetch.cli.gauntlet import _verdict
from hardfetch.testing.catalogue import CATALOGUE
from hardfetch.testing.gauntlet import (
    HARDFETCH,
    TOLERANCE,
    Report,
    Row,
    _Lateness,
    gauntlet_faults,
    percentiles,
    run_gauntlet,
)
from hardfetch.testing.runners import CURL_CFFI


def test_the_gauntlet_has_every_kind_of_fault() -> None:
    groups = {CATALOGUE[name].fault.group for name in gauntlet_faults()}
    assert groups == {
        "silence", "connect", "trickle", "endless", "reset", "interim", "tls", "h2",
        "proxy", "socks", "dns",
    }  # fmt: skip
    hanging = {name for name, spec in CATALOGUE.items() if spec.fault.hangs}
    # A row of chance would be another one in each run.
    assert hanging - {"lottery"} <= set(gauntlet_faults())
    with pytest.raises(KeyError):
        gauntlet_faults(["no-such-fault"])


def test_percentiles_are_nearest_ranks() -> None:
    assert percentiles([]) == {"p50": None, "p99": None, "max": None}
    assert percentiles([3.0]) == {"p50": 3.0, "p99": 3.0, "max": 3.0}
    hundred = [float(n) for n in range(100, 0, -1)]
    assert percentiles(hundred) == {"p50": 50.0, "p99": 99.0, "max": 100.0}


def test_clients_are_timed_and_killed_at_the_cap() -> None:
    seen: list[Row] = []
    began = time.monotonic()
    report = run_gauntlet(
        against=["curl_cffi"],
        hardfetch=False,
        limit=0.3,
        cap=1.0,
        faults=["silent-before-status-line", "trickle-body"],
        progress=seen.append,
    )
    assert time.monotonic() - began < 30
    assert sorted(report.rows, key=str) == sorted(seen, key=str)
    assert [row.fault for row in report.rows[:2]] == [
        "silent-before-status-line",
        "trickle-body",
    ]
    rows = {(row.client, row.fault): row for row in report.rows}
    assert len(rows) == len(report.rows) == 2 * len(CURL_CFFI)
    held = rows["sync", "silent-before-status-line"]
    assert held.outcome == "Timeout (28)"
    assert 0.3 <= held.elapsed < 1.0
    assert held.ok == (held.elapsed <= 0.3 + TOLERANCE)
    # Measured: its stream mode has no total limit, and the alarm waits for libcurl.
    lost = rows["async stream", "trickle-body"]
    assert not lost.ok
    assert lost.outcome == "never, killed at 1 s"
    assert 1.0 <= lost.elapsed < 5
    assert not rows["sync+SIGALRM", "silent-before-status-line"].ok
    assert report.overrun == {"p50": None, "p99": None, "max": None}


def test_a_process_meets_faults_that_do_not_answer_at_all() -> None:
    # Nobody listens there: a row all the same.
    fault = CATALOGUE["silent-mid-body"].fault.as_dict()
    fault["url"] = "http://127.0.0.1:1/"
    job = {
        "faults": [fault], "limit": 1, "cap": 5, "cafile": "/nowhere", "warm_up": "",
    }  # fmt: skip
    command = [sys.executable, "-m", "hardfetch.testing.runners", "sync"]
    done = subprocess.run(
        command, input=json.dumps(job).encode(), capture_output=True, check=True
    )
    first, last = map(json.loads, done.stdout.splitlines())
    assert first["fault"] == "silent-mid-body"
    assert first["outcome"] != "200"
    assert last["descriptors"][0] == last["descriptors"][1]


def test_a_report_is_ok_only_if_every_row_of_ours_is() -> None:
    good = Row("a", HARDFETCH, 1.0, 1.0, "timeout", ok=True)
    late = Row("b", HARDFETCH, 1.0, 9.0, "timeout", ok=False)
    other = Row("a", "sync", 1.0, 9.0, "Timeout (28)", ok=False)
    none = percentiles([])
    assert Report([good, other], none, {"before": 5, "after": 5}).ok
    assert not Report([good, late], none, {}).ok
    assert not Report([good], none, {"before": 5, "after": 6}).ok
    assert not Report([good], none, {}, ["b"]).ok
    rows = json.loads(json.dumps(Report([good], none, {}).as_dict()))["rows"]
    assert rows == [
        {"fault": "a", "client": "hardfetch", "limit": 1.0, "elapsed": 1.0,
         "outcome": "timeout", "ok": True},
    ]  # fmt: skip


def test_a_machine_that_keeps_a_timer_waiting_is_told_of() -> None:
    stop_all = ctypes.PyDLL(None).usleep  # keeps the interpreter's lock meanwhile
    with _Lateness() as lateness:
        time.sleep(0.1)
        stop_all(300_000)
        time.sleep(0.1)
    assert 0.2 < lateness.most < 10
    quiet = Report([], percentiles([]), {}, late=0.001)
    starved = replace(quiet, late=lateness.most)
    assert "starved" not in _verdict(quiet)
    assert f"starved: a timer was {lateness.most:.2f} s late" in _verdict(starved)
    assert starved.as_dict()["late"] == lateness.most


def test_an_unknown_library_is_refused() -> None:
    with pytest.raises(ValueError, match="telnet"):
        run_gauntlet(against=["telnet"])
