"""Look into wheels: what a worker's oldest C library, loader and disk must bear.

    python tools/wheel_check.py dist/*.whl

prints what is wrong and exits with 1, or a line for each wheel and 0. auditwheel has
its say before; this is what it does not promise.
"""

from __future__ import annotations

import re
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES = 400 * 1024
NEWEST_GLIBC = (2, 17)
# libcurl comes with curl_cffi at run time, and no C++ is in sight.
GLIBC_NEEDED = {"libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0"}
_PYABI = Path(__file__).resolve().parent.parent / "csrc" / "pyabi" / "Python.h"
_REQUIRED = {"cffi", "click", "curl_cffi", "rich"}


def check_wheel(file: Path) -> list[str]:
    """Return what is wrong with a wheel, a sentence for each fault."""
    with zipfile.ZipFile(file) as wheel:
        names = wheel.namelist()
        modules = [name for name in names if name.endswith(".so")]
        found = list(_check_contents(wheel, names))
        if modules == ["hardfetch/_core.abi3.so"]:
            data = wheel.read(modules[0])
            found += _check_module(ELFFile(BytesIO(data)), data, file.name)
        else:
            found.append(f"the modules are {modules}, not hardfetch/_core.abi3.so")
    size = file.stat().st_size
    if size > MOST_BYTES:
        found.append(f"{size} bytes are more than {MOST_BYTES}")
    return found


def _check_contents(wheel: zipfile.ZipFile, names: list[str]) -> Iterator[str]:
    (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    folder = metadata.partition("/")[0]
    for name in names:
        if not name.startswith(("hardfetch/", f"{folder}/")):
            yield f"{name} does not belong into a wheel"
    if "hardfetch/py.typed" not in names:
        yield "py.typed is missing"
    text = wheel.read(metadata).decode().partition("\n\n")[0]
    required = set(re.findall(r"(?m)^Requires-Dist: ([\w-]+)(?![^\n]*extra ==)", text))
    if {name.replace("-", "_") for name in required} != _REQUIRED:
        yield f"it requires {sorted(required)}, not {sorted(_REQUIRED)}"


def _check_module(elf: ELFFile, data: bytes, name: str) -> Iterator[str]:
    machine = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}[elf["e_machine"]]
    if machine not in name:
        yield f"the module is for {machine}"
    dynamic = elf.get_section_by_name(".dynamic")
    assert isinstance(dynamic, DynamicSection)
    needed = {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")}
    musl = {f"libc.musl-{machine}.so.1"}
    allowed = musl if "musllinux" in name else GLIBC_NEEDED
    if not needed <= allowed:
        yield f"it needs {', '.join(sorted(needed - allowed))}"
    for tag in ("DT_RPATH", "DT_RUNPATH", "DT_TEXTREL"):
        if any(dynamic.iter_tags(tag)):
            yield f"it has {tag}"
    yield from _check_segments(elf, dynamic)
    yield from _check_symbols(elf)
    yield from _check_versions(elf)
    if re.search(rb"/(?:home|root|tmp|usr|build|opt)/[\w.-]+/[\w./-]*\.[ch]\b", data):
        yield "paths of the machine that built it are inside"


def _check_segments(elf: ELFFile, dynamic: DynamicSection) -> Iterator[str]:
    flags = {segment["p_type"]: segment["p_flags"] for segment in elf.iter_segments()}
    if flags.get("PT_GNU_STACK", 1) & 1:
        yield "its stack is executable"
    if any(s["p_flags"] & 3 == 3 for s in elf.iter_segments("PT_LOAD")):
        yield "a segment is writable and executable"
    if "PT_GNU_RELRO" not in flags or not any(dynamic.iter_tags("DT_FLAGS")):
        yield "its relocations stay writable"
    if elf.get_section_by_name(".symtab") is not None:
        yield "it is not stripped"


def _symbols(elf: ELFFile) -> Iterator[Any]:
    table: Any = elf.get_section_by_name(".dynsym")
    yield from (symbol for symbol in table.iter_symbols() if symbol.name)


def _check_symbols(elf: ELFFile) -> Iterator[str]:
    exported = {s.name for s in _symbols(elf) if s["st_shndx"] != "SHN_UNDEF"}
    if exported != {"PyInit__core"}:
        yield f"it exports {', '.join(sorted(exported))}"
    wanted = {s.name for s in _symbols(elf) if s["st_shndx"] == "SHN_UNDEF"}
    stable = set(re.findall(r"\b_?Py\w+", _PYABI.read_text()))
    strange = {name for name in wanted if re.match("_?Py", name)} - stable
    if strange:
        yield f"not in the stable ABI: {', '.join(sorted(strange))}"
    foreign = {name for name in wanted if re.match(r"curl_|_ZN|_ZS|__cxa_[^f]", name)}
    if foreign:
        yield f"of libcurl or C++: {', '.join(sorted(foreign))}"


def _check_versions(elf: ELFFile) -> Iterator[str]:
    section = elf.get_section_by_name(".gnu.version_r")
    if not isinstance(section, GNUVerNeedSection):
        return
    for _, versions in section.iter_versions():
        for version in versions:
            match = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version.name)
            if match is None or tuple(map(int, match.groups())) > NEWEST_GLIBC:
                yield f"it needs {version.name}"


def main(arguments: list[str]) -> int:
    """Check the named wheels."""
    bad = 0
    for file in map(Path, arguments):
        problems = check_wheel(file)
        bad += len(problems)
        for line in problems or [f"{file.stat().st_size} bytes, as promised"]:
            print(f"{file.name}: {line}")
    return 1 if bad or not arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
