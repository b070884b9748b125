"""What goes into a wheel when it is packed anew, made of what a build put there.

Comments stay behind in the source distribution: they are some percent of a wheel. Their
lines are empty here, so that a traceback's line numbers are those of the source.
"""

from __future__ import annotations

import ast
import base64
import csv
import hashlib
import io
import tokenize
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import zipfile


def members(wheel: zipfile.ZipFile) -> dict[str, tuple[bytes, bool]]:
    """Return what goes in, in order: each file's bytes, and whether it may be run."""
    found = {}
    infos = [info for info in wheel.infolist() if not info.is_dir()]
    for info in sorted(infos, key=_order):
        data, name = wheel.read(info), info.filename
        if name.endswith(".py"):
            data = without_comments(data)
        if _is_record(name):
            data = _record(data, found)
        found[name] = data, bool(info.external_attr >> 16 & 0o100)
    return found


def _order(info: zipfile.ZipInfo) -> tuple[bool, bool, str]:
    """Metadata comes last, as the format recommends, and RECORD at the very end."""
    folder = info.filename.partition("/")[0]
    return folder.endswith(".dist-info"), _is_record(info.filename), info.filename


def _is_record(name: str) -> bool:
    return name.endswith(".dist-info/RECORD")


def without_comments(source: bytes) -> bytes:
    """Return a Python file with its comments blanked, every line where it was.

    Raises ValueError when that would change what the file says.
    """
    text = source.decode()
    lines = text.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    left = "\n".join(lines)
    if ast.dump(ast.parse(left)) != ast.dump(ast.parse(text)):
        raise ValueError("it is another program without its comments")
    return left.encode()


def _record(old: bytes, found: dict[str, tuple[bytes, bool]]) -> bytes:
    """Return RECORD with the digests and sizes of what was found."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for name, *_ in csv.reader(io.StringIO(old.decode())):
        if _is_record(name):
            writer.writerow([name, "", ""])
            continue
        data = found[name][0]
        digest = hashlib.sha256(data).digest()
        text = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        writer.writerow([name, f"sha256={text}", len(data)])
    return out.getvalue().encode()
