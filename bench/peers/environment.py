"""A peer's virtual environment, made once and kept."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

__all__ = ["CACHE", "environment", "versions"]

CACHE = Path(__file__).resolve().parents[2] / ".venvs" / "peers"
MADE = ".made"  # holds the requirements that it was made for


def environment(folder: Path, requirements: tuple[str, ...]) -> Path | None:
    """Return the Python in `folder`, made with the requirements; None if that failed.

    pip is asked as it is configured on this machine; what it says is on stderr.
    """
    folder = folder.absolute()
    python = folder / "bin" / "python"
    made, wanted = folder / MADE, "\n".join(requirements)
    if made.is_file() and made.read_text() == wanted:
        return python
    print(f"installing {', '.join(requirements)}", flush=True)
    install = ("-m", "pip", "install", "--quiet", "--retries", "1")
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [str(python), *install, *requirements],
    ):
        if subprocess.run(command, check=False, stdout=sys.stderr).returncode:
            return None
    made.write_text(wanted)
    return python


def versions(python: Path, names: tuple[str, ...]) -> dict[str, str]:
    """The installed versions of `names`."""
    script = (
        "import importlib.metadata as m, json, sys\n"
        "print(json.dumps({name: m.version(name) for name in sys.argv[1:]}))"
    )
    said = subprocess.run(
        [python, "-c", script, *names], check=True, capture_output=True, text=True
    )
    found: dict[str, str] = json.loads(said.stdout)
    return found
