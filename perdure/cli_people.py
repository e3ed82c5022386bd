"""`perdure answer`: what people say to tasks, from another process."""

from __future__ import annotations

import argparse
from contextlib import closing

from .actors.admission.commands import CommandBody
from .actors.admission.questions import no_choice
from .cli import text
from .cli_ask import add_asking, send
from .errors import Misuse
from .people import check_answer
from .storage.reader import open_reader
from .views_questions import choice_of, find_question

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser, kind: str) -> None:
    """What one of these commands takes, but for what all commands share."""
    add = parser.add_argument
    add("subject", metavar="QUESTION_ID", type=text, help="see perdure show ID")
    add("text", metavar="ANSWER", type=text, help="a choice, its number, or text")
    add_asking(parser)
    parser.set_defaults(kind=kind)


def run(arguments: argparse.Namespace) -> int:
    """Send the command and wait for its answer; it is kept without one, too."""
    with closing(open_reader(arguments.store)) as reader:
        question = find_question(reader, arguments.subject)
        answer = choice_of(question, arguments.text)
        check_answer(answer)
        if wrong := no_choice(question, answer):
            raise Misuse(wrong)
        body = CommandBody(by=arguments.by, text=answer)
        return send(arguments, reader, arguments.kind, question.question, body)
