"""Runs the tests on every CPython >= 3.11 of this machine, and on the lower bounds.

One venv each; the lower bounds of pyproject.toml go with the oldest CPython found.

Looks on PATH and, where it is installed, at pyenv's versions. Exits 1 when one fails.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from floors import floors

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
ASK = (
    "import json, sys; "
    "print(json.dumps([sys.implementation.name, sys.version_info[:3], sys.executable]))"
)


def candidates() -> list[str]:
    names = [sys.executable, *(f"python3.{minor}" for minor in range(11, 30))]
    found = [path for name in names if (path := shutil.which(name))]
    pyenv = shutil.which("pyenv")
    if pyenv:
        root = subprocess.check_output([pyenv, "root"], text=True).strip()
        found += [str(path) for path in Path(root, "versions").glob("*/bin/python")]
    return found


def interpreters() -> dict[tuple[int, int], str]:
    """Return one working CPython for each minor version, the newest patch of it."""
    best: dict[tuple[int, int], tuple[tuple[int, ...], str]] = {}
    for candidate in candidates():
        answer = subprocess.run(
            [candidate, "-c", ASK], capture_output=True, text=True, check=False
        )
        if answer.returncode != 0:  # a shim of a version that is not selected
            continue
        implementation, version, path = json.loads(answer.stdout)
        minor = (version[0], version[1])
        if implementation != "cpython" or minor < OLDEST:
            continue
        if minor not in best or tuple(version) > best[minor][0]:
            best[minor] = (tuple(version), path)
    return {minor: path for minor, (_, path) in sorted(best.items())}


def run_tests(name: str, python: str, pins: list[str]) -> bool:
    venv = ROOT / ".venvs" / name
    stamp = venv / ".installed"
    project = ROOT / "pyproject.toml"
    if not stamp.exists() or stamp.stat().st_mtime < project.stat().st_mtime:
        subprocess.run([python, "-m", "venv", venv], check=True)
        pip = [venv / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
        wanted = [
            "--editable",
            ".[demo,objects,openai,postgres,prices,tokens,test]",
            *pins,
        ]
        subprocess.run([*pip, "install", "--quiet", *wanted], check=True, cwd=ROOT)
        stamp.touch()
    command = [venv / "bin" / "python", "-m", "pytest"]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def main() -> None:
    found = {
        f"{major}.{minor}": path for (major, minor), path in interpreters().items()
    }
    if not found:
        sys.exit("no CPython of 3.11 or newer was found")
    oldest = next(iter(found.values()))
    runs = [(name, python, []) for name, python in found.items()]
    failed = []
    for name, python, pins in [*runs, ("floors", oldest, floors())]:
        print(f"== {name}: {python} {' '.join(pins)}", flush=True)
        try:
            passed = run_tests(name, python, pins)
        except subprocess.CalledProcessError as error:
            print(f"{name} could not be set up: {error}")
            passed = False
        if not passed:
            failed.append(name)
    if failed:
        sys.exit(f"failed on {', '.join(failed)}")


if __name__ == "__main__":
    os.environ.pop("VIRTUAL_ENV", None)
    main()
