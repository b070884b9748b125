"""`Fetcher.map` and `amap`: inputs pulled as they are needed, results as they come."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hardfetch import _ffi
from hardfetch._threads import start
from hardfetch.errors import ClosedError, HardfetchError
from hardfetch.feed import Feeder, Stopped, batches
from hardfetch.frames import FrameReader
from hardfetch.owner import Owner
from hardfetch.request import Request

if TYPE_CHECKING:
    import asyncio
    from collections.abc import (
        AsyncIterable,
        AsyncIterator,
        Coroutine,
        Iterable,
        Iterator,
        Sequence,
    )

    from hardfetch.options import Options
    from hardfetch.record import Result
    from hardfetch.request import Packer
    from hardfetch.robots_gate import RobotsGate

_TURN = 0.5  # seconds of one call into the core
_ROOM_SECONDS = 0.05


class Stream(Owner):
    """One engine with a feeder thread; the caller takes the results.

    Inputs are pulled ahead of the results by a window, never more. A Stream that is
    dropped without `close` ends too: no thread refers to it.
    """

    def __init__(self, options: Options, packer: Packer) -> None:
        window = max(16, 2 * options.max_concurrency)
        super().__init__(options, packer, window)
        self._reader = FrameReader(self.engine)
        self._inlet = _Inlet(self.engine, packer, self._gate)

    def stop(self, drain: float) -> None:
        """Stop pulling inputs; what is in flight may go on for drain seconds."""
        self._inlet.stopped.raised = True
        super().stop(drain)

    def seq_of_id(self, ident: Any) -> int | None:
        """Return the seq of a pending input by its id."""
        return self._inlet.ids.get(ident)

    def close(self) -> None:
        """Cancel what is left and free the engine."""
        self._inlet.stopped.raised = True
        if self._gate is not None:
            self._gate.close()
        self._free()

    shutdown = close

    # The feeder.

    def start(self, inputs: Iterable[Any]) -> None:
        """Start to pull inputs in a thread."""
        feeder = threading.Thread(
            target=self._inlet.pull,
            args=(inputs,),
            name="hardfetch-feeder",
            daemon=True,
        )
        start(feeder)

    def feed_async(self, inputs: AsyncIterable[Any]) -> Coroutine[Any, Any, None]:
        """Return what pulls inputs, for a task."""
        return self._inlet.pull_async(inputs)

    # The consumer.

    def read(self, seconds: float) -> list[Result]:
        """Return results; [] when none came in time."""
        results = self._reader.read(seconds)
        if self._checker is not None:
            results = [r for r in results if self._checker.good(r)]
        if self._inlet.has_ids:
            self._inlet.forget(results)
        return results

    @property
    def ended(self) -> bool:
        """Whether every result has been read."""
        return self._reader.ended

    def results(self) -> Iterator[Result]:
        """Give results as they come; then raise what the inputs raised."""
        while not self.ended:
            yield from _handed_over(self.read(_TURN))
        self.raise_late()

    def raise_late(self) -> None:
        """Raise what the inputs' iterator raised."""
        if self._inlet.late is not None:
            raise self._inlet.late

    async def results_async(self) -> AsyncIterator[Result]:
        """Give results as they come, without a thread."""
        import asyncio  # half of the start-up, for those who need it

        loop = asyncio.get_running_loop()
        fd = self.engine.output_fd()
        ready = asyncio.Event()
        while True:
            for result in _handed_over(self.read(0.0)):
                yield result
            if self._inlet.room is not None:
                self._inlet.room.set()
            if self.ended:
                break
            if self.engine.output_arm():
                await asyncio.sleep(0)  # others have their turn between full reads
                continue
            # Only while waiting: it stays readable until read, and would spin.
            loop.add_reader(fd, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(fd)
            ready.clear()
        self.raise_late()


class _Flag:
    """Tells a thread that it is to end, without a lock or a way back to who says so."""

    __slots__ = ("raised",)

    def __init__(self) -> None:
        self.raised = False

    def is_raised(self) -> bool:
        return self.raised


class _Inlet:
    """What feeds a stream's engine, in a thread or a task; the ids of what is pending.

    It does not know the Stream, whose death closes the engine and so ends this.
    """

    def __init__(
        self, engine: _ffi.Engine, packer: Packer, gate: RobotsGate | None
    ) -> None:
        self.stopped = _Flag()
        self.late: BaseException | None = None
        self.ids: dict[Any, int] = {}  # of inputs that are pending and have an id
        self.has_ids = False
        self._id_of: dict[int, Any] = {}
        self._answered: list[int] = []  # seqs whose ids are to go; the consumer's
        self.room: asyncio.Event | None = None  # results were read; pull_async's
        self._engine = engine
        self._packer = packer
        self._gate = gate
        self._feeder = Feeder(engine, packer, self.stopped.is_raised, gate)
        self._lock = threading.Lock()

    def pull(self, inputs: Iterable[Any]) -> None:
        """Pull inputs until they end, or the engine does. Never raises."""
        try:
            for batch in batches(inputs):
                if self.stopped.raised:
                    break
                self._take(batch)
        except (Stopped, ClosedError):
            pass
        except BaseException as exc:  # noqa: BLE001 - raised again by the consumer
            self.late = exc
        with suppress(HardfetchError):
            self._engine.finish()

    def _take(self, batch: Sequence[Any]) -> None:
        if all(type(item) is str for item in batch):
            self._feeder.frames(b"".join(map(self._packer.item, batch)))
            return
        for item in batch:
            ident = _id_of(item)
            if ident is None:
                self._feeder.frames(self._packer.item(item))
                continue
            self.has_ids = True
            with self._lock:  # over both: the result may be read before they are done
                self._note(ident, self._feeder.frames(self._packer.item(item)))

    async def pull_async(self, inputs: AsyncIterable[Any]) -> None:
        """Do as `pull`."""
        import asyncio  # half of the start-up, for those who need it

        self.room = asyncio.Event()
        try:
            async for item in inputs:
                frame, held = self._packer.item(item), ""
                if self._gate is not None:
                    frame, held = self._gate.hold(frame)
                while True:
                    if self.stopped.raised:
                        raise Stopped  # noqa: TRY301 - leaves two loops
                    rc, _, seq = self._engine.submit(frame)
                    if rc != _ffi.FULL:
                        break
                    await self._async_room(self.room)
                if held and self._gate is not None:
                    self._gate.settle(seq, held)
                ident = _id_of(item)
                if ident is not None:
                    self.has_ids = True
                    self._note(ident, seq)
        except (Stopped, ClosedError):
            pass
        except Exception as exc:  # noqa: BLE001 - raised again by the consumer
            self.late = exc
        with suppress(HardfetchError):
            self._engine.finish()

    @staticmethod
    async def _async_room(room: asyncio.Event) -> None:
        """Wait until results were read, which makes room, or for a moment."""
        import asyncio  # half of the start-up, for those who need it

        room.clear()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(room.wait(), _ROOM_SECONDS)

    def _note(self, ident: Any, seq: int) -> None:
        with suppress(TypeError):  # an id that is no key can't be looked up
            self.ids[ident] = seq
            self._id_of[seq] = ident

    def forget(self, results: list[Result]) -> None:
        """Drop the ids of what is answered, now or the next time. The consumer's."""
        self._answered += [result.seq for result in results]
        # A feeder that waits for room holds the lock, and waits for whoever calls this.
        if not self._lock.acquire(blocking=False):
            return
        try:
            for seq in self._answered:
                ident = self._id_of.pop(seq, None)
                if ident is not None and self.ids.get(ident) == seq:
                    del self.ids[ident]
            self._answered.clear()
        finally:
            self._lock.release()


def _handed_over(results: list[Result]) -> Iterator[Result]:
    """Give results without keeping them: what the caller is done with goes at once.

    Else all that is read of a batch lives until its end, and the garbage collector
    looks through it again and again.
    """
    results.reverse()
    while results:
        yield results.pop()


def _id_of(item: object) -> Any:
    if isinstance(item, Request):
        return item.id
    if isinstance(item, dict):
        return item.get("id")
    return None
