"""Reading inputs twice: once to prove that they are those of an earlier output."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import chain
from typing import IO, TYPE_CHECKING, Any

from hardfetch import sources
from hardfetch.feed import Feeder, Stopped
from hardfetch.resume import Proved

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import ExitStack

    from hardfetch.request import Packer
    from hardfetch.resume import Earlier

_CHUNK = 4 << 20
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class Frames:
    """An input that was packed already."""

    data: bytes


class Proof:
    """Compares the inputs with an earlier output, and gives them once more.

    Nothing is fetched before the last answered input was compared. What cannot be read
    twice (a pipe, a generator) is kept in a temporary file up to there.
    """

    def __init__(
        self,
        earlier: Earlier,
        packer: Packer,
        stop: sources.Stop,
        stack: ExitStack,
    ) -> None:
        self._earlier = earlier
        self._packer = packer
        self._stop = stop
        self._stack = stack
        self._feeder = Feeder(earlier, packer, stop.is_set)

    def lines(self, source: Any, given: Iterator[bytes]) -> Iterator[bytes]:
        """Check chunks of lines and return all of them again. Raises OptionError."""
        rewind = sources.rewinder(source)
        spool = None if rewind is not None else self._spool()
        try:
            self._earlier.expect()
            for chunk in given:
                if spool is not None:
                    spool.write(chunk)
                self._feeder.feed(chunk)
            self._feeder.finish()
        except (Proved, Stopped):
            pass
        self._judge()
        if rewind is not None:
            rewind()
            again = sources.chunks(source, self._stop, self._stack)
            return again if again is not None else iter(())
        if spool is None:
            return given
        spool.seek(0)
        return chain(iter(lambda: spool.read(_CHUNK), b""), given)

    def items(self, source: Iterable[Any]) -> Iterable[Any]:
        """Do the same for an iterable of items."""
        iterator = iter(source)
        spool = self._spool() if iterator is source else None
        try:
            self._earlier.expect()
            for item in iterator:
                frame = self._packer.item(item)
                if spool is not None:
                    spool.write(_LENGTH.pack(len(frame)) + frame)
                self._feeder.frames(frame)
                if self._stop.is_set():
                    break
        except (Proved, Stopped):
            pass
        self._judge()
        return source if spool is None else chain(_frames(spool), iterator)

    def _judge(self) -> None:
        if not self._stop.is_set():
            self._earlier.verdict()

    def _spool(self) -> IO[bytes]:
        import tempfile  # for input that cannot be read twice

        return self._stack.enter_context(tempfile.TemporaryFile())


def _frames(spool: IO[bytes]) -> Iterator[Frames]:
    spool.seek(0)
    while head := spool.read(_LENGTH.size):
        yield Frames(spool.read(_LENGTH.unpack(head)[0]))
