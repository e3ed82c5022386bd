"""The examination of a whole store: a part at a time, and nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from ..actors import names
from ..actors.agent import Agent
from ..storage.address import Address
from ..storage.errors import StoreFailed
from ..storage.objects import ObjectStore
from ..storage.reader import Reader, open_reader
from .blobs import Blobs
from .money import Money
from .objects import check_objects
from .quarantine import Item, items
from .report import Findings, Report
from .rows import check_rows
from .tasks import Tasks
from .walk import Each, Walk

__all__ = ["examine", "examine_reader"]


def examine(
    address: Address,
    *,
    agents: Iterable[Agent] | None = None,
    objects: ObjectStore | None = None,
) -> Report:
    """Say whether a store is whole, and which live tasks can be gone on with.

    It reads every record, snapshot and blob, in little room. The store may be in use
    meanwhile; what is written while it reads may be looked at or not. A file of SQLite
    is held open by its own check, so that its log file grows until that is over.

    Args:
        address: the store, as `Runtime` takes it.
        agents: those that are to go on with its tasks; None does not look at agents.
        objects: where snapshots of its tasks lie; None does not look at those.

    Raises:
        CannotOpen, NotAStore, NewerLayout: as `open_reader` does.
        StoreTrouble: it is busy just now.
        ObjectTrouble: the object store cannot be reached.
    """
    name = os.fspath(address)
    try:
        reader = open_reader(address)
    except StoreFailed as error:
        found = Findings()
        found.add("unreadable", name, str(error))
        return _report(name, found)
    with reader:
        return examine_reader(reader, name, agents=agents, objects=objects)


def examine_reader(
    reader: Reader,
    name: str,
    *,
    agents: Iterable[Agent] | None = None,
    objects: ObjectStore | None = None,
) -> Report:
    """Examine what a reader reads; `name` is what the report calls it."""
    reader.objects = objects
    kept = _quarantine(reader)
    found = Findings(one.id for one in kept if one.noted)
    known = None if agents is None else {one.name: one for one in agents}
    blobs = Blobs(reader, found)
    money = Money(reader, found, blobs.body)
    tasks = Tasks(reader, found, blobs.body, known, money.queued)
    counts = {"records": 0, "streams": 0, "snapshots": 0}

    def count(walk: Walk) -> None:
        walk.end()
        counts["records"] += walk.records
        counts["snapshots"] += walk.snapshots
        counts["streams"] += 1

    with found.reading(name):
        for what in reader.damage():
            found.add("file", name, what)
    with found.reading("the blobs"):
        blobs.look()
    with found.reading("the streams"):
        streams = reader.streams()
        for service in (money.pool, tasks.queue):
            with found.reading(service.stream):
                service.on()
        for stream in streams:
            if stream in (names.POOL, names.ADMISSION):
                continue
            walk = Walk(reader, stream, found, blobs.body, _eyes(stream, blobs, money))
            with found.reading(stream):
                walk.on()
                _after(walk, money, tasks)
            count(walk)
    for service in (money.pool, tasks.queue):
        count(service)
    with found.reading("the rows"):
        tasks.count = check_rows(reader, found)
    with found.reading("the live tasks"):
        tasks.end()
    blobs.end()
    if objects is not None:
        with found.reading("the objects"):
            check_objects(reader, found, objects)
    counts["quarantined"] = len(kept)
    return _report(name, found, **counts, blobs=blobs.count, of=tasks)


def _quarantine(reader: Reader) -> list[Item]:
    try:
        return list(items(reader))
    except (StoreFailed, msgspec.MsgspecError):
        return []  # what is wrong with it is found below


def _eyes(stream: str, blobs: Blobs, money: Money) -> Each:
    """What looks at each event of a stream."""
    if not stream.endswith("/account"):
        return lambda record, event, _, __: blobs.each(record, event)
    money.begin()
    return money.each


def _after(walk: Walk, money: Money, tasks: Tasks) -> None:
    """What is to be said of a stream that was read."""
    family, _, rest = walk.stream.partition("/")
    if family != "task":
        return
    task, _, part = rest.partition("/")
    if part == "":
        tasks.check(task, walk)
    else:
        tasks.check_part(task)
    if part == "account" and walk.whole:
        money.end(task, walk.state)
    if not walk.whole:
        tasks.suspect(task)


def _report(
    name: str, found: Findings, of: Tasks | None = None, **counts: int
) -> Report:
    return Report(
        store=name,
        tasks=0 if of is None else of.count,
        live=0 if of is None else of.live,
        loads=0 if of is None else of.loads,
        held=() if of is None else tuple(of.held),
        counts=found.counts,
        findings=tuple(found.kept),
        **{"records": 0, "streams": 0, "snapshots": 0, "blobs": 0, **counts},
    )
