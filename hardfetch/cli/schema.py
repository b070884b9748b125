"""`hardfetch schema`: the record's JSON Schema."""

from __future__ import annotations

import click

from hardfetch.schema import PATH


@click.command()
def schema() -> None:
    """Print the JSON Schema of a record.

    Each field is described with its type, its unit and when it is null.
    """
    click.echo(PATH.read_text(encoding="utf-8"), nl=False)
