"""The engine behind `Fetcher.fetch`: kept between calls, shared by all threads."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from hardfetch import _ffi, _watch
from hardfetch._threads import start
from hardfetch.errors import ClosedError, EngineError, HardfetchError
from hardfetch.frames import FrameReader
from hardfetch.owner import Owner
from hardfetch.request import Packer

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from hardfetch.options import Options
    from hardfetch.record import Result
    from hardfetch.validation import Checker

    Answer: TypeAlias = "Result | Exception | _Raised"
    Deliver: TypeAlias = Callable[[Answer], object]

_WINDOW = 1 << 20
_TURN = 1.0  # seconds of one call into the core
_JOIN_SECONDS = 2.0


class Client(Owner):
    """A running engine and the thread that hands its results to who waits for them.

    One that is dropped without `close` ends too: the thread knows only the desk.
    """

    def __init__(self, options: Options) -> None:
        super().__init__(options, Packer(options), _WINDOW)
        self._desk = _Desk(self.engine, self._checker)
        self._thread = threading.Thread(
            target=self._desk.dispatch, name="hardfetch-dispatcher", daemon=True
        )
        start(self._thread)

    @property
    def over(self) -> bool:
        """Whether nothing is answered any more."""
        return self._desk.over

    def fetch(self, frame: bytes, ident: Any) -> Result:
        """Send one packed request and wait for its result. Any thread.

        An exception of a signal's handler, as Ctrl-C, cancels the request.
        """
        if threading.current_thread() is self._thread:
            raise HardfetchError(
                "validate: it can't use the Fetcher that asks it; make another one"
            )
        box = _Box()
        seq = self._submit(frame, ident, box.put)
        try:
            answer = box.take()
        except BaseException:
            self.forget(seq)
            raise
        return _unwrap(answer)

    async def afetch(self, frame: bytes, ident: Any) -> Result:
        """Send one packed request and wait for its result without blocking the loop."""
        import asyncio  # half of the start-up, for those who need it

        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()

        def deliver(answer: Answer) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_settle, future, answer)

        seq = self._submit(frame, ident, deliver)
        try:
            answer = await future
        except asyncio.CancelledError:
            self.forget(seq)
            raise
        return _unwrap(answer)

    def submit(self, frame: bytes, deliver: Deliver) -> None:
        """Send one packed request; a thread of the client's hands its answer over.

        Raises ClosedError.
        """
        self._submit(frame, None, deliver)

    def forget(self, seq: int) -> None:
        """Cancel a request whose caller has gone."""
        self._desk.drop(seq)
        with suppress(HardfetchError):
            self.engine.cancel(seq)

    def seq_of_id(self, ident: Any) -> int | None:
        """Return the seq of a pending request by its id."""
        return self._desk.ids.get(ident)

    def close(self) -> None:
        """Give every waiting call its `shutdown` result, then free the engine."""
        if self.engine.closed:
            return
        self.stop(0.0)
        if self._gate is not None:
            self._gate.close()
        if threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_SECONDS)
        self._free()

    shutdown = close

    def _submit(self, frame: bytes, ident: Any, deliver: Deliver) -> int:
        held = ""
        if self._gate is not None:
            frame, held = self._gate.hold(frame)
        while (seq := self._desk.submit(frame, ident, deliver)) is None:
            self.engine.wait_room(_TURN)
        if held and self._gate is not None:
            self._gate.settle(seq, held)
        return seq


class _Desk:
    """Who waits for what, and the thread's work. Any thread."""

    def __init__(self, engine: _ffi.Engine, checker: Checker | None) -> None:
        self.over = False  # nothing is answered any more
        self.ids: dict[Any, int] = {}
        self._engine = engine
        self._reader = FrameReader(engine)
        self._checker = checker
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[Deliver, Any]] = {}

    def submit(self, frame: bytes, ident: Any, deliver: Deliver) -> int | None:
        """Send a request; return its seq, None while there is no room.

        Raises ClosedError.
        """
        # One lock over both steps: the result may come before submit returns.
        with self._lock:
            if self.over:
                raise ClosedError("the fetcher was closed")
            rc, _, seq = self._engine.submit(frame)
            if rc == _ffi.FULL:
                return None
            self._waiting[seq] = (deliver, ident)
            if ident is not None:
                with suppress(TypeError):
                    self.ids[ident] = seq
            return seq

    def drop(self, seq: int) -> None:
        """Forget who waits for a request."""
        with self._lock:
            self._drop(seq)

    def _drop(self, seq: int) -> Deliver | None:
        deliver, ident = self._waiting.pop(seq, (None, None))
        if ident is not None:
            with suppress(TypeError):
                self.ids.pop(ident, None)
        return deliver

    def _sift(self, results: list[Result]) -> list[tuple[int, Answer]]:
        """Return what callers get; what `validate` raises goes to the one who waits."""
        if self._checker is None:
            return [(result.seq, result) for result in results]
        answers: list[tuple[int, Answer]] = []
        for result in results:
            found = self._checker.look(result)
            if isinstance(found, BaseException):
                answers.append((result.seq, _Raised(found)))
            elif found:
                answers.append((result.seq, result))
        return answers

    def dispatch(self) -> None:
        """Hand results over until none can come. Never raises."""
        failure: EngineError = ClosedError("the fetcher was closed")
        try:
            while not self._reader.ended:
                results = self._reader.read(_TURN)
                answers = self._sift(results)
                with self._lock:
                    pairs = [(self._drop(seq), answer) for seq, answer in answers]
                for deliver, answer in pairs:
                    if deliver is not None:
                        deliver(answer)
        except EngineError as exc:
            failure = exc.with_traceback(None)  # whose frames hold the engine's memory
        except Exception as exc:  # noqa: BLE001 - whoever waits must hear of it
            failure = EngineError(f"dispatcher: {exc!r}")
            failure.__cause__ = exc
        with self._lock:
            # In one hold: what comes later is refused, what came before is in `left`.
            self.over = True
            left = [self._drop(seq) for seq in list(self._waiting)]
        for deliver in left:
            if deliver is not None:
                deliver(failure)


class _Raised:
    """What `validate` raised, on its way to who waits for the result."""

    __slots__ = ("what",)

    def __init__(self, what: BaseException) -> None:
        self.what = what


class _Box:
    """One answer on its way to the thread that waits for it.

    No SimpleQueue: a signal at the end of its time-out makes its `get` wait for ever
    (CPython 3.11), and the signals of `deadline()` come just then.
    """

    def __init__(self) -> None:
        self._full = threading.Lock()
        self._full.acquire()
        self._answer: Answer

    def put(self, answer: Answer) -> None:
        """Give the answer; once."""
        self._answer = answer
        self._full.release()

    def take(self) -> Answer:
        """Wait for the answer."""
        while True:  # in pieces only where a deadline() needs them
            left = _watch.patience()
            if self._full.acquire(timeout=-1 if left is None else left):
                return self._answer


def _unwrap(answer: Answer) -> Result:
    if isinstance(answer, _Raised):
        raise answer.what
    if isinstance(answer, EngineError):
        # Each waiting thread gets one of its own: raising writes a traceback into it.
        raise type(answer)(*answer.args) from answer
    if isinstance(answer, Exception):
        raise answer
    return answer


def _settle(future: asyncio.Future[Answer], answer: Answer) -> None:
    if not future.done():
        future.set_result(answer)
