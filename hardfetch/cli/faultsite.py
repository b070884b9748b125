"""`hardfetch faultsite`: healthy pages and every fault, on loopback."""

from __future__ import annotations

import click

from hardfetch.testing.serve import fault_table, run_faultsite


@click.command()
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Loopback address."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Port of the page server; 0 takes a free one.",
)
@click.option(
    "--linger",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds after which an idle or hanging connection is dropped.",
)
@click.option("--list", "list_faults", is_flag=True, help="List the faults and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print every address as JSON.")
def faultsite(
    host: str, port: int, linger: float, *, list_faults: bool, as_json: bool
) -> None:
    """Serve healthy pages and every fault until a signal comes.

    GET / of the page server lists the pages. A fault that begins after a request is
    at /fault/NAME; all have a port of their own, which --json prints.
    """
    if list_faults:
        click.echo(fault_table(), nl=False)
        return
    try:
        run_faultsite(host, port, linger=linger, as_json=as_json, say=_say)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"can't serve: {error}") from error


def _say(text: str) -> None:
    click.echo(text, nl=False)
