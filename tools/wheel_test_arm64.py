"""Try the aarch64 wheel on this machine: Debian's arm64 Python under qemu's emulation.

    python tools/wheel_test_arm64.py dist

Needs qemu-user-static and mmdebstrap (Debian, Ubuntu: apt install). The tree with
Python, its C library and what they need is unpacked once into build/arm64; nothing is
registered with the kernel. Slow: everything runs at a tenth of the speed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "arm64"
SUITE = "bookworm"
MIRROR = "http://deb.debian.org/debian"


def unpack_python() -> Path:
    """Unpack Debian's arm64 Python; return its program."""
    if not any(TREE.glob("usr/bin/python3.*")):
        command = [
            "mmdebstrap", "--quiet", "--variant=extract", "--arch=arm64",
            "--include=python3,libpython3-stdlib", SUITE, str(TREE), MIRROR,
        ]  # fmt: skip
        TREE.parent.mkdir(exist_ok=True)
        subprocess.run(command, check=True)
    (program,) = (path for path in TREE.glob("usr/bin/python3.*") if not path.is_dir())
    return program


def install(wheel: Path, version: str) -> Path:
    """Install the wheel and what it requires, for arm64, into a folder; return it."""
    site = ROOT / "build" / "arm64-site-packages" / "site-packages"
    shutil.rmtree(site, ignore_errors=True)
    platforms = ["manylinux_2_17_aarch64", "manylinux2014_aarch64"]
    subprocess.run(
        [
            sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check",
            "--only-binary", ":all:", "--python-version", version,
            "--implementation", "cp", "--target", site, wheel,
            *(f"--platform={name}" for name in platforms),
        ],
        check=True,
    )  # fmt: skip
    return site


def main(arguments: list[str]) -> int:
    """Try the wheel in the folder."""
    folder = Path(arguments[0] if arguments else ROOT / "dist")
    for program in ("qemu-aarch64-static", "mmdebstrap"):
        if shutil.which(program) is None:
            package = program.replace("aarch64", "user")
            sys.exit(f"wheel_test_arm64: {program} is missing: apt install {package}")
    (wheel,) = folder.glob("hardfetch-*manylinux*_aarch64.whl")
    python = unpack_python()
    site = install(wheel, python.name.removeprefix("python"))
    print(f"{wheel.name}: {python.name} of Debian {SUITE} for arm64", flush=True)
    emulator = [shutil.which("qemu-aarch64-static") or "", "-L", str(TREE)]
    # A PATH without a compiler, as on a worker; nothing but the emulator is run.
    os.environ |= {"PATH": str(site / "bin"), "PYTHONPATH": str(site)}
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    doctor = ["-m", "hardfetch", "doctor", "-c", "64"]
    smoke = [str(ROOT / "tests" / "smoke.py"), *emulator]
    bad = 0
    for words in (doctor, smoke):
        # Not in the repo's folder, where an import would find the sources.
        command = [*emulator, str(python), *words]
        bad |= subprocess.run(command, cwd=TREE, check=False).returncode
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
