"""Lines on stderr that never hold a run up.

Whoever reads our stderr may have stopped reading. sys.stderr would then block inside
write(), and at exit the interpreter would wait for its lock; so lines go straight to
the descriptor, and only when it can take them.
"""

from __future__ import annotations

import os
import select
import sys
import time

_STDERR = 2
_ATOMIC = 4096  # PIPE_BUF: a pipe that polls writable takes this much without blocking


def say(text: str, *, patience: float = 0.0) -> bool:
    """Write text and a newline to stderr, waiting up to patience seconds for room.

    Returns whether all of it was written. A closed or full stderr is no error.
    """
    data = (text + "\n").encode("utf-8", "backslashreplace")
    end = time.monotonic() + patience
    poller = select.poll()
    poller.register(_STDERR, select.POLLOUT)
    try:
        while data:
            left = max(0.0, end - time.monotonic())
            if not any(bits & select.POLLOUT for _, bits in poller.poll(left * 1000)):
                return False
            data = data[os.write(_STDERR, data[:_ATOMIC]) :]
    except OSError:
        return False
    return True


def is_terminal() -> bool:
    """Tell whether stderr is a terminal that can redraw a line."""
    try:
        return os.isatty(_STDERR) and os.environ.get("TERM", "dumb") != "dumb"
    except OSError:
        return False


def reads_terminal() -> bool:
    """Tell whether stdin is a terminal, where a person would have to type."""
    try:
        return os.isatty(0)
    except OSError:
        return False


def reopen_standard_files() -> list[int]:
    """Put /dev/null in place of each closed descriptor 0 to 2, and name those.

    Else the next file or socket opened would become our stdout, and records would be
    written into it.
    """
    closed = []
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest free number is taken, which is fd: those below are open.
            os.open(os.devnull, os.O_RDWR)
            closed.append(fd)
    # What is None is stdout to click, and records would meet its messages there.
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w")
    return closed
