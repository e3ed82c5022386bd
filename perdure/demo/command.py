"""`perdure demo`: the report job, killed and recovered before your eyes."""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import Any

from ..actors.errors import Misuse

__all__ = ["add_arguments", "run"]

COMPLETED = 0
FAILED = 1
KILLS = 3
COUNTRY = "NO"
OPERATOR = "operator@example.org"
MOST_KILLS = 20  # a task is parked when a 21st recovery within the hour would begin
ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")


def add_arguments(parser: argparse.ArgumentParser, _: str) -> None:
    """The demo's options."""
    parser.add_argument(
        "--kills", type=_count, help=f"how often to kill the process ({KILLS})"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="picks at which fault point, counted over all threads, a kill falls (0)",
    )
    parser.add_argument("--dir", help="an empty folder to work in (a new one)")
    parser.add_argument("--country", default=COUNTRY, help=f"ISO code ({COUNTRY})")
    parser.add_argument("--operator", default=OPERATOR, help=f"({OPERATOR})")
    parser.add_argument(
        "--model",
        default="scripted",
        help="scripted, or openai:NAME for any OpenAI-compatible endpoint "
        "(OPENAI_BASE_URL, OPENAI_API_KEY)",
    )
    parser.add_argument(
        "--kill-at", metavar="POINT", help="kill once, at this point of the code"
    )
    parser.add_argument(
        "--list-kill-points", action="store_true", help="print the points and exit"
    )
    parser.add_argument(
        "--json", action="store_true", help="end with one JSON object on a line"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; 0 where the task completed with nothing lost and nothing doubled.

    Raises Misuse for options that cannot be used.
    """
    _check(arguments)
    try:
        return _run(arguments)
    except ImportError as error:
        raise Misuse(str(error)) from None


def _run(arguments: argparse.Namespace) -> int:
    from . import parent

    job = {"country": arguments.country, "operator": arguments.operator}
    _check_job(arguments)
    if arguments.list_kill_points:
        points = parent.kill_points(**job)
        _say(json.dumps(points) if arguments.json else "\n".join(points))
        return COMPLETED
    folder = parent.empty_folder(arguments.dir)
    scripted = arguments.model == "scripted"
    _say(f"model: {'scripted, no LLM' if scripted else arguments.model}")
    _say(f"folder: {folder}")
    work = parent.Job(folder, model=arguments.model, say=_say, **job)
    try:
        if arguments.kill_at is None:
            kills = KILLS if arguments.kills is None else arguments.kills
            plan = parent.kills_by_seed(kills, arguments.seed)
        else:
            hits = parent.rehearse((), **job)
            plan = parent.kills_at(arguments.kill_at, hits, **job)
        counted = work.run(plan)
    except parent.Missed as missed:
        sys.stderr.write(f"perdure demo: {missed}\n")
        return FAILED
    _say(_summary(counted))
    _say(f"reports, mails, store and log are in {folder}")
    if arguments.json:
        _say(json.dumps(counted))
    return COMPLETED if _is_right(counted) else FAILED


def _check(arguments: argparse.Namespace) -> None:
    model = arguments.model
    if model != "scripted" and not model.removeprefix("openai:"):
        raise Misuse("--model openai: lacks a name; give openai:NAME")
    if model != "scripted" and not model.startswith("openai:"):
        raise Misuse(f"--model {model} is unknown; give scripted or openai:NAME")
    if model != "scripted":
        from .child import make_model

        try:
            make_model(model)
        except ValueError as error:
            raise Misuse(f"--model {model}: {error}") from None
    for name in ("dir", "kill_at", "country", "operator"):
        if getattr(arguments, name) == "":
            raise Misuse(
                f"--{name.replace('_', '-')} is empty; give it or leave it out"
            )
    if not ADDRESS.fullmatch(arguments.operator):
        raise Misuse(f"--operator {arguments.operator!r} is no mail address")
    if arguments.kill_at is not None and arguments.kills is not None:
        raise Misuse("--kill-at kills once: leave out --kills")


def _check_job(arguments: argparse.Namespace) -> None:
    """Refuse what only the extra's data can tell, before anything is written."""
    from .data import countries

    found = countries()
    if arguments.country not in found:
        raise Misuse(
            f"--country {arguments.country!r} has no airports; give an ISO code like NO"
        )


def _is_right(counted: dict[str, Any]) -> bool:
    return (
        counted["status"] == "completed"
        and counted["budget_ok"]
        and counted["mails"] == 1
        and not counted["duplicate_effects"]
        and not counted["lost_steps"]
        and not counted["redone_steps"]
    )


def _summary(counted: dict[str, Any]) -> str:
    return (
        f"{counted['status']}; kills: {counted['kills']}, "
        f"recoveries: {counted['recoveries']}, seconds: {counted['seconds']}; "
        f"{counted['mails']} mail, {counted['duplicate_effects']} effects doubled, "
        f"{counted['lost_steps']} steps lost, {counted['redone_steps']} done again, "
        f"books {'balanced' if counted['budget_ok'] else 'WRONG'}"
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= MOST_KILLS:
        raise argparse.ArgumentTypeError(
            f"{text} is no number of kills; give 0 to {MOST_KILLS}"
        )
    return number
