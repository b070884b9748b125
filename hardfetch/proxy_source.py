"""Where a pool's proxies come from: given ones, a file, a callable, or all of these.

The one part of the pool that does I/O. Whoever runs the crawl asks ``changed`` now and
then (or waits for SIGHUP) and hands ``load`` to ``ProxyPool.replace``; a file that
can't be read leaves the pool as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from hardfetch import values
from hardfetch.errors import OptionError
from hardfetch.proxy import Proxy, parse_proxies

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ProxySource"]

_MOST = 64 << 20  # bytes of a list of proxies
_MOST_CALLED = 100_000  # proxies that a callable may give


@dataclass(frozen=True, slots=True, eq=False)
class _What:
    """What a source reads; a source that is given another one gets it whole."""

    given: tuple[Proxy | str, ...]
    path: Path | None
    call: Callable[[], Iterable[Proxy | str]] | None


class ProxySource:
    """Proxies that can be loaded again, and replaced.

    Copies, one for each crawl, are replaced together; each knows by itself what it has
    loaded. `replace` is for any thread and for signal handlers, the rest for one thread
    at a time.
    """

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
        file = None if path is None else Path(path)
        self._now = [_What(tuple(given), file, call)]  # one item, shared by all copies
        self._what = self._now[0]  # as of the last `note`
        self._seen: tuple[int, ...] = ()  # of its file

    def load(self) -> list[Proxy]:
        """Return all proxies; of equal identities the last one holds.

        Raises:
            OptionError: a line is not a proxy (named by its number), the file can't
                be read, or there is no proxy in all of it.
        """
        self.note()
        return _read(self._what)

    def note(self) -> None:
        """Take what there is now for loaded; `load` does so when it begins."""
        self._what = self._now[0]
        self._seen = _look(self._what.path)

    def replace(
        self,
        given: Iterable[Proxy | str],
        call: Callable[[], Iterable[Proxy | str]] | None = None,
    ) -> None:
        """Give these from the next `load` on, and no file any more.

        Raises:
            OptionError: as `load`; nothing is changed then.
        """
        what = _What(tuple(given), None, call)
        _read(what)
        self._now[0] = what

    @property
    def renews(self) -> bool:
        """Whether another `load` may bring others by itself: there is a callable."""
        return self._what.call is not None

    @property
    def replaced(self) -> bool:
        """Whether `replace` has come since the last ``load`` began."""
        return self._what is not self._now[0]

    def changed(self) -> bool:
        """Tell whether it is replaced, or the file another one than at the ``load``."""
        path = self._what.path
        return self.replaced or (path is not None and _look(path) != self._seen)


def _read(what: _What) -> list[Proxy]:
    found = _parse("proxy", what.given)
    if what.path is not None:
        name = _name(what.path)
        try:
            text = values.read_file(what.path, _MOST).decode("utf-8-sig")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "not UTF-8"
            raise OptionError(f"proxy file {name}: {why}") from None
        found += _parse(f"proxy file {name}", text.splitlines())
    if what.call is not None:
        brought = what.call()
        if isinstance(brought, str) or not isinstance(brought, Iterable):
            kind = type(brought).__name__
            raise OptionError(f"proxy callable: give a list of proxies, not {kind}")
        # Bounded, since it may be a generator without end.
        given = list(islice(brought, _MOST_CALLED + 1))
        if len(given) > _MOST_CALLED:
            raise OptionError(f"proxy callable: more than {_MOST_CALLED:,} proxies")
        found += _parse("proxy callable", given)
    if not found:
        # Not silently by one's own address: the list was to be something else.
        name = "proxy" if what.path is None else f"proxy file {_name(what.path)}"
        raise OptionError(f"{name}: the list is empty; give at least one proxy")
    return list({proxy: proxy for proxy in found}.values())


def _name(path: Path) -> str:
    """Return the file's name for a message, fit for UTF-8.

    Its last part only: a proxy's URL, given by mistake, has its password in front.
    """
    return path.name.encode("utf-8", "backslashreplace").decode()


def _look(path: Path | None) -> tuple[int, ...]:
    try:
        stat = path.stat() if path is not None else None
    except (OSError, ValueError):  # not there, or no name of a file
        stat = None
    if stat is None:
        return ()
    return (stat.st_mtime_ns, stat.st_size, stat.st_ino)


def _parse(name: str, items: Iterable[Proxy | str]) -> list[Proxy]:
    listed: list[object] = list(items)
    for item in listed:
        if not isinstance(item, (Proxy, str)):
            kind = type(item).__name__
            raise OptionError(f"{name}: a proxy is a string or a Proxy, not {kind}")
    ready = [item for item in listed if isinstance(item, Proxy)]
    try:
        return ready + parse_proxies(i for i in listed if isinstance(i, str))
    except OptionError as error:
        raise OptionError(f"{name}: {error}") from None
