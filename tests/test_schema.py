"""The schema of a record: complete, documented, and what the command prints."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import strict
from click.testing import CliRunner

from hardfetch._ffi import ffi, lib
from hardfetch.cli.group import cli
from hardfetch.options import RECORD_FIELDS
from hardfetch.schema import record_schema

ROOT = Path(__file__).parents[1]
GOOD: dict[str, Any] = {
    "schema": 1, "seq": 0, "id": None, "input": "http://a.test/",
    "url": "http://a.test/", "final_url": "http://a.test/", "method": "GET",
    "status_code": 200, "http_version": "1.1", "headers": [["A", "b"]],
    "content_type": None, "charset": "utf-8", "charset_source": "valid", "size": 2,
    "wire_size": 2, "decoded": False, "truncated": None, "redirects": [],
    "remote_ip": "127.0.0.1", "remote_port": 80, "reused": False, "proxy": None,
    "impersonate": None,
    "attempts": [
        {"n": 1, "proxy": None, "status_code": 200, "error": None, "elapsed": 0.1,
         "wait": 0.0},
    ],
    "timing": {"queue": 0.0, "dns": 0.0, "connect": 0.1, "tls": None,
               "first_byte": 0.1, "total": 0.1},
    "elapsed": 0.1,
    "limits": {"timeout": 10.0, "hard_timeout": 15.0, "deadline": None,
               "overrun": None},
    "error": None, "fetched_at": "2026-01-02T03:04:05.678Z", "meta": None,
    "body": "ok",
}  # fmt: skip


def names(of: Any) -> list[str]:
    found: list[str] = []
    while (name := of(len(found))) != ffi.NULL:
        found.append(ffi.string(name).decode())
    return found


def described(schema: dict[str, Any]) -> None:
    for name, field in schema["properties"].items():
        assert re.match(r"\S.*\.$", field["description"], re.DOTALL), name
        parts = [field, field.get("items", {}), *field.get("oneOf", ())]
        for part in parts:
            if "properties" in part:
                assert part["additionalProperties"] is False
                described(part)


def test_it_is_a_valid_schema_of_the_2020_draft() -> None:
    schema = record_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)


def test_it_has_every_field_of_the_record_and_no_other() -> None:
    schema = record_schema()
    assert set(schema["properties"]) == set(RECORD_FIELDS)
    assert schema["additionalProperties"] is False


def test_each_field_is_described() -> None:
    described(record_schema())


def test_fields_that_may_be_null_say_when() -> None:
    for name, field in record_schema()["properties"].items():
        if "null" in field.get("type", ()) or None in field.get("enum", ()):
            assert "null" in field["description"].lower(), name


def test_its_lists_are_those_of_the_core() -> None:
    error = record_schema()["properties"]["error"]["oneOf"][1]["properties"]
    assert error["type"]["enum"] == names(lib.hf_name_type)[1:]
    assert error["phase"]["enum"] == names(lib.hf_name_phase)
    assert error["origin"]["enum"] == names(lib.hf_name_origin)


def test_a_good_record_fits() -> None:
    strict.check(GOOD)


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("seq", -1), ("seq", "0"), ("status_code", 103), ("status_code", None),
        ("http_version", "1.2"), ("headers", [["A"]]), ("headers", {"A": "b"}),
        ("charset", "UTF 8"), ("charset_source", None), ("size", None),
        ("truncated", "time"), ("truncated", "other"), ("remote_port", 0),
        ("elapsed", None), ("timing", {}), ("error", {"type": "timeout"}),
        ("error", "timeout"), ("fetched_at", "2026-01-02 03:04:05"),
        ("body_base64", "b2s="), ("input_base64", "b2s="), ("extra", 1),
    ],
)  # fmt: skip
def test_a_wrong_one_does_not(change: str, value: Any) -> None:
    record = copy.deepcopy(GOOD)
    record[change] = value
    with pytest.raises(AssertionError):
        strict.check(record)


@pytest.mark.parametrize("name", [f for f in GOOD if f not in ("body", "schema")])
def test_no_field_may_be_missing(name: str) -> None:
    record = copy.deepcopy(GOOD)
    del record[name]
    with pytest.raises(AssertionError):
        strict.check(record)


@pytest.mark.parametrize(
    "line",
    [
        b'{"a":"\\ud800"}', b'{"a":1,"a":2}', b'{"a":NaN}', b'{"a":"\xff"}', b"[]",
        b'{"a":1} x',
    ],
)  # fmt: skip
def test_a_line_that_is_no_strict_json_is_refused(line: bytes) -> None:
    with pytest.raises((AssertionError, ValueError)):
        strict.parse(line)


def test_the_command_prints_it() -> None:
    result = CliRunner().invoke(cli, ["schema"])
    assert result.exit_code == 0
    assert json.loads(result.output) == record_schema()
