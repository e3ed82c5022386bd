"""`perdure archive` and `perdure import`: a finished task as a file, and back."""

from __future__ import annotations

import argparse
from contextlib import closing

from . import views
from .actors.admission.commands import CommandBody
from .archive import archive_task
from .cli import DONE, say, say_json, text
from .cli_ask import add_asking, send
from .erasing import check_by
from .importing import bring_back
from .storage.reader import open_reader

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser, kind: str) -> None:
    """The options of either, but for those that all commands share."""
    add = parser.add_argument
    if kind == "import":
        add("file", metavar="FILE|URL", type=text, help="what `perdure archive` wrote")
    else:
        add("task", metavar="ID", type=text, help="a task that ended, see perdure ps")
        about = "a new file, for this user only, or a new object: s3://BUCKET/NAME …"
        add("file", metavar="FILE|URL", type=text, help=about)
        about = "then erase it from the store; needs --by"
        add("--remove", action="store_true", help=about)
        add_asking(parser)
    parser.set_defaults(kind=kind)


def run(arguments: argparse.Namespace) -> int:
    """Write or bring back a task, and say what there was of it."""
    if arguments.kind == "import":
        came = bring_back(arguments.store, arguments.file)
        if arguments.json:
            say_json(came)
        else:
            more = f" with {len(came.subtasks)} sub-tasks" if came.subtasks else ""
            say([f"{came.task}: {came.records} records{more} are in the store"])
        return DONE
    if arguments.remove:
        check_by(arguments.by)
    with closing(open_reader(arguments.store)) as reader:
        task = views.find(reader, arguments.task)
        made = archive_task(reader, task, arguments.file)
        about = (
            f"{made.file}: task {task}, {made.records} records, {made.bytes} bytes, "
            f"sha256 {made.sha256}"
        )
        if not arguments.remove:
            if arguments.json:
                say_json(made)
            else:
                say([about])
            return DONE
        if not arguments.json:
            say([about])
        body = CommandBody(by=arguments.by)
        return send(arguments, reader, "erase", task, body)
