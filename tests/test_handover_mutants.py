"""Broken copies of the hand-over: the explorer of states must catch each.

``tests/c/test_handover_proof.c`` runs the engine itself, all interleavings of small
cases. Here the protocol is broken in one place at a time, and the case that is named
must fail. Run as a program, it prints the kill list and fails when a mutant survives.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from mutating import edited, kill_all, tell

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
TESTS = ROOT / "tests" / "c"
HANDOVER = TESTS / "handover"
CC = os.environ.get("CC", "cc")
FLAGS = ("-std=c11", "-D_GNU_SOURCE", f"-I{CSRC}", f"-I{TESTS}")
STEPPED = ("-O2", "-DHF_EXPLORE", "-include", str(HANDOVER / "steps.h"))
LIMIT = 300.0  # seconds for one program

PARKS = "two for a ring of one"
ORDER = "two parked"
TURNS = "one at a time"
FED = "a window of one"
UNREAD = "failures that nobody reads"
STOPPED = "a stop that lets finish"
DIES = "the writer dies"
TAKEN = "taken over in any call"
TAKEN_FULL = "taken over with a full ring"
HANGS = "closed while a call hangs"


@dataclass(frozen=True)
class Mutant:
    """A change to a file of csrc/: each old text stands there once.

    `case` names the one that catches it.
    """

    name: str
    file: str
    case: str
    edits: tuple[tuple[str, str], ...]

    def source(self) -> str:
        """The broken file. Raises ValueError when an old text is not there once."""
        text = (CSRC / self.file).read_text()
        return edited(self.name, text, self.edits)


def _one(name: str, file: str, case: str, old: str, new: str) -> Mutant:
    return Mutant(name, file, case, ((old, new),))


COUNT = "    s->answered++;\n"
CLAIMED = "    if (!hf_request_claim(r)) {\n"
MAY_SLEEP = "    return s->parked.first == NULL || hf_ring_want_room(&s->ring) != 1;\n"
PREPARE = "    hf_wake_prepare(&s->wake);\n"
WAITS = "    bool waits = hf_inbox_waits(&s->inbox, s->stop_at);\n"
WAKE_OUTPUT = "            hf_wake_notify(&sh->output); /* it may be the end */\n"
COUNT_DOWN = (
    "        hf_add(&sh->outstanding, (uint64_t)0 - s->answered, HF_SEQ_CST);\n"
)
LOOK_AT_RINGS = """\
    for (int i = 0; i < o->n; i++) {
        if (hf_ring_used(o->rings[i]) > 0) {
            return false;
        }
    }
"""
LOOK_AT_COUNT = """\
    if (hf_load(o->finished, HF_SEQ_CST) == 0 ||
        hf_load(&o->shared->outstanding, HF_SEQ_CST) != 0) {
        return false;
    }
"""
FINISHED = "    hf_store(&e->finished, 1, HF_SEQ_CST);\n"
TELL_FINISHED = "    hf_wake_notify(&e->shared.output);\n"

MUTANTS = (
    Mutant(
        "answered before the record is out",
        "shard_report.c",
        PARKS,
        ((COUNT, ""), (CLAIMED, COUNT + CLAIMED)),
    ),
    _one(
        "parks and does not ask for room",
        "loop.c",
        PARKS,
        MAY_SLEEP,
        "    return true;\n",
    ),
    _one(
        "asks for room and does not look again",
        "loop.c",
        PARKS,
        MAY_SLEEP,
        MAY_SLEEP.replace("!= 1", "!= 2"),
    ),
    _one(
        "admission goes on while one is parked",
        "shard_admit.c",
        TURNS,
        "!s->stopping && s->parked.first == NULL &&",
        "!s->stopping &&",
    ),
    _one(
        "a record overtakes those that are parked",
        "shard_report.c",
        ORDER,
        "if (s->parked.first == NULL && emit(s, r, now))",
        "if (emit(s, r, now))",
    ),
    _one(
        "one that still does not fit goes to the end",
        "shard_report.c",
        ORDER,
        "            park(s, r, true);\n",
        "            park(s, r, false);\n",
    ),
    _one(
        "what is parked is tried without end",
        "shard_report.c",
        UNREAD,
        " : 0) + 1;",
        " : 0);",
    ),
    _one(
        "what is parked is never tried again",
        "loop.c",
        PARKS,
        "    hf_shard_unpark(l->shard, l->now);\n",
        "",
    ),
    Mutant(
        "the end: rings before what is outstanding",
        "output.c",
        PARKS,
        (
            (LOOK_AT_COUNT, ""),
            (LOOK_AT_RINGS, LOOK_AT_RINGS + LOOK_AT_COUNT),
        ),
    ),
    _one(
        "the end: rings are not looked at",
        "output.c",
        PARKS,
        LOOK_AT_RINGS + "    return true;",
        "    return true;",
    ),
    _one(
        "the end: inputs that are still to come",
        "output.c",
        FED,
        "hf_load(o->finished, HF_SEQ_CST) == 0 ||",
        "",
    ),
    _one(
        "the end: outstanding before finished",
        "output.c",
        FED,
        LOOK_AT_COUNT,
        "    if (hf_load(&o->shared->outstanding, HF_SEQ_CST) != 0 ||\n"
        "        hf_load(o->finished, HF_SEQ_CST) == 0) {\n"
        "        return false;\n    }\n",
    ),
    _one(
        "the end is not looked for before sleep",
        "output.c",
        PARKS,
        "    return at_end(o);\n",
        "    return false;\n",
    ),
    _one(
        "the last answer does not wake the writer",
        "shard.c",
        PARKS,
        WAKE_OUTPUT,
        "",
    ),
    Mutant(
        "the writer is woken before the count goes down",
        "shard.c",
        PARKS,
        (
            (WAKE_OUTPUT, ""),
            (COUNT_DOWN, "        hf_wake_notify(&sh->output);\n" + COUNT_DOWN),
        ),
    ),
    _one("finish does not wake the writer", "feed.c", PARKS, TELL_FINISHED, ""),
    Mutant(
        "finish wakes the writer first",
        "feed.c",
        PARKS,
        ((TELL_FINISHED, ""), (FINISHED, TELL_FINISHED + FINISHED)),
    ),
    _one(
        "records are not announced",
        "shard.c",
        PARKS,
        "    hf_ring_wake_consumer(&s->ring);\n",
        "",
    ),
    _one(
        "inputs do not wake their loop",
        "shard.c",
        FED,
        "        hf_inbox_submit(&s->inbox, list);\n"
        "        hf_wake_notify(&s->wake);\n",
        "        hf_inbox_submit(&s->inbox, list);\n",
    ),
    Mutant(
        "the loop looks before it says that it sleeps",
        "loop.c",
        FED,
        ((PREPARE, ""), (WAITS, WAITS + PREPARE)),
    ),
    _one(
        "the feeder is not told of room",
        "shard.c",
        FED,
        "        hf_wake_notify(&sh->room);\n",
        "",
    ),
    Mutant(
        "the feeder looks before it says that it sleeps",
        "feed.c",
        FED,
        (
            (
                "    hf_wake_prepare(w);\n    rc = low(e) ? 0",
                "    bool room = low(e);\n    hf_wake_prepare(w);\n    rc = room ? 0",
            ),
        ),
    ),
    _one(
        "a stop lets the end be told at once",
        "engine.c",
        STOPPED,
        "    hf_wake_kick(&e->shared.room);\n    return hf_engine_finish(e);",
        "    hf_store(&e->shared.outstanding, 0, HF_SEQ_CST);\n"
        "    return hf_engine_finish(e);",
    ),
    _one(
        "close does not wake the writer",
        "engine.c",
        HANGS,
        "            hf_engine_interrupt(e);\n",
        "",
    ),
    _one(
        "an interrupt is told before it stands",
        "engine.c",
        HANGS,
        "    hf_store(&e->output.interrupted, 1, HF_RELEASE);\n",
        "    hf_wake_kick(&e->shared.output);\n"
        "    hf_store(&e->output.interrupted, 1, HF_RELEASE);\n"
        "    if (e != NULL) {\n        return;\n    }\n",
    ),
    _one(
        "close ends loops and does not wake them",
        "loop.c",
        DIES,
        "    hf_wake_kick(&l->shard->wake);\n",
        "",
    ),
    _one(
        "close does not wait for the watchdog",
        "watchdog.c",
        DIES,
        "    pthread_join(w->thread, NULL);\n",
        "",
    ),
    _one(
        "an engine is freed under a loop that hangs",
        "engine.c",
        HANGS,
        "    if (hf_watchdog_reap(&e->watchdog)) {\n        free_engine(e);\n"
        "    } else {",
        "    hf_watchdog_reap(&e->watchdog);\n    if (e != NULL) {\n"
        "        free_engine(e);\n    } else {",
    ),
    _one(
        "a shard is taken without a look",
        "heart.h",
        TAKEN,
        "    return hf_cas(&h->state, &in, HF_HEART_LOST, HF_ACQ_REL, HF_ACQUIRE);",
        "    (void)in;\n    hf_store(&h->state, HF_HEART_LOST, HF_RELEASE);\n"
        "    return true;",
    ),
    _one(
        "a loop comes back without a look",
        "heart.h",
        TAKEN,
        "    return hf_cas(&h->state, &in, HF_HEART_OUT, HF_ACQ_REL, HF_ACQUIRE);",
        "    (void)in;\n    hf_store(&h->state, HF_HEART_OUT, HF_RELEASE);\n"
        "    return true;",
    ),
    _one(
        "the watchdog takes what it has only looked at",
        "watchdog.c",
        TAKEN,
        "    if (!hf_heart_take(&old->heart)) {\n        return;",
        "    if (hf_load(&old->heart.state, HF_ACQUIRE) != HF_HEART_IN) {\n"
        "        return;",
    ),
    _one(
        "a loop that lost its shard goes on",
        "loop.c",
        TAKEN,
        "    l->lost = !hf_heart_leave(&l->heart);\n    read_clock(l, 0);",
        "    hf_heart_leave(&l->heart);\n    read_clock(l, 0);",
    ),
    _one(
        "one that lost its shard ends its request",
        "attempt.c",
        TAKEN,
        "    if (!call_remove(l, t)) {\n        return;\n    }\n    if (hf_",
        "    call_remove(l, t);\n    if (hf_",
    ),
    _one(
        "one that lost its shard publishes",
        "loop.c",
        TAKEN_FULL,
        "    if (!l->lost) {\n        hf_poller_reconcile(&l->poller);",
        "    if (l->quit == 0) {\n        hf_poller_reconcile(&l->poller);",
    ),
    _one(
        "a callback writes into what is lost",
        "transfer_parts.h",
        TAKEN_FULL,
        "        if (!hf_heart_leave(&(t)->identity->loop->heart)) { \\\n"
        "            return lost;                                    \\\n"
        "        }                                                   \\\n",
        "        hf_heart_leave(&(t)->identity->loop->heart);        \\\n"
        "        if (false) {                                        \\\n"
        "            return lost;                                    \\\n"
        "        }                                                   \\\n",
    ),
    _one(
        "what was lost gets no record",
        "watchdog.c",
        TAKEN,
        "    while ((r = s->running.first) != NULL) {",
        "    while ((r = s->running.first) != NULL && stopped) {",
    ),
    _one(
        "nobody goes on with a shard that was taken",
        "watchdog.c",
        TAKEN_FULL,
        "    if (hf_loop_start(fresh, none) != 0) {\n        hf_loop_free(fresh);",
        "    if (fresh != NULL) {\n        hf_loop_free(fresh);",
    ),
)


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def _stepped() -> tuple[str, ...]:
    """The files that tests/c/CMakeLists.txt builds with steps in them."""
    text = (TESTS / "CMakeLists.txt").read_text()
    found = re.search(r"foreach\(name IN ITEMS (attempt [^)]*)\)", text)
    assert found is not None
    return tuple(found[1].split())


def _compile(source: Path, to: Path, *flags: str) -> Path:
    _run([CC, *FLAGS, *flags, "-c", str(source), "-o", str(to)])
    return to


@dataclass(frozen=True)
class Parts:
    """Object files by name: those with steps, and an archive of all the others."""

    stepped: dict[str, Path]
    around: tuple[Path, ...]
    archive: Path


def build(folder: Path) -> Parts:
    """Compiles what all mutants share."""
    names = _stepped()
    others = [
        p
        for p in sorted(CSRC.glob("*.c"))
        if p.stem not in names and p.stem != "cffi_prelude"
    ]
    own = [*sorted(HANDOVER.glob("*.c")), TESTS / "test_handover_proof.c"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        plain = pool.map(
            lambda p: _compile(p, folder / f"plain_{p.stem}.o", "-O0"), others
        )
        around = pool.map(
            lambda p: _compile(p, folder / f"own_{p.stem}.o", *STEPPED), own
        )
        stepped = pool.map(
            lambda n: _compile(CSRC / f"{n}.c", folder / f"{n}.o", *STEPPED), names
        )
        archive = folder / "rest.a"
        _run(["ar", "rcs", str(archive), *map(str, plain)])
        return Parts(dict(zip(names, stepped, strict=True)), tuple(around), archive)


def link(parts: Parts, program: Path, changed: dict[str, Path]) -> None:
    """Links a program in which some of the files are changed ones."""
    wrapped = (HANDOVER / "wrapped.txt").read_text().split()
    objects = {**parts.stepped, **changed}
    _run(
        [
            *(CC, "-o", str(program)),
            *map(str, (*parts.around, *objects.values(), parts.archive)),
            *(f"-Wl,--wrap={name}" for name in wrapped),
            *("-pthread", "-ldl", "-lm"),
        ]
    )


def why(program: Path, case: str) -> str:
    """Why the case fails, "" when it does not."""
    try:
        done = subprocess.run(
            [str(program), case],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "hangs"
    if done.returncode == 0:
        return ""
    told = [line for line in done.stdout.splitlines() if line.startswith(case + ": ")]
    return told[0] if told else f"exit {done.returncode}"


def kill(mutant: Mutant, parts: Parts, folder: Path) -> str:
    """How the mutant was caught, "" when it survived."""
    place = Path(tempfile.mkdtemp(dir=folder))
    broken = place / mutant.file
    broken.write_text(mutant.source())
    changed = {}
    if broken.suffix == ".h":
        # Its include guard keeps the whole one out.
        flags = (*STEPPED, "-include", str(broken))
        for name in ("attempt", "connect", "identity", "lane", "loop", "transfer"):
            changed[name] = _compile(CSRC / f"{name}.c", place / f"{name}.o", *flags)
        name = "watchdog"
        changed[name] = _compile(CSRC / f"{name}.c", place / f"{name}.o", *flags)
    else:
        changed[broken.stem] = _compile(broken, place / "broken.o", *STEPPED)
    program = place / "program"
    link(parts, program, changed)
    return why(program, mutant.case)


@pytest.mark.skipif(shutil.which(CC) is None, reason="needs a C compiler")
def test_every_broken_handover_is_caught() -> None:
    """No mutant survives the case that is there to catch it."""
    assert [
        name for name, how in kill_all(MUTANTS, build, kill).items() if not how
    ] == []


if __name__ == "__main__":
    sys.exit(tell(kill_all(MUTANTS, build, kill)))
