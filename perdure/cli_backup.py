"""`perdure backup`: copy a store that may be in use."""

from __future__ import annotations

import argparse
from pathlib import Path

from .backup import back_up
from .cli import DONE, say, say_json

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser, _: str) -> None:
    """The options of `backup`, but for those that all commands share."""
    about = "a new file, for this user only"
    parser.add_argument("file", metavar="FILE", type=Path, help=about)


def run(arguments: argparse.Namespace) -> int:
    """Copy the store, and say up to where."""
    made = back_up(arguments.store, arguments.file)
    if arguments.json:
        say_json(made)
    else:
        say([f"{made.file}: all records up to {made.seq}, {made.bytes} bytes"])
    return DONE
