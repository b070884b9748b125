"""What a run did, as JSON for programs and as text for people."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

from hardfetch import jsonio, values
from hardfetch.cli import console
from hardfetch.cli.units import format_count, format_rate, format_size, format_time
from hardfetch.errors import OptionError, SinkError

if TYPE_CHECKING:
    from types import TracebackType

    from hardfetch.summary import Stats, Summary


class SummaryFile:
    """The file of --summary: opened before the run, written after it.

    So a path that can't be written is told before anything is fetched.
    """

    def __init__(self, path: str | None) -> None:
        """Take a path; None for no summary, "-" for stderr."""
        self._path = path
        self._fd = -1

    def __enter__(self) -> SummaryFile:
        """Open the file; what it holds stays until `write`.

        Raises:
            OptionError: it can't be opened for writing.
        """
        if self._path not in (None, "-"):
            try:
                self._fd = os.open(
                    str(self._path), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666
                )
            except OSError as error:
                name = values.masked(repr(self._path))
                reason = f"summary: {name} can't be written: {error.strerror}"
                raise OptionError(reason) from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)

    def write(self, summary: Summary) -> None:
        """Write the summary in place of what the file held.

        Raises:
            SinkError: the file can't take it.
        """
        if self._path is None:
            return
        data = jsonio.dumps(summary_dict(summary)) + b"\n"
        if self._path == "-":
            console.say(data.decode().rstrip(), patience=1.0)
            return
        try:
            if stat.S_ISREG(os.fstat(self._fd).st_mode):
                os.ftruncate(self._fd, 0)
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            raise SinkError(error.errno, f"{self._path}: {error.strerror}") from None


def summary_dict(summary: Summary) -> dict[str, Any]:
    """Return what --summary writes: times in seconds, sizes in bytes."""
    out = summary.to_dict()
    out["by_status_class"] = out.pop("statuses")
    out["by_error_type"] = out.pop("errors")
    out["bytes"] = {name: out.pop(f"bytes_{name}") for name in ("wire", "body", "out")}
    return out


def summary_text(summary: Summary) -> str:
    """Return some lines for people."""
    lines = [_headline(summary)]
    if summary.statuses:
        lines.append(f"status     {_counts(summary.statuses)}")
    if summary.errors:
        lines.append(f"errors     {_counts(summary.errors)}")
    lines += [_effort(summary.stats), *_policy(summary.policy, summary.stats.breakers)]
    lines += [_bytes(summary), _cpu(summary)]
    if summary.stats.deadlines_fired:
        lines.append(_overrun(summary.stats))
    return "\n".join(lines)


def _headline(summary: Summary) -> str:
    rate = summary.records / summary.elapsed if summary.elapsed > 0 else 0.0
    records, inputs = format_count(summary.records), format_count(summary.inputs)
    text = f"{records} records of {inputs} inputs in {format_time(summary.elapsed)}"
    text += f", {format_rate(rate)}"
    if summary.skipped:
        text += f", {format_count(summary.skipped)} answered before"
    if summary.dropped:
        text += f", {format_count(summary.dropped)} left without a record"
    return text


def _effort(stats: Stats) -> str:
    counts = {
        "started": stats.started,
        "retries": stats.retries,
        "redirects": stats.redirects,
        "connections": stats.connects,
    }
    return f"attempts   {', '.join(f'{n:,} {name}' for name, n in counts.items())}"


def proxies_up(health: dict[str, Any]) -> tuple[int, int] | None:
    """Return how many proxies are up, and all; None without a pool."""
    proxies = health.get("proxies") or []
    up = sum(line["state"] == "up" for line in proxies)
    return (up, len(proxies)) if proxies else None


def worst_hosts(health: dict[str, Any], count: int = 3) -> list[str]:
    """Return the hosts that failed most, in words."""
    lines = (health.get("hosts") or [])[:count]
    return [
        f"{line['host']} {format_count(line['failures'])} failed, last {line['last']}"
        for line in lines
    ]


def _policy(health: dict[str, Any], breakers: int) -> list[str]:
    """Return lines on retries, proxies and hosts, where there is something to tell."""
    lines = []
    told = []
    if health.get("wasted"):
        told.append(f"{format_time(health['wasted'])} of attempts that were repeated")
    if health.get("gates"):
        told.append(f"hosts asked to wait {format_count(health['gates'])} times")
    if health.get("denied"):
        told.append(f"denied for {_counts(health['denied'])}")
    if told:
        lines.append(f"retries    {', '.join(told)}")
    up = proxies_up(health)
    if up is not None:
        bad = [_proxy(p) for p in health["proxies"][:3] if p["failures"]]
        text = f"{up[0]} of {up[1]} up"
        lines.append(f"proxies    {text}; worst {'; '.join(bad) if bad else 'none'}")
    hosts = worst_hosts(health)
    if hosts:
        rested = f", breakers opened {format_count(breakers)} times" if breakers else ""
        lines.append(f"hosts      worst {'; '.join(hosts)}{rested}")
    return lines


def _proxy(line: dict[str, Any]) -> str:
    text = f"{line['proxy']} {line['state']}, {format_count(line['failures'])} failed"
    return f"{text}, {format_time(line['wasted'])} lost"


def _bytes(summary: Summary) -> str:
    wire, body = format_size(summary.bytes_wire), format_size(summary.bytes_body)
    out = format_size(summary.bytes_out)
    return f"bytes      {wire} received, {body} decoded, {out} of records"


def _cpu(summary: Summary) -> str:
    text = f"CPU        {format_time(summary.cpu_seconds)}"
    if summary.records:
        each = summary.cpu_seconds / summary.records * 1e6
        text += f", {each:,.0f} us a record"
    return text


def _overrun(stats: Stats) -> str:
    p50 = format_time(stats.overrun_quantile(0.5))
    p99 = format_time(stats.overrun_quantile(0.99))
    worst = format_time(stats.overrun_max)
    count = format_count(stats.deadlines_fired)
    return f"overrun    p50 {p50}, p99 {p99}, max {worst} over {count} limits reached"


def _counts(counts: dict[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name} {format_count(count)}" for name, count in ordered)
