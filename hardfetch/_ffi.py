"""The compiled core behind one class; the only importer of `hardfetch._core`.

An `Engine` is one `hf_engine`. It may be closed by any thread while others are inside
its calls: close wakes them, and its memory is freed when the last of them has let go
of the handle. An exception may tear the main thread out of any line here (Ctrl-C, a
handler's, a deadline's), so nothing is counted and nothing is owed: whatever must end
hangs on the life of an object of the core (`own`), and ends in C. In a child of the
process that made it every call raises ForkError, and close touches nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

from hardfetch._core import ffi, lib
from hardfetch._green import refuse_green_threads
from hardfetch.classify import type_number
from hardfetch.errors import ClosedError, EngineError, ForkError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from hardfetch.outcome import Verdict

__all__ = ["Engine", "check", "ffi", "has_long_number", "lib", "line_of", "pack"]

_T = TypeVar("_T")

OK = 0
FULL = -1
AGAIN = -2
END = -3
INTERRUPTED = -10
PIPE = -11
IO = -12

#: What each code of csrc/err.h is raised as; None stands for an answer, not an error.
CODES: dict[int, type[Exception] | None] = {
    OK: None,
    FULL: None,
    AGAIN: None,
    END: None,
    -4: MemoryError,
    -5: EngineError,  # HF_EINVAL: Python's checks come first, so this is no user's slip
    -6: EngineError,
    -7: EngineError,
    -8: ForkError,
    -9: ClosedError,
    INTERRUPTED: None,
    PIPE: None,  # the writer turns these two into a SinkError with errno
    IO: None,
    -13: EngineError,
}

_ERR_SIZE = 512


def error_text(err: Any) -> str:
    """Return the sentence in an error slot."""
    text: str = ffi.string(err).decode("utf-8", "replace")
    return text


def _built_ins() -> list[Callable[..., Any]]:
    # Not through cffi, which would give the interpreter's lock away in each call:
    # built-in functions are appended to the list at this address.
    made: list[Callable[..., Any]] = []
    if lib.hf_python_builtins(ffi.cast("void *", id(made))) != OK:
        raise MemoryError
    return made


#: line_of(head, body, form): the parts of a frame as one line of NDJSON. Any thread.
line_of: Callable[[bytes, bytes, int], bytes]
#: pack(given, options, headers, limits, dumps, option): see request.py. Any thread.
pack: Callable[..., bytes | None]
#: has_long_number(data): whether 19 digits follow each other in bytes, as in an integer
#: past 64 bits. Any thread.
has_long_number: Callable[[bytes], bool]
line_of, pack, has_long_number = _built_ins()


def check(rc: int, err: Any = None) -> int:
    """Return rc when it is a count or an answer; raise its exception otherwise."""
    if rc >= 0:
        return rc
    kind = CODES.get(rc, EngineError)
    if kind is None:
        return rc
    name = ffi.string(lib.hf_name_code(rc)).decode()
    raise kind((error_text(err) if err is not None else "") or f"engine: {name}")


class Engine:
    """One engine of the core. Times are seconds.

    Two roles must each be held by one thread at a time: the feeder (`submit`,
    `submit_lines`) and the consumer (`drain`, `read`, `view`). All else is for any
    thread.
    """

    def __init__(self, config: Any) -> None:
        """Start an engine from an `hf_config`. Raises EngineError with the reason."""
        refuse_green_threads()
        self._pid = os.getpid()
        self._used = ffi.new("size_t *")
        self._seq = ffi.new("uint64_t *")
        self._view = ffi.new("uint8_t const **")
        self._feed_err = ffi.new("char[]", _ERR_SIZE)
        self._drain_err = ffi.new("char[]", _ERR_SIZE)
        err = ffi.new("char[]", _ERR_SIZE)
        # None once it is closed; calls under way hold it until they return.
        self._handle = ffi.gc(lib.hf_engine_alloc(), lib.hf_engine_free)
        if lib.hf_engine_start(self._handle, config, err, _ERR_SIZE) != OK:
            self._handle = None
            raise EngineError(error_text(err) or "the engine did not start")

    def own(self) -> Any:
        """Return what closes the engine when it dies, for its owner to hold.

        Threads that work with the engine must hold neither that nor the owner: what
        nobody refers to any more ends then, however its owner was left.
        """
        with self as handle:
            return ffi.gc(handle, lib.hf_engine_close)

    def __enter__(self) -> Any:
        """Hold the engine's memory for one call; returns its handle."""
        if os.getpid() != self._pid:
            raise ForkError(
                "the engine belongs to the parent process; make a new one after fork"
            )
        handle = self._handle
        if handle is None:
            raise ClosedError("the engine is closed")
        return handle

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    # The feeder.

    def submit_lines(
        self, data: bytes, start: int = 0, *, last: bool = False
    ) -> tuple[int, int]:
        """Give lines from data[start:]. Returns (code, bytes taken)."""
        with self as handle:
            rc = lib.hf_engine_submit_lines(
                handle,
                ffi.from_buffer("uint8_t[]", data) + start,
                len(data) - start,
                last,
                self._used,
                self._feed_err,
                _ERR_SIZE,
            )
            return check(rc, self._feed_err), self._used[0]

    def submit(self, frames: bytes, start: int = 0) -> tuple[int, int, int]:
        """Give packed requests. Returns (code, bytes taken, seq of the first)."""
        with self as handle:
            rc = lib.hf_engine_submit(
                handle,
                # Bytes as they are cost less than a pointer into them.
                ffi.from_buffer("uint8_t[]", frames) + start if start else frames,
                len(frames) - start,
                self._used,
                self._seq,
                self._feed_err,
                _ERR_SIZE,
            )
            return check(rc, self._feed_err), self._used[0], self._seq[0]

    def wait_room(self, seconds: float) -> bool:
        """Wait until the window has room; False after the time or an interrupt."""
        with self as handle:
            return check(lib.hf_engine_wait_room(handle, _us(seconds))) == OK

    def finish(self) -> None:
        """Say that no more input comes."""
        with self as handle:
            check(lib.hf_engine_finish(handle))

    def skip(self, bitmap: bytes, count: int) -> None:
        """Mark inputs that need no answer, before the first submission."""
        with self as handle:
            check(lib.hf_engine_skip(handle, ffi.from_buffer(bitmap), count))

    def resume(self) -> None:
        """Start an engine that was made paused."""
        with self as handle:
            check(lib.hf_engine_resume(handle))

    # The consumer.

    def drain(self, fd: int, seconds: float) -> int:
        """Write records to fd; returns bytes or a code."""
        with self as handle:
            rc = lib.hf_engine_drain(
                handle, fd, _us(seconds), self._drain_err, _ERR_SIZE
            )
            return check(rc, self._drain_err)

    def drain_error(self) -> str:
        """Return why the last drain failed."""
        return error_text(self._drain_err)

    def read(self, buffer: bytearray, seconds: float) -> int:
        """Copy record bytes into buffer; returns bytes or a code."""
        with self as handle, ffi.from_buffer(buffer, require_writable=True) as cbuf:
            rc = lib.hf_engine_read(
                handle, ffi.cast("uint8_t *", cbuf), len(buffer), _us(seconds)
            )
            return check(rc)

    def view(self, take: Callable[[Any], _T], seconds: float) -> tuple[int, _T | None]:
        """Give frames in place to take, which must copy what it keeps.

        Returns (bytes or a code, what take returned).
        """
        with self as handle:
            rc = check(lib.hf_engine_view(handle, self._view, _us(seconds)))
            if rc <= 0:
                return rc, None
            # The handle keeps the memory, even of an engine that is closed now.
            return rc, take(ffi.buffer(self._view[0], rc))

    def output_fd(self) -> int:
        """Return the descriptor that polls readable when output waits."""
        with self as handle:
            return check(lib.hf_engine_output_fd(handle))

    def output_arm(self) -> bool:
        """Ask output_fd to tell of output; True when some is there already."""
        with self as handle:
            return check(lib.hf_engine_output_arm(handle)) == 1

    # Policy.

    def events(self, events: Any, seconds: float) -> int | None:
        """Fill an array of `hf_event`; returns how many, None when none can come."""
        with self as handle:
            rc = check(lib.hf_engine_events(handle, events, len(events), _us(seconds)))
        return None if rc == END else max(rc, 0)

    @staticmethod
    def take_url(event: Any) -> str:
        """Return where an event's redirect leads to, and free it; "" without one."""
        url = bytes(ffi.string(event.url)).decode("ascii") if event.url else ""
        lib.hf_event_clear(ffi.addressof(event))
        return url

    @staticmethod
    def take_body(event: Any) -> bytes:
        """Return the start of an event's body, and free it; b"" without one."""
        body = bytes(ffi.buffer(event.body, event.body_len)) if event.body else b""
        lib.hf_event_clear(ffi.addressof(event))
        return body

    def verdicts(self, verdicts: list[Verdict]) -> None:
        """Answer events."""
        rows = [
            {
                "seq": v.seq,
                "retry": v.retry,
                "fresh": v.fresh,
                "silent": v.silent,
                "content": v.content,
                "type": type_number(v.error),
                "exit": v.proxy_number,
                "delay": _us(v.delay),
                "proxy": v.proxy.encode(),
                "denied": v.denied.encode("ascii", "replace")[:31],
            }
            for v in verdicts
        ]
        with self as handle:
            rc = lib.hf_engine_verdicts(
                handle, ffi.new("hf_verdict[]", rows), len(rows)
            )
            check(rc)

    def gate(self, host: str, seconds: float) -> None:
        """Let nothing to host:port start for some seconds, then one probe first."""
        with self as handle:
            check(lib.hf_engine_gate(handle, host.encode("latin-1"), _us(seconds)))

    def host_delay(self, host: str, seconds: float) -> None:
        """Space the starts to host:port by some seconds at least."""
        with self as handle:
            check(
                lib.hf_engine_host_delay(handle, host.encode("latin-1"), _us(seconds))
            )

    def exits(
        self, rows: list[dict[str, Any]], wait_limit: float, sticky: float
    ) -> None:
        """Replace lines of the table of exits."""
        with self as handle:
            rc = lib.hf_engine_exits(
                handle,
                ffi.new("hf_exit_row[]", rows),
                len(rows),
                _us(wait_limit),
                _us(sticky),
            )
            check(rc)

    def avoid(self, host: str, number: int, tier: int, seconds: float) -> None:
        """Keep a host off an exit, or (number -1) off the tiers below one."""
        with self as handle:
            name = host.encode("latin-1")
            check(lib.hf_engine_avoid(handle, name, number, tier, _us(seconds)))

    def exit_stats(self, most: int = 10_000) -> list[tuple[int, int, int, float]]:
        """Return (number, in flight, answers, latency in seconds) of each exit."""
        out = ffi.new("hf_exit_stats[]", most)
        with self as handle:
            count = check(lib.hf_engine_exit_stats(handle, out, most))
        return [
            (out[i].number, out[i].in_flight, out[i].answered, out[i].latency / 1e6)
            for i in range(count)
        ]

    # Any thread.

    def cancel(self, seq: int) -> bool:
        """End a request with `cancelled`; False when it has its record already."""
        with self as handle:
            return bool(lib.hf_engine_cancel(handle, seq) == OK)

    def stop(self, drain: float) -> None:
        """Stop admission; what is in flight may go on for drain seconds."""
        with self as handle:
            check(lib.hf_engine_stop(handle, _us(drain)))

    def interrupt(self) -> None:
        """Make every blocked call return."""
        with self as handle:
            lib.hf_engine_interrupt(handle)

    def stats(self) -> Any:
        """Return a filled `hf_stats`."""
        out = ffi.new("hf_stats *")
        with self as handle:
            check(lib.hf_engine_stats(handle, out))
        return out

    @property
    def closed(self) -> bool:
        """Whether close has begun, or the engine is the parent's."""
        return self._handle is None or os.getpid() != self._pid

    def close(self) -> None:
        """Stop at once and end the threads. Idempotent, any thread, some seconds."""
        handle, self._handle = self._handle, None
        if handle is not None:
            lib.hf_engine_close(handle)


def _us(seconds: float) -> int:
    return round(seconds * 1e6)
