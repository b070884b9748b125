"""From inputs to the engine: bare lines in bulk, JSON lines and items packed here."""

from __future__ import annotations

import codecs
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from hardfetch import _ffi
from hardfetch.errors import ClosedError
from hardfetch.packed import MAX_LINE, frames_of, too_long_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hardfetch.request import Packer
    from hardfetch.robots_gate import RobotsGate

    class Intake(Protocol):
        """What takes inputs: an engine, or what only compares them."""

        def submit_lines(self, data: bytes, start: int = 0) -> tuple[int, int]:
            """Take lines; return (code, bytes taken)."""

        def submit(self, frames: bytes, start: int = 0) -> tuple[int, int, int]:
            """Take packed requests; return (code, bytes taken, seq)."""

        def wait_room(self, seconds: float) -> bool:
            """Wait until there is room."""

        def finish(self) -> None:
            """Take note that nothing more comes."""


BATCH = 256  # JSON lines that go over in one call
_ITEMS = 64  # items of a list that go over in one call
_WAIT_SECONDS = 0.5


class Stopped(Exception):  # noqa: N818 - ends the feeding, never leaves the package
    """The run was stopped while it was being fed."""


def batches(items: Iterable[Any]) -> Iterator[Sequence[Any]]:
    """Give items by many where they are there already, else one by one.

    What comes from an iterator must not wait for the next, which may take its time.
    """
    if isinstance(items, (list, tuple)):
        for start in range(0, len(items), _ITEMS):
            yield items[start : start + _ITEMS]
    else:
        for item in items:
            yield (item,)


class Feeder:
    """Feeds one engine; its methods belong to one thread."""

    def __init__(
        self,
        engine: Intake,
        packer: Packer,
        stopped: Callable[[], bool],
        gate: RobotsGate | None = None,
    ) -> None:
        self._engine = engine
        self._gate = gate
        self._packer = packer
        self._stopped = stopped
        self._carry = b""  # an unfinished line
        self._fresh = True  # nothing was taken yet
        self._skipping = False  # inside a line that was too long

    def feed(self, chunk: bytes) -> None:
        """Take some bytes of lines; the last one may be unfinished.

        Blocks while the window is full. Raises Stopped.
        """
        if self._fresh:
            self._fresh = False
            chunk = chunk.removeprefix(codecs.BOM_UTF8)
        data = self._carry + chunk if self._carry else chunk
        self._carry = b""
        start = 0
        if self._skipping:
            end = data.find(b"\n")
            if end < 0:
                return
            self._skipping = False
            start = end + 1
        self._lines(data, start)

    def finish(self, *, cut: bool = False) -> None:
        """Take what is left as the last line, and tell the engine that input ended.

        `cut`: the source broke off, so what is left is no line.
        """
        data, self._carry = self._carry, b""
        if data and not self._skipping and not cut:
            self._lines(data + b"\n", 0)
        self._engine.finish()

    def frames(self, frames: bytes) -> int:
        """Submit packed requests; returns the seq of the first. Raises Stopped."""
        if self._gate is None:
            return self._submit(frames)
        first = -1
        for frame in frames_of(frames):
            frame, url = self._gate.hold(frame)  # noqa: PLW2901 - the same request
            seq = self._submit(frame)
            first = seq if first < 0 else first
            if url:
                self._gate.settle(seq, url)
        return first

    def _submit(self, frames: bytes) -> int:
        start, first = 0, -1
        while start < len(frames):
            try:
                rc, used, seq = self._engine.submit(frames, start)
            except ClosedError:
                raise Stopped from None
            if used and first < 0:
                first = seq
            start += used
            if rc == _ffi.FULL:
                self._wait()
        return first

    def _wait(self) -> None:
        with suppress(ClosedError):
            while not self._stopped():
                if self._engine.wait_room(_WAIT_SECONDS):
                    return
        raise Stopped

    def _lines(self, data: bytes, start: int) -> None:
        """Take the lines of data[start:]; what is unfinished becomes the carry."""
        whole = data.rfind(b"\n") + 1
        while start < whole:
            if self._stopped():
                raise Stopped
            if whole - start > MAX_LINE and data.find(b"\n", start) - start > MAX_LINE:
                # Only the first line can be: chunks are shorter than the limit.
                start = self._too_long(data, start, data.find(b"\n", start))
                continue
            if self._gate is not None:
                start = self._line(data, start)
                continue
            try:
                rc, used = self._engine.submit_lines(data, start)
            except ClosedError:
                raise Stopped from None
            start += used
            if rc == _ffi.AGAIN:
                start = self._json_lines(data, start)
            elif rc == _ffi.FULL:
                self._wait()
            elif start < whole:
                # Nothing more to take, although lines are left: not to be spun on.
                raise AssertionError("the engine left whole lines")
        rest = data[start:] if start else data
        if len(rest) > MAX_LINE:
            self._too_long(rest, 0, len(rest))
            self._skipping, rest = True, b""
        self._carry = rest

    def _line(self, data: bytes, start: int) -> int:
        """Pack one line of any kind; returns where it ends."""
        end = data.index(b"\n", start)
        line = data[start:end].strip(b" \t\r")
        if line and line[:1] != b"#":
            self.frames(self._packer.item(line))
        return end + 1

    def _too_long(self, data: bytes, start: int, end: int) -> int:
        """Answer an overlong line, unless it is a comment; returns where it ends."""
        if data[start : start + 1] != b"#":
            self.frames(too_long_frame(data[start : start + MAX_LINE]))
        return end + 1

    def _json_lines(self, data: bytes, start: int) -> int:
        """Pack the JSON lines from start on, a batch at most; returns where it ends.

        The first one is JSON, if behind blanks: the engine said so.
        """
        frames: list[bytes] = []
        size = 0
        while size < MAX_LINE and len(frames) < BATCH:
            end = data.find(b"\n", start)
            if end < 0 or end - start > MAX_LINE:
                break
            line = data[start:end]
            if frames and line[:1] != b"{":
                break
            frames.append(self._packer.line(line))
            size += len(line)
            start = end + 1
        self.frames(b"".join(frames))
        return start
