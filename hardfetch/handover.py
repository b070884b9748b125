"""Lines from many threads to one, without a lock: one queue for each that writes."""

from __future__ import annotations

from collections import deque

BATCH = 8 << 20  # bytes that are taken at once, about


class Buffer(bytearray):
    """Whole lines of one thread. `taken` is the writer's: bytes that it has had."""

    __slots__ = ("taken",)

    def __init__(self) -> None:
        super().__init__()
        self.taken = 0


class Queue:
    """What one thread has written and the writer has not yet taken."""

    __slots__ = ("buffer", "full", "look_at", "put")

    def __init__(self) -> None:
        self.buffer = Buffer()  # the one that is being filled
        self.full: deque[Buffer] = deque()  # those before it
        self.put = 0  # bytes ever handed over
        self.look_at = 0  # the size of the buffer at which its thread looks around

    def total(self) -> int:
        """Return the bytes ever appended; a moment's error does no harm."""
        return self.put + len(self.buffer)

    def take(self, batch: list[bytearray]) -> int:
        """Append what waits to batch, in order; return its bytes. Thread: the writer.

        The thread that fills puts a buffer among the full ones before it begins the
        next: so a new one is not looked at while there are old ones. In between the
        full one is still the buffer as well: `taken` tells that it was had.
        """
        size = 0
        while True:
            while self.full and size < BATCH:
                whole = self.full.popleft()
                taken, whole.taken = whole.taken, len(whole)
                if whole.taken > taken:
                    batch.append(whole[taken:] if taken else whole)
                    size += whole.taken - taken
            buffer = self.buffer
            if not self.full:
                break
            if size >= BATCH:
                return size
        count = len(buffer)
        if count > buffer.taken:
            batch.append(buffer[buffer.taken : count])
            size += count - buffer.taken
            buffer.taken = count
        return size
