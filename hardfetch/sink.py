"""What every output is to the thread that writes to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Sink:
    """One output. With `fd` the core can write to it; `write` takes bytes anyway.

    `write` may be given any piece of the stream unless `whole_lines` is set. `finish`
    ends the format after the last record. `close` gives up what was opened here;
    without a `finish` before it, whole lines stay and nothing else.
    """

    fd: int | None = None
    whole_lines = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.given_up: Callable[[], bool] = lambda: False  # asked while a write waits

    def _is_given_up(self) -> bool:
        return self.given_up()  # which may be set later than this is handed on

    def write(self, data: bytes) -> None:
        """Write all of data. Raises OSError."""
        raise NotImplementedError

    def write_view(self, view: memoryview) -> None:
        """Write whole lines from memory that is the caller's again after it."""
        self.write(bytes(view))

    def tick(self) -> None:
        """Do what time asks for; called twice a second at least. Raises OSError."""

    def finish(self) -> None:
        """Write what the format needs at its end. Raises OSError."""

    def close(self) -> None:
        """Close what was opened here."""
