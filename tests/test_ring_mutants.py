"""Broken copies of the ring: each must be caught, and by whom is told.

The explorer (``tests/c/test_ring_proof.c``) weakens the memory orders by itself. Here
the code is broken: a look left out, a step taken too early, a wake-up forgotten. Run as
a program, it prints the kill list and fails when a mutant survives.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from mutating import edited, kill_all, tell

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "c"
RING = ROOT / "csrc" / "ring.c"
CC = os.environ.get("CC", "cc")
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", f"-I{ROOT / 'csrc'}", f"-I{TESTS}")
LIMIT = 120.0  # seconds for one program; a mutant may also hang

EXPLORER = "explorer"
STATES = "states"  # the tests of single-threaded states are enough


@dataclass(frozen=True)
class Mutant:
    """A change to ring.c: each old text stands there once and becomes the new one."""

    name: str
    edits: tuple[tuple[str, str], ...]
    caught_by: str = EXPLORER

    def source(self) -> str:
        """The broken ring.c. Raises ValueError when an old text is not there once."""
        text = RING.read_text()
        return edited(self.name, text, self.edits)


def _one(name: str, old: str, new: str, caught_by: str = EXPLORER) -> Mutant:
    return Mutant(name, ((old, new),), caught_by)


PUSH_LOOP = """\
    for (int i = 0; i < n; i++) {
        put(r, pos, parts[i].iov_base, parts[i].iov_len);
        pos += parts[i].iov_len;
    }
"""
READ_SLOTS = """\
    hf_get(slots, seg[0].iov_base, first);
    if (want > first)
        hf_get((uint8_t *)slots + first, seg[1].iov_base, want - first);
"""
PUT_REF = "    hf_put(&r->refs[r->ref_pushed % HF_RING_REFS], &ref, sizeof ref);\n"
COUNT_REF = "    r->ref_bytes += len;\n    r->ref_pushed++;\n"
MOVE_PAST_BYTES = "    move_tail(r, total, total);\n"
MOVE_PAST_REF = "    move_tail(r, 1, len);\n"
STORE_REF_TAIL = "    hf_store(&r->ref_tail, r->ref_pushed, HF_RELEASE);\n"
LOAD_TAIL = "    uint64_t tail = hf_load(&r->tail, HF_ACQUIRE);\n"
LOAD_REF_TAIL = "    r->ref_seen = (uint32_t)hf_load(&r->ref_tail, HF_ACQUIRE);\n"
TAKE_REF = "        take_back_refs(r);\n"
IF_CLOSED = "    if (!r->ended && hf_load(&r->closed, HF_ACQUIRE))\n"
WANT_ROOM = "    hf_store(&r->waiting, 1, HF_SEQ_CST);\n"
LOOK_AT_HEAD = "    uint64_t head = hf_load(&r->head, HF_SEQ_CST);\n"
STORE_HEAD = "    hf_store(&r->head, r->head_pos, HF_SEQ_CST);\n"
WAIT = "int rc = any_ready(rings, n) ? 0 : hf_wake_wait(w, timeout);"
NOTIFY = "    hf_wake_notify(r->consumer_wake);\n    r->told_pos"

MUTANTS = (
    _one("no look after sleeping=1", WAIT, "int rc = hf_wake_wait(w, timeout);"),
    _one(
        "look before sleeping=1",
        f"hf_wake_prepare(w);\n    {WAIT}",
        "bool ready = any_ready(rings, n);\n    hf_wake_prepare(w);\n"
        "    int rc = ready ? 0 : hf_wake_wait(w, timeout);",
    ),
    _one(
        "only the first ring is looked at",
        "i < n; i++)\n        if (hf_ring_ready",
        "i < 1; i++)\n        if (hf_ring_ready",
    ),
    _one(
        "the end is not looked for",
        " ||\n           hf_load(&r->closed, HF_SEQ_CST)",
        "",
    ),
    _one("no wake-up for data", NOTIFY, "    r->told_pos"),
    _one(
        "the flag is taken, nothing written",
        "hf_xchg(&w->sleeping, 0, HF_SEQ_CST))\n        hf_wake_kick(w);",
        "hf_xchg(&w->sleeping, 0, HF_SEQ_CST))\n        return;",
    ),
    _one(
        "no wake-up for the end",
        "HF_SEQ_CST);\n    if (r->consumer_wake)\n"
        "        hf_wake_notify(r->consumer_wake);",
        "HF_SEQ_CST);",
    ),
    _one(
        "announced before the flag is looked at",
        NOTIFY,
        "    hf_store(&r->announced, r->tail_pos, HF_RELEASE);\n" + NOTIFY,
    ),
    _one(
        "a wake-up under way counts as lost",
        "if (hf_wake_cancel(w) && overdue)",
        "hf_wake_cancel(w);\n    if (overdue)",
    ),
    _one(
        "the eventfd is not emptied",
        "if (read(w->fd, &count, sizeof count) == (ssize_t)sizeof count)",
        "(void)count;",
    ),
    Mutant(
        "tail published before the bytes",
        ((MOVE_PAST_BYTES, ""), (PUSH_LOOP, MOVE_PAST_BYTES + PUSH_LOOP)),
    ),
    _one(
        "slots read after the head has moved",
        READ_SLOTS + "    hf_ring_advance(&s->ring, want);\n",
        "    hf_ring_advance(&s->ring, want);\n" + READ_SLOTS,
    ),
    _one(
        "one byte more than there is room",
        "    if (free_as_seen(r) >= n)\n        return true;",
        "    if (free_as_seen(r) + 1 >= n)\n        return true;",
    ),
    _one(
        "the second part at the wrap starts over",
        "hf_put(r->data, from + first, n - first)",
        "hf_put(r->data, from, n - first)",
    ),
    _one(
        "the wrap is one byte early",
        "r->capacity - at < n ? r->capacity - at : n;\n    if (first)",
        "r->capacity - at < n ? r->capacity - at - 1 : n;\n    if (first)",
    ),
    _one(
        "reference written after it is published",
        PUT_REF + COUNT_REF,
        COUNT_REF
        + STORE_REF_TAIL
        + PUT_REF.replace("r->ref_pushed", "(r->ref_pushed - 1)"),
    ),
    Mutant(
        "tail published before the reference",
        ((MOVE_PAST_REF, ""), (STORE_REF_TAIL, MOVE_PAST_REF + STORE_REF_TAIL)),
    ),
    Mutant(
        "references counted before the tail is loaded",
        ((LOAD_REF_TAIL, ""), (LOAD_TAIL, LOAD_REF_TAIL + LOAD_TAIL)),
    ),
    _one(
        "bytes read over a reference",
        "        n = (size_t)(ref.pos - r->head_pos);\n",
        "        (void)n;\n",
    ),
    _one(
        "a slot is ours before it is read",
        "if ((int64_t)(r->head_seen - ref.pos) <= 0)",
        "if ((int64_t)(r->head_seen - ref.pos) < 0)",
    ),
    _one("slots of references have no bound", " || waiting == HF_RING_REFS)", ")"),
    _one("a reference leaks", "    free(ref.heap);\n", ""),
    _one(
        "a reference is freed at its first part",
        "    if (r->ref_off < ref.len)\n        return;\n",
        "",
    ),
    _one("references are never taken back", TAKE_REF, ""),
    _one("no look after waiting=1", LOOK_AT_HEAD, "    return 0;\n" + LOOK_AT_HEAD),
    Mutant(
        "look before waiting=1",
        ((WANT_ROOM, ""), (LOOK_AT_HEAD, LOOK_AT_HEAD + WANT_ROOM)),
    ),
    _one("no wake-up for room", STORE_HEAD + "    tell_producer(r);\n", STORE_HEAD),
    _one(
        "wake-up for room before there is any",
        STORE_HEAD + "    tell_producer(r);\n",
        "    tell_producer(r);\n" + STORE_HEAD,
    ),
    _one(
        "no wake-up when the consumer goes",
        "HF_SEQ_CST);\n    tell_producer(r);\n}\n\nuint64_t",
        "HF_SEQ_CST);\n}\n\nuint64_t",
    ),
    _one(
        "the consumer's going is not looked for",
        "    if (hf_load(&r->abandoned, HF_SEQ_CST))\n        return HF_EPIPE;\n",
        "",
    ),
    _one(
        "the end is told with data unread",
        "r->ended = hf_load(&r->tail, HF_RELAXED) == r->head_pos;",
        "r->ended = true;",
    ),
    _one(
        "the last tail is loaded before the end",
        IF_CLOSED + "        r->ended = hf_load(&r->tail, HF_RELAXED) == r->head_pos;",
        "    uint64_t tail = hf_load(&r->tail, HF_RELAXED);\n"
        + IF_CLOSED
        + "        r->ended = tail == r->head_pos;",
    ),
    # want_room reloads the head as well, so only the count of refusals shows this one.
    _one(
        "the copy of the head is never renewed",
        "    r->head_seen = hf_load(&r->head, HF_ACQUIRE);\n"
        "    return free_as_seen(r) >= n;",
        "    return false;",
        STATES,
    ),
    _one(
        "the sleeping flag is left up",
        "return hf_xchg(&w->sleeping, 0, HF_RELAXED) == 1;",
        "return hf_load(&w->sleeping, HF_RELAXED) == 1;",
        STATES,
    ),
    _one(
        "bytes of references have no bound",
        "return waiting == 0 || (len <= most && r->ref_bytes <= most - len);",
        "return most > 0;",
        STATES,
    ),
)


def _build(source: Path, program: Path, *parts: Path | str) -> None:
    command = [CC, *FLAGS, "-o", str(program), str(source), *map(str, parts)]
    subprocess.run([*command, "-pthread"], check=True, capture_output=True, text=True)


def _run(program: Path, *args: str) -> str:
    """Why the program failed, as its first line; "" when it did not."""
    command = [str(program), *args]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return "hangs"
    if done.returncode == 0:
        return ""
    lines = (done.stderr + done.stdout).splitlines()
    told = [line for line in lines if ": " in line and not line.startswith(" ")]
    return told[0] if told else f"exit {done.returncode}"


def build_explorer(folder: Path) -> tuple[Path, ...]:
    """Compiles what all mutants share. Returns the object files."""
    made = []
    for source in (*sorted((TESTS / "explore").glob("*.c")), ROOT / "csrc" / "err.c"):
        made.append(folder / f"{source.stem}.o")
        subprocess.run([CC, *FLAGS, "-c", str(source), "-o", str(made[-1])], check=True)
    return tuple(made)


def kill(mutant: Mutant, shared: tuple[Path, ...], folder: Path) -> str:
    """How the mutant was caught, "" when it survived."""
    place = Path(tempfile.mkdtemp(dir=folder))
    ring = place / "ring.c"
    ring.write_text(mutant.source())
    program = place / "program"
    if mutant.caught_by == EXPLORER:
        _build(TESTS / "test_ring_proof.c", program, f'-DRING_C="{ring}"', *shared)
        return _run(program, "cases")
    for name in ("test_ring", "test_ring_wake"):
        _build(TESTS / f"{name}.c", program, ring, ROOT / "csrc" / "err.c")
        if why := _run(program):
            return why
    return ""


@pytest.mark.skipif(shutil.which(CC) is None, reason="needs a C compiler")
def test_every_broken_ring_is_caught() -> None:
    """No mutant survives what is there to catch it."""
    assert [
        name for name, how in kill_all(MUTANTS, build_explorer, kill).items() if not how
    ] == []


if __name__ == "__main__":
    sys.exit(tell(kill_all(MUTANTS, build_explorer, kill)))
