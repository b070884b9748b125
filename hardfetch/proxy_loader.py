"""A pool's proxies loaded again while the crawl goes on.

In a thread of its own, one load at a time: a callable may take its time, or never come
back, and verdicts must not wait for it. The pool stays as it is meanwhile.
"""

from __future__ import annotations

import copy
import threading
from typing import TYPE_CHECKING

from hardfetch._threads import start
from hardfetch.errors import OptionError
from hardfetch.sinks import warn

if TYPE_CHECKING:
    from hardfetch.proxy import Proxy
    from hardfetch.proxy_source import ProxySource

__all__ = ["ProxyLoader"]

_RENEW = 5.0  # seconds between two calls for proxies while none lives
_LATE = 30.0  # seconds after which a load that is not over is told of


class _Load:
    """One load, in a thread of its own, with a source of its own."""

    def __init__(self, source: ProxySource, now: float) -> None:
        self.began = now
        self.told = False  # that it is late
        self.found: list[Proxy] = []
        self.why = ""
        self.done = threading.Event()
        self._source = source

    def start(self) -> None:
        thread = threading.Thread(
            target=self._run, name="hardfetch-proxies", daemon=True
        )
        try:
            start(thread)
        except RuntimeError as exc:  # the system has no thread left
            self.why = str(exc)
            self.done.set()

    def _run(self) -> None:
        try:
            self.found = self._source.load()
        except OptionError as exc:
            # No proxy, for one: a file that is being written anew may be empty.
            self.why = str(exc)
        except BaseException:  # noqa: BLE001 - a user's callable, in a thread of ours
            import traceback

            self.why = traceback.format_exc()
        self.done.set()


class ProxyLoader:
    """Loads when it is asked to, or when there is reason to.

    `look` belongs to one thread, `ask` to any.
    """

    def __init__(self, source: ProxySource) -> None:
        """Take the source, which has been loaded once."""
        self._source = source
        self._asked = threading.Event()
        self._load: _Load | None = None  # which runs
        self._began = 0.0

    def ask(self) -> None:
        """Have the proxies loaded again. Fit for a signal handler."""
        self._asked.set()

    @property
    def asked(self) -> bool:
        """Whether `look` has something to begin with."""
        idle = self._load is None
        return (idle and self._asked.is_set()) or self._source.replaced

    def look(self, now: float, *, live: bool) -> list[Proxy] | None:
        """Return what a load has brought, if one is over; begin one where it is due.

        Args:
            now: seconds.
            live: whether the pool has a proxy that is up.
        """
        # A load of what has been replaced since is of no use, and may never be over.
        if self._load is not None and not self._source.replaced:
            return self._take(self._load, now)
        renews = self._source.renews and not live and now - self._began >= _RENEW
        if self._asked.is_set() or renews or self._source.changed():
            self._asked.clear()
            self._began = now
            self._source = copy.copy(self._source)
            self._source.note()
            self._load = _Load(self._source, now)
            self._load.start()
        return None

    def _take(self, load: _Load, now: float) -> list[Proxy] | None:
        if not load.done.is_set():
            if now - load.began >= _LATE and not load.told:
                load.told = True
                warn(f"proxies kept as they are: no answer for {_LATE:.0f} s")
            return None
        self._load = None
        if load.why:
            warn(f"proxies kept as they are: {load.why}")
        return load.found or None
