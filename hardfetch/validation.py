"""`validate`: the caller's own look at an answer before it counts as one.

The engine gives an answer's record out and keeps the request. What is found good is let
go; of what is bad policy is asked, which knows attempts, budgets, exits and back-off:
it goes again, or the same record follows once more, with the reason in its last
attempt, and is given as it is.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hardfetch.errors import ClosedError
from hardfetch.outcome import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from hardfetch._ffi import Engine
    from hardfetch.options import Options
    from hardfetch.record import Result

__all__ = ["Checker", "make_checker"]

_UNCHECKED = "unchecked"  # shard_judge.c: the engine did not wait for the verdict


def make_checker(engine: Engine, options: Options) -> Checker | None:
    """Return the checker for an engine, None where nobody asked for one."""
    found = options.validate
    return None if found is None else Checker(engine, found)


class Checker:
    """Sifts one engine's results; its methods belong to one thread at a time."""

    def __init__(self, engine: Engine, validate: Callable[[Result], object]) -> None:
        self._engine = engine
        self._validate = validate
        self._bad: set[int] = set()  # found bad; their last word is to come

    def good(self, result: Result) -> bool:
        """Tell whether a result is to be given to the caller.

        Raises what `validate` raises; the result then counts as good.
        """
        found = self.look(result)
        if isinstance(found, BaseException):
            raise found
        return found

    def look(self, result: Result) -> bool | BaseException:
        """Do as `good`, but return what `validate` raises: an engine's slip is none."""
        seq = result.seq
        if not result._provisional:  # noqa: SLF001 - it is ours
            attempts = result.attempts
            denied = attempts[-1].retry_denied if attempts else None
            known = seq in self._bad
            self._bad.discard(seq)
            # Else it was given when it came first.
            return denied != _UNCHECKED or known
        found: bool | BaseException
        try:
            found = bool(self._validate(result))
        except BaseException as exc:  # noqa: BLE001 - for whoever waits for the result
            found = exc
        bad = found is False
        with suppress(ClosedError):  # stopped: it says so in a record of its own
            self._engine.verdicts([Verdict(seq, retry=False, content=bad)])
        if bad:
            self._bad.add(seq)
        return found
