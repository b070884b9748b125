"""Output read as strictly as its promise: valid UTF-8 and JSON that fits the schema."""

from __future__ import annotations

import base64
import json
from typing import Any

import jsonschema

from hardfetch.schema import partial_schema, record_schema

_WHOLE = jsonschema.Draft202012Validator(record_schema())
_PARTIAL = jsonschema.Draft202012Validator(partial_schema())


def check(record: dict[str, Any]) -> None:
    """Hold a record against the schema; one without `schema` has chosen fields only."""
    validator = _WHOLE if "schema" in record else _PARTIAL
    for error in validator.iter_errors(record):
        raise AssertionError(f"{error.json_path}: {error.message}\n{record}")


def _strictly(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    assert len(set(names)) == len(names), f"a key stands twice: {names}"
    return dict(pairs)


def _no_constant(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


def parse(line: bytes) -> dict[str, Any]:
    """Read one line as JSON: UTF-8, no lone surrogate, no key twice, no NaN."""
    text = line.decode("utf-8")
    record = json.loads(text, object_pairs_hook=_strictly, parse_constant=_no_constant)
    json.dumps(record, ensure_ascii=False).encode("utf-8")  # fails on lone surrogates
    assert isinstance(record, dict)
    return record


def read(data: bytes) -> list[dict[str, Any]]:
    """Read all lines of an output, each of which must fit the schema."""
    assert data == b"" or data.endswith(b"\n"), "the last line is torn"
    found = [parse(line) for line in data.split(b"\n")[:-1]]
    for record in found:
        check(record)
    return found


def body(record: dict[str, Any]) -> bytes | None:
    """The body as the bytes of its text or of its base64; None without one."""
    if "body_base64" in record:
        return base64.b64decode(record["body_base64"], validate=True)
    text: str | None = record.get("body")
    return None if text is None else text.encode()
