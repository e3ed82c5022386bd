"""What every bench shares: its options, its heading and its last line."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from typing import Any

import apsw

__all__ = ["facts", "finish", "heading", "options"]


def options(description: str) -> argparse.ArgumentParser:
    """Return a parser with `--seed`, `--short` and `--json`; a bench adds its own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=7, help="of every random choice")
    parser.add_argument("--short", action="store_true", help="a quick, coarse run")
    parser.add_argument("--json", action="store_true", help="end with a JSON line")
    return parser


def facts() -> dict[str, Any]:
    """What a figure depends on that is not in the code."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "sqlite": apsw.sqlite_lib_version(),
    }


def heading(arguments: argparse.Namespace, *caveats: str) -> None:
    """Print the seed, the machine and what the figures below do not say."""
    about = ", ".join(f"{name} {value}" for name, value in facts().items())
    print(f"seed {arguments.seed}; {about}")
    for caveat in caveats:
        print(f"note: {caveat}")


def finish(arguments: argparse.Namespace, result: dict[str, Any]) -> None:
    """Print `result` as lines, or as one JSON object with `--json`; exit 1 on failures.

    A run has failed when `result["failures"]` is there and not zero.
    """
    if arguments.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name}: {value}")
    sys.exit(1 if result.get("failures") else 0)
