"""Tell whether curl_cffi still exports what the core loads from it.

    python tools/curl_symbols.py [VERSION]...

downloads those versions of curl_cffi (else the oldest that pyproject.toml allows and
the newest that there is) for each platform of our wheels and looks for the functions
that csrc/curlabi.h names. Exit code 1 when one is missing. Nothing is installed or run.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PLATFORMS = [
    "manylinux2014_x86_64",
    "manylinux2014_aarch64",
    "musllinux_1_2_x86_64",
    "musllinux_1_2_aarch64",
]


def named_in_curlabi(which: str) -> list[str]:
    """Return the functions of HF_CURL_NEEDED or HF_CURL_OPTIONAL."""
    text = (ROOT / "csrc" / "curlabi.h").read_text(encoding="utf-8")
    pattern = rf"#define HF_CURL_{which}\(X\)((?:.*\\\n)*.*\n)"
    (body,) = re.findall(pattern, text)
    return re.findall(r"X\([^,]+,\s*(\w+)", body)


def oldest_allowed() -> str:
    """Return the version of curl_cffi that pyproject.toml names as the oldest."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (version,) = re.findall(r'"curl_cffi>=([\d.]+)', text)
    return str(version)


def exported(wheel: Path) -> set[str]:
    """Return the names that a wheel's shared objects export."""
    from elftools.elf.elffile import ELFFile

    names: set[str] = set()
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if re.search(r"curl_cffi/_wrapper.*\.so$", name):
                elf = ELFFile(BytesIO(archive.read(name)))
                table: Any = elf.get_section_by_name(".dynsym")
                names |= {
                    symbol.name
                    for symbol in table.iter_symbols()
                    if symbol["st_shndx"] != "SHN_UNDEF"
                }
    return names


def download(wish: str, platform: str, folder: Path) -> Path:
    """Download one wheel of curl_cffi."""
    subprocess.run(
        [
            sys.executable, "-m", "pip", "download", "-q", "--no-deps",
            "--disable-pip-version-check", "--only-binary", ":all:",
            "--implementation", "cp", "--python-version", "3.10", "--abi", "abi3",
            "--platform", platform, "--dest", folder, f"curl_cffi{wish}",
        ],
        check=True,
    )  # fmt: skip
    (wheel,) = folder.iterdir()
    return wheel


def main(versions: list[str]) -> int:
    """Look into each version's wheels."""
    wishes = [f"=={version}" for version in versions]
    if not wishes:
        oldest = oldest_allowed()
        wishes = [f"=={oldest}", f">={oldest},<1"]
    wanted = [*named_in_curlabi("NEEDED"), *named_in_curlabi("OPTIONAL")]
    seen: set[str] = set()
    missing = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, wish in enumerate(wishes):
            for platform in PLATFORMS:
                wheel = download(wish, platform, Path(folder, f"{number}-{platform}"))
                if wheel.name in seen:
                    continue
                seen.add(wheel.name)
                absent = sorted(set(wanted) - exported(wheel))
                missing += len(absent)
                what = f"lacks {', '.join(absent)}" if absent else "has them all"
                print(f"{wheel.name}: {len(wanted)} functions, {what}", flush=True)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
