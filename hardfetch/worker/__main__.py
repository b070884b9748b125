"""`python -m hardfetch.worker`: task lines from stdin, one result line each to stdout.

Exit: 0 every line has its result, 1 workers do not start, 2 usage, 3 interrupted,
4 stdout failed (in silence when its reader went away).
"""

from __future__ import annotations

import argparse
import errno
import os
import select
import signal
import stat
import sys
from typing import TYPE_CHECKING, NoReturn

from pydantic import ValidationError

from hardfetch import jsonio
from hardfetch.cli.console import reopen_standard_files
from hardfetch.errors import OptionError
from hardfetch.worker import pool as pool_module
from hardfetch.worker.child import encode
from hardfetch.worker.models import TaskPayload, TaskResult, explain
from hardfetch.worker.pool import PoolError, WorkerPool, refused

if TYPE_CHECKING:
    from types import FrameType

_LINE_MAX = 16 << 20  # bytes of a line that are looked at
_OUTPUT_MAX = 1 << 20  # bytes that may wait for the reader before no more is taken
_READ = 1 << 16


class _Interrupted(Exception):  # noqa: N818 - not an error
    """SIGINT or SIGTERM came."""


class _Lines:
    """Lines of a descriptor that is read only when asked to."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.number = 0  # of the line given last
        self.ended = False
        self._data = bytearray()
        self._searched = 0

    def fill(self) -> None:
        """Read once. The descriptor must be readable."""
        data = os.read(self.fd, _READ)
        self._data += data
        self.ended = not data

    def next(self) -> bytes | None:
        """Return the next line that isn't blank, or None when more must be read."""
        while True:
            end = self._data.find(b"\n", self._searched)
            if end < 0 and not self.ended:
                del self._data[_LINE_MAX:]  # of a longer line; it will be no JSON
                self._searched = len(self._data)
                return None
            if not self._data:
                return None
            size = len(self._data) if end < 0 else end + 1
            line = bytes(self._data[:size])
            del self._data[:size]
            self._searched = 0
            self.number += 1
            if line.strip():
                return line.strip()


class _Output:
    """Lines that wait for a descriptor to take them."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.waiting = bytearray()
        # Of a pipe, poll only promises room for that much.
        fifo = stat.S_ISFIFO(os.fstat(fd).st_mode)
        self._piece = select.PIPE_BUF if fifo else _READ

    def put(self, result: TaskResult) -> None:
        """Add a result."""
        self.waiting += encode(result) + b"\n"

    def write(self) -> None:
        """Write some. The descriptor must be writable."""
        n = os.write(self.fd, memoryview(bytes(self.waiting[: self._piece])))
        del self.waiting[:n]


def work(pool: WorkerPool, lines: _Lines, output: _Output) -> None:
    """Run every line's task; returns when all results are written."""
    while True:
        _feed(pool, lines, output)
        wanted: dict[int, int] = {}
        hungry = pool.has_idle and len(output.waiting) < _OUTPUT_MAX
        if hungry and not lines.ended:
            wanted[lines.fd] = select.POLLIN
        if output.waiting:
            wanted[output.fd] = select.POLLOUT
        if lines.ended and not pool.busy and hungry and not output.waiting:
            return
        results, ready = pool.wait(others=wanted)
        for result in results:
            output.put(result)
        if lines.fd in ready:
            lines.fill()
        if output.fd in ready:
            output.write()


def _feed(pool: WorkerPool, lines: _Lines, output: _Output) -> None:
    while pool.has_idle and len(output.waiting) < _OUTPUT_MAX:
        line = lines.next()
        if line is None:
            return
        payload = _parse(line, lines.number)
        if isinstance(payload, TaskResult):
            output.put(payload)
            continue
        try:
            pool.give(payload)
        except jsonio.JsonEncodeError as exc:
            output.put(refused(payload, exc))


def _parse(line: bytes, number: int) -> TaskPayload | TaskResult:
    """Return the line's task, or the result that tells why it is none."""
    given: object = None
    try:
        given = jsonio.loads(line if len(line) < _LINE_MAX else b"")
        return TaskPayload.model_validate(given)
    except ValidationError as exc:
        message = f"line {number} is no task: {explain(exc)}"
    except jsonio.JsonDecodeError as exc:
        message = f"line {number} is no JSON: {exc}"
    if len(line) >= _LINE_MAX:
        message = f"line {number} is longer than {_LINE_MAX >> 20} MiB"
    ident = given.get("task_id") if isinstance(given, dict) else None
    return TaskResult(
        task_id=ident if isinstance(ident, str) else "",
        status="failed",
        message=message,
        elapsed_time=0.0,
    )


def demo() -> TaskResult:
    """Run a task of 3 s under a limit of 2 s."""
    payload = TaskPayload(
        task_id="demo", target_function="sleep", duration=3.0, timeout=2.0
    )
    with WorkerPool(1) as pool:
        return next(pool.map([payload]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hardfetch.worker",
        description="Run task lines from stdin under their limits.",
        epilog='A line: {"task_id": "1", "target_function": "sleep", "timeout": 2, '
        '"args": [3]}',
    )
    add = parser.add_argument
    add("--workers", type=int, metavar="N", help="processes; default: processors")
    add(
        "--import",
        dest="modules",
        action="append",
        default=[],
        metavar="MODULE",
        help='module whose @task("name") functions may be called; may repeat',
    )
    add(
        "--timeout",
        type=float,
        default=pool_module.TIMEOUT,
        metavar="SECONDS",
        help="for tasks that name none; default: %(default)g",
    )
    add(
        "--grace",
        type=float,
        default=pool_module.GRACE,
        metavar="SECONDS",
        help="past its limit, until a stuck worker is replaced; default: %(default)g",
    )
    add("--start-method", choices=("forkserver", "spawn"), default="forkserver")
    add("--demo", action="store_true", help="run a 3 s task under a 2 s limit")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    closed = reopen_standard_files()
    parser = _parser()
    options = parser.parse_args(arguments)
    if 1 in closed:
        return 4
    if options.demo:
        sys.stdout.buffer.write(encode(demo()) + b"\n")
        sys.stdout.flush()
        return 0
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _interrupt)
    output = _Output(1)
    try:
        with WorkerPool(
            options.workers,
            modules=options.modules,
            timeout=options.timeout,
            grace=options.grace,
            start_method=options.start_method,
        ) as pool:
            work(pool, _Lines(0), output)
    except OptionError as exc:
        parser.error(str(exc))
    except PoolError as exc:
        sys.stderr.write(f"hardfetch.worker: {exc}\n")
        return 1
    except _Interrupted:
        return 3
    except OSError as exc:
        if exc.errno != errno.EPIPE:
            sys.stderr.write(f"hardfetch.worker: {exc}\n")
        return 4
    return 0


def _interrupt(_signum: int, _frame: FrameType | None) -> NoReturn:
    raise _Interrupted


if __name__ == "__main__":
    sys.exit(main())
