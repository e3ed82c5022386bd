"""Installs the lower bounds of pyproject.toml exactly and runs the smoke test on them.

Usage: python .ci/floors.py FOLDER
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from wheel import ROOT, build

EXTRAS = (
    "demo",
    "objects",
    "openai",
    "postgres",
    "prices",
    "tokens",
)  # users'; test tools take no floor


def floors() -> list[str]:
    """Return `name==lower bound` for each requirement of the core and of `EXTRAS`.

    Raises `SystemExit` when a requirement has no lower bound.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in EXTRAS:
        wanted += project["optional-dependencies"][extra]
    pins = []
    for requirement in wanted:
        match = re.match(
            r"([A-Za-z0-9._-]+(?:\[\w+\])?)\s*>=\s*([0-9][0-9A-Za-z.]*)", requirement
        )
        if match is None:
            sys.exit(f"{requirement!r} has no lower bound: write it as name>=version")
        pins.append(f"{match[1]}=={match[2]}")
    return pins


def main(folder: Path) -> None:
    """Import and use the wheel on the floors; the tests run there in `test-all`."""
    shutil.rmtree(folder, ignore_errors=True)
    wheel = build(folder / "wheel")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = folder.resolve() / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "--only-binary", ":all:", *floors()], check=True)
    subprocess.run([*pip, "--no-deps", wheel], check=True)
    print("floors:", *floors())
    # Away from the tree, so that the installed package is what gets imported.
    environment = os.environ | {"PYTHONSAFEPATH": "1"}
    smoke = ROOT / ".ci" / "smoke.py"
    subprocess.run([python, smoke], check=True, cwd=folder, env=environment)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
