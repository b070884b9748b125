"""Results out of an engine's stream of frames; csrc/api.h has the format."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from hardfetch import _ffi
from hardfetch.record import Result

if TYPE_CHECKING:
    from collections.abc import Iterator

_LENGTHS = struct.Struct("<II")  # what follows the first, and of that the JSON line
_SEQ = re.compile(rb'"seq":\s*(\d+)')
_BUFFER = 256 << 10


def parse_frames(data: bytearray) -> Iterator[Result]:
    """Give the whole frames at the start of data and remove them from it."""
    at = 0
    view = memoryview(data)
    results = []
    while len(data) - at >= 8:
        total, line_size = _LENGTHS.unpack_from(data, at)
        if len(data) - at - 4 < total:
            break
        provisional = line_size >> 31
        line_size &= 0x7FFF_FFFF
        middle, end = at + 8 + line_size, at + 4 + total
        result = Result(bytes(view[at + 8 : middle]), bytes(view[middle:end]))
        result._provisional = bool(provisional)  # noqa: SLF001 - no user's concern
        results.append(result)
        at = end
    view.release()
    del data[:at]
    yield from results


def seq_of(line: bytes) -> int:
    """Return a record's seq without parsing the rest: it stands near the start."""
    match = _SEQ.search(line)
    return int(match[1]) if match is not None else -1


class FrameReader:
    """The consumer of one engine; its methods belong to one thread at a time."""

    def __init__(self, engine: _ffi.Engine) -> None:
        self._engine = engine
        self._buffer = bytearray(_BUFFER)
        self._rest = bytearray()
        self.ended = False

    def read(self, seconds: float) -> list[Result]:
        """Return what has come; [] after seconds, on a signal, or when `ended`."""
        while not self.ended:
            rc = self._engine.read(self._buffer, seconds)
            if rc == _ffi.END:
                self.ended = True
            if rc <= 0:
                break
            self._rest += memoryview(self._buffer)[:rc]
            results = list(parse_frames(self._rest))
            if results:
                return results
            # A part of a large frame: the rest is on its way, so this cannot hang.
        return []
