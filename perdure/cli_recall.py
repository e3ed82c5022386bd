"""`perdure recall`: search what the tasks of a store did, from any process."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from . import views
from .cli import DONE, say, say_json, text
from .recalling import search
from .storage.reader import open_reader
from .views_text import hit_lines

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser, _: str) -> None:
    """What this command takes, but for what all commands share."""
    add = parser.add_argument
    add("query", metavar="QUERY", type=text, help="words; nothing in them is syntax")
    add("--task", metavar="ID", type=text, help="a task, with its sub-tasks")
    add("--step", metavar="NAME", type=text, default="", help="a step of its plan")
    add("--tool", metavar="NAME", type=text, default="", help="what was called")
    add(
        "--outcome",
        metavar="WORD",
        type=text,
        default="",
        help="completed, failed, unknown, approved, rejected, refused …",
    )
    for name in ("--since", "--until"):
        add(
            name,
            metavar="TIME",
            type=_moment,
            help="as 2026-05-01T12:00 (UTC where nothing else is said)",
        )
    add("--limit", metavar="N", type=int, default=10, help="at most so many hits (10)")


def run(arguments: argparse.Namespace) -> int:
    """Print the hits, best first."""
    with open_reader(arguments.store) as reader:
        word = arguments.task
        found = search(
            reader,
            arguments.query,
            task="" if word is None else views.find(reader, word),
            step=arguments.step,
            tool=arguments.tool,
            outcome=arguments.outcome,
            since=arguments.since,
            until=arguments.until,
            limit=arguments.limit,
        )
    if arguments.json:
        say_json(found)
    else:
        say(hit_lines(found))
    return DONE


def _moment(word: str) -> float:
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{word!r} is no time such as 2026-05-01T12:00"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()
