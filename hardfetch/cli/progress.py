"""How a run goes, on stderr: redrawn on a terminal, a line every 10 s elsewhere."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hardfetch.cli import console
from hardfetch.cli.units import format_clock, format_count, format_rate

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from rich.progress import Progress as RichProgress, TaskID

_REDRAW = 0.25  # seconds
_LINE = 10.0  # seconds
_WINDOW = 10.0  # seconds over which the rate is taken


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run at one moment. All counts are since its start."""

    inputs: int
    records: int
    errors: int
    retries: int
    in_flight: int
    waiting: int  # for their turn, their host's or a retry's time
    ring: float  # how full, 0 to 1
    read: int  # bytes of input read
    size: int | None  # bytes of input in all, where known
    complete: bool  # all input was read
    proxies: tuple[int, int] | None = None  # those that are up, and all
    worst: str = ""  # the host with most failures, in words


def total_inputs(now: Snapshot) -> int | None:
    """Estimate how many inputs there are: exact once all was read, None if unknown."""
    if now.complete:
        return now.inputs
    if not now.size or not now.read or not now.inputs:
        return None
    return max(now.inputs, round(now.inputs * now.size / now.read))


class Meter:
    """Turns snapshots into text; the rate is that of the last 10 s."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def rate(self, when: float, records: int) -> float:
        """Note records at a time and return records per second."""
        self._seen.append((when, records))
        while len(self._seen) > 2 and when - self._seen[1][0] >= _WINDOW:
            self._seen.popleft()
        since, before = self._seen[0]
        return (records - before) / (when - since) if when > since else 0.0

    def line(self, when: float, now: Snapshot) -> str:
        """Write one line about now."""
        rate = self.rate(when, now.records)
        total = total_inputs(now)
        done = format_count(now.records)
        parts = [
            f"{done} of {format_count(total)}" if total is not None else done,
            format_rate(rate),
            f"{format_count(now.in_flight)} in flight",
            f"{format_count(now.waiting)} waiting",
            f"{format_count(now.errors)} errors",
        ]
        if now.retries:
            parts.append(f"{format_count(now.retries)} retries")
        if now.proxies is not None:
            parts.append(f"{now.proxies[0]} of {now.proxies[1]} proxies up")
        if now.worst:
            parts.append(f"worst {now.worst}")
        parts.append(f"ring {now.ring:.0%}")
        if total is not None and rate > 0 and total > now.records:
            parts.append(f"ETA {format_clock((total - now.records) / rate)}")
        return ", ".join(parts)


class Progress:
    """Shows a run from a thread of its own, as long as the context is open."""

    def __init__(self, look: Callable[[], Snapshot | None]) -> None:
        """Take look, which returns None before the run has begun."""
        self._look = look
        self._meter = Meter()
        self._over = threading.Event()
        run = self._redraw if console.is_terminal() else self._lines
        # A terminal that was stopped (Ctrl-S) must not hold up the end.
        self._thread = threading.Thread(target=run, name="progress", daemon=True)

    def __enter__(self) -> Progress:
        """Start showing."""
        # Before the first snapshot, so that the first rate has a beginning.
        self._meter.rate(time.monotonic(), 0)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop showing; a redrawn line goes away."""
        self._over.set()
        self._thread.join(timeout=1.0)

    def _text(self) -> tuple[str, Snapshot] | None:
        now = self._look()
        return None if now is None else (self._meter.line(time.monotonic(), now), now)

    def _lines(self) -> None:
        while not self._over.wait(_LINE):
            shown = self._text()
            if shown is not None:
                console.say(f"hardfetch: {shown[0]}")

    def _redraw(self) -> None:
        # rich takes longer to import than a short run lasts.
        if self._over.wait(_REDRAW):
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress as Bar, TextColumn

        with Bar(
            BarColumn(bar_width=20),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
        ) as bar:
            task = bar.add_task("", total=None)
            while not self._over.wait(_REDRAW):
                self._update(bar, task)

    def _update(self, bar: RichProgress, task: TaskID) -> None:
        shown = self._text()
        if shown is not None:
            text, now = shown
            bar.update(
                task, description=text, total=total_inputs(now), completed=now.records
            )
            bar.refresh()
