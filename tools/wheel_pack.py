"""Pack a wheel anew: the same members give the same bytes, and no more than needed.

zlib's output depends on its version and on who patched it; zopfli's on its own version
alone, and it is some percent smaller.
"""

from __future__ import annotations

import struct
import time
import zipfile
import zlib
from functools import cache
from typing import TYPE_CHECKING

import zopfli.zlib
from wheel_members import members

if TYPE_CHECKING:
    from pathlib import Path

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_DEFLATED, _VERSION, _UNIX = 8, 20, 3 << 8


@cache
def _deflate(data: bytes) -> bytes:
    """Return a raw deflate stream. Cached: the wheels differ in few files."""
    return zopfli.zlib.compress(data, numiterations=60, blocksplittingmax=0)[2:-4]


def _stamp(epoch: int) -> tuple[int, int]:
    """Return time and date as zip writes them, in UTC."""
    t = time.gmtime(max(epoch, 315532800))  # zip's time starts with 1980
    day = (t.tm_year - 1980) << 9 | t.tm_mon << 5 | t.tm_mday
    return t.tm_hour << 11 | t.tm_min << 5 | t.tm_sec // 2, day


def pack(source: Path, target: Path, epoch: int) -> Path:
    """Write the members of `source` to `target`, all with the same time; return it."""
    body, directory = bytearray(), bytearray()
    stamp = _stamp(epoch)
    with zipfile.ZipFile(source) as wheel:
        found = members(wheel)
    for text, (data, runs) in found.items():
        name, packed = text.encode("ascii"), _deflate(data)
        common = (
            _VERSION, 0, _DEFLATED, *stamp, zlib.crc32(data),
            len(packed), len(data), len(name), 0,
        )  # fmt: skip
        # Programs may be run, all else is read: no umask has a say.
        rest = (0, 0, 0, (0o100755 if runs else 0o100644) << 16, len(body))
        directory += _CENTRAL.pack(b"PK\1\2", _UNIX | _VERSION, *common, *rest)
        directory += name
        body += _LOCAL.pack(b"PK\3\4", *common) + name + packed
    count = len(found)
    end = _END.pack(b"PK\5\6", 0, 0, count, count, len(directory), len(body), 0)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(body + directory + end)
    return target
