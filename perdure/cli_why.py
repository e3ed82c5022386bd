"""`perdure why`: the story of a task, iteration by iteration, as lines or as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from . import views
from .cli import DONE, say, say_json, text
from .storage.reader import open_reader
from .views_text import short, tame, time_text
from .views_why import Call, Iteration, Recovered, Turn, Why, why

__all__ = ["add_arguments", "run", "why_text"]

LINE = 200  # characters of what stands on one line


def add_arguments(parser: argparse.ArgumentParser, _: str) -> None:
    """What this command takes, but for what all commands share."""
    add = parser.add_argument
    add("task", metavar="ID", type=text, help="a task, see perdure ps")
    add("--step", metavar="NAME", type=text, help="only this step of its plan")
    add("--last", metavar="N", type=int, help="only its last N iterations")


def run(arguments: argparse.Namespace) -> int:
    """Print the story; returns the exit code."""
    with open_reader(arguments.store) as reader:
        task = views.find(reader, arguments.task)
        found = why(reader, task, arguments.step, arguments.last)
    if arguments.json:
        say_json(found)
    else:
        say(why_text(found))
    return DONE


def why_text(found: Why) -> Iterator[str]:
    """The story for people."""
    yield f"task {found.task} ({found.agent}): {_line(found.goal)}"
    stop = f": {_line(found.reason)}" if found.reason else ""
    ends = f"; ends with: {_line(found.ends_with)}" if found.ends_with else ""
    yield f"{found.status}{stop}{ends}"
    yield f"asked before each iteration, in order: {', '.join(found.conditions)}"
    for part in found.story:
        match part:
            case Iteration():
                yield ""
                yield from _iteration(part)
            case Recovered():
                yield ""
                yield from _recovered(part)
            case Turn():
                by = f" (by {_line(part.by)})" if part.by else ""
                held = f" [{part.condition}]" if part.condition else ""
                said = f"{part.what}: {_line(part.says)}{by}{held}"
                yield f"-- {time_text(part.at)} {said}"


def _iteration(one: Iteration) -> Iterator[str]:
    limit = f" of {one.limit}" if one.limit else ""
    how = "the agent's policy"
    if one.by == "model":
        how = f"op{one.op}, round {one.round or '-'}, {one.outcome}"
    yield (
        f"{time_text(one.at)} step {one.step}, attempt {one.attempt}, iteration "
        f"{one.iteration}{limit}: {how}"
    )
    yield from _named("why", one.why)
    yield from _named("learned", one.learned)
    for ruled in one.ruled_out:
        yield from _named("ruled out", ruled)
    yield from _named("said", one.said)
    yield from map(_call, one.calls)
    yield from _named("verdict", one.verdict)


def _call(one: Call) -> str:
    by = f" ({one.by})" if one.by not in ("", "run") else ""
    came = f": {one.feedback}" if one.feedback else ""
    head = tame(f"  op{one.op:<9}{one.tool} {_line(one.arguments)}")
    return f"{head} -> {one.outcome}{by}{_line(came)}"


def _recovered(one: Recovered) -> Iterator[str]:
    yield f"{time_text(one.at)} recovery {one.number}: {_line(one.cause)}"
    yield from _named("confirmed", ", ".join(one.facts))
    yield from _named("next", one.next)
    decided = ", ".join(f"{op} {how}" for op, how in one.decided.items())
    yield from _named("decided", decided)
    yield from _named("asked", ", ".join(f"op{op}" for op in one.asked))
    for said in one.declared:
        by = f"{said.by} ({said.who})" if said.who else said.by
        rules = "passed" if said.accepted else f"refused: {said.why}"
        yield from _named("declared", f"by {by}: {said.declaration} -> {rules}")


def _named(name: str, value: str) -> Iterator[str]:
    if value:
        yield f"  {name:<11}{_line(value)}"


def _line(words: str) -> str:
    return short(words, LINE)
