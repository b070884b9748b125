from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from watching import starved

from hardfetch.errors import OptionError
from hardfetch.jsonio import JsonEncodeError
from hardfetch.worker import PoolError, TaskPayload, TaskResult, WorkerPool

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
MODULE = "worker_tasks"


@pytest.fixture(autouse=True)
def _tasks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HERE)


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(2, modules=[MODULE]) as made:
        yield made


def payload(function: str, *args: Any, timeout: float = 10, **more: Any) -> TaskPayload:
    return TaskPayload(
        task_id=more.pop("task_id", function),
        target_function=function,
        timeout=timeout,
        args=list(args),
        **more,
    )


def run_one(pool: WorkerPool, given: TaskPayload) -> TaskResult:
    (result,) = pool.map([given])
    return result


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_a_task_runs_in_another_process_that_is_used_again(pool: WorkerPool) -> None:
    pids = set(pool.pids)
    for i in range(10):
        value = run_one(pool, payload("echo", i)).value
        assert value["args"] == [i]
        assert value["pid"] in pids
    assert set(pool.pids) == pids
    assert os.getpid() not in pids


def test_every_way_to_end_is_told(pool: WorkerPool) -> None:
    def outcome(given: TaskPayload) -> tuple[str, str]:
        result = run_one(pool, given)
        return result.status, result.message

    assert outcome(payload("fail", "oh")) == ("failed", "ValueError: oh")
    assert outcome(payload("leave", 5)) == ("failed", "SystemExit: 5")
    assert outcome(payload("nothing"))[1].startswith("no task is registered as")
    assert outcome(payload("os.getpid"))[1].startswith("no task is registered as")
    assert outcome(payload("blob"))[1].startswith("its value has no JSON form")
    assert outcome(payload("fail")) == (
        "failed",
        "TypeError: fail() missing 1 required positional argument: 'text'",
    )
    assert outcome(payload("for_ever", timeout=0.2)) == (
        "timeout",
        "timed out after 0.2 s",
    )
    assert run_one(pool, payload("gather", 4)).value == 6
    assert pool.replaced == 0


def test_a_task_that_swallows_its_limit_is_ended_by_force(pool: WorkerPool) -> None:
    before = starved()
    result = run_one(pool, payload("swallow", timeout=0.2))
    assert result.status == "timeout"
    assert result.elapsed_time < 0.2 + 0.6 + starved() - before
    assert (pool.replaced, len(pool.pids)) == (1, 2)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_worker_that_dies_fails_its_task_and_is_replaced(
    pool: WorkerPool, number: int
) -> None:
    result = run_one(pool, payload("crash", int(number)))
    assert result.status == "failed"
    assert result.message == f"its worker ended by signal {int(number)}"
    assert run_one(pool, payload("echo")).status == "success"
    assert (pool.replaced, len(pool.pids)) == (1, 2)


def test_a_worker_stuck_in_c_is_replaced_and_the_other_goes_on(
    pool: WorkerPool,
) -> None:
    tasks = [payload("stuck", timeout=0.3), *(payload("echo", i) for i in range(50))]
    before = starved()
    results = list(pool.map(tasks))
    (stuck,) = (r for r in results if r.task_id == "stuck")
    assert stuck.status == "timeout"
    assert 0.3 <= stuck.elapsed_time < 0.8 + starved() - before
    assert Counter(r.status for r in results) == {"success": 50, "timeout": 1}
    assert (pool.replaced, len(pool.pids)) == (1, 2)


def test_a_stopped_worker_is_killed(pool: WorkerPool) -> None:
    """Not even its guard can run: the pool's own clock ends it."""
    result = run_one(pool, payload("crash", int(signal.SIGSTOP), timeout=0.2))
    assert result.status == "timeout"
    assert 0.2 <= result.elapsed_time < 1.2


def test_large_arguments_and_values_pass(pool: WorkerPool) -> None:
    text = "ä" * 3_000_000
    assert run_one(pool, payload("echo", text)).value["args"] == [text]
    assert len(run_one(pool, payload("big", 5_000_000)).value) == 5_000_000


def test_a_pool_leaves_no_process_and_no_descriptor() -> None:
    with WorkerPool(1, modules=[MODULE]):
        pass  # the fork server and the resource tracker stay
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with WorkerPool(3, modules=[MODULE]) as pool:
        list(pool.map(payload("echo") for _ in range(10)))
        list(pool.map([payload("stuck", timeout=0.1)]))
        pool.give(payload("for_ever"))
        pids = pool.pids
        assert all(map(alive, pids))
    pool.close()
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    end = time.monotonic() + 5
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.01)
    assert not any(map(alive, pids))


def test_spawn_works_too() -> None:
    with WorkerPool(1, modules=[MODULE], start_method="spawn") as pool:
        assert run_one(pool, payload("echo", 1)).status == "success"
        assert run_one(pool, payload("stuck", timeout=0.1)).status == "timeout"
        assert run_one(pool, payload("echo", 2)).status == "success"


def test_workers_that_cannot_start_are_told_of() -> None:
    with pytest.raises(PoolError, match="exit code 1"):
        run_one(WorkerPool(1, modules=["no_such_module_here"]), payload("echo"))


def test_wrong_values_are_refused() -> None:
    for size, timeout, grace in ((0, 1, 1), (1, 0, 1), (1, 1, -1)):
        with pytest.raises(OptionError):
            WorkerPool(size, timeout=timeout, grace=grace)
    with pytest.raises(OptionError, match="start_method"):
        WorkerPool(1, start_method="fork")  # type: ignore[arg-type]


def late(result: TaskResult, limit: float, looks: list[tuple[float, float]]) -> float:
    """Seconds past the limit that no want of processors explains."""
    now = time.monotonic()
    began = now - result.elapsed_time
    before = max(waited for at, waited in looks if at <= began)
    looks.append((now, starved()))
    return result.elapsed_time - limit - (looks[-1][1] - before)


@pytest.mark.slow
def test_a_thousand_tasks_with_sleepers_and_stuck_ones_keep_their_limits() -> None:
    limit = 0.5
    kinds = ["for_ever"] * 100 + ["stuck"] * 50 + ["echo"] * 850
    random.Random(8).shuffle(kinds)
    tasks = [
        payload(kind, timeout=limit, task_id=f"{kind}/{i}")
        for i, kind in enumerate(kinds)
    ]
    results = []
    looks = [(time.monotonic(), starved())]
    with WorkerPool(8, modules=[MODULE]) as pool:
        for result in pool.map(tasks):
            results.append(result)
            assert late(result, limit, looks) < 0.5
            assert len(pool.pids) == 8
        assert pool.replaced >= 50
    assert len({r.task_id for r in results}) == len(results) == 1000
    for result in results:
        kind = result.task_id.partition("/")[0]
        assert result.status == ("success" if kind == "echo" else "timeout")
        assert kind == "echo" or result.elapsed_time >= limit


def test_args_without_a_json_form_fail_their_task_and_no_other(
    pool: WorkerPool,
) -> None:
    bad: list[Any] = [b"bytes", float("nan"), {1, 2}]
    given = [payload("echo", value) for value in [*bad, "fine"]]
    results = list(pool.map(given))
    assert sorted(r.status for r in results) == ["failed"] * 3 + ["success"]
    messages = [r.message for r in results if r.status == "failed"]
    assert all(text.startswith("its args have no JSON form: ") for text in messages)
    while not pool.has_idle:
        pool.wait()
    with pytest.raises(JsonEncodeError, match="bytes"):
        pool.give(given[0])
    assert (pool.has_idle, pool.busy) == (True, 0)


# The command.


def command(*options: str, **more: Any) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(HERE), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-m", "hardfetch.worker", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": path},
        **more,
    )


def run(lines: bytes, *options: str) -> tuple[int, list[dict[str, Any]], str]:
    process = command(*options)
    out, err = process.communicate(lines, timeout=60)
    results = [json.loads(line) for line in out.splitlines()]
    return process.returncode, results, err.decode()


def test_the_demo_shows_a_timeout_on_time() -> None:
    code, (result,), _ = run(b"", "--demo")
    assert code == 0
    assert result["status"] == "timeout"
    assert 2.0 <= result["elapsed_time"] < 2.1
    assert set(result) == {"task_id", "status", "message", "elapsed_time", "value"}


def test_each_line_has_one_result() -> None:
    lines = [
        b'{"task_id": "a", "target_function": "echo", "args": ["\xc3\xa4"]}',
        b"",
        b'{"task_id": "b", "target_function": "say", "args": ["on stdout"]}',
        b'{"task_id": "c", "target_function": "for_ever", "timeout": 0.2}',
        b'{"task_id": "d", "target_function": "echo", "timeout": -1}',
        b"junk",
        b'{"task_id": "e", "target_function": "stuck", "timeout": 0.2}',
        b'{"task_id": "f", "target_function": "sleep", "duration": 0.01}',
    ]
    code, results, err = run(b"\n".join(lines), "--import", MODULE, "--workers", "2")
    by_id = {r["task_id"]: r for r in results}
    assert code == 0
    assert len(results) == 7
    assert by_id["a"]["value"]["args"] == ["ä"]
    assert by_id["b"]["value"] == "on stdout"
    assert by_id["c"]["status"] == by_id["e"]["status"] == "timeout"
    assert by_id["d"]["message"] == (
        "line 5 is no task: timeout: Input should be greater than 0"
    )
    assert by_id[""]["message"].startswith("line 6 is no JSON: ")
    assert by_id["f"]["status"] == "success"
    assert "on stdout" in err
    assert "in stuck" in err


def test_no_line_harms_the_next() -> None:
    deep = b'{"task_id": "deep", "target_function": "echo", "args": %s%s}'
    lines = [
        b"a" * (17 << 20),
        deep % (b"[" * 500, b"]" * 500),
        b"[" * 100_000,
        b'\xff\xfe\x00"',
        b'{"task_id": "first", "task_id": "\xc3\xa9", "target_function": "echo"}\r',
        b'{"task_id": "cut", "target_func',
    ]
    code, results, err = run(b"\n".join(lines), "--import", MODULE, "--workers", "1")
    assert code == 0
    assert err == ""
    assert [r["status"] for r in results] == ["failed"] * 4 + ["success", "failed"]
    assert results[0]["message"] == "line 1 is longer than 16 MiB"
    assert results[1]["task_id"] == "deep"
    assert results[1]["message"].endswith("nested too deeply")
    assert results[4]["task_id"] == "é"
    assert results[5]["message"].startswith("line 6 is no JSON: ")


def test_a_closed_stdin_is_an_empty_one_and_a_closed_stdout_is_code_4() -> None:
    for redirection, code in [("<&-", 0), (">&- </dev/null", 4)]:
        done = subprocess.run(
            [
                "sh",
                "-c",
                f'exec "$0" -m hardfetch.worker {redirection}',
                sys.executable,
            ],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (code, b"")


def test_a_reader_that_stops_stops_the_intake_and_not_the_limits() -> None:
    line = b'{"task_id": "x", "target_function": "big", "args": [500000]}\n'
    process = command("--import", MODULE, "--workers", "1")
    assert process.stdin
    assert process.stdout
    os.set_blocking(process.stdin.fileno(), False)
    taken = 0
    end = time.monotonic() + 3
    while time.monotonic() < end:
        try:
            taken += os.write(process.stdin.fileno(), line)
        except BlockingIOError:
            time.sleep(0.01)
    assert taken < 200_000  # two pipes' worth, far from what 3 s would take
    process.stdout.close()
    assert process.wait(10) == 4
    process.stdin.close()
    assert process.stderr
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_code_3_and_no_worker_left(number: int) -> None:
    process = command("--import", MODULE, "--workers", "2")
    assert process.stdin
    assert process.stdout
    process.stdin.write(b'{"task_id": "a", "target_function": "echo"}\n')
    process.stdin.write(b'{"task_id": "b", "target_function": "for_ever"}\n')
    process.stdin.flush()
    worker = json.loads(process.stdout.readline())["value"]["pid"]
    assert alive(worker)
    process.send_signal(number)
    out, _ = process.communicate(timeout=10)
    assert process.returncode == 3
    assert out == b""
    end = time.monotonic() + 5
    while alive(worker) and time.monotonic() < end:
        time.sleep(0.01)
    assert not alive(worker)


def test_a_module_that_cannot_be_imported_is_code_1() -> None:
    code, results, err = run(b"", "--import", "no_such_module_here")
    assert (code, results) == (1, [])
    assert "workers do not start" in err
    assert "No module named 'no_such_module_here'" in err


def test_wrong_options_are_code_2() -> None:
    for options in (
        ["--workers", "0"],
        ["--timeout", "-1"],
        ["--timeout", "nan"],
        ["--grace", "inf"],
        ["--grace", "x"],
    ):
        assert run(b"", *options)[0] == 2
