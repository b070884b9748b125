"""The examples of deploy/ give options that exist and more time than an end takes."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from hardfetch.cli.group import cli

DRAIN = 10.0  # seconds, where --drain is not given
DEPLOY = Path(__file__).parent.parent / "deploy"
UNIT = (DEPLOY / "hardfetch@.service").read_text()
JOB = (DEPLOY / "job.yaml").read_text()
IMAGE = (DEPLOY / "Dockerfile").read_text()


def fetch_arguments(words: list[str]) -> click.Context:
    context = click.Context(cli, info_name="hardfetch")
    command = cli.get_command(context, "fetch")
    assert command is not None
    made: click.Context = command.make_context("fetch", list(words), parent=context)
    return made


def number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found is not None, pattern
    return float(found[1])


def unit_words() -> list[str]:
    command = UNIT.replace("\\\n", " ")
    found = re.search(r"(?m)^ExecStart=\S+ fetch (.*)$", command)
    assert found is not None
    return [word for word in found[1].split() if not word.startswith("$")]


def job_words() -> list[str]:
    args = JOB[JOB.index("args:") : JOB.index("env:")]
    words = re.findall(r"(?m)^\s+- (.*)$", args)
    assert words.pop(0) == "fetch"
    return [word.replace("$(JOB_COMPLETION_INDEX)", "0") for word in words]


@pytest.mark.parametrize("words", [unit_words(), job_words()], ids=["unit", "job"])
def test_the_command_is_understood(words: list[str]) -> None:
    given = fetch_arguments(words).params
    assert given["resume"]
    assert given["no_progress"]


def test_what_is_in_flight_may_end_before_it_is_killed() -> None:
    unit, job = (
        float(fetch_arguments(words).params["drain"] or DRAIN)
        for words in (unit_words(), job_words())
    )
    assert number(r"TimeoutStopSec=(\d+)", UNIT) >= unit + 15
    assert number(r"terminationGracePeriodSeconds: (\d+)", JOB) >= job + 15
    assert number(r"--stop-timeout (\d+)", IMAGE) >= unit + 15


def test_nothing_runs_as_root_or_writes_to_the_root() -> None:
    assert "ProtectSystem=strict" in UNIT
    assert "DynamicUser=yes" in UNIT
    assert "readOnlyRootFilesystem: true" in JOB
    assert "runAsNonRoot: true" in JOB
    user = number(r"(?m)^USER (\d+):", IMAGE)
    assert user == number(r"runAsUser: (\d+)", JOB) != 0
    assert "--read-only" in IMAGE
    assert 'HEALTHCHECK --interval=5m --timeout=10s CMD ["hardfetch", "doctor"' in IMAGE
