"""Names of the browser profiles that curl_cffi knows, without importing curl_cffi.

Its lists stand in one source file as literals. Importing the package takes 0.2 s and
loads libcurl a second time through cffi; reading the literals takes milliseconds.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

from hardfetch.errors import OptionError
from hardfetch.values import near_miss, shown, text


@functools.cache
def package_dir() -> Path | None:
    """Return the folder of the installed curl_cffi, or None."""
    spec = importlib.util.find_spec("curl_cffi")
    for place in (spec.submodule_search_locations or []) if spec else []:
        return Path(place)
    return None


@functools.cache
def _tables() -> tuple[frozenset[str], dict[str, str]]:
    """Return the names and the aliases as curl_cffi's source has them."""
    import ast  # for those who impersonate

    folder = package_dir()
    path = folder / "requests" / "impersonate.py" if folder else None
    if path is None or not path.is_file():
        return frozenset(), {}
    found: set[str] = set()
    aliases: dict[str, str] = {}
    for node in ast.parse(path.read_bytes()).body:
        if not isinstance(node, ast.Assign) or not isinstance(
            node.targets[0], ast.Name
        ):
            continue
        name, value = node.targets[0].id, node.value
        if name == "REAL_TARGET_MAP":
            aliases = ast.literal_eval(value)
        elif name == "BrowserTypeLiteral" and isinstance(value, ast.Subscript):
            found.update(ast.literal_eval(value.slice))
    return frozenset(found), aliases


def names() -> list[str]:
    """Return all profile names, aliases included, sorted."""
    known, aliases = _tables()
    return sorted(known | aliases.keys())


def resolve(option: str, value: object) -> str:
    """Return libcurl's own target for a profile name; "" for an empty one.

    An alias as `chrome` becomes the newest of its kind. Raises OptionError with near
    misses for a name that curl_cffi does not list. Where its lists cannot be read the
    name passes, and the engine asks libcurl.
    """
    name = text(option, value)
    known, aliases = _tables()
    if not name or not known:
        return name
    if name in aliases:
        return aliases[name]
    if name not in known:
        hint = near_miss(name, known | aliases.keys())
        raise OptionError(
            f"{option}: {shown(name)} is no browser profile of curl_cffi{hint}; "
            "`hardfetch fetch --impersonate list` shows all"
        )
    return name
