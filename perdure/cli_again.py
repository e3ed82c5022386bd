"""`perdure retry`: have work done again, from another process."""

from __future__ import annotations

import argparse
from contextlib import closing

from . import views
from .actors.admission.commands import CommandBody
from .cli import text
from .cli_ask import add_asking, send
from .errors import Misuse
from .result import ENDED
from .storage.reader import open_reader

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser, kind: str) -> None:
    """What it takes, but for what all commands share."""
    add = parser.add_argument
    add("subject", metavar="ID", type=text, help="the task's id, or its beginning")
    said = "the step; where none is given, that where the task stopped"
    add("--from", dest="step", metavar="STEP", type=text, default="", help=said)
    add_asking(parser)
    parser.set_defaults(kind=kind)


def run(arguments: argparse.Namespace) -> int:
    """Send the command and wait for its answer; it is kept without one, too."""
    with closing(open_reader(arguments.store)) as reader:
        task = views.find(reader, arguments.subject)
        status = views.task_line(reader, task).status
        if status in ENDED:
            raise Misuse(f"task {task} has ended ({status}): fork it instead")
        body = CommandBody(by=arguments.by, step=arguments.step)
        return send(arguments, reader, arguments.kind, task, body)
