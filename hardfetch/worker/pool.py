"""Worker processes that are re-used, watched, and replaced when they are stuck.

A worker holds the limit of its task itself (`hardfetch.deadline` with on_stuck="exit").
The pool only acts where that fails: it kills a worker a little past limit and grace,
and it reports the task of a worker that ended. One task is with a worker at a time, so
a worker's end costs no other task. Clocks start when a ready worker gets its task.
"""

from __future__ import annotations

import multiprocessing
import os
import select
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from hardfetch import jsonio, values
from hardfetch.errors import HardfetchError, OptionError
from hardfetch.guard import EXIT_STUCK
from hardfetch.worker import child
from hardfetch.worker.models import Status, TaskPayload, TaskResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType

__all__ = ["PoolError", "WorkerPool"]

TIMEOUT = 60.0
GRACE = 0.3
_KILL_AFTER = 0.2  # seconds past limit and grace
_START_SECONDS = 60.0  # for a worker to import its modules
_STOP_SECONDS = 1.0
_FAILED_STARTS = 3  # in a row, of workers that never were ready

StartMethod = Literal["forkserver", "spawn"]


class PoolError(HardfetchError, RuntimeError):
    """Workers don't start: a module that can't be imported, no memory."""


def refused(payload: TaskPayload, error: jsonio.JsonEncodeError) -> TaskResult:
    """Return the result of a task that could not be given to a worker."""
    return TaskResult(
        task_id=payload.task_id,
        status="failed",
        message=f"its args have no JSON form: {error}",
        elapsed_time=0.0,
    )


class _Worker:
    """One process, its pipe, and the task that is with it."""

    def __init__(self, context: Any, modules: tuple[str, ...], grace: float) -> None:
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=child.main, args=(theirs, modules, grace), daemon=True
        )
        try:
            self.process.start()
        except BaseException:
            self.pipe.close()
            raise
        finally:
            theirs.close()
        self.ready = False
        self.payload: TaskPayload | None = None
        self.started = time.monotonic()
        self.kill_at = self.started + _START_SECONDS

    @property
    def idle(self) -> bool:
        return self.ready and self.payload is None

    def give(self, payload: TaskPayload, limit: float, grace: float) -> None:
        line = jsonio.dumps(payload.model_dump())
        self.payload = payload
        self.started = time.monotonic()
        self.kill_at = self.started + limit + grace + _KILL_AFTER
        with suppress(OSError):  # it has ended: told by its sentinel, as at any time
            self.pipe.send_bytes(line)

    def end(self) -> None:
        """Kill and reap it. Safe at any time."""
        self.pipe.close()
        self.process.kill()
        self.process.join()
        self.process.close()


class WorkerPool:
    """A constant number of worker processes for registered tasks.

    `modules` are imported in each worker and register its tasks; `timeout` (seconds)
    is for payloads without one, `grace` is what a task stuck in C gets on top. To be
    used by one thread at a time.

    Raises OptionError for wrong values, PoolError when workers can't start.
    """

    def __init__(
        self,
        size: int | None = None,
        *,
        modules: Sequence[str] = (),
        timeout: float = TIMEOUT,
        grace: float = GRACE,
        start_method: StartMethod = "forkserver",
    ) -> None:
        processors = len(os.sched_getaffinity(0))
        self.size = processors if size is None else values.count("size", size)
        if start_method not in ("forkserver", "spawn"):
            # A forked child holds its siblings' pipes open and its parent's locks.
            raise OptionError('start_method: "forkserver" or "spawn"')
        if isinstance(modules, str):
            raise OptionError("modules: a list of names, not one string")
        self.timeout = values.seconds("timeout", timeout)
        self.grace = values.seconds("grace", grace)
        self.replaced = 0  # workers that had to be
        self._modules = tuple(modules)
        self._context = multiprocessing.get_context(start_method)
        if start_method == "forkserver":
            self._context.set_forkserver_preload([child.__name__, *self._modules])
        self._failed_starts = 0
        self._workers: list[_Worker] = []
        try:
            for _ in range(self.size):
                self._workers.append(self._start())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _start(self) -> _Worker:
        return _Worker(self._context, self._modules, self.grace)

    @property
    def has_idle(self) -> bool:
        """Whether `give` would find a worker."""
        return any(worker.idle for worker in self._workers)

    @property
    def busy(self) -> int:
        """How many tasks are with workers."""
        return sum(worker.payload is not None for worker in self._workers)

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return [worker.process.pid or 0 for worker in self._workers]

    def give(self, payload: TaskPayload) -> None:
        """Hand a task to an idle worker.

        Raises RuntimeError when there is none, JsonEncodeError for args without a JSON
        form; the worker stays idle then.
        """
        worker = next((w for w in self._workers if w.idle), None)
        if worker is None:
            raise RuntimeError("no worker is idle: look at has_idle, call wait")
        limit = self.timeout if payload.timeout is None else payload.timeout
        worker.give(payload.model_copy(update={"timeout": limit}), limit, self.grace)

    def wait(
        self, timeout: float | None = None, others: dict[int, int] | None = None
    ) -> tuple[list[TaskResult], set[int]]:
        """Wait until something happens, at most timeout seconds (None: any time).

        `others` maps descriptors to poll(2) events to wait for besides. Returns the
        results of tasks that ended, in no order, and those of `others` that are ready.
        """
        poll = select.poll()
        for fd, events in (others or {}).items():
            poll.register(fd, events)
        for worker in self._workers:
            poll.register(worker.pipe.fileno(), select.POLLIN)
            poll.register(worker.process.sentinel, select.POLLIN)
        left = (
            min(w.kill_at for w in self._workers if not w.idle) if self._hurry else None
        )
        if left is not None:
            left = max(0.0, left - time.monotonic())
        times = [t for t in (left, timeout) if t is not None]
        # One more ms than asked: poll rounds down, and would be called in vain.
        ready = {fd for fd, _ in poll.poll(min(times) * 1000 + 1 if times else None)}
        results = [self._look(i, w, ready) for i, w in enumerate(list(self._workers))]
        return [r for r in results if r is not None], ready & set(others or ())

    @property
    def _hurry(self) -> bool:
        return any(not worker.idle for worker in self._workers)

    def _look(self, i: int, worker: _Worker, ready: set[int]) -> TaskResult | None:
        """Take a worker's result; replace it if it ended or is out of time."""
        if worker.pipe.fileno() in ready:
            try:
                return self._receive(worker)
            except (EOFError, OSError):
                pass  # it ends
            worker.process.join(_STOP_SECONDS)
        elif worker.process.sentinel not in ready and (
            worker.idle or time.monotonic() < worker.kill_at
        ):
            return None
        result = self._obituary(worker)
        worker.end()
        self.replaced += 1
        self._workers[i] = self._start()
        return result

    def _receive(self, worker: _Worker) -> TaskResult | None:
        data = worker.pipe.recv_bytes()
        if data == child.READY:
            worker.ready = True
            self._failed_starts = 0
            return None
        worker.payload = None
        return TaskResult.model_validate(jsonio.loads(data))

    def _obituary(self, worker: _Worker) -> TaskResult | None:
        """Return the result of the task that a lost worker had."""
        code = worker.process.exitcode
        how = "had to be killed" if code is None else f"ended with exit code {code}"
        if code is not None and code < 0:
            how = f"ended by signal {-code}"
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts >= _FAILED_STARTS:
                raise PoolError(
                    f"workers do not start: the last one {how}; stderr says why "
                    "(a script starts its pool under `if __name__ == '__main__':`)"
                )
        payload = worker.payload
        if payload is None:
            return None
        elapsed = time.monotonic() - worker.started
        limit = payload.timeout or self.timeout
        status: Status = "failed"
        message = f"its worker {how}"
        # Past the grace its end is the limit's doing, whatever the exit code.
        if elapsed >= limit and (
            code in (None, EXIT_STUCK) or elapsed >= limit + self.grace
        ):
            status = "timeout"
            message = f"timed out after {limit:g} s, stuck; its worker was replaced"
        return TaskResult(
            task_id=payload.task_id,
            status=status,
            message=message,
            elapsed_time=elapsed,
        )

    def map(self, payloads: Iterable[TaskPayload]) -> Iterator[TaskResult]:
        """Give one result for each payload, as they come; pulls payloads as needed."""
        source = iter(payloads)
        more = True
        while more or self.busy:
            while more and self.has_idle:
                payload = next(source, None)
                if payload is None:
                    more = False
                    break
                try:
                    self.give(payload)
                except jsonio.JsonEncodeError as exc:
                    yield refused(payload, exc)
            if self.busy or more:
                results, _ = self.wait()
                yield from results

    def close(self) -> None:
        """End all workers: idle ones by themselves, busy ones by force. Idempotent."""
        workers, self._workers = self._workers, []
        for worker in workers:
            if worker.payload is None:
                worker.pipe.close()
        end = time.monotonic() + _STOP_SECONDS
        for worker in workers:
            if worker.payload is None:
                worker.process.join(max(0.0, end - time.monotonic()))
            worker.end()
