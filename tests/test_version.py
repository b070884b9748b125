"""The version stands in one place, and what names a version names that one."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

import hardfetch
from hardfetch.cli.group import cli

ROOT = Path(__file__).parent.parent


def test_the_changelog_has_a_dated_entry_for_this_version_below_what_is_to_come() -> (
    None
):
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"(?m)^## (.*)$", text)
    assert headings[0] == "[Unreleased]"
    assert re.fullmatch(
        rf"\[{re.escape(hardfetch.__version__)}\] - \d{{4}}-\d\d-\d\d", headings[1]
    )


def test_the_examples_of_deployment_name_this_version() -> None:
    named = re.findall(
        r"image: \S*/hardfetch:(\S+)", (ROOT / "deploy/job.yaml").read_text()
    )
    assert named == [hardfetch.__version__]


def test_the_command_line_prints_ours_curl_cffis_and_libcurls() -> None:
    lines = CliRunner().invoke(cli, ["--version"]).output.splitlines()
    assert lines[0] == f"hardfetch {hardfetch.__version__}"
    assert re.fullmatch(r"curl_cffi \d+\.\d+\S*", lines[1])
    assert re.match(r"libcurl \S*\d+\.\d+", lines[2])
