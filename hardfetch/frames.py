"""Results out of an engine's stream of frames; csrc/api.h has the format."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from hardfetch import _ffi
from hardfetch.record import Result

if TYPE_CHECKING:
    from typing import Protocol

    class Bytes(Protocol):
        """Memory whose slices are bytes."""

        def __len__(self) -> int: ...
        def __getitem__(self, at: slice, /) -> bytes: ...
        def __buffer__(self, flags: int, /) -> memoryview: ...


# What follows the first; of that the JSON line; the seq; how the body stands in a line.
_HEAD = struct.Struct("<IIQQ")
_PROVISIONAL = 1 << 31  # the engine waits for a word on it


def parse_frames(data: Bytes) -> list[Result]:
    """Return the results that whole frames hold; nothing refers to data any more."""
    # The slices are the only copy of a body between the core and the caller.
    results = []
    at, end = 0, len(data)
    while at < end:
        size, line, seq, form = _HEAD.unpack_from(data, at)
        start = at + _HEAD.size
        at += 4 + size
        provisional = line >= _PROVISIONAL
        middle = start + (line - _PROVISIONAL if provisional else line)
        results.append(
            Result(data[start:middle], data[middle:at], seq, form, provisional)
        )
    return results


class FrameReader:
    """The consumer of one engine; its methods belong to one thread at a time."""

    def __init__(self, engine: _ffi.Engine) -> None:
        self._engine = engine
        self.ended = False

    def read(self, seconds: float) -> list[Result]:
        """Return what has come; [] after seconds, on a signal, or when `ended`."""
        if self.ended:
            return []
        rc, results = self._engine.view(parse_frames, seconds)
        self.ended = rc == _ffi.END
        return results or []
