"""The queue between a thread that writes and the one that drains it."""

from __future__ import annotations

from hardfetch.handover import Buffer, Queue


def taken(queue: Queue) -> bytes:
    batch: list[bytearray] = []
    size = queue.take(batch)
    out = b"".join(batch)
    assert size == len(out)
    return out


def test_a_buffer_that_was_handed_over_but_not_yet_replaced_is_taken_once() -> None:
    queue = Queue()
    queue.buffer += b"one\n"
    queue.full.append(queue.buffer)
    assert taken(queue) == b"one\n"
    assert taken(queue) == b""
    queue.buffer = Buffer()
    queue.buffer += b"two\n"
    assert taken(queue) == b"two\n"
    assert taken(queue) == b""


def test_what_was_taken_of_an_unfinished_buffer_is_not_taken_again() -> None:
    queue = Queue()
    queue.buffer += b"one\n"
    assert taken(queue) == b"one\n"
    queue.buffer += b"two\n"
    queue.full.append(queue.buffer)
    assert taken(queue) == b"two\n"
    assert taken(queue) == b""
