"""`perdure answer` and `steer`: what people say to tasks, from another process."""

from __future__ import annotations

import argparse
from contextlib import closing

from . import views
from .actors.admission.commands import CommandBody
from .actors.admission.questions import no_choice
from .cli import text
from .cli_ask import add_asking, send
from .errors import Misuse
from .people import check_answer, check_note
from .result import ENDED
from .storage.reader import Reader, open_reader
from .views_questions import choice_of, find_question

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser, kind: str) -> None:
    """What one of these commands takes, but for what all commands share."""
    add = parser.add_argument
    if kind == "answer":
        add("subject", metavar="QUESTION_ID", type=text, help="see perdure show ID")
        add("text", metavar="ANSWER", type=text, help="a choice, its number, or text")
    else:
        add("subject", metavar="ID", type=text, help="see perdure ps")
        add("text", metavar="TEXT", type=text, help="what the model is to know")
        said = "the note that it takes the place of, see perdure show ID"
        add("--replace", metavar="N", type=int, default=0, help=said)
    add_asking(parser)
    parser.set_defaults(kind=kind)


def run(arguments: argparse.Namespace) -> int:
    """Send the command and wait for its answer; it is kept without one, too."""
    with closing(open_reader(arguments.store)) as reader:
        make = _answer if arguments.kind == "answer" else _note
        subject, body = make(reader, arguments)
        return send(arguments, reader, arguments.kind, subject, body)


def _answer(reader: Reader, arguments: argparse.Namespace) -> tuple[str, CommandBody]:
    question = find_question(reader, arguments.subject)
    answer = choice_of(question, arguments.text)
    check_answer(answer)
    if wrong := no_choice(question, answer):
        raise Misuse(wrong)
    return question.question, CommandBody(by=arguments.by, text=answer)


def _note(reader: Reader, arguments: argparse.Namespace) -> tuple[str, CommandBody]:
    task = views.find(reader, arguments.subject)
    status = views.task_line(reader, task).status
    if status in ENDED:
        raise Misuse(f"task {task} has ended ({status}): nobody reads a note any more")
    check_note(arguments.text, arguments.replace)
    return task, CommandBody(
        by=arguments.by, text=arguments.text, replace=arguments.replace
    )
