"""`perdure doctor`: whether a store is whole, which tasks can go on, and its repair."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator

import msgspec

from .cli import DONE, UNDONE, add_objects, say, say_json, text
from .cli_run import load_agent
from .doctor import Item, Repaired, Report, examine, put_back, quarantined, repair
from .errors import Misuse
from .objects import open_objects

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser, _: str) -> None:
    """The options of `doctor`, but for those that all commands share."""
    add = parser.add_argument
    agents = "the agents that are to go on with its tasks"
    add("--agents", metavar="MODULE:AGENT", type=text, nargs="+", help=agents)
    add_objects(parser, "where snapshots of its tasks lie, to be examined too")
    does = parser.add_mutually_exclusive_group()
    about = "set aside what is amiss, and park the live tasks that it harms"
    does.add_argument("--repair", action="store_true", help=about)
    about = "list what was set aside; with --json also what is held"
    does.add_argument("--quarantine", action="store_true", help=about)
    about = "put such items back"
    does.add_argument("--put-back", metavar="ITEM", type=text, nargs="+", help=about)


def run(arguments: argparse.Namespace) -> int:
    """Examine the store, or repair it, and say what was found; returns the code."""
    others = arguments.repair or arguments.quarantine or arguments.put_back
    if others and arguments.agents is not None:
        raise Misuse("--agents is for an examination: give it alone")
    if arguments.repair:
        return _repair(arguments)
    if arguments.quarantine:
        return _list(arguments)
    if arguments.put_back:
        return _put_back(arguments)
    agents = arguments.agents
    known = None if agents is None else [load_agent(one) for one in agents]
    objects = open_objects(arguments.objects, create=False)
    report = examine(arguments.store, agents=known, objects=objects)
    if arguments.json:
        say_json(report)
    else:
        say(_text(report))
    return DONE if report.healthy else UNDONE


def _repair(arguments: argparse.Namespace) -> int:
    done = repair(arguments.store)
    if arguments.json:
        say_json(done)
    else:
        say(_repaired(done))
    return DONE if done.left.healthy else UNDONE


def _list(arguments: argparse.Namespace) -> int:
    found = quarantined(arguments.store)
    if arguments.json:
        say_json([{**msgspec.structs.asdict(one), "held": body} for one, body in found])
    else:
        say(_items(one for one, _ in found))
        say([f"{len(found)} in quarantine"])
    return DONE


def _put_back(arguments: argparse.Namespace) -> int:
    found = put_back(arguments.store, arguments.put_back)
    if arguments.json:
        say_json(found)
    else:
        say(f"{one.id}  {one.where}: put back" for one in found)
    return DONE


def _repaired(done: Repaired) -> Iterator[str]:
    yield from _items(done.taken)
    for task in done.parked:
        yield f"task {task} is parked until it is resumed"
    yield f"{len(done.taken)} set aside"
    yield from _text(done.left)


def _items(found: Iterable[Item]) -> Iterator[str]:
    for one in found:
        yield f"{one.id}  {one.kind}  {one.where}"
        how = "it stays where it is"
        if one.kind == "file":
            how = f"as it was: {one.name}"
        elif one.taken:
            how = f"held: {one.taken} {one.name}"
        elif one.instead:
            how = "it was made anew"
        yield f"  {one.what}; {how}"


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
    if report.quarantined:
        yield f"{report.quarantined} in quarantine, see perdure doctor --quarantine"
    yield f"{total} found" if total else "nothing found"
