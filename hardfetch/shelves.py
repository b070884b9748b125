"""Where the files of an output stand: rotated parts, here or behind a URL of fsspec."""

from __future__ import annotations

import errno
import importlib
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardfetch.errors import OptionError, SinkError
from hardfetch.outfile import claim
from hardfetch.parts import LocalOut

if TYPE_CHECKING:
    from collections.abc import Callable

    from hardfetch.parts import Out, Policy

INCOMPLETE = ".incomplete"  # at the end of a hidden part's name
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_FIELD = re.compile(r"\{part(?::0?([1-9]?[0-9]?)d?)?\}")


@dataclass(frozen=True)
class Template:
    """The name of parts: one `{part}` or `{part:05d}` in the last part of a path."""

    before: str
    width: int
    after: str

    @classmethod
    def of(cls, name: str) -> Template | None:
        """Return the template that a name is, if any. Raises OptionError."""
        if "{part" not in name:
            return None
        fields = list(_FIELD.finditer(name))
        if len(fields) != 1 or "/" in name[fields[0].end() :]:
            raise OptionError(
                f"sink: {name!r} is no name of parts; give one {{part}} or "
                "{part:05d} in the file's name"
            )
        found = fields[0]
        width = int(found[1] or 0)
        return cls(name[: found.start()], width, name[found.end() :])

    def name(self, part: int) -> str:
        """Return the name of one part."""
        return f"{self.before}{part:0{self.width}d}{self.after}"

    def number(self, name: str) -> int | None:
        """Return the part's number, when the name is one of a part."""
        if not (name.startswith(self.before) and name.endswith(self.after)):
            return None
        digits = name[len(self.before) : len(name) - len(self.after)]
        ok = digits.isascii() and digits.isdigit() and self.name(int(digits)) == name
        return int(digits) if ok else None


def hidden(path: str) -> str:
    """Return the name under which a part stands until it is complete."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}{INCOMPLETE}"


def visible(path: str) -> str:
    """Return the name that a part is to have; one that is not hidden has it."""
    folder, slash, name = path.rpartition("/")
    if name.startswith(".") and name.endswith(INCOMPLETE):
        name = name[1 : -len(INCOMPLETE)]
    return f"{folder}{slash}{name}"


class PartShelf:
    """Parts in a folder of this machine."""

    rotates = True

    def __init__(self, template: Template, first: int) -> None:
        """Begin with the part number first."""
        self.name = template.name(first)
        self._template = template
        self._part = first

    def next(self, given_up: Callable[[], bool], policy: Policy) -> Out:
        """Open the next part under its hidden name."""
        final = self._template.name(self._part)
        path = hidden(final)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        fd = os.open(path, flags, 0o666)
        claim(fd)
        self._part += 1
        self.name = final
        return LocalOut(fd, path, final, given_up, policy)


def parts_of(template: Template) -> tuple[list[str], list[str]]:
    """Return the complete parts in order, and the hidden ones, of an earlier run.

    Raises SinkError when the folder cannot be read.
    """
    folder = template.before.rpartition("/")[0] or (
        "/" if template.before.startswith("/") else "."
    )
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names, not paths
    except OSError as exc:
        raise SinkError(exc.errno, exc.strerror, folder) from None
    base = template.before[: template.before.rfind("/") + 1]
    whole: dict[int, str] = {}
    cut: dict[int, str] = {}
    for name in names:
        number = template.number(base + name)
        if number is not None:
            whole[number] = base + name
            continue
        number = template.number(visible(base + name))
        if number is not None:
            cut[number] = base + name
    return [whole[n] for n in sorted(whole)], [cut[n] for n in sorted(cut)]


def next_number(template: Template, *names: str) -> int:
    """Return the number behind those of the given parts, hidden ones too."""
    numbers = [template.number(visible(name)) or 0 for name in names]
    return max(numbers, default=-1) + 1


# --- behind a URL -----------------------------------------------------------------


def remote_fs(url: str) -> tuple[Any, str]:
    """Return fsspec's file system for a URL, and the path there.

    Raises OptionError, which names the package that is missing.
    """
    try:
        core = importlib.import_module("fsspec.core")
    except ImportError:
        raise OptionError(
            f"sink: {url.partition('://')[0]}:// needs fsspec; install hardfetch[s3]"
        ) from None
    try:
        fs, path = core.url_to_fs(url)
    except (ImportError, ValueError) as exc:
        raise OptionError(f"sink: {exc}") from None
    return fs, str(path)


class RemoteOut:
    """An object behind a URL: it appears when it is complete."""

    def __init__(self, fs: Any, path: str) -> None:
        self.size = 0
        self._name = path
        self._file: Any = _told(path, lambda: fs.open(path, "wb"))
        self._whole = True  # nothing is half written

    def write(self, data: bytes) -> None:
        """Append data."""
        self._whole = False
        _told(self._name, lambda: self._file.write(data))
        self.size += len(data)

    def mark(self) -> None:
        """Note that all so far is whole lines."""
        self._whole = True

    def sync(self) -> None:
        """Do nothing: an object is durable when it is complete."""

    def commit(self) -> None:
        """Let it appear."""
        _told(self._name, self._file.close)

    def abandon(self) -> None:
        """Let it appear if it is whole and holds something; else drop it."""
        if self._whole and self.size > 0:
            self.commit()
            return
        discard = getattr(self._file, "discard", None)
        if discard is not None:
            _told(self._name, discard)
        with suppress(AttributeError):
            self._file.closed = True  # so that nothing completes it later


class RemoteShelf:
    """Objects behind a URL, one or many."""

    def __init__(self, url: str, template: Template | None, first: int = 0) -> None:
        self.name = url
        self.rotates = template is not None
        self._fs, self._path = remote_fs(url)
        self._template = template
        self._part = first

    def next(self, given_up: Callable[[], bool], policy: Policy) -> Out:
        """Open the next object."""
        del given_up, policy
        if self._template is None:
            return RemoteOut(self._fs, self._path)
        url = self._template.name(self._part)
        self._part += 1
        self.name = url
        return RemoteOut(self._fs, str(self._fs._strip_protocol(url)))  # noqa: SLF001


def remote_parts(template: Template) -> list[str]:
    """Return the URLs of an earlier run's parts, in order."""
    fs, path = remote_fs(template.name(0))
    folder = path.rpartition("/")[0]
    base = template.before[: template.before.rfind("/") + 1]
    try:
        names = fs.ls(folder, detail=False, refresh=True)
    except FileNotFoundError:
        return []
    found: dict[int, str] = {}
    for name in names:
        url = base + Path(str(name)).name
        number = template.number(url)
        if number is not None:
            found[number] = url
    return [found[n] for n in sorted(found)]


def _told(name: str, call: Callable[[], Any]) -> Any:
    """Call; what a storage library raises becomes a SinkError with its text."""
    try:
        return call()
    except OSError as exc:
        text = exc.strerror or str(exc)
        raise SinkError(exc.errno or errno.EIO, text, name) from exc
    except Exception as exc:
        raise SinkError(errno.EIO, f"{type(exc).__name__}: {exc}", name) from exc
