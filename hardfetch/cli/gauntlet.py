"""`hardfetch gauntlet`: every fault that tries a deadline, side by side with others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from hardfetch.testing.gauntlet import (
    AGAINST,
    HARDFETCH,
    TOLERANCE,
    gauntlet_faults,
    run_gauntlet,
)

if TYPE_CHECKING:
    from hardfetch.testing.gauntlet import Report, Row

_WIDE = 220  # columns, where the output is no terminal: a row must not be cut


@click.command()
@click.option(
    "--against",
    multiple=True,
    type=click.Choice(sorted(AGAINST)),
    help="Run this library's clients too.",
)
@click.option(
    "--json", "json_file", metavar="FILE", help="Write the report; - is stdout."
)
@click.option(
    "--limit",
    type=click.FloatRange(0.1, 60),
    default=1.0,
    show_default=True,
    help="Seconds that each client is asked to hold.",
)
@click.option(
    "--cap",
    type=click.FloatRange(1, 600),
    default=8.0,
    show_default=True,
    help="Seconds after which a client that has not returned is killed.",
)
@click.option("--fault", "faults", multiple=True, metavar="NAME", help="Only this one.")
def gauntlet(
    against: tuple[str, ...],
    json_file: str | None,
    limit: float,
    cap: float,
    faults: tuple[str, ...],
) -> int:
    """Run every fault that tries a deadline, and tell who holds it.

    Exit code 0 when each of hardfetch's rows ended in time with a true error.
    """
    if cap <= limit + TOLERANCE:
        raise click.UsageError(f"--cap must be above --limit + {TOLERANCE}")
    try:
        names = gauntlet_faults(faults)
    except KeyError as error:
        raise click.BadParameter(
            f"no fault is named {error.args[0]!r}; see hardfetch faultsite --list",
            param_hint="'--fault'",
        ) from None
    runs = len(names) * (1 + sum(len(AGAINST[library]) for library in against))
    screen = Console(stderr=True)
    with Progress(console=screen, disable=not screen.is_terminal) as progress:
        task = progress.add_task("faults met", total=runs)
        report = run_gauntlet(
            against=against,
            limit=limit,
            cap=cap,
            faults=faults,
            progress=lambda _row: progress.advance(task),
        )
    _write(report, json_file)
    return 0 if report.ok else 1


def _write(report: Report, json_file: str | None) -> None:
    if json_file is not None:
        text = json.dumps(report.as_dict(), indent=1) + "\n"
        if json_file == "-":
            click.echo(text, nl=False)
            return
        Path(json_file).write_text(text, encoding="utf-8")
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDE)
    console.print(_table(report))
    console.print(_verdict(report))


def _table(report: Report) -> Table:
    """One line a fault, one column a client."""
    clients = list(dict.fromkeys(row.client for row in report.rows))
    cells = {(row.fault, row.client): row for row in report.rows}
    asked = {row.limit for row in report.rows}
    title = " ".join(f"deadline asked: {limit:g} s" for limit in sorted(asked))
    table = Table(title=title, title_justify="left")
    table.add_column("fault", no_wrap=True)
    for client in clients:
        name = client if client == HARDFETCH else f"curl_cffi {client}"
        table.add_column(name, no_wrap=True)
    for fault in dict.fromkeys(row.fault for row in report.rows):
        found = [cells.get((fault, client)) for client in clients]
        table.add_row(fault, *(_cell(row) for row in found))
    return table


def _cell(row: Row | None) -> Text:
    if row is None:
        return Text("no answer", style="red")
    text = f"{row.elapsed:5.2f} s  {row.outcome}"
    # Not by colour alone: the table is read in files too.
    return Text(text, style="green") if row.ok else Text("✗ " + text, style="red")


def _verdict(report: Report) -> str:
    lines = []
    for client in dict.fromkeys(row.client for row in report.rows):
        mine = [row for row in report.rows if row.client == client]
        held = sum(row.ok for row in mine)
        lines.append(f"{client}: {held} of {len(mine)} held")
    if report.overrun["max"] is not None:
        numbers = [
            f"{name} {(v or 0) * 1000:.1f} ms" for name, v in report.overrun.items()
        ]
        lines.append("hardfetch's overrun: " + ", ".join(numbers))
    if report.descriptors:
        lines.append(
            "hardfetch's descriptors: {before} before, {after} after".format(
                **report.descriptors
            )
        )
    if report.missing:
        lines.append("not exactly one record: " + ", ".join(report.missing))
    if report.starved:
        lines.append(
            f"the machine was starved: a timer was {report.late:.2f} s late,"
            " and so may the rows be; run it again where nothing else runs"
        )
    return "\n".join(lines)
