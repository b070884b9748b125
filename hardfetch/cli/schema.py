"""`hardfetch schema`: the record's JSON Schema."""

from __future__ import annotations

import json

import click

from hardfetch.schema import record_schema


@click.command()
def schema() -> None:
    """Print the JSON Schema of a record.

    Each field is described with its type, its unit and when it is null.
    """
    click.echo(json.dumps(record_schema(), indent=2, ensure_ascii=False))
