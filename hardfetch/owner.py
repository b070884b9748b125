"""What owns an engine whose records become objects: a `Client` or a `Stream`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hardfetch import _ffi
from hardfetch._config import OUTPUT_FRAMES, Config
from hardfetch.errors import HardfetchError
from hardfetch.judge import Judge
from hardfetch.robots_gate import make_gate
from hardfetch.summary import Stats
from hardfetch.validation import make_checker

if TYPE_CHECKING:
    from hardfetch.options import Options
    from hardfetch.request import Packer


class Owner:
    """An engine with its policy. Any thread may call any method."""

    def __init__(self, options: Options, packer: Packer, window: int) -> None:
        """Start the engine; `window` inputs are accepted and unanswered at most."""
        config = Config(
            options,
            output=OUTPUT_FRAMES,
            window=window,
            report_unanswered=True,
            validate=options.validate is not None,
        )
        self.engine = _ffi.Engine(config.c)
        self._life: Any = self.engine.own()
        self._gate = make_gate(self.engine, options, packer)
        self._judge = Judge(self.engine, options, self._gate)
        self._judge.start()
        self._checker = make_checker(self.engine, options)

    def stats(self) -> Stats:
        """Return the counters. Raises ClosedError after close."""
        return Stats.of(self.engine.stats())

    def health(self) -> dict[str, Any]:
        """Return what policy did so far."""
        return self._judge.report()

    def reload_proxies(self) -> None:
        """Load the proxies again soon."""
        self._judge.reload()

    def cancel(self, seq: int) -> bool:
        """End one request with `cancelled`."""
        return self.engine.cancel(seq)

    def stop(self, drain: float) -> None:
        """Take no more requests; those in flight may go on for drain seconds."""
        if not self.engine.closed:
            with suppress(HardfetchError):
                self.engine.stop(drain)

    def _free(self) -> None:
        self.engine.close()
        self._life = None
