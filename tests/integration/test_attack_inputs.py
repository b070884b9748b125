"""Hostile inputs and options: one bad one is one record or one OptionError, no more."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import strict

import hardfetch
from hardfetch.options import _CHECKS
from hardfetch.testing import FaultSite

LIMIT = 60  # seconds for any one command
DIGITS = "9" * 400
TIMES = ("timeout", "hard_timeout", "deadline", "connect_timeout", "idle_timeout")


class Broken:
    """Whatever is asked of it fails."""

    def __repr__(self) -> str:
        raise ValueError("no text")

    def __iter__(self) -> Iterator[str]:
        raise TypeError("no items")

    def __float__(self) -> float:
        raise ArithmeticError("no number")


HOSTILE: tuple[Any, ...] = (
    math.nan, math.inf, True, 10**400, -(10**400), 10**5000, 2**64, -1, 1e300, b"5",
    bytearray(b"5"), "", "nan", "9" * 400, "9" * 400 + "G", "9" * 5000, "1e400", "5\0",
    "\ud800", "\0", "x" * 100_000, [None], [[]], {"a": None}, {1: 2}, [("a",)],
    [("A", "\ud800")], ["no colon"], object(), Broken(), 1j, Path("/nope"),
    "http://user:secret@h:1/x",
)  # fmt: skip


@pytest.mark.parametrize("name", sorted(_CHECKS))
def test_no_value_of_an_option_raises_anything_but_an_option_error(name: str) -> None:
    for value in HOSTILE:
        try:
            hardfetch.Fetcher(**{name: value})
        except hardfetch.OptionError as error:
            text = str(error)
            text.encode()
            assert name[:4] in text  # proxies may be told as proxy
            assert "secret" not in text


@pytest.mark.parametrize("name", TIMES)
def test_an_integer_that_is_no_float_is_one_invalid_request(
    site: FaultSite, tmp_path: Path, name: str
) -> None:
    url = site.url("/1k")
    lines = [url, f'{{"url":"{url}","{name}":{DIGITS}}}', url]
    source, sink = tmp_path / "in", tmp_path / "out"
    source.write_text("\n".join(lines))
    command = [sys.executable, "-m", "hardfetch", "fetch", "-q", str(source)]
    done = subprocess.run(
        [*command, "-o", str(sink)], capture_output=True, timeout=LIMIT, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    records = sorted(strict.read(sink.read_bytes()), key=lambda r: int(r["seq"]))
    assert [r["seq"] for r in records] == [0, 1, 2]
    assert records[1]["error"]["type"] == "invalid_request"
    assert name in records[1]["error"]["message"]
    assert [records[n]["status_code"] for n in (0, 2)] == [200, 200]


@pytest.mark.parametrize(
    "odd",
    [
        {"timeout": 10**400},
        {"id": 10**5000},
        {"meta": {"a": 10**5000}},
        {"headers": Broken()},
        {"headers": [("A B", "c")]},
    ],
)
def test_a_bad_item_does_not_cost_those_behind_it(
    site: FaultSite, odd: dict[str, Any]
) -> None:
    url = site.url("/1k")
    inputs: list[Any] = [url, {"url": url, **odd}, Broken(), url]
    with hardfetch.Fetcher() as fetcher:
        results = list(fetcher.map(inputs))
    by_seq = {result.seq: result for result in results}
    assert [by_seq[n].status_code for n in (0, 3)] == [200, 200]
    for n in (1, 2):
        error = by_seq[n].error
        assert error is not None
        assert error.type == "invalid_request"


def test_a_call_with_a_huge_limit_raises_an_option_error(site: FaultSite) -> None:
    with pytest.raises(hardfetch.OptionError, match="timeout"):
        hardfetch.fetch(site.url("/1k"), timeout=10**400)


@pytest.mark.parametrize(
    "odd",
    [
        {"proxy": "http//user:secret@127.0.0.1:1"},
        {"proxy": "user:secret@127.0.0.1:99999"},
        {"headers": {"Authorization Bearer secret": ""}},
        {"headers": ["Authorization Bearer secret"]},
        {"headers": {"Authorization": "Bearer secret\n"}},
        {"url": "http//user:secret@h/"},
        {"url": "http://user:secret@h:99999/"},
        {"url": "http://user:secret@h h/"},
        {"url": "//user:secret@h/"},
    ],
)
def test_no_message_and_no_echo_tells_a_credential(
    site: FaultSite, odd: dict[str, Any]
) -> None:
    line = json.dumps({"url": site.url("/1k"), **odd})
    done = subprocess.run(
        [sys.executable, "-m", "hardfetch", "fetch", "--summary", "-"],
        input=line.encode(),
        capture_output=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0
    (record,) = strict.read(done.stdout)
    assert record["error"]["type"] == "invalid_request"
    assert b"secret" not in done.stdout
    assert b"secret" not in done.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("-H", "Authorization Bearer secret"),
        ("-H", "Authorization Bearer secret: x"),
        ("--proxy", "http//user:secret@127.0.0.1:1"),
        ("--timeout", "http://user:secret@h"),
        ("--resolve", "http://user:secret@h"),
        ("--dns-server", "user:secret@h"),
        ("--impersonate", "http://user:secret@h"),
    ],
)
def test_a_wrong_option_is_not_told_with_its_credential(
    site: FaultSite, options: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hardfetch", "fetch", site.url("/1k"), *options],
        capture_output=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 2
    assert b"secret" not in done.stdout + done.stderr
