"""csrc/pace.c decides as hardfetch.hosts does, which the simulator runs."""

from __future__ import annotations

import math
import os
import random
import re
import shlex
import subprocess
import sysconfig
from dataclasses import replace
from pathlib import Path
from typing import Any

import cffi
import pytest

from hardfetch.classify import ORIGINS, TYPES, type_number
from hardfetch.hosts import Admission, Hosts
from hardfetch.limits import Limits, LimitTable

CSRC = Path(__file__).parent.parent / "csrc"
HOST = "site:80"
EVENTS = 400
CLOSE = 3  # us by which the two may differ: C counts in whole ones
TICK = 15_625  # us, 1/64 s: multiples are exact as floats, so sums and orders are too

ENDS: list[tuple[str, str, int]] = [
    *[("", "site", status) for status in (200, 200, 200, 200, 304, 404, 500)],
    *[("", "site", status) for status in (429, 503)],
    *[(name, "site", 0) for name in TYPES[1:] if not name.startswith("proxy_")],
    *[(name, "proxy", 0) for name in ("proxy_timeout", "tls_error", "proxy_auth")],
    *[(name, "local", 0) for name in ("cancelled", "deadline", "hard_timeout")],
]
USUAL = len([end for end in ENDS if not end[0]])


@pytest.fixture(scope="module")
def ffi() -> Any:
    made = cffi.FFI()
    api = (CSRC / "api.h").read_text()
    limits = re.search(
        r"typedef struct hf_host_limits \{.*?\} hf_host_limits;", api, 16
    )
    assert limits is not None
    header = re.sub(r"(?m)^#.*\n", "", (CSRC / "pace.h").read_text())
    made.cdef(limits[0] + header)
    return made


@pytest.fixture(scope="module")
def lib(ffi: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("pace") / "pace.so"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC"))
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared"]
    sources = [str(CSRC / "pace.c"), "-o", str(path)]
    subprocess.run([*compiler, *flags, *sources], check=True)
    return ffi.dlopen(str(path))


class Dice(random.Random):
    """The source of jitter, which both sides are given alike."""

    bits = 0

    def random(self) -> float:
        return (self.bits >> 11) / (1 << 53)


class Twins:
    """One host on both sides; times in us."""

    def __init__(self, ffi: Any, lib: Any, limits: Limits, seed: int) -> None:
        self.lib, self.dice, self.until = lib, Dice(), ffi.new("int64_t *")
        # In flight is counted elsewhere: in schedule.c.
        table = LimitTable(replace(limits, max_per_host=0))
        self.hosts = Hosts(table, rng=self.dice)
        self.row = ffi.new(
            "hf_host_limits *",
            {
                "rate": limits.rate,
                "delay": round(limits.delay * 1e6),
                "jitter": limits.jitter,
                "adaptive": limits.adaptive,
                "breaker_failures": limits.breaker_failures,
                "breaker_open": round(limits.breaker_open * 1e6),
            },
        )
        self.pace = ffi.new("hf_pace *")
        self.end = ffi.new("hf_pace_end *")
        lib.hf_pace_init(self.pace, self.row)
        self.rng = random.Random(seed)
        self.now = 64 * TICK
        self.flying: list[tuple[int, Admission, Any]] = []

    @property
    def seconds(self) -> float:
        return self.now / 1e6

    def ask(self) -> int:
        """Ask both, start where they let; returns when to ask again."""
        self.dice.bits = self.rng.getrandbits(64)
        answer = self.lib.hf_pace_ask(self.pace, self.now, self.until)
        until = self.until[0]
        said = self.hosts.admit(HOST, self.seconds)
        assert ("go", "wait", "refuse")[answer] == said.answer
        if said.answer == "go":
            grant = self.lib.hf_pace_start(self.pace, 1, self.dice.bits, self.now)
            assert (grant.probe, grant.limited) == (said.probe, said.limited)
            self.flying.append((self.now, said, grant))
            return self.now
        if said.answer == "refuse":
            return int(self.pace.open_until)
        if math.isinf(said.until):
            assert until == (1 << 63) - 1
            return self.now
        assert abs(until - said.until * 1e6) <= CLOSE
        return int(until)

    def land(self) -> int:
        if not self.flying:
            return self.now
        started, said, grant = self.flying.pop(self.rng.randrange(len(self.flying)))
        bad = self.rng.random() < 0.4
        error, origin, status = ENDS[self.rng.randrange(len(ENDS) if bad else USUAL)]
        elapsed, via = self.now - started, self.rng.random() < 0.5
        self.hosts.finish(
            HOST, said, self.seconds, error=error, origin=origin, status=status,
            elapsed=elapsed / 1e6, via_proxy=via,
        )  # fmt: skip
        e = self.end
        e.type, e.origin = type_number(error), ORIGINS.index(origin)
        e.status, e.elapsed, e.via_proxy = status, elapsed, via
        self.lib.hf_pace_finish(self.pace, grant, e, self.now)
        return self.now

    def close(self) -> int:
        until = self.now + self.rng.choice([0, TICK, 500_000, 5_000_000])
        self.hosts.close_gate(HOST, until / 1e6, self.seconds)
        self.lib.hf_pace_close_gate(self.pace, until, self.now)
        return self.now

    def delay(self) -> int:
        delay = self.rng.choice([0, 0, 100_000, 1_000_000])
        self.hosts.set_delay(HOST, delay / 1e6, self.seconds)
        self.pace.host_delay = delay
        return self.now

    def compare(self) -> None:
        state, c = self.hosts._hosts[HOST], self.pace
        assert c.streak == state.streak
        assert c.requests == state.requests
        assert (c.probing, c.held) == (state.probing, state.held)
        for name in ("gate_until", "open_until"):
            mine, theirs = getattr(c, name), getattr(state, name)
            assert (mine == 0) == (theirs == 0), name
            assert abs(mine - theirs * 1e6) <= CLOSE, name
        if state.adaptive is not None:
            assert c.adaptive.rate == pytest.approx(state.adaptive.rate, rel=1e-6)

    def play(self) -> None:
        acts = [self.ask] * 4 + [self.land] * 3
        for _ in range(EVENTS):
            act = self.rng.choice(acts) if self.rng.random() < 0.97 else self.close
            if self.rng.random() < 0.01:
                act = self.delay
            again = act()
            if self.hosts._hosts:
                self.compare()
            jump = again > self.now and self.rng.random() < 0.5
            # Past the moment, on which the two need not agree to the microsecond.
            self.now = (again + CLOSE) // TICK * TICK + TICK if jump else self.now
            self.now += TICK * self.rng.choice([0, 0, 1, 13, 192])


LIMITS = {
    "plain": Limits(breaker_failures=3, breaker_open=2.0),
    "no breaker": Limits(breaker_failures=0),
    "rate": Limits(rate=7.0, breaker_failures=4, breaker_open=1.0),
    "delay": Limits(delay=0.3, jitter=0.5, rate=5.0),
    "adaptive": Limits(adaptive=True, breaker_failures=6, breaker_open=3.0),
    "adaptive below": Limits(adaptive=True, rate=3.0, delay=0.01, jitter=1.0),
}


@pytest.mark.parametrize("name", LIMITS)
def test_the_two_decide_alike_whatever_happens(ffi: Any, lib: Any, name: str) -> None:
    for seed in range(60):
        Twins(ffi, lib, LIMITS[name], seed).play()


def test_a_start_that_is_taken_back_leaves_no_trace(ffi: Any, lib: Any) -> None:
    limits = Limits(rate=2.0, breaker_failures=1, breaker_open=1.0)
    twins = Twins(ffi, lib, limits, 1)
    pace, until = twins.pace, ffi.new("int64_t *")
    pace.open_until = twins.now  # half open: the next one is the probe
    pace.held = True
    before = bytes(ffi.buffer(pace))
    assert lib.hf_pace_ask(pace, twins.now, until) == lib.HF_PACE_GO
    grant = lib.hf_pace_start(pace, 1, 1, twins.now)
    assert grant.probe
    assert bytes(ffi.buffer(pace)) != before
    lib.hf_pace_take_back(pace, grant)
    assert bytes(ffi.buffer(pace)) == before
