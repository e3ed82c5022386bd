"""`perdure adopt`: have a task go on whose agent has changed while it was under way."""

from __future__ import annotations

import argparse
from contextlib import closing

from . import views
from .actors.admission.commands import CommandBody
from .cli import text
from .cli_ask import add_asking, send
from .errors import Misuse
from .reading import row_of
from .result import ENDED
from .storage.reader import open_reader

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser, kind: str) -> None:
    """What `adopt` takes, but for what all commands share."""
    about = "a task that is parked since its agent has changed, see perdure ps"
    parser.add_argument("subject", metavar="ID", type=text, help=about)
    add_asking(parser)
    parser.set_defaults(kind=kind)


def run(arguments: argparse.Namespace) -> int:
    """Send what was seen to be different, and wait for the answer."""
    with closing(open_reader(arguments.store)) as reader:
        task = views.find(reader, arguments.subject)
        row = row_of(reader, task)
        if row.status in ENDED:
            raise Misuse(f"task {task} has ended ({row.status}); nothing to adopt")
        if not row.offered:
            raise Misuse(
                f"task {task} is {row.status}, and not parked for a change of its "
                "agent: there is nothing to adopt"
            )
        # Of the agent that its difference was shown of, and of no later one.
        body = CommandBody(by=arguments.by, text=row.offered)
        return send(arguments, reader, arguments.kind, task, body)
