"""Pack tables of code points as csrc/cjk_tables.c unpacks them.

Most cells are a step from the cell before, up or down, counted in code points that the
table has not had yet: what follows the order of Unicode costs next to nothing. Steps
are written as sign and magnitude, bit by bit, by an adaptive binary range coder, the
way LZMA does it, so that no compression of a wheel could take out more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

_LIMIT = 0x30000  # code points; no table has one beyond
STEP, HOLE, AGAIN = range(3)


class Coder:
    """A range coder with a probability for each context that it has seen."""

    def __init__(self) -> None:
        self._low, self._range, self._size = 0, 0xFFFFFFFF, 4
        self._odds: dict[Hashable, tuple[int, int]] = {}

    def bit(self, bit: int, context: Hashable = None) -> None:
        """Write a bit: with its context's odds, or as if both were as likely."""
        zero = 2048
        if context is not None:
            fast, slow = self._odds.get(context, (32768, 32768))
            zero = fast + slow >> 5
            goal = 0 if bit else 65535
            # Both shifts round down, as unsigned numbers do in C.
            fast = fast - (fast >> 4) if bit else fast + (goal - fast >> 4)
            slow = slow - (slow >> 7) if bit else slow + (goal - slow >> 7)
            self._odds[context] = fast, slow
        bound = (self._range >> 12) * zero
        if bit:
            self._low += bound
            self._range -= bound
        else:
            self._range = bound
        while self._range < 1 << 24:
            self._range <<= 8
            self._low <<= 8
            self._size += 1

    def number(self, value: int, model: int) -> None:
        """Write a signed number: its size with its sign, then the bits below."""
        sign = int(value < 0)
        rest = abs(value) + 1 - sign  # 0 and -1 are both the shortest
        size = rest.bit_length() - 1
        kind = size << 1 | sign
        node = 1
        for shift in range(5, -1, -1):
            self.bit(kind >> shift & 1, ("size", model, node))
            node = node << 1 | kind >> shift & 1
        node = 1
        for shift in range(size - 1, -1, -1):
            one = rest >> shift & 1
            # The two bits below the top lean to a side, the others don't.
            self.bit(one, ("top", model, kind, node) if node < 4 else None)
            node = node << 1 | one

    def done(self) -> bytes:
        """Return all that was written."""
        return self._low.to_bytes(self._size, "big")


class _Used:
    """Counts the code points that were used, below any (a Fenwick tree)."""

    def __init__(self) -> None:
        self._tree = [0] * (_LIMIT + 1)

    def add(self, cp: int) -> None:
        at = cp + 1
        while at <= _LIMIT:
            self._tree[at] += 1
            at += at & -at

    def below(self, cp: int) -> int:
        total = 0
        while cp > 0:
            total += self._tree[cp]
            cp -= cp & -cp
        return total


def pack_cells(cells: Iterable[int]) -> bytes:
    """Return the packed form of a table; 0 is a cell without a code point."""
    coder, used = Coder(), _Used()
    where: dict[int, int] = {}
    last = before = copied = 0
    for i, cp in enumerate(cells):
        kind = HOLE if cp == 0 else AGAIN if cp in where else STEP
        coder.bit(int(kind != STEP), ("odd", before))
        before = kind
        if kind != STEP:
            coder.bit(int(kind == AGAIN), "again")
        if kind == AGAIN:
            coder.number(where[cp] - copied, 1)
            copied = where[cp] + 1
        elif kind == STEP:
            low, high = sorted((last, cp))
            free = high - low - 1 - (used.below(high) - used.below(low + 1))
            coder.number(free if cp > last else -free - 1, 0)
            used.add(cp)
            where[cp], last = i, cp
    return coder.done()


def as_words(packed: bytes) -> Iterable[int]:
    """Return the bytes in words of 8, the first byte of each the lowest."""
    for at in range(0, len(packed), 8):
        yield int.from_bytes(packed[at : at + 8], "little")
