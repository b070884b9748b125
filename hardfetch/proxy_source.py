"""Where a pool's proxies come from: given ones, a file, a callable, or all of these.

The one part of the pool that does I/O. Whoever runs the crawl asks ``changed`` now and
then (or waits for SIGHUP) and hands ``load`` to ``ProxyPool.replace``; a file that
can't be read leaves the pool as it was.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from hardfetch import values
from hardfetch.errors import OptionError
from hardfetch.proxy import Proxy, parse_proxies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["ProxySource"]

_MOST = 64 << 20  # bytes of a list of proxies
_MOST_CALLED = 100_000  # proxies that a callable may give


class ProxySource:
    """Proxies that can be loaded again."""

    def __init__(
        self,
        given: Iterable[Proxy | str] = (),
        path: str | Path | None = None,
        call: Callable[[], Iterable[Proxy | str]] | None = None,
    ) -> None:
        """Name the sources; nothing is read yet.

        Args:
            given: proxies, or lines as ``parse_proxies`` takes them.
            path: a file of such lines.
            call: returns proxies or lines each time it is called.
        """
        self._given = tuple(given)
        self._path = None if path is None else Path(path)
        self._call = call
        self._seen: tuple[int, ...] = ()

    def load(self) -> list[Proxy]:
        """Return all proxies; of equal identities the last one holds.

        Raises:
            OptionError: a line is not a proxy (named by its number), or the file can't
                be read.
        """
        found = self._parse("proxy", self._given)
        if self._path is not None:
            self._seen = self._look()
            try:
                text = values.read_file(self._path, _MOST).decode()
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or "not UTF-8"
                raise OptionError(f"proxy file {self._name()}: {why}") from None
            found += self._parse(f"proxy file {self._name()}", text.splitlines())
        if self._call is not None:
            # Bounded, since it may be a generator without end.
            given = list(islice(self._call(), _MOST_CALLED + 1))
            if len(given) > _MOST_CALLED:
                raise OptionError(f"proxy callable: more than {_MOST_CALLED:,} proxies")
            found += self._parse("proxy callable", given)
        return list({proxy: proxy for proxy in found}.values())

    @property
    def renews(self) -> bool:
        """Whether another `load` may bring others by itself: there is a callable."""
        return self._call is not None

    def changed(self) -> bool:
        """Tell whether the file is another one than at the last ``load``."""
        return self._path is not None and self._look() != self._seen

    def _name(self) -> str:
        """Return the file's name for a message, fit for UTF-8.

        Its last part only: a proxy's URL, given by mistake, has its password in front.
        """
        name = self._path.name if self._path is not None else ""
        return name.encode("utf-8", "backslashreplace").decode()

    def _look(self) -> tuple[int, ...]:
        try:
            stat = self._path.stat() if self._path is not None else None
        except (OSError, ValueError):  # not there, or no name of a file
            stat = None
        if stat is None:
            return ()
        return (stat.st_mtime_ns, stat.st_size, stat.st_ino)

    @staticmethod
    def _parse(name: str, items: Iterable[Proxy | str]) -> list[Proxy]:
        listed = list(items)
        ready = [item for item in listed if isinstance(item, Proxy)]
        try:
            return ready + parse_proxies(i for i in listed if isinstance(i, str))
        except OptionError as error:
            raise OptionError(f"{name}: {error}") from None
