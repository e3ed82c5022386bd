"""`perdure demo`: the report job, killed and recovered before your eyes."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from ..actors.errors import Misuse

__all__ = ["add_arguments", "run"]

COMPLETED = 0
FAILED = 1
KILLS = 3
COUNTRY = "NO"
OPERATOR = "operator@example.org"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The demo's options."""
    parser.add_argument(
        "--kills", type=_count, help=f"how often to kill the process ({KILLS})"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="picks where the kills fall (0)"
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
    if arguments.list_kill_points:
        _say("\n".join(parent.kill_points(**job)))
        return COMPLETED
    if arguments.kill_at is None:
        kills = KILLS if arguments.kills is None else arguments.kills
        plan = parent.kills_by_seed(kills, arguments.seed)
    else:
        plan = parent.kills_at(arguments.kill_at, parent.rehearse((), **job))
    folder = parent.empty_folder(arguments.dir)
    scripted = arguments.model == "scripted"
    _say(f"model: {'scripted, no LLM' if scripted else arguments.model}")
    _say(f"folder: {folder}")
    work = parent.Job(folder, model=arguments.model, say=_say, **job)
    try:
        counted = work.run(plan)
    except parent.Missed as missed:
        sys.stderr.write(f"perdure demo: {missed}\n")
        return FAILED
    _say(_summary(counted))
    if arguments.json:
        _say(json.dumps(counted))
    return COMPLETED if _is_right(counted) else FAILED


def _check(arguments: argparse.Namespace) -> None:
    model = arguments.model
    if model != "scripted" and not model.removeprefix("openai:"):
        raise Misuse("--model openai: lacks a name; give openai:NAME")
    if model != "scripted" and not model.startswith("openai:"):
        raise Misuse(f"--model {model} is unknown; give scripted or openai:NAME")
    if arguments.kill_at is not None and arguments.kills is not None:
        raise Misuse("--kill-at kills once: leave out --kills")


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
        f"{counted['status']} after {counted['kills']} kills and "
        f"{counted['recoveries']} recoveries in {counted['seconds']} s: "
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
    if number < 0:
        raise argparse.ArgumentTypeError(
            f"{text} is no number of kills; give 0 or more"
        )
    return number
