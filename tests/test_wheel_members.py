"""A wheel holds the program that was built, without its comments."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
import tooling

import hardfetch

ROOT = Path(__file__).parent.parent
SOURCE = '''\
"""The module."""
# -*- what a file may start with -*-
__all__ = ["f"]
def f(x: int) -> str:
    """Return # no comment."""
    return (  # why
        "#"   # another
        f"{x}"  #
    )
def g():
    """Not public.

    At all."""
    return 1
class _C:
    """Needed: a body is not empty."""
    def f(self):
        """Private, as its class."""
        return 2
class E(Exception):
    """All there is."""
    # at the end'''
LEFT = '''\
"""The module."""

__all__ = ["f"]
def f(x: int) -> str:
    """Return # no comment."""
    return (
        "#"
        f"{x}"
    )
def g():



    return 1
class _C:

    def f(self):

        return 2
class E(Exception):
    """All there is."""
'''


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return tooling.load("wheel_members")


def test_comments_and_inner_docstrings_are_blanked_and_every_line_stays_where_it_was(
    tool: ModuleType,
) -> None:
    source = SOURCE.encode()
    assert tool.public_names([source, b"a = 1\n"]) == {"f"}
    assert tool.lean(source, {"f"}).decode() == LEFT
    # All stay, or all but what is needed: of the module too, where nothing is public.
    assert tool.lean(source, None).count(b'"""') == source.count(b'"""')
    assert tool.lean(source, set()).count(b'"""') == 2


def test_each_file_of_the_package_is_the_same_program_without_them(
    tool: ModuleType,
) -> None:
    files = list((ROOT / "hardfetch").rglob("*.py"))
    assert len(files) > 50
    public = tool.public_names(file.read_bytes() for file in files)
    assert set(hardfetch.__all__) <= public
    for file in files:
        source = file.read_bytes()
        left = tool.lean(source, public)  # raises where it is another program
        assert left.count(b"\n") == source.count(b"\n")


def test_a_file_that_would_change_is_refused(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool.ast, "dump", id)
    with pytest.raises(ValueError, match="another program"):
        tool.lean(b"a = 1  # one\n", None)


def test_a_wheels_members_are_sorted_and_recorded_as_they_are(
    tool: ModuleType, tmp_path: Path
) -> None:
    given = {
        "p-1.dist-info/RECORD": "p/b.py,,\np/a.bin,,\np/c.json,,\np-1.dist-info/X,,\n"
        "p-1.dist-info/RECORD,,\n",
        "p-1.dist-info/X": "x",
        "p/b.py": "b = 1  # one\n",
        "p/a.bin": "#\n",
        "p/c.json": '{"a": [1,\n 2.50, "é"]}\n',
    }
    with zipfile.ZipFile(tmp_path / "p.whl", "w") as wheel:
        for name, text in given.items():
            wheel.writestr(name, text)
    with zipfile.ZipFile(tmp_path / "p.whl") as wheel:
        found = tool.members(wheel)
    assert list(found) == [
        "p/a.bin",
        "p/b.py",
        "p/c.json",
        "p-1.dist-info/X",
        "p-1.dist-info/RECORD",
    ]
    assert found["p/b.py"][0] == b"b = 1\n"
    assert found["p/a.bin"][0] == b"#\n"
    assert found["p/c.json"][0] == b'{"a":[1,2.5,"\\u00e9"]}'
    rows = list(csv.reader(io.StringIO(found["p-1.dist-info/RECORD"][0].decode())))
    for name, digest, size in rows[:-1]:
        data = found[name][0]
        want = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
        assert (digest, int(size)) == (f"sha256={want.rstrip('=')}", len(data))
    assert rows[-1] == ["p-1.dist-info/RECORD", "", ""]
