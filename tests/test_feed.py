"""The feeder against an engine of the test's own, which keeps the contract."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from hardfetch import _ffi, packed
from hardfetch.feed import Feeder, Stopped, batches
from hardfetch.options import Options
from hardfetch.packed import MAX_LINE
from hardfetch.request import Packer


class PaperEngine:
    """Takes lines and frames as csrc/api.h says, `room` of them at a time."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.taken: list[tuple[str, bytes]] = []
        self.room = self.left = room
        self.waits = 0
        self.finished = False

    def submit_lines(self, data: bytes, start: int) -> tuple[int, int]:
        at = start
        while True:
            end = data.find(b"\n", at)
            if end < 0:
                return _ffi.OK, at - start
            line = data[at:end].strip(b" \t\r")
            if line.startswith(b"{"):
                return _ffi.AGAIN, at - start
            if line and not line.startswith(b"#"):
                if not self.left:
                    return _ffi.FULL, at - start
                self.left -= 1
                self.taken.append(("line", line))
            at = end + 1

    def submit(self, frames: bytes, start: int = 0) -> tuple[int, int, int]:
        at, first = start, len(self.taken)
        while at < len(frames):
            if not self.left:
                return _ffi.FULL, at - start, first
            self.left -= 1
            (size,) = struct.unpack_from("<I", frames, at)
            tag, url_size = struct.unpack_from("<BI", frames, at + 4)
            invalid = bytes([packed.TAG_INVALID]) in frames[at + 4 + 5 + url_size :][:1]
            kind = "invalid" if invalid else {1: "url", 2: "input"}[tag]
            self.taken.append((kind, frames[at + 9 : at + 9 + url_size]))
            at += 4 + size
        return _ffi.OK, at - start, first

    def wait_room(self, seconds: float) -> bool:
        assert seconds > 0
        self.waits += 1
        self.left = self.room
        return True

    def finish(self) -> None:
        self.finished = True


def make(engine: PaperEngine, stopped: Any = lambda: False) -> Feeder:
    return Feeder(engine, Packer(Options.build()), stopped)  # type: ignore[arg-type]


def fed(*chunks: bytes, engine: PaperEngine | None = None) -> list[tuple[str, bytes]]:
    engine = engine or PaperEngine()
    feeder = make(engine)
    for chunk in chunks:
        feeder.feed(chunk)
    feeder.finish()
    assert engine.finished
    return engine.taken


MIXED = (
    b"http://a/\n# comment\n\n"
    b'{"url":"http://b/"}\r\n{"url":"http://c/","id":1}\n'
    b" http://d/\r\n \t{broken\n"
    b'{"url":"http://e/"}'
)
TAKEN = [
    ("line", b"http://a/"),
    ("url", b"http://b/"),
    ("url", b"http://c/"),
    ("line", b"http://d/"),
    ("invalid", b" \t{broken"),
    ("url", b"http://e/"),
]


def test_lines_keep_their_order_whatever_their_kind() -> None:
    assert fed(MIXED) == TAKEN


def test_lines_are_the_same_at_every_cut() -> None:
    for cut in range(len(MIXED) + 1):
        assert fed(MIXED[:cut], MIXED[cut:]) == TAKEN, cut
    assert fed(*[MIXED[n : n + 1] for n in range(len(MIXED))]) == TAKEN


@pytest.mark.parametrize("room", [1, 2, 3])
def test_a_full_window_is_waited_for_and_nothing_is_lost_or_doubled(room: int) -> None:
    engine = PaperEngine(room)
    assert fed(MIXED, engine=engine) == TAKEN
    assert engine.waits > 0


def test_json_lines_go_over_in_batches() -> None:
    lines = b"".join(b'{"url":"http://x/%d"}\n' % n for n in range(1000))
    assert [url for _, url in fed(lines)] == [b"http://x/%d" % n for n in range(1000)]


def test_a_byte_order_mark_is_no_part_of_the_first_url() -> None:
    assert fed(b"\xef\xbb\xbfhttp://a/\n") == [("line", b"http://a/")]


@pytest.mark.parametrize("start", [b"http://x/", b'{"url":"http://x/'])
@pytest.mark.parametrize("size", [MAX_LINE + 1, 3 * MAX_LINE + 7])
@pytest.mark.parametrize("step", [100_000, 262_144])
def test_a_line_over_the_limit_is_one_invalid_input_in_bounded_memory(
    start: bytes, size: int, step: int
) -> None:
    data = b"http://a/\n" + start.ljust(size, b"x") + b"\nhttp://b/\n"
    engine = PaperEngine()
    feeder = make(engine)
    for at in range(0, len(data), step):
        feeder.feed(data[at : at + step])
        assert len(feeder._carry) <= MAX_LINE
    feeder.finish()
    kinds = [(kind, item[: len(start)]) for kind, item in engine.taken]
    assert kinds == [("line", b"http://a/"), ("invalid", start), ("line", b"http://b/")]
    assert len(engine.taken[1][1]) == packed.MAX_ECHO


def test_a_line_of_exactly_the_limit_is_taken() -> None:
    line = b"http://x/".ljust(MAX_LINE, b"x")
    chunks = [line[at : at + 262_144] for at in range(0, MAX_LINE, 262_144)]
    assert fed(*chunks, b"\n") == [("line", line)]


def test_an_overlong_comment_is_no_input() -> None:
    assert fed(b"#" * (2 * MAX_LINE) + b"\nhttp://a/\n") == [("line", b"http://a/")]


def test_a_stop_ends_the_feeding_even_while_the_window_is_full() -> None:
    engine = PaperEngine(room=1)
    feeder = make(engine, lambda: engine.waits > 2)
    with pytest.raises(Stopped):
        feeder.feed(b"http://x/\n" * 10)
    assert 1 <= len(engine.taken) <= 4


def test_frames_tell_the_seq_of_the_first() -> None:
    engine = PaperEngine(room=1)
    feeder = make(engine)
    packer = Packer(Options.build())
    assert feeder.frames(packer.item("http://a/")) == 0
    assert feeder.frames(packer.item("http://b/") + packer.item("http://c/")) == 1
    assert feeder.frames(b"") == -1


def test_a_list_is_given_by_many_and_an_iterator_one_by_one() -> None:
    items = [str(n) for n in range(150)]
    assert [len(batch) for batch in batches(items)] == [64, 64, 22]
    assert [x for batch in batches(tuple(items)) for x in batch] == items
    pulled: list[str] = []

    def slow() -> Iterator[str]:
        for item in items:
            pulled.append(item)
            yield item

    for n, batch in enumerate(batches(slow())):
        assert list(batch) == [items[n]]
        assert len(pulled) == n + 1  # never one ahead of what was given
