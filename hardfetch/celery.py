"""Celery tasks whose fetches, and whose own code, keep their limits.

    @app.task(base=FetchTask, bind=True, timeout=5, hard_timeout=8)
    def crawl(self, url):
        return self.fetch(url).to_dict()

Past `timeout` DeadlineExceeded is raised in the task. Past `hard_timeout` a prefork
child that still can't run Python, because a call into C never returns, prints its
stacks and exits with code 70; Celery then starts another child and, `worker_lost_wait`
(10 s by default) later, fails the task with WorkerLostError, or delivers it again with
`reject_on_worker_lost`.

Celery's own limits stay in force beside these; whichever comes first acts, each with
its own exception. In the pools that don't enforce Celery's soft limit (threads, solo)
it is kept here, as SoftTimeLimitExceeded. gevent and eventlet are refused: their one
thread runs many tasks at once, so none can be interrupted alone. Needs
`hardfetch[celery]`.
"""

from __future__ import annotations

import math
import os
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

try:
    from celery import Task, signals
    from celery.exceptions import ImproperlyConfigured, SoftTimeLimitExceeded
    from celery.utils.log import current_process
except ImportError as _exc:
    if _exc.name != "celery":
        raise
    raise ImportError(
        "hardfetch.celery needs Celery: pip install 'hardfetch[celery]'", name="celery"
    ) from None

from hardfetch._green import threads_are_green
from hardfetch.errors import DeadlineExceeded, OptionError
from hardfetch.fetcher import Fetcher
from hardfetch.guard import deadline

if TYPE_CHECKING:
    from hardfetch.record import Result

__all__ = ["FetchTask", "close"]

HARD_AFTER = 5.0  # seconds from the soft limit to the hard one by default
_MARGIN = 0.1  # seconds before the task's limit at which its fetches end, as results
_SHORTEST = 0.05

_due: ContextVar[float] = ContextVar("hardfetch_task_due", default=math.inf)
_fetchers: dict[tuple[int, type], Fetcher] = {}  # by process: a child makes its own


class FetchTask(Task):  # type: ignore[misc] # Celery has no type hints
    """Base class of tasks with limits. Times are seconds; None means none.

    `timeout` and `hard_timeout` limit `run`, and the latter is `timeout` + 5 unless
    given. `fetch_options` are options of the `Fetcher` that each process has for the
    task; it starts with the first fetch and ends with the process.
    """

    abstract = True
    timeout: float | None = None
    hard_timeout: float | None = None
    fetch_options: dict[str, Any] = {}  # noqa: RUF012 - read only, as Celery's own

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call `run` under the limits. Raises DeadlineExceeded."""
        _refuse_green_threads()
        soft, celery_soft = self._limits()
        limit = min(soft, celery_soft)
        token = _due.set(time.monotonic() + limit)
        try:
            if _is_pool_child():
                limit = soft  # Celery keeps its own there
            if limit == math.inf:
                return super().__call__(*args, **kwargs)
            return self._limited(limit, limit != soft, args, kwargs)
        finally:
            _due.reset(token)

    def _limited(self, limit: float, celerys: bool, args: Any, kwargs: Any) -> Any:
        hard = limit + HARD_AFTER if self.hard_timeout is None else self.hard_timeout
        guard = deadline(
            limit,
            grace=max(_SHORTEST, hard - limit),
            on_stuck="exit" if _is_pool_child() else "raise",
        )
        try:
            with guard:
                return super().__call__(*args, **kwargs)
        except DeadlineExceeded as exc:
            if celerys and guard.expired:
                raise SoftTimeLimitExceeded(limit) from exc
            raise

    def _limits(self) -> tuple[float, float]:
        """Return our soft limit and Celery's, infinite when there is none."""
        if self.timeout is not None and self.hard_timeout is not None:
            if self.hard_timeout < self.timeout:
                raise OptionError("hard_timeout: not below timeout")
        elif self.hard_timeout is not None:
            raise OptionError("hard_timeout: needs a timeout")
        _, celery_soft = self.request.timelimit or (None, None)
        celery_soft = celery_soft or self.soft_time_limit
        return self.timeout or math.inf, celery_soft or math.inf

    def fetch(self, url: str, **options: Any) -> Result:
        """Fetch a URL; options are those of `Fetcher.fetch`.

        Ends as a result just before the task's soft limit, with the error `deadline`.
        """
        fetcher = self.fetcher
        # The engine starts here, or the first fetch's clock would start that much late.
        fetcher._get_client()  # noqa: SLF001 - it is ours
        left = _due.get() - time.monotonic()
        if left < math.inf:
            given = options.get("deadline") or math.inf
            options["deadline"] = min(given, max(_SHORTEST, left - _MARGIN))
        return fetcher.fetch(url, **options)

    @property
    def fetcher(self) -> Fetcher:
        """The Fetcher of this task in this process, for `map` and the rest."""
        _refuse_green_threads()
        key = (os.getpid(), type(self))
        fetcher = _fetchers.get(key)
        if fetcher is None:
            # Without a lock, which a child could inherit locked: one spare is dropped.
            fetcher = _fetchers.setdefault(key, Fetcher(**self.fetch_options))
        return fetcher


def close(**_: Any) -> None:
    """Close this process's fetchers; also called when a pool child or worker ends."""
    for key in [key for key in list(_fetchers) if key[0] == os.getpid()]:
        _fetchers.pop(key).close()


def _is_pool_child() -> bool:
    return bool(current_process().name != "MainProcess")


def _refuse_green_threads() -> None:
    if threads_are_green():
        raise ImproperlyConfigured(
            "hardfetch.celery: the gevent and eventlet pools are not supported, since "
            "none of their tasks can be interrupted alone; use prefork or threads"
        )


signals.worker_process_shutdown.connect(close, weak=False)
signals.worker_shutdown.connect(close, weak=False)
