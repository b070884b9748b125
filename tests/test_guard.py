from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from hardfetch import _alarm, _watch
from hardfetch.client import _Box
from hardfetch.errors import DeadlineExceeded, HardfetchError, OptionError
from hardfetch.guard import EXIT_STUCK, Deadline, deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SLACK = 0.05  # seconds that an exception may be late
TRIES = 3  # a busy machine may spoil one measurement, not three

LIBC = ctypes.CDLL(None)  # releases the interpreter's lock during a call
LIBC_HELD = ctypes.PyDLL(None)  # holds it


@pytest.fixture(autouse=True)
def _nothing_stays_behind() -> Iterator[None]:
    handler = signal.getsignal(signal.SIGALRM)
    yield
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert not _alarm._layers
    assert not _alarm._deadlines
    end = time.monotonic() + 2
    while _watch.ACTIVE and time.monotonic() < end:
        time.sleep(0.01)  # one left without its __exit__ is found a grace later
    assert not _watch.ACTIVE


def seconds_until(kind: type[BaseException], act: Callable[[], object]) -> float:
    start = time.monotonic()
    with pytest.raises(kind):
        act()
    return time.monotonic() - start


def assert_on_time(limit: float, act: Callable[[], object]) -> None:
    """The exception comes at the limit: never before, and within SLACK."""
    for _ in range(TRIES):
        took = seconds_until(DeadlineExceeded, act)
        assert took >= limit
        if took < limit + SLACK:
            return
    pytest.fail(f"{took:.3f} s instead of {limit} s, {TRIES} times")


def in_thread(act: Callable[[], object]) -> Callable[[], Any]:
    def run() -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(act).result()

    return run


def sleep(limit: float = 0.3, **options: Any) -> None:
    with deadline(limit, **options):
        time.sleep(5)


def sleep_in_pieces(limit: float = 0.3) -> None:
    with deadline(limit):
        while True:
            time.sleep(0.005)


def compute(limit: float = 0.3) -> None:
    with deadline(limit):
        while True:
            pass


def run_script(text: str, timeout: float = 20) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


# The main thread.


def test_a_sleep_ends_on_time() -> None:
    assert_on_time(0.3, sleep)
    assert_on_time(0.2, lambda: sleep(0.2))
    assert_on_time(0.01, lambda: sleep(0.01))


def test_a_limit_may_have_a_unit() -> None:
    assert deadline("300ms").seconds == 0.3
    with pytest.raises(OptionError, match="^deadline: 'soon' is not allowed"):
        deadline("soon")


def test_a_computation_ends_on_time() -> None:
    assert_on_time(0.3, compute)


def test_a_block_that_is_done_in_time_is_left_alone() -> None:
    with deadline(0.05) as limit:
        assert limit.active
        assert 0 < limit.remaining <= 0.05
    time.sleep(0.1)
    assert not limit.expired
    assert not limit.active


def test_the_exception_is_a_timeout_and_a_hardfetch_error() -> None:
    with pytest.raises(TimeoutError) as caught:
        sleep(0.01)
    assert isinstance(caught.value, HardfetchError)
    assert str(caught.value) == "deadline of 0.01 s exceeded"


def test_other_exceptions_pass() -> None:
    with pytest.raises(KeyError), deadline(5):
        raise KeyError


def test_a_deadline_object_serves_one_block_after_another() -> None:
    limit = deadline(0.05)
    for _ in range(2):
        with pytest.raises(DeadlineExceeded), limit:
            time.sleep(1)
        assert limit.expired
    with limit:
        pass
    assert not limit.expired
    with limit, pytest.raises(RuntimeError, match="in use"):
        limit.__enter__()


def test_an_inner_deadline_fires_inside_an_outer_one() -> None:
    def act() -> None:
        with deadline(5):
            sleep(0.2)

    assert_on_time(0.2, act)


def test_an_outer_deadline_fires_inside_an_inner_one() -> None:
    def act() -> None:
        with deadline(0.2):
            sleep(3)

    assert_on_time(0.2, act)


def test_an_outer_deadline_goes_on_after_an_inner_one() -> None:
    def act() -> None:
        with deadline(0.3):
            with contextlib.suppress(DeadlineExceeded):
                sleep(0.1)
            with deadline(2):
                time.sleep(0.05)
            time.sleep(5)

    assert_on_time(0.3, act)


def test_code_that_swallows_the_exception_meets_it_again() -> None:
    met = []

    def act() -> None:
        with deadline(0.1, grace=0.1):
            for _ in range(3):
                start = time.monotonic()
                try:
                    time.sleep(5)
                except Exception:  # noqa: BLE001 - what careless code does
                    met.append(time.monotonic() - start)

    took = seconds_until(DeadlineExceeded, act)
    assert len(met) == 3
    assert 0.3 <= took < 0.3 + TRIES * SLACK


def test_the_callers_pending_alarm_runs_on_time_and_is_put_back() -> None:
    rang: list[float] = []
    old = signal.signal(signal.SIGALRM, lambda *_: rang.append(time.monotonic()))
    try:
        start = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.5)
        with pytest.raises(DeadlineExceeded):
            sleep(0.3)
        left, interval = signal.getitimer(signal.ITIMER_REAL)
        due = time.monotonic() + left - start
        assert interval == 0.5
        assert due == pytest.approx(0.6, abs=0.01)
        assert len(rang) == 1
        assert 0.1 <= rang[0] - start < 0.1 + SLACK
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_the_callers_handler_may_raise_inside_the_block() -> None:
    class TheirsError(Exception):
        pass

    def handler(*_: object) -> None:
        raise TheirsError

    old = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        assert 0.1 <= seconds_until(TheirsError, lambda: sleep(2)) < 0.1 + TRIES * SLACK
        assert signal.getsignal(signal.SIGALRM) is handler
    finally:
        signal.signal(signal.SIGALRM, old)


def test_an_alarm_with_the_default_handler_still_ends_the_process() -> None:
    done = run_script("""
        import signal, time
        from hardfetch.guard import deadline
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with deadline(5):
            time.sleep(3)
    """)
    assert done.returncode == -signal.SIGALRM


def test_other_code_that_takes_the_alarm_away_takes_no_deadline_away() -> None:
    def act() -> None:
        with deadline(0.2):
            ours = signal.signal(signal.SIGALRM, signal.SIG_IGN)
            signal.setitimer(signal.ITIMER_REAL, 0)
            try:
                time.sleep(5)
            finally:
                signal.signal(signal.SIGALRM, ours)

    assert_on_time(0.2, act)


def test_a_deadline_inside_other_codes_alarm_inside_a_deadline() -> None:
    rang: list[float] = []

    def act() -> None:
        with deadline(0.4):
            ours = signal.signal(signal.SIGALRM, lambda *_: rang.append(1))
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            try:
                with contextlib.suppress(DeadlineExceeded):
                    sleep(0.1)
                time.sleep(5)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, ours)

    assert_on_time(0.4, act)
    assert rang
    assert set(rang) == {1}


def test_handlers_and_timers_survive_a_thousand_deadlines_at_their_edge() -> None:
    hits = 0
    for i in range(1000):
        try:
            with deadline(0.0002 + i % 7 * 0.0001, grace=30):
                time.sleep(0.0003)
        except DeadlineExceeded:
            hits += 1
    assert 0 < hits < 1000


# Calls into C.


@pytest.mark.parametrize("libc", [LIBC, LIBC_HELD], ids=["released", "held"])
@pytest.mark.parametrize("thread", [False, True], ids=["main", "thread"])
def test_a_call_into_c_that_stops_at_a_signal_is_ended(
    libc: ctypes.CDLL, thread: bool
) -> None:
    def act() -> None:
        with deadline(0.3):
            libc.sleep(5)

    assert_on_time(0.3, in_thread(act) if thread else act)


STUCK = """
    import ctypes, sys, threading, time
    from hardfetch.guard import deadline

    libc = ctypes.{dll}(None)
    mutex = ctypes.create_string_buffer(64)

    def stand_still():
        with deadline(0.2, grace=0.2, on_stuck="{on_stuck}"):
            libc.pthread_mutex_lock(mutex)
            libc.{call}
            time.sleep(0)
            print("went on")

    class Until(ctypes.Structure):
        _fields_ = [("sec", ctypes.c_long), ("nsec", ctypes.c_long)]

    until = ctypes.byref(Until(int(time.time()) + 2, 0))
    {start}
"""
MAIN = "stand_still()"
THREAD = "t = threading.Thread(target=stand_still); t.start(); t.join()"


@pytest.mark.parametrize("start", [MAIN, THREAD], ids=["main", "thread"])
@pytest.mark.parametrize("dll", ["CDLL", "PyDLL"])
def test_a_call_that_never_returns_ends_the_process_if_asked(
    start: str, dll: str
) -> None:
    done = run_script(
        STUCK.format(
            dll=dll, on_stuck="exit", call="pthread_mutex_lock(mutex)", start=start
        )
    )
    assert done.returncode == EXIT_STUCK
    assert "has not run Python" in done.stderr
    assert "its deadline of 0.200 s" in done.stderr
    assert "in stand_still" in done.stderr  # faulthandler's stack


@pytest.mark.parametrize("start", [MAIN, THREAD], ids=["main", "thread"])
@pytest.mark.parametrize("dll", ["CDLL", "PyDLL"])
def test_else_the_stacks_are_told_and_the_exception_comes_at_the_return(
    start: str, dll: str
) -> None:
    done = run_script(
        STUCK.format(
            dll=dll,
            on_stuck="raise",
            call="pthread_mutex_timedlock(mutex, until)",
            start=start,
        )
    )
    assert done.stderr.count("has not run Python") == 1
    assert (
        done.stderr.count("in stand_still") == 2
    )  # faulthandler's and the traceback's
    assert (
        "hardfetch.errors.DeadlineExceeded: deadline of 0.2 s exceeded" in done.stderr
    )
    assert "went on" not in done.stdout


def test_the_private_signal_can_be_chosen() -> None:
    script = """
        import signal, time
        from hardfetch.guard import deadline
        with deadline(5):
            print(signal.getsignal(signal.SIGRTMIN + 9))
    """
    os.environ["HARDFETCH_GUARD_SIGNAL"] = str(signal.SIGRTMIN + 9)
    try:
        assert "on_signal" in run_script(script).stdout
        os.environ["HARDFETCH_GUARD_SIGNAL"] = "9"
        assert "OptionError: HARDFETCH_GUARD_SIGNAL" in run_script(script).stderr
    finally:
        del os.environ["HARDFETCH_GUARD_SIGNAL"]


# Other threads.


@pytest.mark.parametrize("act", [sleep_in_pieces, compute])
def test_in_a_thread_the_exception_comes_at_the_next_bytecode(
    act: Callable[[], None],
) -> None:
    assert_on_time(0.3, in_thread(act))


def test_deadlines_nest_in_a_thread() -> None:
    def inner() -> None:
        with deadline(5):
            sleep_in_pieces(0.2)

    def outer() -> None:
        with deadline(0.2):
            sleep_in_pieces(3)

    assert_on_time(0.2, in_thread(inner))
    assert_on_time(0.2, in_thread(outer))


def test_threads_have_their_own_limits() -> None:
    def act(limit: float) -> float:
        return seconds_until(DeadlineExceeded, lambda: sleep_in_pieces(limit))

    limits = [0.1 + 0.02 * (i % 10) for i in range(30)]
    with ThreadPoolExecutor(30) as pool:
        for limit, took in zip(limits, pool.map(act, limits), strict=True):
            assert limit <= took < limit + 0.3


def test_a_call_that_ignores_signals_raises_when_it_returns() -> None:
    def act() -> None:
        with deadline(0.1, grace=5):
            time.sleep(0.3)  # Python's own goes on after EINTR

    assert 0.3 <= seconds_until(DeadlineExceeded, in_thread(act)) < 0.3 + TRIES * SLACK


def test_a_wait_of_ours_survives_signals_at_its_time_out() -> None:
    """Where SimpleQueue.get would wait for ever."""
    waiting: list[int] = []

    def act() -> None:
        waiting.append(threading.get_ident())
        with deadline(0.2):
            _Box().take()

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(act)
        start = time.monotonic()
        while not future.done() and time.monotonic() < start + 5:
            if waiting:
                signal.pthread_kill(waiting[0], _watch.kick_signal())
            time.sleep(0.0002)
        assert isinstance(future.exception(0), DeadlineExceeded)


def test_in_a_thread_swallowed_exceptions_come_again_too() -> None:
    met = []

    def act() -> None:
        with deadline(0.1, grace=0.1):
            for _ in range(3):
                try:
                    while True:
                        time.sleep(0.002)
                except Exception as exc:  # noqa: BLE001
                    met.append(exc)

    took = seconds_until(DeadlineExceeded, in_thread(act))
    assert len(met) == 3
    assert 0.3 <= took < 0.3 + TRIES * SLACK


def test_a_block_left_before_its_exit_could_run_raises_once() -> None:
    """The interpreter may look for exceptions only at the start of __exit__."""

    class Slow:
        _as_parameter_ = 150000
        attribute = property(LIBC.usleep)  # an instruction that is no call

    limit = deadline(0.1, grace=0.1)

    def act() -> str:
        try:
            with limit:
                Slow().attribute  # noqa: B018
        except DeadlineExceeded:
            with limit:
                pass
            for _ in range(100):
                time.sleep(0.005)
            return "once"
        return "never"

    assert in_thread(act)() == "once"


def test_a_thread_survives_a_thousand_deadlines_at_their_edge() -> None:
    def act() -> int:
        hits = 0
        for i in range(1000):
            try:
                with deadline(0.0005 + i % 7 * 0.0001, grace=30):
                    time.sleep(0.0007)
            except DeadlineExceeded:
                hits += 1
        return hits

    assert in_thread(act)() > 0


def test_the_exception_of_a_thread_travels_by_pickle() -> None:
    with pytest.raises(DeadlineExceeded) as caught:
        in_thread(lambda: sleep_in_pieces(0.01))()
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is DeadlineExceeded
    assert str(copy) == str(caught.value) == "deadline of 0.01 s exceeded"


def test_a_deadline_in_a_daemon_thread_lets_the_interpreter_go() -> None:
    done = run_script("""
        import threading, time
        from hardfetch.guard import deadline
        entered = threading.Event()
        def act():
            with deadline(0.05, grace=0.05, on_stuck="exit"):
                entered.set()
                time.sleep(60)
        threading.Thread(target=act, daemon=True).start()
        entered.wait()
    """)
    assert done.returncode == 0


# asyncio.


def test_a_blocked_event_loop_is_interrupted_where_it_blocks() -> None:
    async def act() -> None:
        sleep()

    assert_on_time(0.3, lambda: asyncio.run(act()))


def test_a_whole_loop_can_be_limited() -> None:
    def act() -> None:
        with deadline(0.3):
            asyncio.run(asyncio.sleep(5))

    assert_on_time(0.3, act)


@pytest.mark.parametrize("thread", [False, True], ids=["main", "thread"])
def test_a_coroutine_that_awaits_is_cancelled_and_the_others_go_on(
    thread: bool,
) -> None:
    @deadline(0.2)
    async def late() -> None:
        await asyncio.sleep(5)

    async def other() -> str:
        for _ in range(30):
            await asyncio.sleep(0.01)
        return "done"

    async def main() -> Any:
        return await asyncio.gather(late(), other(), late(), return_exceptions=True)

    def run() -> Any:
        return asyncio.run(main())

    start = time.monotonic()
    first, second, third = in_thread(run)() if thread else run()
    assert time.monotonic() - start < 0.8
    assert isinstance(first, DeadlineExceeded)
    assert isinstance(third, DeadlineExceeded)
    assert second == "done"


def test_a_coroutines_deadline_is_on_time_and_leaves_its_task_usable() -> None:
    async def act() -> None:
        with deadline(0.2):
            await asyncio.sleep(5)

    async def main() -> float:
        start = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            await act()
        task = asyncio.current_task()
        assert task is not None
        if sys.version_info >= (3, 11):
            assert task.cancelling() == 0
        await asyncio.sleep(0.01)
        return time.monotonic() - start

    assert 0.2 <= asyncio.run(main()) < 0.2 + TRIES * SLACK


def test_coroutines_may_leave_their_deadlines_in_any_order() -> None:
    async def act(limit: float, wait: float) -> str:
        try:
            with deadline(limit):
                await asyncio.sleep(wait)
        except DeadlineExceeded:
            return "late"
        return "done"

    async def main() -> Any:
        return await asyncio.gather(
            act(1, 0.05), act(0.1, 5), act(0.3, 0.02), act(0.05, 5), act(2, 0.2)
        )

    assert asyncio.run(main()) == ["done", "late", "done", "late", "done"]


def test_in_to_thread_the_thread_is_limited() -> None:
    async def main() -> None:
        await asyncio.to_thread(sleep_in_pieces)

    assert_on_time(0.3, lambda: asyncio.run(main()))


# As a decorator; values.


def test_a_decorated_function_is_limited_at_each_call() -> None:
    @deadline(0.1)
    def slow(wait: float, *, result: int) -> int:
        """Wait."""
        time.sleep(wait)
        return result

    assert slow(0, result=3) == 3
    assert slow.__doc__ == "Wait."
    assert_on_time(0.1, lambda: slow(5, result=1))
    assert slow(0.001, result=4) == 4


def test_a_decorated_function_may_call_itself() -> None:
    @deadline(0.2)
    def deeper(n: int) -> int:
        return n if n == 0 else deeper(n - 1)

    assert deeper(20) == 0


def test_a_generator_is_refused_with_the_reason() -> None:
    with pytest.raises(TypeError, match="runs in pieces"):

        @deadline(1)
        def numbers() -> Iterator[int]:
            yield 1


@pytest.mark.parametrize(
    "value", [0, -1, float("nan"), float("inf"), True, 1e12], ids=str
)
def test_a_limit_that_is_no_positive_number_is_refused(value: float) -> None:
    with pytest.raises(OptionError, match="deadline"):
        deadline(value)
    with pytest.raises(OptionError, match="grace"):
        deadline(1, grace=value)


def test_an_unknown_way_out_is_refused() -> None:
    with pytest.raises(OptionError, match="on_stuck"):
        Deadline(1, on_stuck="ignore")


# Fork.


def test_a_forked_child_has_none_of_its_parents_deadlines() -> None:
    handler = signal.getsignal(signal.SIGALRM)
    with deadline(0.2, on_stuck="exit", grace=0.05):
        pid = os.fork()
        if pid == 0:
            code = 1
            with contextlib.suppress(DeadlineExceeded):
                time.sleep(0.4)
                code = 0 if signal.getsignal(signal.SIGALRM) is handler else 2
                with contextlib.suppress(DeadlineExceeded):
                    sleep(0.05)
                    code = 3
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_child_forked_from_a_thread_can_use_deadlines() -> None:
    def act() -> int:
        with deadline(5):
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    sleep(0.05)
                except DeadlineExceeded:
                    code = 0
                finally:
                    os._exit(code)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert in_thread(act)() == 0


def test_deadlines_of_threads_end_in_time_beside_one_of_the_main_thread() -> None:
    with ThreadPoolExecutor(4) as pool, deadline(5):
        futures = [pool.submit(sleep_in_pieces, 0.2) for _ in range(4)]
        assert_on_time(0.1, lambda: sleep(0.1))
        assert all(isinstance(f.exception(), DeadlineExceeded) for f in futures)
    assert threading.active_count() < 20


def test_what_a_block_may_call_first_is_imported_before_it() -> None:
    code = (
        "import sys, hardfetch; hardfetch.deadline\n"
        "assert 'hardfetch.fetcher' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
