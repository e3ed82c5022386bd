"""`perdure export`: all that a store holds about a task or a subject, as JSON."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from . import views
from .cli import DONE, say, say_json, text
from .errors import Misuse
from .export import export_subject, export_task
from .storage.reader import open_reader

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser, _: str) -> None:
    """The options of `export`, but for those that all commands share."""
    add = parser.add_argument
    add("task", metavar="ID", type=text, nargs="?", help="a task, see perdure ps")
    add("--subject", metavar="NAME", type=text, help="all facts about it instead")
    add("--out", metavar="FILE", type=Path, help="a new file, for this user only")


def run(arguments: argparse.Namespace) -> int:
    """Write the lines to stdout, or to a new file."""
    if bool(arguments.task) == bool(arguments.subject):
        raise Misuse("export: give the ID of a task, or --subject NAME")
    with closing(open_reader(arguments.store)) as reader:
        if arguments.subject:
            name = arguments.subject
            lines = _lines(export_subject(reader, name))
        else:
            name = views.find(reader, arguments.task)
            lines = _lines(export_task(reader, name))
        if arguments.out is None:
            say(lines)
            return DONE
        count = _write(arguments.out, lines)
    if arguments.json:
        say_json({"of": name, "lines": count, "out": str(arguments.out)})
    else:
        say([f"{name}: {count} lines in {arguments.out}"])
    return DONE


def _lines(values: Iterable[dict[str, Any]]) -> Iterator[str]:
    return (json.dumps(value) for value in values)


def _write(path: Path, lines: Iterable[str]) -> int:
    """Write a file whole or not at all; what is there is never overwritten."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        why = error.strerror or str(error)
        raise Misuse(f"--out {path}: {why.lower()}; name a new file") from None
    count = 0
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            for line in lines:
                file.write(line + "\n")
                count += 1
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return count
