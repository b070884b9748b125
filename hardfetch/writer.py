"""`NdjsonWriter`: records of the caller's own, from any thread, to any sink.

How it is fast: `write` is compiled (csrc/pyabi/lines.c). It encodes, appends to one
buffer in memory and returns, without a system call and without giving the interpreter's
lock away. One thread writes what has come, all of it at once.

Why it is right: each line goes in under a mutex that is held for the copy alone, so no
thread waits for another one's record or output. Once sealed the buffer refuses lines,
so whatever was accepted is there to be written.
"""

from __future__ import annotations

import atexit
import errno
import os
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from hardfetch import jsonio, values
from hardfetch.errors import ClosedError, ForkError, OptionError, SinkError
from hardfetch.handover import LOOK, ODD, Lines
from hardfetch.options import FSYNC_MODES
from hardfetch.parts import Policy
from hardfetch.sinks import open_sink, warn
from hardfetch.stall import StallWatch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from hardfetch.sinks import SinkLike

_MUCH = 64 << 10  # bytes of a write that no rest follows
_LINGER = 0.002  # seconds between two looks while few records come
_IDLE_LOOKS = 50  # looks without a record before the writer sleeps
_SLEEP = 0.5  # seconds after which it looks again whatever happens
_FULL_FIRST, _FULL_MOST = 0.0005, 0.02  # seconds that a producer waits for room
_EXIT_SECONDS = 2.0  # without progress, and the exit of the interpreter goes on

_OPEN, _CLOSED, _FAILED, _FORKED = range(4)

_writers: weakref.WeakSet[NdjsonWriter] = weakref.WeakSet()


class NdjsonWriter:
    """Writes objects as lines of JSON. Any thread may call any method.

    Each `write` is one line; the lines of one thread keep their order. When more than
    `capacity` bytes wait, writing threads wait too, and nothing is ever dropped. An
    object that has no JSON form raises for its caller and changes nothing.

    Also a sink for `Fetcher.run`. Use it in a `with` statement, or call `close`; what
    is accepted is written when the interpreter exits without it.
    """

    def __init__(
        self,
        sink: SinkLike,
        capacity: int | str = 8 << 20,
        *,
        append: bool = True,
        fsync: str = "never",
        rotate_size: int | str | None = None,
        rotate_time: float | str | None = None,
        stall_warning: float = 5.0,
    ) -> None:
        """Open the sink, which may be what `Fetcher.run` takes but another writer.

        `capacity` is bytes (an int, or text as "8M"). A file is appended to unless
        `append` is False. `fsync` is never, interval (each second) or close;
        `rotate_size` (bytes) and `rotate_time` (seconds) go with a `{part}` in the
        path. After `stall_warning` seconds without a reader stderr is told.

        Raises OptionError for what is not allowed, SinkError when the sink fails.
        """
        if hasattr(sink, "write_raw"):
            raise OptionError("sink: give a path, descriptor or file, not a writer")
        self._capacity = values.size("capacity", capacity)
        self._sink = open_sink(
            sink, append=append, policy=policy(fsync, rotate_size, rotate_time)
        )
        self.name = self._sink.name
        self._lines = Lines(*jsonio.line_dumper(), _helper(self))
        self._lines.look(self._capacity // 2)
        if type(self).write is NdjsonWriter.write:
            vars(self)["write"] = self._lines.write  # a third faster than through it
        self._state = _OPEN
        self._bell = threading.Lock()  # released to cut the writer's rest short
        self._bell.acquire()
        self._failure: SinkError | None = None
        self._drained = 0  # bytes given to the sink
        self._give_up = False
        self._sink.given_up = lambda: self._give_up
        self._watch = StallWatch(self._look, self.name, stall_warning)
        self._thread = threading.Thread(
            target=self._run, name="hardfetch-ndjson", daemon=True
        )
        self._thread.start()
        self._watch.start()
        _writers.add(self)

    def __enter__(self) -> NdjsonWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def write(self, obj: Any) -> None:
        """Write one record: an object, or bytes that are one JSON text already.

        Waits while more than the capacity waits to be written. Raises JsonEncodeError
        (a TypeError) for an object without a JSON form, ValueError for bytes that are
        no single line, SinkError when the sink has failed, ClosedError after close.
        """
        self._lines.write(obj)  # which stands in for this method: see __init__

    def write_raw(self, lines: bytes) -> None:
        """Write whole lines as they are, each with its end. Raises as `write`."""
        if lines[-1:] != b"\n":
            if not lines:
                return
            raise ValueError("give whole lines: the last one has no end")
        self._lines.put(bytes(lines))

    def _write_odd(self, obj: Any) -> None:
        """Write what needs a second look, as bytes and large integers; or refuse it."""
        if type(obj) is bytes:
            self._lines.put(_one_line(obj))
        else:
            self._lines.put(jsonio.dumps(obj) + b"\n")

    def _look_around(self) -> None:
        """After a record: wake the writer where it sleeps, wait where there is much."""
        pause = _FULL_FIRST
        self._ring()
        while self._state == _OPEN and self._waiting() > self._capacity // 2:
            # No lock: a signal's handler may write, too, and may end this by raising.
            time.sleep(pause)
            pause = min(2 * pause, _FULL_MOST)
            self._ring()
        if self._state == _FAILED:
            self._refuse()

    def _ring(self) -> None:
        # Whoever comes second finds it released; a lost wake-up costs _SLEEP at most.
        with suppress(RuntimeError):
            self._bell.release()

    def _refuse(self) -> NoReturn:
        """Say why nothing is taken any more."""
        if self._state == _FORKED:
            raise ForkError("made before fork: make a new NdjsonWriter in the child")
        if self._failure is not None:
            raise SinkError(
                self._failure.errno, self._failure.strerror, self._failure.filename
            )
        raise ClosedError("the writer is closed")

    def _waiting(self) -> int:
        """Return the bytes accepted and not yet with the sink."""
        return self._lines.total() - self._drained

    def _look(self) -> tuple[int, bool, str] | None:
        if self._failure is not None:
            return None  # its users are told, and nobody need read it any more
        waiting = self._waiting()
        return self._drained, waiting > 0, f"{waiting} bytes wait"

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all that was accepted is with the sink; False after timeout s.

        Raises SinkError when the sink has failed.
        """
        target = self._lines.total()
        end = None if timeout is None else time.monotonic() + timeout
        while self._drained < target:
            if self._failure is not None or self._state == _FORKED:
                self._refuse()
            if end is not None and time.monotonic() >= end:
                return False
            self._ring()
            time.sleep(_LINGER)
        return True

    def close(self, timeout: float | None = None) -> None:
        """Write what was accepted and close the sink. Idempotent.

        After `timeout` seconds without progress what is left is given up, with a
        SinkError; None waits for ever. Raises SinkError when the sink has failed.
        """
        if self._state == _FORKED:
            return
        self._lines.seal()  # first: once the state is seen nothing more can come
        if self._state == _OPEN:
            self._state = _CLOSED
        self._wait(timeout)
        _writers.discard(self)
        self._watch.end()
        failure = self._failure
        if failure is not None:
            raise SinkError(failure.errno, failure.strerror, failure.filename)

    def _wait(self, timeout: float | None) -> None:
        drained, since = self._drained, time.monotonic()
        while self._thread.is_alive():
            self._ring()
            self._thread.join(0.05)
            now = time.monotonic()
            if self._drained != drained:
                drained, since = self._drained, now
            elif timeout is not None and now - since > timeout:
                if self._give_up:  # stuck in a call of the sink's own
                    self._failure = self._failure or self._unread()
                    return
                self._give_up = True

    def _unread(self) -> SinkError:
        lost = f"nobody reads it; {self._waiting()} bytes are lost"
        return SinkError(errno.ETIMEDOUT, lost, self.name)

    def disown(self) -> None:
        """Refuse everything: this is a child made by fork, without the thread."""
        self._state = _FORKED
        self._lines.seal()

    # The writer's thread.

    def _run(self) -> None:
        try:
            self._drain()
            if self._give_up:
                self._failure = self._unread()
            else:
                self._sink.finish()
        except OSError as exc:
            text = exc.strerror or str(exc)
            self._failure = SinkError(exc.errno or errno.EIO, text, self.name)
        except BaseException as exc:  # noqa: BLE001 - a sink of the caller's raises all
            self._failure = SinkError(errno.EIO, values.described(exc), self.name)
        finally:
            if self._failure is not None:
                self._state = _FAILED
                self._lines.seal()
            with suppress(OSError):
                self._sink.close()

    def _drain(self) -> None:
        idle = 0
        while not self._give_up:
            closed = self._state != _OPEN
            size = self._write_waiting()
            if size > 0:
                idle = 0
            elif closed:
                return
            else:
                idle += 1
            if size < _MUCH:
                self._rest(idle)
            self._sink.tick()

    def _write_waiting(self) -> int:
        """Write all that waits; return its bytes."""
        view = self._lines.take()
        if view is None:
            return 0
        with view:
            size = len(view)
            self._sink.write_view(view)
        self._drained += size
        return size

    def _rest(self, idle: int) -> None:
        if idle <= _IDLE_LOOKS:
            # Records that come meanwhile go out together.
            self._bell.acquire(timeout=_LINGER)
            return
        self._lines.look(0)
        if self._waiting() == 0:
            self._bell.acquire(timeout=_SLEEP)
        self._lines.look(self._capacity // 2)


def _helper(writer: NdjsonWriter) -> Callable[[int, Any], None]:
    """Return what the compiled `write` calls when it can't end a record by itself."""
    weak = weakref.ref(writer)  # or the two would keep each other alive

    def help_(what: int, obj: Any) -> None:
        mine = weak()
        if mine is None:
            raise ClosedError("the writer is closed")
        if what == LOOK:
            mine._look_around()  # noqa: SLF001 - its own
        elif what == ODD:
            mine._write_odd(obj)  # noqa: SLF001
        else:
            mine._refuse()  # noqa: SLF001

    return help_


def policy(
    fsync: str, rotate_size: int | str | None, rotate_time: float | str | None
) -> Policy:
    """Return a checked Policy. Raises OptionError."""
    return Policy(
        values.choice("fsync", fsync, FSYNC_MODES),
        None if rotate_size is None else values.size("rotate_size", rotate_size),
        None if rotate_time is None else values.seconds("rotate_time", rotate_time),
    )


def _one_line(text: bytes) -> bytes:
    line = text if text[-1:] == b"\n" else text + b"\n"
    if line.find(b"\n") != len(line) - 1 or len(line) == 1:
        raise ValueError("give bytes that are one line, or use write_raw")
    return line


@atexit.register
def _at_exit() -> None:
    """Write what was accepted, as long as somebody reads it."""
    for writer in list(_writers):
        try:
            writer.close(_EXIT_SECONDS)
        except SinkError as exc:
            warn(f"{writer.name}: {exc.strerror}")


def _after_fork() -> None:
    for writer in list(_writers):
        writer.disown()
    _writers.clear()


os.register_at_fork(after_in_child=_after_fork)
