"""`hardfetch fetch`: from options to a Fetcher, and from its end to an exit code."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import time
from pathlib import Path
from typing import Any

import click

from hardfetch import profiles, values
from hardfetch.cli import console, exits, limits
from hardfetch.cli.fetch_options import fetch_options
from hardfetch.cli.interrupts import Interrupts
from hardfetch.cli.progress import Progress, Snapshot
from hardfetch.cli.sources import SourceError, Sources
from hardfetch.cli.summary import SummaryFile, proxies_up, summary_text, worst_hosts
from hardfetch.cli.units import format_size
from hardfetch.errors import EngineError, OptionError, SinkError
from hardfetch.fetcher import Fetcher
from hardfetch.resume import missing_fields
from hardfetch.sinks import status_of
from hardfetch.summary import Summary

_STDIN, _STDOUT = 0, 1
_DATA_MOST = 256 << 20  # bytes of a body, which every request holds in memory
_READ = 64 << 10  # bytes of input at a time; the estimate of the total is no finer


@click.command()
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@fetch_options
@click.pass_context
def fetch(ctx: click.Context, /, sources: tuple[str, ...], **given: Any) -> int:
    """Fetch URLs and write one NDJSON record for each.

    SOURCE is a URL, a file of lines (.gz and .zst too), or - for stdin, which is also
    the default. A line is a URL or a JSON object; blank lines and those that start with
    # are passed over. An object has a url and any of id, meta, method, headers, body,
    body_base64, proxy, session, fresh, impersonate, http_version, timeout,
    hard_timeout, connect_timeout, first_byte_timeout, idle_timeout and deadline.

    TIME is seconds, or 300ms, 2m, 1h. SIZE is bytes, or 300k, 16M, 2G.
    """
    if given["impersonate"] == "list":
        click.echo("\n".join(profiles.names()))
        return exits.OK
    command = _Command(ctx, sources, given)
    try:
        return command.run()
    except OptionError as error:
        raise _usage_error(ctx, error) from None
    except SourceError as error:
        raise click.BadParameter(str(error), ctx, param_hint="SOURCE") from None
    except SinkError as error:
        if error.errno != errno.EPIPE:
            console.say(f"hardfetch: {_io_text(error)}", patience=1.0)
        return exits.SINK
    except OSError as error:  # a source that could be opened and not be read to its end
        done = f"; what came before has its {command.records:,} records"
        text = _io_text(error) + (done if command.records else "")
        console.say(f"hardfetch: {text}", patience=1.0)
        return exits.FAILED
    except EngineError as error:
        console.say(f"hardfetch: {error}", patience=1.0)
        return exits.FAILED


def _io_text(error: OSError) -> str:
    reason = error.strerror or str(error)
    name = values.masked(str(error.filename or ""))
    return f"{name}: {reason}" if name else reason


def _usage_error(ctx: click.Context, error: OptionError) -> click.UsageError:
    """Name the option in the way of the command line: its message starts with it."""
    name, colon, rest = str(error).partition(": ")
    name = "output" if name == "sink" else name
    for param in ctx.command.params:
        if colon and param.name == name:
            return click.BadParameter(rest, ctx, param)
    return click.UsageError(str(error), ctx)


def _part_of_data(text: str) -> bytes:
    """Return what one -d stands for. Raises OptionError for a file it can't read."""
    if not text.startswith("@"):
        return text.encode("utf-8", "surrogateescape")
    try:
        return values.read_file(Path(text[1:]), _DATA_MOST)
    except OSError as error:
        name = values.masked(repr(text[1:]))
        reason = f"data: {name} can't be read: {error.strerror}"
        raise OptionError(reason) from None


class _Command:
    """One call of `hardfetch fetch`."""

    def __init__(
        self, ctx: click.Context, sources: tuple[str, ...], given: dict[str, Any]
    ) -> None:
        self._ctx = ctx
        self._names = sources
        self._output: str = given.pop("output")
        self._summary: str | None = given.pop("summary")
        self._quiet: bool = given.pop("quiet")
        self._resume = bool(given.pop("resume"))
        self._shows_progress = not (given.pop("no_progress") or self._quiet)
        self.records = 0  # written when a source broke off
        self._options = {k: v for k, v in given.items() if v is not None and v != ()}

    def run(self) -> int:
        """Fetch everything and return the exit code."""
        self._read_data()
        drain = self._drain()
        closed = self._ctx.obj or ()
        if self._output == "-" and _STDOUT in closed:
            raise SinkError(errno.EBADF, "stdout is closed")
        if _STDIN in closed and "-" in (self._names or "-"):
            raise SourceError("'-' can't be read: stdin is closed")
        with Sources(self._names) as sources, Fetcher(**self._options) as fetcher:
            self._refuse_own_files(sources)
            with SummaryFile(self._summary) as report:
                self._prepare_descriptors(fetcher)
                self._warn(fetcher)
                with Interrupts(
                    sources, fetcher, drain, reloads="proxy_file" in self._options
                ) as interrupts:
                    summary = self._fetch(sources, fetcher, report)
                report.write(summary)
        if not self._quiet:
            console.say(summary_text(summary), patience=1.0)
        return exits.INTERRUPTED if interrupts.count else exits.OK

    def _warn(self, fetcher: Fetcher) -> None:
        """Say what an option fails to do, and what is lost of an earlier output."""
        status = None if self._output == "-" else status_of(self._output)
        regular = status is None or stat.S_ISREG(status.st_mode)
        if self._quiet:
            return
        if fetcher.options.allow_net and not fetcher.options.deny_private:
            console.say("hardfetch: --allow-net does nothing without --deny-private")
        if self._output == "-" or not regular:
            return
        if status is not None and status.st_size and not self._resume:
            size = format_size(status.st_size)
            console.say(
                f"hardfetch: {self._output}: emptied of the {size} that it held; "
                "with --resume a run goes on from its own records"
            )
        lacking = missing_fields(fetcher.options)
        if lacking:
            console.say(
                f"hardfetch: no --resume from {self._output}: its records will lack "
                + " and ".join(lacking)
            )

    def _fetch(
        self, sources: Sources, fetcher: Fetcher, report: SummaryFile
    ) -> Summary:
        began, cpu = time.monotonic(), time.process_time()
        try:
            return self._run(sources, fetcher)
        except OSError as error:
            stats = fetcher.stats()
            if not isinstance(error, SinkError):
                self.records = stats.records
            with contextlib.suppress(OSError):  # the first error is the one to tell
                report.write(
                    Summary.of(
                        stats,
                        elapsed=time.monotonic() - began,
                        cpu=time.process_time() - cpu,
                        interrupted=False,
                    )
                )
            raise

    def _run(self, sources: Sources, fetcher: Fetcher) -> Summary:
        if not self._names and not self._quiet and console.reads_terminal():
            console.say("hardfetch: reading URLs from the terminal; Ctrl-D ends them")
        sink: int | str = _STDOUT if self._output == "-" else self._output
        lines = io.BufferedReader(sources, _READ)
        if not self._shows_progress:
            return fetcher.run(lines, sink, resume=self._resume)

        def look() -> Snapshot | None:
            return _snapshot(fetcher, sources)

        with Progress(look):
            return fetcher.run(lines, sink, resume=self._resume)

    def _read_data(self) -> None:
        if "data" in self._options:
            self._options["data"] = b"&".join(map(_part_of_data, self._options["data"]))

    def _drain(self) -> float:
        asked = self._options.get("drain", "10")
        if asked in ("0", "0s"):
            self._options.pop("drain")
            return 0.0
        return values.seconds("drain", asked)

    def _refuse_own_files(self, sources: Sources) -> None:
        output = status_of(_STDOUT if self._output == "-" else self._output)
        if output is not None and sources.holds(output):
            raise OptionError("output: this file is also a SOURCE")
        if self._summary in (None, "-"):
            return
        # By its path as well: neither may be there yet.
        same = os.path.realpath(str(self._summary)) == os.path.realpath(self._output)
        summary = status_of(self._summary)
        if summary is not None and stat.S_ISREG(summary.st_mode):
            if sources.holds(summary):
                raise OptionError("summary: this file is also a SOURCE")
            same = same or (output is not None and os.path.samestat(summary, output))
        elif summary is not None:
            return
        if same:
            raise OptionError("summary: this file is also the output")

    def _prepare_descriptors(self, fetcher: Fetcher) -> None:
        needed = limits.descriptors_needed(fetcher.options.max_concurrency)
        limit = limits.raise_descriptor_limit(needed)
        if not limits.allows(limit, needed) and not self._quiet:
            console.say(
                f"hardfetch: {needed} descriptors may be needed, {limit} are allowed; "
                "raise `ulimit -n` or lower --max-concurrency (see hardfetch doctor)"
            )


def _snapshot(fetcher: Fetcher, sources: Sources) -> Snapshot | None:
    stats, health = fetcher.stats(), fetcher.health()
    return Snapshot(
        inputs=stats.inputs,
        records=stats.records,
        errors=sum(stats.by_type[1:]),
        retries=stats.retries,
        in_flight=stats.in_flight_now,
        waiting=stats.queued_now + stats.policy_now,
        ring=stats.ring_used_now / max(1, stats.ring_capacity),
        read=sources.position,
        size=sources.size,
        complete=sources.ended,
        proxies=proxies_up(health),
        worst=next(iter(worst_hosts(health, 1)), ""),
    )
