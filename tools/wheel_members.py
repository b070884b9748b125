"""What goes into a wheel when it is packed anew, made of what a build put there.

What is written for those who work on the sources stays behind in the source
distribution, since it is a tenth of a wheel: comments, and docstrings of what no
`__all__` names. Their lines are empty here, so that a traceback's line numbers are
those of the source. Commands keep theirs: click prints them. JSON loses its layout.
"""

from __future__ import annotations

import ast
import base64
import csv
import hashlib
import io
import json
import tokenize
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterable, Iterator


def members(wheel: zipfile.ZipFile) -> dict[str, tuple[bytes, bool]]:
    """Return what goes in, in order: each file's bytes, and whether it may be run."""
    found = {}
    infos = [info for info in wheel.infolist() if not info.is_dir()]
    sources = [info for info in infos if info.filename.endswith(".py")]
    public = public_names(wheel.read(info) for info in sources)
    for info in sorted(infos, key=_order):
        data, name = wheel.read(info), info.filename
        if info in sources:
            data = lean(data, None if "/cli/" in name else public)
        if name.endswith(".json"):
            data = json.dumps(json.loads(data), separators=(",", ":")).encode()
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


def public_names(sources: Iterable[bytes]) -> set[str]:
    """Return what the `__all__` of any module names."""
    found: set[str] = set()
    for source in sources:
        for node in ast.parse(source).body:
            if isinstance(node, ast.Assign) and "__all__" in map(_name, node.targets):
                found.update(ast.literal_eval(node.value))
    return found


def _name(node: ast.AST) -> str:
    return str(getattr(node, "id", "") or getattr(node, "name", ""))


def lean(source: bytes, public: set[str] | None) -> bytes:
    """Return a Python file without comments and docstrings of what is not public.

    Every line stays where it was. None for `public` leaves all docstrings. Raises
    ValueError when that would be another program.
    """
    text = source.decode()
    lines = text.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    tree = ast.parse(text)
    inside = [] if public is None else list(_inside(tree, public))
    for node in inside:
        docstring = node.body.pop(0)
        first, last = docstring.lineno, docstring.end_lineno or docstring.lineno
        lines[first - 1 : last] = [""] * (last - first + 1)
    left = "\n".join(lines)
    if ast.dump(ast.parse(left)) != ast.dump(tree):
        raise ValueError("it is another program without them")
    return left.encode()


_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _inside(tree: ast.Module, public: set[str]) -> Iterator[_Documented]:
    """Yield what has a docstring that can go: a body needs another statement, too."""
    names = set(map(_name, tree.body))
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            vars(child)["outer"] = node
    for node in ast.walk(tree):
        if isinstance(node, _Documented) and ast.get_docstring(node) is not None:
            path = list(_path(node))
            shown = path[-1] in public if path else bool(names & public)
            private = any(name.startswith("_") and name[-1] != "_" for name in path)
            if len(node.body) > 1 and (private or not shown):
                yield node


def _path(node: ast.AST) -> Iterator[str]:
    """Yield the names of a class or function and of what it stands in, outwards."""
    while not isinstance(node, ast.Module):
        if _name(node):
            yield _name(node)
        node = vars(node)["outer"]


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
