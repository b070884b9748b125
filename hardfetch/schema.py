"""The JSON Schema of a record (record.schema.json), which `hardfetch schema` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("record.schema.json")
"""The schema's file: JSON Schema 2020-12."""


def record_schema() -> dict[str, Any]:
    """Return the schema of one record, each field with its type, unit and null rule."""
    schema: dict[str, Any] = json.loads(PATH.read_bytes())
    return schema


def partial_schema() -> dict[str, Any]:
    """Return the schema of a record of which only some fields were asked for."""
    schema = record_schema()
    for name in ("required", "allOf"):
        del schema[name]
    return schema
