"""One `Fetcher.run`: a source, an engine, a writer and their end."""

from __future__ import annotations

import resource
import threading
import time
import weakref
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from hardfetch import _ffi, _watch, sources
from hardfetch._config import OUTPUT_LINES, Config
from hardfetch._threads import start
from hardfetch.drain import Writer, look_at
from hardfetch.errors import DeadlineExceeded, HardfetchError, OptionError
from hardfetch.feed import Feeder, Stopped
from hardfetch.judge import Judge
from hardfetch.parts import Policy
from hardfetch.replay import Frames, Proof
from hardfetch.resume import read_output
from hardfetch.robots_gate import make_gate
from hardfetch.sinks import open_sink, status_of
from hardfetch.stall import StallWatch
from hardfetch.summary import Stats, Summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hardfetch.options import Options
    from hardfetch.request import Packer
    from hardfetch.robots_gate import RobotsGate
    from hardfetch.sink import Sink

_JOIN_SECONDS = 0.2
_LAST_SECONDS = 1.0  # for the writer after a stop without drain
_EXIT_SECONDS = 2.5  # that the exit of the interpreter waits for a run
_BATCH = 64  # items of a list that go over in one call


class Run:
    """One run. `execute` is called once; `stop` by any thread or signal handler."""

    def __init__(self, options: Options, packer: Packer) -> None:
        self._options = options
        self._packer = packer
        self._stop = sources.Stop()
        self._engine: _ffi.Engine | None = None
        self._life: Any = None  # of the engine, however execute is left
        self._judge: Judge | None = None
        self._writer: Writer | None = None
        self._end_at: float | None = None
        self._stats = Stats()
        self._thread = threading.get_ident()
        self._over = threading.Event()
        self.interrupted = False

    def stats(self) -> Stats:
        """Return the counters, the last ones once it is over."""
        engine = self._engine
        if engine is not None:
            with suppress(HardfetchError):
                self._stats = Stats.of(engine.stats())
        return self._stats

    def stop(self, drain: float) -> None:
        """Stop admission; fetches in flight may go on for drain seconds."""
        self.interrupted = True
        engine = self._engine
        if engine is not None:
            if engine.closed:
                return
            with suppress(HardfetchError):
                engine.stop(drain)
        if drain <= 0:
            self._end_at = time.monotonic() + _LAST_SECONDS
        self._stop.set()

    def shutdown(self) -> None:
        """End it now, since the interpreter exits: what is finished gets written."""
        self.stop(0.0)
        if threading.get_ident() != self._thread:
            self._over.wait(_EXIT_SECONDS)

    def health(self) -> dict[str, Any]:
        """Return what policy did so far; empty before the engine runs."""
        judge = self._judge
        return judge.report() if judge is not None else {}

    def reload_proxies(self) -> None:
        """Load the proxies again soon."""
        judge = self._judge
        if judge is not None:
            judge.reload()

    def cancel(self, seq: int) -> bool:
        """End one request with `cancelled`."""
        engine = self._engine
        return engine is not None and engine.cancel(seq)

    def execute(
        self,
        source: Any,
        sink: Any,
        *,
        append: bool,
        skip: tuple[bytes, int] | None,
        resume: bool,
    ) -> Summary:
        """Run to the end. Raises SinkError, OSError of the source, EngineError."""
        began, cpu = time.monotonic(), _cpu_seconds()
        with ExitStack() as stack:
            stack.callback(self._over.set)
            stack.callback(self._stop.close)
            self._refuse_validate()
            # The source first: a slip in its name must not cost the old output.
            chunks = sources.chunks(source, self._stop, stack)
            _refuse_own_input(source, sink)
            if resume:
                earlier = read_output(sink, self._options)
                proof = Proof(earlier, self._packer, self._stop, stack)
                if chunks is not None:
                    chunks = proof.lines(source, chunks)
                else:
                    source = proof.items(source)
                earlier.mend()
                append, skip = True, earlier.skip()
            out = open_sink(
                sink,
                append=append,
                alone=True,
                policy=_policy(self._options),
                given_up=self._stop.is_set,
            )
            closing = stack.enter_context(ExitStack())
            closing.callback(self._close_sink, out)
            window = max(10_000, 4 * self._options.max_concurrency)
            config = Config(self._options, output=OUTPUT_LINES, window=window)
            engine = _ffi.Engine(config.c)
            self._engine, self._life = engine, engine.own()
            stack.callback(self._close)
            if self.interrupted:  # stopped before there was an engine to tell
                engine.stop(0.0)
            if skip is not None:
                engine.skip(*skip)
            gate = self._start_policy(engine, stack)
            # The thread must not keep the run alive.
            writer = Writer(engine, out, weakref.WeakMethod(self._sink_failed))
            self._writer = writer
            watch = StallWatch(look_at(engine), out.name, self._options.stall_warning)
            stack.callback(watch.end)
            start(writer)
            start(watch)
            feeder = Feeder(engine, self._packer, self._stop.is_set, gate)
            late = self._feed_and_wait(engine, feeder, writer, chunks, source)
            self.stats()
            if writer.failure is not None:
                raise writer.failure
            closing.close()
        if late is not None:
            raise late
        return Summary.of(
            self._stats,
            elapsed=time.monotonic() - began,
            cpu=_cpu_seconds() - cpu,
            interrupted=self.interrupted,
            policy=self.health(),
        )

    def _refuse_validate(self) -> None:
        if self._options.validate is not None:
            raise OptionError(
                "validate: serves map, amap and fetch; run gives no Result"
            )

    def _start_policy(self, engine: _ffi.Engine, stack: ExitStack) -> RobotsGate | None:
        gate = make_gate(engine, self._options, self._packer)
        if gate is not None:
            stack.callback(gate.close)
        self._judge = Judge(engine, self._options, gate)
        self._judge.start()
        stack.callback(self._judge.stop)
        return gate

    def _feed_and_wait(
        self,
        engine: _ffi.Engine,
        feeder: Feeder,
        writer: Writer,
        chunks: Iterator[bytes] | None,
        source: Any,
    ) -> Exception | None:
        """Feed, then wait for the writer. Returns what the source raised."""
        late: Exception | None = None
        try:
            try:
                if chunks is None:
                    late = self._feed_items(feeder, source)
                else:
                    late = self._feed_chunks(feeder, chunks)
                feeder.finish(cut=late is not None)
            except Stopped:
                self._stop.set()
                engine.finish()
            self._wait(writer)
        except BaseException:
            # Ctrl-C, a guard's deadline, a broken source: what is written stays whole.
            with suppress(HardfetchError):
                engine.stop(0.0)
            self._end_at = time.monotonic() + _LAST_SECONDS
            self._wait(writer)
            self.stats()
            raise
        return late

    def _feed_chunks(self, feeder: Feeder, chunks: Iterator[bytes]) -> Exception | None:
        while True:
            try:
                chunk = next(chunks, None)
            except DeadlineExceeded:
                raise
            except Exception as exc:  # noqa: BLE001 - raised again after the records
                return exc
            if chunk is None:
                return None
            feeder.feed(chunk)

    def _feed_items(self, feeder: Feeder, items: Iterable[Any]) -> Exception | None:
        if isinstance(items, (list, tuple)):
            for start in range(0, len(items), _BATCH):
                batch = items[start : start + _BATCH]
                feeder.frames(b"".join(map(self._packer.item, batch)))
            return None
        iterator = iter(items)
        while not self._stop.is_set():
            try:
                item = next(iterator)
            except StopIteration:
                return None
            except DeadlineExceeded:
                raise
            except Exception as exc:  # noqa: BLE001 - raised again after the records
                return exc
            # One by one: this one must not wait for the next, which may take its time.
            packed = type(item) is Frames
            feeder.frames(item.data if packed else self._packer.item(item))
        return None

    def _wait(self, writer: Writer) -> None:
        while writer.is_alive():
            patience = _watch.patience()  # of a deadline() around this call
            writer.join(min(_JOIN_SECONDS, patience or _JOIN_SECONDS))
            end_at = self._end_at
            if end_at is not None and time.monotonic() > end_at:
                writer.give_up()
                if self._engine is not None:
                    with suppress(HardfetchError):
                        self._engine.interrupt()
                writer.join(_LAST_SECONDS)
                return

    def _close_sink(self, out: Sink) -> None:
        # A writer that is stuck in a write closes it then: before, the number would be
        # another file's soon.
        if self._writer is None or not self._writer.takes_over():
            out.close()

    def _close(self) -> None:
        if self._engine is not None:
            self._engine.close()
        self._life = None

    def _sink_failed(self) -> None:
        engine = self._engine
        if engine is not None:
            with suppress(HardfetchError):
                engine.stop(0.0)
        self._stop.set()


def _refuse_own_input(source: Any, sink: Any) -> None:
    """Raise OptionError where records would go into the file that inputs come from."""
    if sources.is_same_file(source, status_of(sink)):
        raise OptionError("sink: this file is also the source")


def _policy(options: Options) -> Policy:
    return Policy(options.fsync, options.rotate_size, options.rotate_time)


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
