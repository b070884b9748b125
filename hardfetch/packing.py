"""Compression by name: gzip (.gz) and Zstandard (.zst), in pieces that stand alone.

A file is a chain of gzip members or zstd frames. Each holds whole lines, so whatever
ends a run, all but the last one can be read and another can be put behind them.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import stat
import zlib
from typing import TYPE_CHECKING, Any, Protocol

from hardfetch.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from _typeshed import WriteableBuffer

_GZIP = 31  # zlib's window bits for a gzip member
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3
_CHUNK = 256 << 10
_PIECE = 16 << 10  # of a packed input; gzip makes at most a thousand times as much


class Encoder(Protocol):
    """One member or frame."""

    def compress(self, data: bytes, /) -> bytes:
        """Take data; return what is ready."""

    def flush(self) -> bytes:
        """End the member; return its rest."""


class Packing:
    """One kind of compression."""

    def __init__(self, suffix: str) -> None:
        """Take a name's suffix. Raises OptionError when its library is missing."""
        self._zstd = _Zstd() if suffix == ".zst" else None
        self._errors = zlib.error if self._zstd is None else self._zstd.error

    def encoder(self) -> Encoder:
        """Begin a member."""
        if self._zstd is not None:
            encoder: Encoder = self._zstd.encoder()
            return encoder
        return zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP)

    def decode(
        self, chunks: Iterable[bytes], *, padded: bool = False
    ) -> Iterator[tuple[bytes, int]]:
        """Give (bytes, end) of each piece; end is where a member ended, else 0.

        Ends early, without an error, where the last member is cut or broken. With
        `padded`, NULs behind a gzip member count as its end, as for gzip(1).
        """
        decoder: Any = None
        at = 0
        for chunk in chunks:
            data = chunk
            while data:
                if padded and decoder is None and at and self._zstd is None:
                    rest = data.lstrip(b"\0")
                    at += len(data) - len(rest)
                    data = rest
                    if not rest:
                        yield b"", at
                        break
                decoder = decoder or self._decoder()
                try:
                    out = decoder.decompress(data)
                except self._errors:
                    return
                if not decoder.eof:
                    at += len(data)
                    yield out, 0
                    break
                rest = decoder.unused_data
                at += len(data) - len(rest)
                data, decoder = rest, None
                yield out, at

    def mend(self, fd: int) -> None:
        """Cut a file behind its last whole member. Raises OSError."""
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
            return
        with open(f"/proc/self/fd/{fd}", "r+b") as file:  # noqa: PTH123
            chunks = iter(lambda: file.read(_CHUNK), b"")
            end = max((end for _, end in self.decode(chunks)), default=0)
            if end < status.st_size:
                file.truncate(end)

    def _decoder(self) -> Any:
        if self._zstd is not None:
            return self._zstd.decoder()
        return zlib.decompressobj(_GZIP)


class _Zstd:
    """Whichever zstd library is there: the standard one, its backport, zstandard."""

    def __init__(self) -> None:
        self._own: Any = None
        for module in ("compression.zstd", "backports.zstd"):
            try:
                self._lib = importlib.import_module(module)
            except ImportError:
                continue
            self.error: type[Exception] = self._lib.ZstdError
            return
        try:
            self._lib = importlib.import_module("zstandard")
        except ImportError:
            raise OptionError(
                ".zst needs the zstandard package; install hardfetch[zstd]"
            ) from None
        self.error = self._lib.ZstdError
        self._own = self._lib.ZstdCompressor(level=_ZSTD_LEVEL)

    def encoder(self) -> Any:
        if self._own is not None:
            return self._own.compressobj()
        return self._lib.ZstdCompressor(level=_ZSTD_LEVEL)

    def decoder(self) -> Any:
        if self._own is not None:
            return self._lib.ZstdDecompressor().decompressobj()
        return self._lib.ZstdDecompressor()


class Unpacked(io.RawIOBase):
    """A packed file as the bytes that it was made of. Owns the file. Thread: one."""

    def __init__(self, file: io.FileIO, packing: Packing) -> None:
        super().__init__()
        self._file = file
        self._read = self._whole = 0  # bytes read, and those of whole members
        self._pieces = packing.decode(self._chunks(), padded=True)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the packed file."""
        return self._file.fileno()

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read some bytes; 0 at the end. Raises OSError for a cut or broken file."""
        view = memoryview(buffer).cast("B")
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                if self._read != self._whole:
                    what = (
                        f"cut or broken in the piece that starts at byte {self._whole}"
                    )
                    raise OSError(errno.EIO, what, os.fspath(self._file.name))
                return 0
            self._rest, end = memoryview(piece[0]), piece[1]
            self._whole = end or self._whole
        count = min(len(view), len(self._rest))
        view[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

    def _chunks(self) -> Iterator[bytes]:
        while data := self._file.read(_PIECE):
            self._read += len(data)
            yield data


def packing_of(name: str) -> Packing | None:
    """Return the compression that a name asks for, if any."""
    suffix = name[name.rfind(".") :] if "." in name else ""
    return Packing(suffix) if suffix in (".gz", ".zst") else None
