"""A pool's proxies loaded again while the crawl goes on.

In a thread of its own, one load at a time: a callable may take its time, or never come
back, and verdicts must not wait for it. The pool stays as it is meanwhile.
"""

from __future__ import annotations

import threading
import traceback
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


class ProxyLoader:
    """Loads when it is asked to, or when there is reason to.

    `look` belongs to one thread, `ask` to any.
    """

    def __init__(self, source: ProxySource) -> None:
        """Take the source, which has been loaded once."""
        self._source = source
        self._asked = threading.Event()
        self._done = threading.Event()
        self._running = False
        self._late = False  # and that was told
        self._began = 0.0
        self._found: list[Proxy] = []
        self._why = ""

    def ask(self) -> None:
        """Have the proxies loaded again. Fit for a signal handler."""
        self._asked.set()

    @property
    def asked(self) -> bool:
        """Whether `look` has something to begin with."""
        return self._asked.is_set() and not self._running

    def look(self, now: float, *, live: bool) -> list[Proxy] | None:
        """Return what a load has brought, if one is over; begin one where it is due.

        Args:
            now: seconds.
            live: whether the pool has a proxy that is up.
        """
        if self._running:
            return self._take(now)
        renews = self._source.renews and not live and now - self._began >= _RENEW
        if self._asked.is_set() or renews or self._source.changed():
            self._asked.clear()
            self._began, self._running, self._late = now, True, False
            self._done.clear()
            self._start()
        return None

    def _start(self) -> None:
        try:
            start(
                threading.Thread(
                    target=self._load, name="hardfetch-proxies", daemon=True
                )
            )
        except RuntimeError as exc:  # the system has no thread left
            self._found, self._why = [], str(exc)
            self._done.set()

    def _take(self, now: float) -> list[Proxy] | None:
        if not self._done.is_set():
            if now - self._began >= _LATE and not self._late:
                self._late = True
                warn(f"proxies kept as they are: no answer for {_LATE:.0f} s")
            return None
        self._running = False
        if self._why:
            warn(f"proxies kept as they are: {self._why}")
        return self._found or None

    def _load(self) -> None:
        self._found = []
        try:
            self._found = self._source.load()
            # As a file that is being written anew may be for a moment.
            self._why = "" if self._found else "the list is empty"
        except OptionError as exc:
            self._why = str(exc)
        except BaseException:  # noqa: BLE001 - a user's callable, in a thread of ours
            self._why = traceback.format_exc()
        self._done.set()
