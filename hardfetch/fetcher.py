"""`Fetcher`: the engine's face in Python."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import AsyncIterable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlencode

from hardfetch import jsonio, policies, values
from hardfetch.bulk import Run
from hardfetch.client import Client
from hardfetch.errors import ClosedError, ForkError, HardfetchError, OptionError
from hardfetch.options import OPTION_NAMES, Options
from hardfetch.request import (
    REQUEST_OPTIONS,
    TIME_OPTIONS,
    Packer,
    Request,
)
from hardfetch.stream import Stream
from hardfetch.summary import Stats
from hardfetch.tlscache import store_at

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from types import TracebackType

    from hardfetch.record import Result
    from hardfetch.sinks import SinkLike
    from hardfetch.sources import Input, Source
    from hardfetch.summary import Summary

    Job: TypeAlias = Run | Stream | Client

_EXTRA = frozenset({"data", "json"})  # requests' names for a body
_BODIES = ("body", "data", "json")

_jobs: weakref.WeakSet[Job] = weakref.WeakSet()


@atexit.register
def _shutdown() -> None:
    """End what still runs when the interpreter exits, each within seconds."""
    for job in list(_jobs):  # in a child, each sees that it is the parent's
        with suppress(HardfetchError):
            job.shutdown()


class Fetcher:
    """A fetch engine with one set of options.

    Options are those of `hardfetch fetch` with underscores; see `Options`. Any wrong
    one raises OptionError here. Use it in a `with` statement, or call `close`.

    Its methods may be called by any thread. In a child made by fork they raise
    ForkError; make a new Fetcher there.
    """

    def __init__(self, **options: Any) -> None:
        self.options = Options.build(**options)
        self._packer = Packer(self.options)
        self._tls_cache = store_at(self.options.tls_cache)
        self._pid = os.getpid()
        self._lock = threading.RLock()
        # Replaced, never changed: see stop. What nobody else refers to has ended.
        self._active: tuple[weakref.ref[Job], ...] = ()
        self._client: Client | None = None
        self._closed = False
        self._last = Stats()

    def __enter__(self) -> Fetcher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def run(
        self,
        source: Source,
        sink: SinkLike,
        *,
        append: bool = False,
        skip: tuple[bytes, int] | None = None,
        resume: bool = False,
    ) -> Summary:
        """Fetch everything in source and write one NDJSON record each to sink.

        `source` is a path or a file of lines, or an iterable of URLs, mappings and
        `Request`s. `sink` is a path (compressed by .gz and .zst), a descriptor, a file
        or an `NdjsonWriter`; a file is emptied first unless `append`. `skip` is a
        bitmap of inputs that have their record already, and its length in bits. With
        `resume` these are found in the sink, a path, and what is left is appended.

        A process that SIGTERM ends by its default action may leave half a line at the
        end of a file, which `append` and `resume` cut; a handler that calls `stop`, or
        raises SystemExit, leaves whole lines.

        Returns after the last record is written, or after `stop`. Raises OptionError
        when it can't be proved that resuming is right, SinkError when the sink fails,
        and what a source raises, as OSError, after the records of the whole lines or
        items that came before.
        """
        run = Run(self.options, self._packer)
        self._begin(run)
        try:
            return run.execute(source, sink, append=append, skip=skip, resume=resume)
        finally:
            self._end(run, run.stats())

    def map(self, inputs: Iterable[Input]) -> Generator[Result, None, None]:
        """Give one Result for each input, as they come.

        Inputs are URLs, mappings or `Request`s; they are pulled by another thread, a
        bounded number ahead. Ending the iteration early cancels what is left. What the
        iterable raises is raised here after the results.
        """
        self._check()
        _check_inputs(inputs)
        return self._map(inputs)

    def _map(self, inputs: Iterable[Input]) -> Generator[Result, None, None]:
        stream = Stream(self.options, self._packer)
        try:
            self._begin(stream)
            stream.start(inputs)
            yield from stream.results()
        finally:
            self._end_stream(stream)

    async def amap(
        self, inputs: Iterable[Input] | AsyncIterable[Input]
    ) -> AsyncGenerator[Result, None]:
        """Do as `map`, for `async for`; inputs may be an async iterable."""
        import asyncio  # half of the start-up, for those who need it

        self._check()
        _check_inputs(inputs)
        stream = Stream(self.options, self._packer)
        task = None
        try:
            self._begin(stream)
            if isinstance(inputs, AsyncIterable):
                task = asyncio.ensure_future(stream.feed_async(inputs))
            else:
                stream.start(inputs)
            async for result in stream.results_async():
                yield result
        finally:
            if task is not None:
                task.cancel()
            self._end_stream(stream)

    def fetch(self, url: str | bytes | Request, **request_options: Any) -> Result:
        """Fetch one URL and return its Result, whose `error` tells of failures.

        `request_options` are those of `Request`, and `data` and `json` for a body, as
        requests has them: a mapping or a list of pairs as `data` is a form. Where no
        header gives the Content-Type, a form and `json` get theirs.
        Connections are kept between calls; any number of threads may call at once.
        Raises OptionError for an unknown option or a wrong time.
        """
        request = make_request(url, request_options)
        return self._get_client().fetch(self._packer.request(request), request.id)

    async def afetch(
        self, url: str | bytes | Request, **request_options: Any
    ) -> Result:
        """Do as `fetch` without blocking the event loop."""
        request = make_request(url, request_options)
        client = self._get_client()
        return await client.afetch(self._packer.request(request), request.id)

    def cancel(self, id: Any = None, *, seq: int | None = None) -> bool:  # noqa: A002
        """End a request with the error `cancelled`; the others do not notice.

        `id` is the one given with an input of `map`, `amap` or `fetch`; `seq` is an
        input's ordinal and serves for `run` too. Returns False when none was pending.
        """
        self._check()
        found = False
        for job in self._running():
            number = seq
            if number is None and not isinstance(job, Run):
                number = job.seq_of_id(id)
            if number is not None:
                with suppress(ClosedError):
                    found = job.cancel(number) or found
        return found

    def stop(self, drain: float | None = None) -> None:
        """Stop taking inputs; what is in flight may go on for drain seconds.

        For signal handlers and other threads; may be called again with less. Inputs
        without an answer get no record from `run`, and `shutdown` from the others.
        """
        if os.getpid() != self._pid:
            return
        seconds = self.options.drain if drain is None else max(0.0, drain)
        # No lock: the handler may have interrupted its holder.
        for job in self._running():
            job.stop(seconds)

    def health(self) -> dict[str, Any]:
        """Return retries, each proxy's health and the worst hosts of what runs now.

        As `Summary.policy` has them at the end of a run; empty while nothing runs.
        """
        self._check()
        for job in self._running()[::-1]:
            return job.health()
        return {}

    def reload_proxies(self) -> None:
        """Load the proxies again, from their file or callable, within a second.

        Who stays keeps health and connections; requests in flight over one that is gone
        go on. Fit for a signal handler.
        """
        for job in self._running():  # no lock: see stop
            job.reload_proxies()

    def replace_proxies(
        self, proxies: str | Iterable[str] | Callable[[], Iterable[str]]
    ) -> None:
        """Use these proxies and no others, in what runs and in what comes later.

        `proxies` is what the option of that name takes; a file given before is not
        looked at any more. Running jobs take them within a second, and from then on
        nothing starts over who is gone; requests in flight there go on to their end,
        their retries and their sessions go elsewhere. Who stays keeps health,
        connections, sessions and an exclusive lease. Who is gone and comes back is new
        to the pool, also while such a request still runs. Any thread; fit for a signal
        handler.

        Raises OptionError, and changes nothing, for a line that is no proxy (told by
        its number: it may hold a password), for an empty list, and where the Fetcher
        was made without `proxies` or `proxy_file`.
        """
        self._check()
        policies.replace_proxies(self.options.proxies, proxies)

    def stats(self) -> Stats:
        """Return the counters of what runs now, else of the run before."""
        self._check()
        for job in self._running()[::-1]:
            with suppress(ClosedError):
                return job.stats()
        return self._last

    def close(self) -> None:
        """End everything: waiting calls get `shutdown`. Idempotent, any thread.

        Takes at most some seconds, even with a loop stuck inside libcurl.
        """
        if os.getpid() != self._pid:
            self._closed = True
            return
        with self._lock:  # whatever begins later is refused there
            self._closed = True
            client, self._client = self._client, None
        self.stop(0.0)
        if client is not None:
            client.close()
            self._end(client, None)

    def _running(self) -> list[Job]:
        found = (ref() for ref in self._active)
        return [job for job in found if job is not None]

    def _check(self) -> None:
        # The process first: in a child, a lock may stay locked for ever.
        if os.getpid() != self._pid:
            raise ForkError("made before fork: make a new Fetcher in the child")
        if self._closed:
            raise ClosedError("the fetcher is closed")

    def _begin(self, job: Job) -> None:
        with self._lock:
            self._check()
            self._active = (*self._active, weakref.ref(job))
        _jobs.add(job)

    def _end(self, job: Job, stats: Stats | None) -> None:
        _jobs.discard(job)
        with self._lock:
            others = (ref for ref in self._active if ref() not in (job, None))
            self._active = tuple(others)
            if stats is not None:
                self._last = stats
        if self._tls_cache is not None:
            self._tls_cache.save()  # with what the job's engine left in it

    def _end_stream(self, stream: Stream) -> None:
        stats = None
        with suppress(HardfetchError):
            stats = stream.stats()
        if os.getpid() == self._pid:
            stream.close()
            self._end(stream, stats)

    def _get_client(self) -> Client:
        self._check()
        client = self._client
        if client is not None and not client.over:
            return client
        with self._lock:
            self._check()
            if self._client is not None and self._client.over:  # by a stop
                self._end(self._client, None)
                self._client.close()
                self._client = None
            if self._client is None:
                self._client = Client(self.options)
                self._begin(self._client)
            return self._client


def _check_inputs(inputs: object) -> None:
    if isinstance(inputs, (str, bytes, Mapping, Request)):
        raise OptionError("inputs: a single one goes into a list, or to fetch()")
    if not isinstance(inputs, (Iterable, AsyncIterable)):
        kind = type(inputs).__name__
        raise OptionError(f"inputs: give an iterable of URLs or requests, not {kind}")


def make_request(url: str | bytes | Request, options: dict[str, Any]) -> Request:
    """Return the Request of one call. Raises OptionError for names and times."""
    for name, value in options.items():
        if name not in REQUEST_OPTIONS and name not in _EXTRA:
            hint = values.near_miss(name, REQUEST_OPTIONS | _EXTRA)
            raise OptionError(f"{name} is no option of a request{hint}")
        if name in TIME_OPTIONS and value is not None:
            values.seconds(name, value)
    if isinstance(url, Request):
        if options:
            raise OptionError("give a Request or a URL with options, not both")
        return url
    given = {k: v for k, v in options.items() if k not in _EXTRA or v is not None}
    bodies = [name for name in _BODIES if given.get(name) is not None]
    if len(bodies) > 1 and _EXTRA & set(bodies):
        raise OptionError(f"{bodies[1]}: there is a {bodies[0]} already; give one")
    if "data" in given:
        data = given.pop("data")
        if isinstance(data, (Mapping, list, tuple)):
            given["body"] = _form(data)
            _default_type(given, b"application/x-www-form-urlencoded")
        else:
            given["body"] = data
    if "json" in given:
        given["body"] = jsonio.dumps(given.pop("json"))
        _default_type(given, b"application/json")
    return Request(url, **given)


def _form(fields: Any) -> bytes:
    try:
        return urlencode(fields, doseq=True).encode()
    except (TypeError, ValueError):
        raise OptionError(
            "data: a form is a mapping or a list of (name, value) pairs;"
            " a body that is made already is text or bytes"
        ) from None


def _default_type(given: dict[str, Any], content_type: bytes) -> None:
    headers = list(values.headers("headers", given.get("headers") or ()))
    if not values.has_header(headers, b"content-type"):
        headers.append(b"Content-Type: " + content_type)
    given["headers"] = [tuple(line.split(b": ", 1)) for line in headers]


_shared: dict[int, Fetcher] = {}  # by process: a child cannot use its parent's


def fetch(url: str | bytes | Request, **options: Any) -> Result:
    """Fetch one URL with a shared Fetcher and return its Result.

    `options` are those of `Fetcher.fetch`; options of a Fetcher, as `max_body`, are
    taken too and cost an engine of their own, so keep a Fetcher for more than one.
    """
    own = {
        name: value
        for name, value in options.items()
        if name in OPTION_NAMES and name not in REQUEST_OPTIONS | _EXTRA
    }
    rest = {name: value for name, value in options.items() if name not in own}
    if own:
        with Fetcher(**own) as fetcher:
            return fetcher.fetch(url, **rest)
    shared = _shared.get(os.getpid())
    if shared is None:
        # Without a lock, which a child could inherit locked: a spare one costs nothing.
        shared = _shared.setdefault(os.getpid(), Fetcher())
    return shared.fetch(url, **rest)
