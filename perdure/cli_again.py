"""`perdure retry` and `fork`: have work done again, from another process."""

from __future__ import annotations

import argparse
from contextlib import closing

from . import views
from .actors.admission.commands import CommandBody
from .actors.budget.account import Budget, limits_of
from .actors.task.rows import ERASED
from .again import check_fork
from .cli import text, whole
from .cli_ask import AMOUNTS, add_asking, send
from .errors import Misuse
from .result import ENDED
from .storage.reader import open_reader

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser, kind: str) -> None:
    """What one of them takes, but for what all commands share."""
    add = parser.add_argument
    add("subject", metavar="ID", type=text, help="the task's id, or its beginning")
    if kind == "retry":
        said = "the step; where none is given, that where the task stopped"
        add("--from", dest="step", metavar="STEP", type=text, default="", help=said)
    else:
        add("--at", metavar="SEQ", type=whole, help="a place of the log; see log")
        add("--goal", metavar="TEXT", type=text, help="in place of the task's")
        add("--key", metavar="TEXT", type=text, help="the same again: the same fork")
        for name, what in AMOUNTS:
            add(f"--{name}", metavar="N", type=whole, help=f"so many {what} at most")
        add("--cost", metavar="AMOUNT", type=text, help="so much at most, as a decimal")
    add_asking(parser)
    parser.set_defaults(kind=kind)


def run(arguments: argparse.Namespace) -> int:
    """Send the command and wait for its answer; it is kept without one, too."""
    with closing(open_reader(arguments.store)) as reader:
        task = views.find(reader, arguments.subject)
        status = views.task_line(reader, task).status
        if arguments.kind == "retry":
            if status in ENDED:
                raise Misuse(f"task {task} has ended ({status}): fork it instead")
            body = CommandBody(by=arguments.by, step=arguments.step)
        else:
            if status == ERASED:
                raise Misuse(f"task {task} was erased: nothing is left to fork")
            body = _fork(arguments)
        return send(arguments, reader, arguments.kind, task, body)


def _fork(arguments: argparse.Namespace) -> CommandBody:
    budget = Budget(
        tokens=arguments.tokens,
        model_calls=arguments.model_calls,
        tool_calls=arguments.tool_calls,
        cost=arguments.cost,
    )
    check_fork(arguments.at, budget, arguments.goal, arguments.key)
    return CommandBody(
        by=arguments.by,
        amounts=limits_of(budget),
        at=arguments.at,
        goal=arguments.goal or "",
        key=arguments.key,
    )
