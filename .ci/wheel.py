"""Builds the wheel from a copy of the tree: no stale file of an old build gets in.

Usage: python .ci/wheel.py FOLDER
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("perdure", "actors", "supervision", "storage")
FILES = ("pyproject.toml", "README.md", "LICENSE")


def build(folder: Path) -> Path:
    """Build the wheel into `folder`, emptied first, and return its path.

    Raises `subprocess.CalledProcessError` when the build fails.
    """
    folder = folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch, "tree")
        tree.mkdir()
        for name in FILES:
            shutil.copy(ROOT / name, tree)
        for name in SOURCES:
            shutil.copytree(
                ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel"]
        options = ["--quiet", "--no-deps", "--wheel-dir", str(folder), str(tree)]
        subprocess.run(command + options, check=True)
    (wheel,) = folder.glob("perdure-*.whl")
    return wheel


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
