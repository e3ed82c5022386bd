"""`perdure facts`, `know`, `confirm` and `drop`: what is known beyond one task."""

from __future__ import annotations

import argparse
import time
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import msgspec

from . import views, views_facts
from .actors.admission.commands import CommandBody
from .actors.memory.facts import GLOBAL, task_scope
from .cli import DONE, say, say_json, text
from .cli_ask import add_asking, send
from .errors import Misuse
from .memory import said_of
from .storage.reader import Reader, open_reader
from .views_text import facts_text

__all__ = ["add_arguments", "run"]

TASK = "task:"


def add_arguments(parser: argparse.ArgumentParser, kind: str) -> None:
    """What one of these commands takes, but for what all commands share."""
    add = parser.add_argument
    parser.set_defaults(kind=kind)
    if kind in ("facts", "know"):
        add(
            "--scope",
            metavar="SCOPE",
            type=text,
            default=GLOBAL if kind == "know" else None,
            help="global, group:NAME or task:ID",
        )
        add(
            "--subject",
            metavar="NAME",
            type=text,
            default="" if kind == "know" else None,
            help="whom or what it is about",
        )
    if kind == "facts":
        add("--history", metavar="KEY", type=text, help="all that was said of a key")
        return
    if kind == "know":
        add("key", metavar="KEY", type=text, help="what the value is of")
        add("value", metavar="VALUE", type=text, help="JSON, or else text")
        add(
            "--core",
            action=argparse.BooleanOptionalAction,
            default=None,
            help="show it in every request of the scope's tasks, or no more",
        )
        add("--evidence", metavar="TEXT", type=text, default="", help="its source")
        add("--until", metavar="TIME", type=_time, help="when it ends, as ISO 8601")
    else:
        add("fact", metavar="FACT_ID", type=text, help="see perdure facts")
    add_asking(parser)


def run(arguments: argparse.Namespace) -> int:
    """List what is known, or have a fact kept, confirmed or dropped."""
    return _show(arguments) if arguments.kind == "facts" else _change(arguments)


def _show(arguments: argparse.Namespace) -> int:
    with closing(open_reader(arguments.store)) as reader:
        scope = arguments.scope
        if scope is not None:
            scope = _scope(reader, scope)
        if arguments.history is None:
            found = views_facts.facts(
                reader, time.time(), scope=scope, subject=arguments.subject
            )
        else:
            found = views_facts.history(
                reader, arguments.history, scope=scope, subject=arguments.subject or ""
            )
    if arguments.json:
        say_json(found)
    else:
        say(facts_text(found))
    return DONE


def _change(arguments: argparse.Namespace) -> int:
    kind = arguments.kind
    with closing(open_reader(arguments.store)) as reader:
        if kind != "know":
            _check_fact(reader, arguments.fact)
            body = CommandBody(by=arguments.by)
            return send(arguments, reader, kind, arguments.fact, body)
        said = said_of(
            key=arguments.key,
            value=_value(arguments.value),
            scope=_scope(reader, arguments.scope),
            subject=arguments.subject,
            core=arguments.core,
            evidence=arguments.evidence or arguments.by,
            until=arguments.until,
        )
        # Its subject stands in the body alone, where a deletion finds it.
        return send(
            arguments, reader, kind, "", CommandBody(by=arguments.by, fact=said)
        )


def _check_fact(reader: Reader, fact: str) -> None:
    if all(one.id != fact for one in views_facts.facts(reader, time.time())):
        raise Misuse(f"there is no current fact {fact!r}; see perdure facts")


def _scope(reader: Reader, word: str) -> str:
    """A scope, with the whole id of its task."""
    if not word.startswith(TASK):
        return word
    return task_scope(views.find(reader, word.removeprefix(TASK)))


def _value(word: str) -> Any:
    try:
        return msgspec.json.decode(word)
    except (msgspec.DecodeError, RecursionError):
        return word


def _time(word: str) -> float:
    try:
        at = datetime.fromisoformat(text(word))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{word!r} is no time, such as 2030-12-31 or 2030-12-31T18:00"
        ) from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
