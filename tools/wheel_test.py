"""Install the built wheel as users do, for every CPython on this machine, and try it.

    python tools/wheel_test.py dist

For each CPython from 3.10 on: a new environment, the wheel from the folder and what it
requires (wheels alone, so nothing is compiled), then `hardfetch doctor` and
tests/smoke.py with nothing on PATH but the environment.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = range(10, 15)
_ASK = (
    "import sys, platform; "
    "print(*sys.version_info[:2], platform.python_implementation(), sys.executable)"
)


def candidates() -> list[Path]:
    """Return the programs that may be a CPython: on PATH, of Debian, of pyenv."""
    names = ["python3", *(f"python3.{minor}" for minor in VERSIONS)]
    folders = [Path(word) for word in os.environ["PATH"].split(os.pathsep)]
    folders.append(Path("/usr/bin"))
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders += sorted(pyenv.glob("versions/*/bin"))
    shims = pyenv / "shims"  # they only lead to the versions above
    return [f / n for f in folders if f != shims for n in names if (f / n).is_file()]


def pythons() -> dict[Path, str]:
    """Return each CPython that the wheel is for, and its version."""
    found: dict[Path, str] = {}
    for program in candidates():
        if (program.parent.parent / "pyvenv.cfg").exists():
            continue  # an environment of one of the others
        real = program.resolve()
        done = subprocess.run(
            [program, "-c", _ASK], capture_output=True, text=True, check=False
        )
        major, minor, kind = [*done.stdout.split(), "", "", ""][:3]
        fits = major == "3" and kind == "CPython" and int(minor) in VERSIONS
        if fits and real not in found:
            found[real] = f"{major}.{minor}"
    return dict(sorted(found.items(), key=lambda item: (item[1], item[0])))


def try_one(python: Path, wheel: Path, folder: Path) -> bool:
    """Install into a new environment and run the checks there."""
    venv = folder / "venv"
    # Debian has ensurepip in a package of its own: our pip installs instead.
    subprocess.run([python, "-m", "venv", "--without-pip", venv], check=True)
    inside = venv / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "--python", inside, "install", "-q", "--only-binary", ":all:", wheel],
        check=True,
    )
    listing = [*pip, "--python", inside, "list", "--format=freeze"]
    listed = subprocess.check_output(listing, text=True).split()
    print("  ", *listed, flush=True)
    bare = {"PATH": str(venv / "bin"), "HOME": str(folder), "LANG": "C.UTF-8"}
    doctor = subprocess.run(
        [venv / "bin" / "hardfetch", "doctor", "-c", "64"],
        cwd=folder, env=bare, check=False, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    # From a folder of its own: the repo's must not be found by an import.
    copy = shutil.copy(ROOT / "tests" / "smoke.py", folder)
    smoke = subprocess.run([inside, copy], cwd=folder, env=bare, check=False)
    return doctor.returncode == 0 and smoke.returncode == 0


def main(arguments: list[str]) -> int:
    """Try the wheel in the folder for this machine's libc and processor."""
    folder = Path(arguments[0] if arguments else ROOT / "dist")
    (wheel,) = folder.glob(f"hardfetch-*manylinux*_{platform.machine()}.whl")
    print(wheel.name)
    bad = 0
    found = pythons()
    for python, version in found.items():
        print(f"CPython {version}: {python}", flush=True)
        with tempfile.TemporaryDirectory(prefix="hardfetch-try-") as name:
            bad += not try_one(python, wheel, Path(name))
    print(f"{len(found) - bad} passed, {bad} failed")
    return 1 if bad or not found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
