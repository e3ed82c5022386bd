"""Commands that only read: no store is owned for them, and nothing is changed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from . import views, views_effects, views_request, views_spend, views_text
from .cli import DONE, say, say_json, text
from .storage.reader import Reader, open_reader

__all__ = ["add_arguments", "run"]

T = TypeVar("T")

GROUPS = ("tool", "model", "step", "day")


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    """What this command takes, but for what all commands share."""
    parser.set_defaults(reads=_COMMANDS[name])
    add = parser.add_argument
    if name in ("show", "log", "request"):
        add("task", metavar="ID", type=text, help="a task, see perdure ps")
    elif name in ("effects", "spend"):
        add("task", metavar="ID", type=text, nargs="?", help="a task")
    if name == "effects":
        about = "those that may have happened, and that wait for a person"
        add("--unknown", action="store_true", help=about)
    elif name == "spend":
        add("--by", choices=GROUPS, help="what to sum up by")
    elif name == "request":
        add("--round", metavar="N", type=int, help="its Nth model call")
        why = "why each unit was kept, shrunk or dropped"
        add("--why", action="store_true", help=why)
        layers = "its messages by layer, as JSON"
        add("--layers", action="store_true", help=layers)


def run(arguments: argparse.Namespace) -> int:
    """Read the store and print what was found; returns the exit code."""
    with open_reader(arguments.store) as reader:
        code: int = arguments.reads(reader, arguments)
    return code


def _ps(reader: Reader, arguments: argparse.Namespace) -> int:
    return _told(arguments, views.tasks(reader), views_text.tasks_text)


def _show(reader: Reader, arguments: argparse.Namespace) -> int:
    found = views.sheet(reader, views.find(reader, arguments.task))
    return _told(arguments, found, views_text.sheet_text)


def _effects(reader: Reader, arguments: argparse.Namespace) -> int:
    word = arguments.task
    task = "" if word is None else views.find(reader, word)
    if arguments.unknown:
        found = views_effects.unknown(reader, task)
    elif task:
        found = views_effects.effects(reader, task)
    else:
        tasks = [one.task for one in views.tasks(reader)]
        found = [line for one in tasks for line in views_effects.effects(reader, one)]
    return _told(arguments, found, views_text.effects_text)


def _log(reader: Reader, arguments: argparse.Namespace) -> int:
    found = views_effects.log(reader, views.find(reader, arguments.task))
    if arguments.json:
        say_json(list(found))
    else:
        say(map(views_text.log_line, found))
    return DONE


def _request(reader: Reader, arguments: argparse.Namespace) -> int:
    task = views.find(reader, arguments.task)
    found, rendered = views_request.request(reader, task, arguments.round)
    if arguments.layers:
        document = views_request.layers_document(task, rendered)
        if arguments.json:
            say_json(document)
        else:
            plain = msgspec.to_builtins(document)
            say(json.dumps(plain, ensure_ascii=False, indent=2).split("\n"))
        return DONE
    why = arguments.why
    return _told(arguments, found, lambda one: views_request.request_text(one, why=why))


def _spend(reader: Reader, arguments: argparse.Namespace) -> int:
    given = arguments.task
    task = None if given is None else views.find(reader, given)
    by: Any = arguments.by or "task"
    return _told(arguments, views_spend.spend(reader, task, by), views_text.spend_text)


def _told(
    arguments: argparse.Namespace, found: T, text: Callable[[T], Iterable[str]]
) -> int:
    """Print what was found, as JSON or as text."""
    if arguments.json:
        say_json(found)
    else:
        say(text(found))
    return DONE


_COMMANDS: dict[str, Callable[[Reader, argparse.Namespace], int]] = {
    "ps": _ps,
    "show": _show,
    "effects": _effects,
    "log": _log,
    "request": _request,
    "spend": _spend,
}
