"""`perdure checkpoint`: a task as of one place of the log, as one document."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

from . import views
from .cli import DONE, say, say_json, text
from .storage.reader import open_reader
from .views_checkpoint import Checkpoint, NextStep, checkpoint
from .views_text import pairs, short, table

__all__ = ["add_arguments", "checkpoint_text", "run"]

LINE = 60  # characters of an input or an output in the table


def add_arguments(parser: argparse.ArgumentParser, _: str) -> None:
    """What this command takes, but for what all commands share."""
    add = parser.add_argument
    add("task", metavar="ID", type=text, help="a task, see perdure ps")
    add("--at", metavar="SEQ", type=int, help="as of this place of the log")


def run(arguments: argparse.Namespace) -> int:
    """Print the document; returns the exit code."""
    with open_reader(arguments.store) as reader:
        task = views.find(reader, arguments.task)
        found = checkpoint(reader, task, arguments.at)
    if arguments.json:
        say_json(found)
    else:
        say(checkpoint_text(found))
    return DONE


def checkpoint_text(found: Checkpoint) -> Iterator[str]:
    """The document for people."""
    status, use = found.task_status, found.resource_usage
    taken = found.snapshot
    yield from pairs(
        ("checkpoint", found.checkpoint_id),
        ("task", f"{found.session_id} ({found.agent})"),
        ("as of", f"{found.created_at}, seq {found.seq}"),
        ("status", status.status),
        ("reason", status.reason),
        ("detail", status.detail),
        ("ends with", status.ends_with),
        ("goal", found.goal.raw_input),
        ("inputs", json.dumps(found.goal.inputs) if found.goal.inputs else ""),
        ("constraints", "\n".join(found.goal.constraints)),
        ("done", "\n".join(f"{one.step}: {one.summary}" for one in found.completed)),
        ("current step", status.current_step or ""),
        ("pending", ", ".join(status.pending_steps)),
        ("next", "" if found.next_step is None else _next_text(found.next_step)),
        ("side effects", ", ".join(f"{k} {n}" for k, n in found.side_effects.items())),
        ("unknown", ", ".join(found.effects["unknown"])),
        ("used", ", ".join(f"{name} {value}" for name, value in use.items())),
        (
            "snapshot",
            f"{taken.reason} ({taken.stream}, seq {taken.seq})"
            if taken
            else "none yet",
        ),
    )
    if not found.tools_called:
        return
    yield ""
    yield from table(
        ("EVIDENCE", "STEP", "TOOL", "STATUS", "INPUT", "OUTPUT"),
        (
            (
                one.evidence,
                one.step,
                one.tool,
                one.status,
                short(one.input, LINE),
                short(one.output or one.error, LINE),
            )
            for one in found.tools_called
        ),
    )


def _next_text(one: NextStep) -> str:
    lines = [f"{one.step}: {one.goal}"]
    if one.expected_result:
        lines.append(f"expected: {one.expected_result}")
    lines += [
        f"{act.evidence} {act.tool} {json.dumps(act.parameters)} ({act.status})"
        for act in one.actions
    ]
    return "\n".join(lines)
