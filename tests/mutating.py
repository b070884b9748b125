"""Code that is broken in one place at a time, for the tests that must catch each."""

from __future__ import annotations

import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Named(Protocol):
    """A mutant, as far as the report knows it."""

    @property
    def name(self) -> str:
        """What it breaks."""


M = TypeVar("M", bound=Named)
P = TypeVar("P")


def edited(name: str, text: str, edits: Iterable[tuple[str, str]]) -> str:
    """Return text with each old piece made the new one.

    Raises ValueError when an old piece does not stand there once.
    """
    for old, new in edits:
        if text.count(old) != 1:
            raise ValueError(f"{name}: stands {text.count(old)} times: {old!r}")
        text = text.replace(old, new)
    return text


def kill_all(
    mutants: Iterable[M], build: Callable[[Path], P], kill: Callable[[M, P, Path], str]
) -> dict[str, str]:
    """Each mutant's name and how it was caught, "" for a survivor; some at a time."""
    chosen = list(mutants)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shared = build(folder)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            caught = pool.map(lambda mutant: kill(mutant, shared, folder), chosen)
            return dict(zip((m.name for m in chosen), caught, strict=True))


def tell(caught: dict[str, str]) -> int:
    """Print the kill list; return the exit code, 1 when a mutant survives."""
    for name, how in caught.items():
        sys.stdout.write(f"{'killed  ' if how else 'SURVIVED'} {name}: {how}\n")
    return int(not all(caught.values()))
