"""TLS sessions kept over runs: the option `tls_cache`, a file.

A host that was met before is resumed by one of them, which spares both sides the
certificates. Each identity (proxy with credentials, session, profile) has its own; in
the file it stands as a salted hash. The file resumes sessions, so it is as secret as
a key (mode 0600), and it names the hosts.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from hardfetch._ffi import error_text, ffi, lib
from hardfetch.errors import OptionError

_LIMIT = 256 << 20  # bytes; a store writes a quarter of that at most
_ERR_SIZE = 256


class TlsCache:
    """The sessions of one file, in memory. Any thread; not in a child after fork."""

    def __init__(self, path: str) -> None:
        """Read the file, if it is there.

        Raises OptionError for one that cannot be read or holds something else. What
        another version or a crash left is as good as no file.
        """
        self.path = path
        self._pid = os.getpid()
        self._lock = threading.Lock()
        saved = self._read()
        err = ffi.new("char[]", _ERR_SIZE)
        handle = lib.hf_tls_cache_new(
            ffi.from_buffer(saved), len(saved), int(time.time()), err, _ERR_SIZE
        )
        if handle == ffi.NULL:
            raise OptionError(f"tls_cache: {path!r}: {error_text(err)}")
        #: What an `hf_config` takes.
        self.handle: Any = ffi.gc(handle, lib.hf_tls_cache_free)

    def _read(self) -> bytes:
        try:
            with open(self.path, "rb") as file:  # noqa: PTH123
                saved = file.read(_LIMIT + 1)
        except FileNotFoundError:
            return b""
        except OSError as exc:
            raise OptionError(f"tls_cache: {self.path!r}: {exc.strerror}") from None
        if len(saved) > _LIMIT:
            raise OptionError(f"tls_cache: {self.path!r} is too large for a TLS cache")
        return saved

    def save(self) -> None:
        """Write the file anew, whole or not at all. A failure is a RuntimeWarning."""
        if os.getpid() != self._pid:
            return
        try:
            with self._lock:
                self._replace(self._bytes())
        except OSError as exc:
            warnings.warn(f"tls_cache: {exc}", RuntimeWarning, stacklevel=2)

    def _bytes(self) -> memoryview:
        now, size = int(time.time()), 1 << 16
        while True:
            buffer = bytearray(size)
            needed = lib.hf_tls_cache_save(
                self.handle, ffi.from_buffer("uint8_t[]", buffer), size, now
            )
            if needed <= size:
                return memoryview(buffer)[:needed]
            size = needed + needed // 8  # others may put more in meanwhile

    def _replace(self, data: memoryview) -> None:
        path = Path(os.path.realpath(self.path))
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            fresh.unlink(missing_ok=True)  # of a run that was killed here
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(fd, "wb") as file:  # noqa: PTH123
                file.write(data)
            fresh.replace(path)
        except BaseException:
            with suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise


_stores: weakref.WeakValueDictionary[tuple[int, str], TlsCache] = (
    weakref.WeakValueDictionary()
)
_stores_lock = threading.Lock()


def _forget() -> None:
    global _stores_lock  # noqa: PLW0603 - the parent's may have been locked
    _stores_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)


def store_at(path: str) -> TlsCache | None:
    """Return the store of a file, the same one as long as somebody holds it.

    None for no path. Raises OptionError as `TlsCache` does.
    """
    if not path:
        return None
    key = (os.getpid(), os.path.realpath(path))
    with _stores_lock:
        found = _stores.get(key)
        if found is None:
            found = _stores[key] = TlsCache(path)
        return found
