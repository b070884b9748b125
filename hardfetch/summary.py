"""What a run did, in numbers: the counters of the core and what they amount to."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from hardfetch.errors import TYPE_CLASSES

__all__ = ["Stats", "Summary"]

#: Names by the core's number of an error type; 0 is "no error".
TYPE_NAMES = ("", *TYPE_CLASSES)


@dataclass(frozen=True)
class Stats:
    """A snapshot of an engine's counters. Those named *_now are momentary."""

    inputs: int = 0  # seq numbers given out
    skipped: int = 0  # of them: answered by an earlier run
    accepted: int = 0  # of them: to be answered by this run
    records: int = 0  # given to the writer, each input at most once
    dropped: int = 0  # accepted, but left unanswered by a stop
    started: int = 0  # attempts
    retries: int = 0
    redirects: int = 0
    queued_now: int = 0  # waiting for their turn
    in_flight_now: int = 0
    parked_now: int = 0  # finished, waiting for room in the ring
    policy_now: int = 0  # waiting for a verdict or for their back-off
    bytes_wire: int = 0  # of bodies, before decoding
    bytes_body: int = 0  # after decoding
    bytes_out: int = 0  # of records put into rings
    bytes_drained: int = 0  # of records taken out by the sink
    ring_used_now: int = 0  # bytes
    ring_capacity: int = 0  # bytes
    ring_full: int = 0  # times that a finished transfer had to park
    wakeups: int = 0
    lost_wakeups: int = 0  # a bug if above 0
    epoll_waits: int = 0
    epoll_ctls: int = 0
    timer_sets: int = 0
    socket_actions: int = 0
    connects: int = 0  # sockets opened
    shortages: int = 0  # attempts put off for want of descriptors or ports
    breakers: int = 0  # times that the breaker of some host opened
    stalls: int = 0  # libcurl calls longer than 200 ms
    loops_leaked: int = 0  # loops given up by the watchdog
    deadlines_fired: int = 0
    overrun_max: float = 0.0  # seconds
    stalled_call: str = ""  # the longest stalled libcurl call
    stalled: float = 0.0  # and its length in seconds
    by_class: tuple[int, ...] = (0,) * 6  # records by status class; [0]: no status
    by_type: tuple[int, ...] = ()  # records by TYPE_NAMES
    overrun: tuple[int, ...] = ()  # deadlines by overrun, in quarters of octaves of us

    @classmethod
    def of(cls, raw: Any) -> Stats:
        """Make it of a filled `hf_stats`."""
        special = {
            "overrun_max": raw.overrun_max / 1e6,
            "stalled": raw.stalled_us / 1e6,
            "stalled_call": _c_text(raw.stalled_call),
            "by_class": tuple(raw.by_class),
            "by_type": tuple(raw.by_type),
            "overrun": tuple(raw.overrun),
        }
        plain = {
            field.name: getattr(raw, field.name)
            for field in dataclasses.fields(cls)
            if field.name not in special
        }
        return cls(**plain, **special)

    def errors(self) -> dict[str, int]:
        """Return records by error type, those that occurred."""
        pairs = zip(TYPE_NAMES, self.by_type, strict=False)
        return {name: n for name, n in pairs if name and n}

    def statuses(self) -> dict[str, int]:
        """Return records by status class, those that occurred; "none" is no status."""
        names = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")
        return {k: n for k, n in zip(names, self.by_class, strict=False) if n}

    def overrun_quantile(self, share: float) -> float:
        """Return the overrun in seconds that share of the deadlines stayed under.

        Upper bounds of the histogram's buckets, so at most a quarter too high.
        """
        rank = math.ceil(share * sum(self.overrun))
        seen = 0
        for bucket, n in enumerate(self.overrun):
            seen += n
            if n and seen >= rank:
                octave, quarter = divmod(bucket, 4)
                bound = (1 << octave) * (5 + quarter) / 4e6
                return min(bound, self.overrun_max)
        return 0.0


def _c_text(raw: Any) -> str:
    return bytes(b"".join(raw)).split(b"\0", 1)[0].decode("utf-8", "replace")


@dataclass(frozen=True)
class Summary:
    """What one run did. Times are seconds, sizes bytes."""

    inputs: int
    records: int
    skipped: int  # answered by an earlier run
    dropped: int  # left without a record by an interrupt
    interrupted: bool
    statuses: dict[str, int]  # records by status class, "none" without status
    errors: dict[str, int]  # records by error type
    bytes_wire: int
    bytes_body: int
    bytes_out: int
    elapsed: float
    cpu_seconds: float  # of the whole process meanwhile
    stats: Stats
    policy: dict[str, Any] = dataclasses.field(default_factory=dict)  # Judge.report

    @classmethod
    def of(
        cls,
        stats: Stats,
        *,
        elapsed: float,
        cpu: float,
        interrupted: bool,
        policy: dict[str, Any] | None = None,
    ) -> Summary:
        """Make it of the counters at a run's end."""
        return cls(
            inputs=stats.inputs,
            records=stats.records,
            skipped=stats.skipped,
            dropped=stats.dropped,
            interrupted=interrupted,
            statuses=stats.statuses(),
            errors=stats.errors(),
            bytes_wire=stats.bytes_wire,
            bytes_body=stats.bytes_body,
            bytes_out=stats.bytes_out,
            elapsed=elapsed,
            cpu_seconds=cpu,
            stats=stats,
            policy=policy or {},
        )

    @property
    def ok(self) -> int:
        """Records without an error, whatever their status."""
        return self.records - sum(self.errors.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as JSON values.

        `--summary` writes the same, with `statuses`, `errors` and `bytes_…` under the
        names `by_status_class`, `by_error_type` and `bytes`.
        """
        stats = self.stats
        out = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name != "stats"
        }
        out["attempts"] = stats.started
        out["retries"] = stats.retries
        out["redirects"] = stats.redirects
        out["connects"] = stats.connects
        out["shortages"] = stats.shortages
        out["breakers"] = stats.breakers
        out["overrun"] = {
            "fired": stats.deadlines_fired,
            "p50": stats.overrun_quantile(0.50),
            "p99": stats.overrun_quantile(0.99),
            "max": stats.overrun_max,
        }
        out["ring"] = {
            "capacity": stats.ring_capacity,
            "full": stats.ring_full,
            "wakeups": stats.wakeups,
            "lost_wakeups": stats.lost_wakeups,
        }
        out["writer"] = {"bytes": stats.bytes_drained}
        out["loop"] = {
            name: getattr(stats, name)
            for name in ("epoll_waits", "epoll_ctls", "timer_sets", "socket_actions")
        }
        out["watchdog"] = {
            "stalls": stats.stalls,
            "loops_leaked": stats.loops_leaked,
            "longest_call": stats.stalled_call,
            "longest": stats.stalled,
        }
        return out
