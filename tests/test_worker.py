from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from pydantic import ValidationError
from watching import starved

from hardfetch.errors import OptionError
from hardfetch.worker import (
    TaskPayload,
    TaskResult,
    UnknownTaskError,
    get_task,
    run_task,
    task,
)
from hardfetch.worker.models import explain


def payload(**given: Any) -> TaskPayload:
    return TaskPayload.model_validate({"task_id": "1", "target_function": "f", **given})


# Payloads and results.


def test_a_payload_is_taken_as_it_is() -> None:
    given = payload(timeout=2, duration=0.5, args=[1, "two"])
    assert (given.task_id, given.timeout, given.duration) == ("1", 2.0, 0.5)
    assert given.call_arguments() == ([0.5, 1, "two"], {})


def test_arguments_may_be_named() -> None:
    given = payload(args={"url": "http://a/"}, duration=3)
    assert given.call_arguments() == ([], {"duration": 3.0, "url": "http://a/"})
    assert payload().call_arguments() == ([], {})


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"timeout": 0}, "timeout: Input should be greater than 0"),
        ({"timeout": -1}, "timeout: Input should be greater than 0"),
        ({"duration": 0}, "duration: Input should be greater than 0"),
        ({"timeout": "2"}, "timeout: Input should be a valid number"),
        ({"timeout": float("nan")}, "timeout: Input should be a finite number"),
        ({"timeout": float("inf")}, "timeout: Input should be a finite number"),
        ({"timeout": True}, "timeout: Input should be a valid number"),
        ({"timeout": 1e12}, "timeout: Input should be less than or equal to"),
        ({"task_id": 7}, "task_id: Input should be a valid string"),
        ({"task_id": ""}, "task_id: String should have at least 1 character"),
        ({"target_function": None}, "target_function: Input should be a valid string"),
        ({"args": "x"}, "args.list[any]: Input should be a valid list"),
        ({"color": 1}, "color: Extra inputs are not permitted"),
    ],
)
def test_a_wrong_payload_is_refused_with_the_reason(
    given: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        payload(**given)
    assert explain(caught.value).startswith(complaint)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ValidationError) as caught:
        TaskPayload.model_validate({})
    text = explain(caught.value)
    assert text == "task_id: Field required; target_function: Field required"


def test_a_result_has_one_of_three_states_and_no_negative_time() -> None:
    good = {"task_id": "1", "status": "success", "message": "", "elapsed_time": 0.0}
    assert TaskResult.model_validate(good).value is None
    for wrong in ({"status": "maybe"}, {"elapsed_time": -0.1}):
        with pytest.raises(ValidationError):
            TaskResult.model_validate({**good, **wrong})


# One task.


def test_a_task_in_time_brings_its_value() -> None:
    result = run_task(payload(args=[2, 3]), lambda a, b: a * b, timeout=5)
    assert (result.status, result.value, result.task_id) == ("success", 6, "1")
    assert 0 <= result.elapsed_time < 1


def test_a_task_past_its_limit_is_a_timeout_on_time() -> None:
    before = starved()
    result = run_task(payload(duration=3), time.sleep, timeout=0.2)
    assert result.status == "timeout"
    assert result.message == "timed out after 0.2 s"
    assert 0.2 <= result.elapsed_time < 0.3 + starved() - before


def test_the_payloads_own_timeout_counts_unless_another_is_given() -> None:
    assert run_task(payload(timeout=0.05, duration=3), time.sleep).status == "timeout"
    given = payload(timeout=0.01, duration=0.05)
    assert run_task(given, time.sleep, timeout=5).status == "success"
    with pytest.raises(OptionError, match="timeout"):
        run_task(payload(), time.sleep)


def test_a_task_that_fails_says_why_in_one_line() -> None:
    def broken() -> None:
        raise ValueError("no\nsuch  thing")

    result = run_task(payload(), broken, timeout=5)
    assert (result.status, result.value) == ("failed", None)
    assert result.message == "ValueError: no such thing"


class MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (MuteError(), "MuteError"),
        (ValueError("a\0\ud800"), "ValueError: a\0\\ud800"),
        (ValueError("x" * 10_000_000), f"ValueError: {'x' * 1997}..."),
        (GeneratorExit(), "GeneratorExit"),
        (asyncio.CancelledError("gone"), "CancelledError: gone"),
    ],
)
def test_whatever_a_task_raises_is_told(raised: BaseException, message: str) -> None:
    def broken() -> None:
        raise raised

    result = run_task(payload(), broken, timeout=5)
    assert (result.status, result.message) == ("failed", message)


def test_a_task_that_exits_fails_and_a_timeout_of_its_own_is_no_limit_of_ours() -> None:
    assert run_task(payload(args=[3]), sys.exit, timeout=5).message == "SystemExit: 3"

    def own() -> None:
        raise TimeoutError("theirs")

    result = run_task(payload(), own, timeout=5)
    assert (result.status, result.message) == ("failed", "TimeoutError: theirs")


def test_a_keyboard_interrupt_is_not_swallowed() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_task(payload(), interrupted, timeout=5)


def test_a_task_that_swallows_the_limit_is_still_a_timeout() -> None:
    def swallow() -> str:
        try:
            time.sleep(5)
        except Exception:  # noqa: BLE001 - what careless code does
            return "fine"
        return "slept"

    result = run_task(payload(), swallow, timeout=0.1)
    assert (result.status, result.value) == ("timeout", None)


def test_a_coroutine_is_run_under_the_limit_too() -> None:
    import asyncio

    async def double(n: int) -> int:
        await asyncio.sleep(0.001)
        return 2 * n

    assert run_task(payload(args=[4]), double, timeout=5).value == 8
    result = run_task(payload(args=[5]), asyncio.sleep, timeout=0.1)
    assert result.status == "timeout"


def test_it_works_in_a_thread() -> None:
    def pieces() -> None:
        while True:
            time.sleep(0.005)

    results: list[TaskResult] = []
    before = starved()
    thread = threading.Thread(
        target=lambda: results.append(run_task(payload(), pieces, timeout=0.2))
    )
    thread.start()
    thread.join()
    assert results[0].status == "timeout"
    assert 0.2 <= results[0].elapsed_time < 0.4 + starved() - before


# The registry.


def test_only_registered_functions_are_found() -> None:
    @task("test_worker.double")
    def double(n: int) -> int:
        return 2 * n

    assert get_task("test_worker.double") is double
    for name in ("os.system", "test_worker:double", "test_worker.doubel"):
        with pytest.raises(UnknownTaskError, match="no task is registered"):
            get_task(name)


def test_a_name_is_given_once() -> None:
    @task("test_worker.once")
    def first() -> None:
        pass

    with pytest.raises(OptionError, match="registered already"):

        @task("test_worker.once")
        def second() -> None:
            pass

    assert get_task("test_worker.once") is first


# The extra.


def test_without_pydantic_one_sentence_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['pydantic'] = None\n"
        "import hardfetch\n"
        "try:\n    import hardfetch.worker\n"
        "except ImportError as exc:\n    print(exc)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    sentence = "hardfetch.worker needs Pydantic: pip install 'hardfetch[worker]'\n"
    assert done.stdout == sentence
    assert done.stderr == ""
