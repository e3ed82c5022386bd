"""`perdure doctor`: whether a store is whole, and which live tasks can go on."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from .cli import DONE, UNDONE, say, say_json, text
from .cli_run import load_agent
from .doctor import Report, examine

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser, _: str) -> None:
    """The options of `doctor`, but for those that all commands share."""
    parser.add_argument(
        "--agents",
        metavar="MODULE:AGENT",
        type=text,
        nargs="+",
        help="the agents that are to go on with its tasks",
    )


def run(arguments: argparse.Namespace) -> int:
    """Examine the store, and say what was found; returns the exit code."""
    agents = arguments.agents
    known = None if agents is None else [load_agent(one) for one in agents]
    report = examine(arguments.store, agents=known)
    if arguments.json:
        say_json(report)
    else:
        say(_text(report))
    return DONE if report.healthy else UNDONE


def _text(report: Report) -> Iterator[str]:
    yield (
        f"{report.store}: {report.records} records of {report.streams} streams, "
        f"{report.snapshots} snapshots, {report.blobs} blobs, {report.tasks} tasks"
    )
    if report.live:
        yield f"{report.loads} of {report.live} live tasks can go on"
    for held in report.held:
        yield f"  {held.task} cannot: {held.why}"
    for found in report.findings:
        yield f"{found.kind}  {found.where}"
        yield f"  {found.what}: {found.means}"
        yield f"  {found.fix}"
    total = sum(report.counts.values())
    if total > len(report.findings):
        yield f"and {total - len(report.findings)} more, by kind: {report.counts}"
    yield f"{total} found" if total else "nothing found"
