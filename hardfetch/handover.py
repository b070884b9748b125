"""Lines of JSON from many threads to the one that writes them: csrc/pyabi/lines.c."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hardfetch._ffi import OK, ffi, lib

if TYPE_CHECKING:
    from collections.abc import Callable

#: What the helper is called for: an object that needs a second look, waiting bytes, a
#: line after `seal`. It gets the object with the first.
ODD, LOOK, SEALED = range(3)


class Lines:
    """Functions over one buffer of lines; any thread may call them but `take`.

    write(obj) appends a record's line, put(lines) whole lines as bytes, or they are
    refused once seal() was called. look(bytes) sets how many must wait for the helper
    to be called after each line. total() is the bytes ever appended.

    take() is for one thread: a memoryview of all that waits, valid until the next
    call; None for nothing.
    """

    def __init__(
        self,
        dumps: Callable[[Any, None, Any], bytes],
        option: object,
        helper: Callable[[int, Any], None],
    ) -> None:
        """Take `jsonio.line_dumper`'s two, and who helps. Raises MemoryError."""
        made: list[Any] = [dumps, option, helper]
        # Not through cffi, which would give the interpreter's lock away in each call:
        # built-in functions are appended to the list at this address.
        if lib.hf_python_lines(ffi.cast("void *", id(made))) != OK:
            raise MemoryError
        self.write: Callable[[Any], None] = made[3]
        self.put: Callable[[bytes], None] = made[4]
        self.take: Callable[[], memoryview | None] = made[5]
        self.look: Callable[[int], None] = made[6]
        self.seal: Callable[[], None] = made[7]
        self.total: Callable[[], int] = made[8]
