"""`perdure cancel`, `resume`, `approve` and the like: from another process.

The command becomes a row of the store's inbox. The runtime that owns the store
applies it and answers; where none does, the next one will.
"""

from __future__ import annotations

import argparse
import math
import secrets
import time
from contextlib import closing
from typing import Any

import msgspec

from . import views
from .actors.admission.commands import CommandAnswer, CommandBody
from .actors.budget.account import Budget, limits_of
from .actors.names import TASK_ROWS
from .actors.task.rows import ERASED
from .again import kept_of
from .cli import DONE, NOT_ENDED, UNDONE, complain, say, say_json, text, whole
from .erasing import check_by
from .errors import Misuse
from .people import LONGEST, check_words
from .result import ENDED
from .storage.address import open_inbox
from .storage.inbox import ANSWERS
from .storage.reader import Reader, open_reader
from .storage.records import Command
from .views_approvals import call_instead, find_approval
from .views_effects import check_unknown, find_effect, result_text

__all__ = ["add_arguments", "add_asking", "run", "send"]

TIMEOUT = 5.0  # seconds
LOOK_EVERY = 0.05  # seconds
MONEY = ("extend", "limit")
ABOUT = "all facts about it, with their history"
AMOUNTS = (
    ("tokens", "tokens of model calls"),
    ("model-calls", "model calls"),
    ("tool-calls", "tool calls"),
)


def add_arguments(parser: argparse.ArgumentParser, kind: str) -> None:
    """What one of these commands takes, but for what all commands share."""
    add = parser.add_argument
    if kind in ("approve", "reject"):
        add("subject", metavar="APPROVAL_ID", type=text, help="see perdure show ID")
    elif kind == "resolve":
        add(
            "subject", metavar="EFFECT", type=text, help="see perdure effects --unknown"
        )
        which = parser.add_mutually_exclusive_group(required=True)
        for name, value in (("--happened", True), ("--did-not-happen", False)):
            which.add_argument(
                name, dest="happened", action="store_const", const=value, default=None
            )
        add("--result", metavar="JSON", type=_json, help="what the call gave")
    else:
        many = "?" if kind == "erase" else None
        add("subject", metavar="ID", type=text, nargs=many, help="see perdure ps")
    if kind == "erase":
        add("--subject", dest="about", metavar="NAME", type=text, help=ABOUT)
        add("--yes", action="store_true", help="needed: it cannot be undone")
    if kind == "reject":
        add("--why", metavar="TEXT", type=text, default="", help="the model is told")
    if kind == "approve":
        add(
            "--arguments",
            metavar="JSON",
            type=_object,
            help="have it called with these instead; its rules judge that anew",
        )
        add("--tool", metavar="NAME", type=text, help="the other tool that they go to")
    if kind == "cancel":
        add(
            "--compensate",
            action="store_true",
            help="take its completed effects back first, by what undoes them",
        )
    if kind in MONEY:
        more = " more" if kind == "extend" else " in all"
        for name, what in AMOUNTS:
            add(f"--{name}", metavar="N", type=whole, help=f"so many {what}{more}")
        add("--cost", metavar="AMOUNT", type=text, help=f"so much{more}, as a decimal")
    add_asking(parser, names=kind != "erase")
    parser.set_defaults(kind=kind)


def add_asking(parser: argparse.ArgumentParser, *, names: bool = True) -> None:
    """What all commands take that go through the inbox; `--by` where `names`."""
    add = parser.add_argument
    if names:
        said = "command line"
        add("--by", metavar="NAME", type=_who, default=said, help="who says so")
    else:
        add("--by", metavar="NAME", type=text, required=True, help="who says so; kept")
    add(
        "--timeout",
        metavar="S",
        type=_seconds,
        default=TIMEOUT,
        help="wait so many seconds for the answer (5)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Send the command and wait for its answer; it is kept without one, too."""
    kind = arguments.kind
    amounts = _amounts(arguments) if kind in MONEY else {}
    with closing(open_reader(arguments.store)) as reader:
        body = CommandBody(
            by=arguments.by,
            why=getattr(arguments, "why", ""),
            amounts=amounts,
            compensate=getattr(arguments, "compensate", False),
        )
        if kind == "approve":
            instead = call_instead(arguments.arguments, arguments.tool)
            tool = arguments.tool or ""
            body = msgspec.structs.replace(body, tool=tool, arguments=instead)
        if kind == "erase":
            subject, body = _to_erase(reader, arguments, body)
        elif kind == "resolve":
            subject, body = _verdict(reader, arguments, body)
        elif kind == "cancel" and (task := _cancelled(reader, arguments.subject)):
            # To ask twice is to ask once: there is nothing to send.
            asked = Command(id="", kind=kind, subject=task, at=time.time())
            answer = CommandAnswer(done=True, said="it has ended: cancelled")
            return _report(arguments, asked, answer)
        else:
            subject = _subject(reader, kind, arguments.subject)
        return send(arguments, reader, kind, subject, body)


def send(
    arguments: argparse.Namespace,
    reader: Reader,
    kind: str,
    subject: str,
    body: CommandBody,
) -> int:
    """Keep a command in the inbox, wait for its answer, and say it."""
    command = Command(
        id=f"c-{secrets.token_hex(8)}",
        kind=kind,
        subject=subject,
        at=time.time(),
        body=msgspec.json.encode(body),
    )
    with open_inbox(arguments.store) as inbox:
        inbox.send(command)
    answer = _answer(reader, command.id, arguments.timeout)
    return _report(arguments, command, answer)


def _subject(reader: Reader, kind: str, word: str) -> str:
    if kind in ("approve", "reject"):
        return find_approval(reader, word)
    task = views.find(reader, word)
    status = views.task_line(reader, task).status
    if status in ENDED:
        raise Misuse(f"task {task} has ended ({status}); there is nothing to {kind}")
    return task


def _cancelled(reader: Reader, word: str) -> str:
    """The task that the word names, where it was cancelled; else nothing."""
    task = views.find(reader, word)
    return task if views.task_line(reader, task).status == "cancelled" else ""


def _to_erase(
    reader: Reader, arguments: argparse.Namespace, body: CommandBody
) -> tuple[str, CommandBody]:
    """A task that may be erased, or a subject, where somebody is sure of it."""
    check_by(arguments.by)
    if bool(arguments.subject) == bool(arguments.about):
        raise Misuse("erase: give the ID of a task, or --subject NAME")
    if arguments.about:
        if not arguments.yes:
            raise Misuse(
                f"all facts about {arguments.about!r} would be gone for good, with "
                "their history: say so with --yes"
            )
        # The name stands in the body alone, and goes with it.
        return "", msgspec.structs.replace(body, about=arguments.about)
    task = views.find(reader, arguments.subject)
    line = views.task_line(reader, task)
    if line.status not in ENDED:
        raise Misuse(
            f"task {task} is {line.status}: cancel it first (perdure cancel {task}), "
            "and erase it when it has ended"
        )
    if line.parent and line.status != ERASED:
        raise Misuse(f"task {task} is a sub-task: erase {line.parent}, it goes with it")
    if not arguments.yes:
        children = len(reader.rows(TASK_ROWS, f"{task}."))
        more = f" and its {children} sub-tasks" if children else ""
        raise Misuse(f"task {task}{more} would be gone for good{kept_of(reader, task)}")
    return task, body


def _verdict(
    reader: Reader, arguments: argparse.Namespace, body: CommandBody
) -> tuple[str, CommandBody]:
    """The task of the effect, and which attempt of it somebody saw and speaks of."""
    if arguments.result is not None and not arguments.happened:
        raise Misuse("--result says what came of an effect that --happened")
    task, line = find_effect(reader, arguments.subject)
    check_unknown(reader, line)
    status = views.task_line(reader, task).status
    if status in ENDED and line.status == "unknown":
        raise Misuse(f"task {task} has ended ({status}); its effects stay as they are")
    return task, msgspec.structs.replace(
        body,
        op=line.op,
        attempt=line.attempt,
        happened=arguments.happened,
        result="null" if arguments.result is None else arguments.result,
    )


def _answer(reader: Reader, command: str, timeout: float) -> CommandAnswer | None:
    until = time.monotonic() + timeout
    while True:
        row = reader.row(ANSWERS, command)
        if row is not None:
            return msgspec.json.decode(row, type=CommandAnswer)
        left = until - time.monotonic()
        if left <= 0:
            return None
        time.sleep(min(left, LOOK_EVERY))


def _report(
    arguments: argparse.Namespace, command: Command, answer: CommandAnswer | None
) -> int:
    about = command.subject or command.kind
    kept = (
        f"no answer within {arguments.timeout:g} s: the command is kept, and applied "
        "by the runtime that has the store open, else by the next one"
    )
    if arguments.json:
        value: dict[str, Any] = {
            "command": command.id,
            "kind": command.kind,
            "subject": command.subject,
            "applied": answer is not None,
            "done": None if answer is None else answer.done,
            "said": kept if answer is None else answer.said,
        }
        say_json(value)
    elif answer is None:
        say([f"{about}: {kept}"])
    elif answer.done:
        say([answer.said if command.kind == "fork" else f"{about}: {answer.said}"])
    else:
        complain(f"{about}: {answer.said}")
    if answer is None:
        return NOT_ENDED
    return DONE if answer.done else UNDONE


def _amounts(arguments: argparse.Namespace) -> dict[str, int]:
    budget = Budget(
        tokens=arguments.tokens,
        model_calls=arguments.model_calls,
        tool_calls=arguments.tool_calls,
        cost=arguments.cost,
    )
    amounts = limits_of(budget)
    extends = arguments.kind == "extend"
    if not amounts or (extends and not any(amounts.values())):
        options = ", ".join(f"--{name}" for name in (*dict(AMOUNTS), "cost"))
        how = "by how much" if extends else "to how much"
        raise Misuse(f"say {how}: give {options}, or several of them")
    return amounts


def _object(word: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text(word))
    except (msgspec.DecodeError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{word!r} is no JSON object of arguments")
    return value


def _who(word: str) -> str:
    try:
        check_words("--by", by=text(word))
    except Misuse:
        wrong = f"{word!r} must say who it is, in 1 to {LONGEST} characters"
        raise argparse.ArgumentTypeError(wrong) from None
    return word


def _json(word: str) -> str:
    try:
        return result_text(msgspec.json.decode(text(word)))
    except (msgspec.DecodeError, RecursionError):
        raise argparse.ArgumentTypeError(
            f"{word!r} is not JSON; text stands in quotes"
        ) from None
    except Misuse as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seconds(word: str) -> float:
    try:
        seconds = float(word)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{word!r} is not a number of seconds")
    return seconds
