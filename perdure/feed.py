"""What follows in the log of one task, page by page, from wherever somebody stands."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from .actors.names import TASK_ROWS, family
from .actors.task.rows import TaskRow
from .errors import Misuse
from .events import line_of
from .result import ENDED
from .stands import FollowUntil, Stand, stand_of
from .storage.reader import Reader
from .storage.records import Record

__all__ = ["Page", "Place", "TaskEvent", "Wanted", "read_page"]

PAGE = 60  # records
STRETCH = 20  # records of one stream that are read for a page


class TaskEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a task, as whoever follows it is told.

    Args:
        seq: its place in the log; ``after=seq`` goes on right behind it.
        at: when it was written, in seconds since the epoch.
        type: its name, as logs have it (``effect.recorded``).
        task: whose it is: the task's id, or that of a sub-task.
        stream: where it stands in the store.
        fields: the rest, as the catalogue in `perdure/logs.py` lists it.
        provisional: a piece of a reply that a model is still writing, of type
            ``model.text``. It stands nowhere: `stream` is empty, and `seq` that of the
            last event before it.
    """

    seq: int
    at: float
    type: str
    task: str
    stream: str
    fields: Mapping[str, Any]
    provisional: bool = False


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody follows, and to where. Raises Misuse naming what is wrong."""

    task: str
    until: FollowUntil = "ended"
    subtasks: bool = False

    def __post_init__(self) -> None:
        if self.until not in ("ended", "stopped"):
            raise Misuse(f"events: until={self.until!r}: give 'ended' or 'stopped'")
        if not isinstance(self.subtasks, bool):
            raise Misuse(f"events: subtasks={self.subtasks!r} must be True or False")


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """How far somebody has come: the last seq, and the version in each stream.

    `done` are sub-tasks that have ended and were read to their end.
    """

    seq: int = 0
    versions: dict[str, int] = {}
    done: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if type(self.seq) is not int or self.seq < 0:
            raise Misuse(
                f"events: after={self.seq!r} must be the seq of an event seen, or 0"
            )


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """The next events, the place behind them, and whether `more` can be read now."""

    events: tuple[TaskEvent, ...]
    place: Place
    more: bool
    stand: Stand


def read_page(reader: Reader, wanted: Wanted, place: Place) -> Page:
    """The next events behind `place`, in the order of the log.

    It costs what it returns, however long the log is. Raises TaskNotFound.
    """
    # In this order: what stands in a row has its records up to here, and of every
    # stream all up to here can be read.
    stand = stand_of(reader, wanted.task, wanted.until)
    upto = reader.durable_seq
    ended = set() if not wanted.subtasks else _ended_subtasks(reader, wanted.task)
    versions = dict(place.versions)
    found: list[Record] = []
    full = upto
    for stream in _streams(reader, wanted, place.done):
        if stream not in versions:
            versions[stream] = _version_at(reader, stream, place.seq)
        records = reader.stretch(stream, versions[stream], STRETCH)
        if len(records) == STRETCH:  # of this one there may be more, behind its last
            full = min(full, records[-1].seq)
        found += records
    found = [record for record in found if record.seq <= full]
    found.sort(key=operator.attrgetter("seq"))
    page, more = found[:PAGE], full < upto or len(found) > PAGE
    for record in page:
        versions[record.stream] = record.version
    done = place.done
    if not more and ended - done:
        done |= ended
        versions = {one: at for one, at in versions.items() if _task(one) not in done}
    return Page(
        events=tuple(map(_event, page)),
        place=Place(
            seq=page[-1].seq if page else place.seq, versions=versions, done=done
        ),
        more=more,
        stand=stand,
    )


def _streams(reader: Reader, wanted: Wanted, done: frozenset[str]) -> Iterator[str]:
    yield from reader.streams(family(wanted.task))
    if not wanted.subtasks:
        return
    for row in reader.rows(TASK_ROWS, f"{wanted.task}."):
        if row.key not in done:
            yield from reader.streams(family(row.key))


def _ended_subtasks(reader: Reader, task: str) -> set[str]:
    return {
        row.key
        for row in reader.rows(TASK_ROWS, f"{task}.")
        if msgspec.json.decode(row.value or b"", type=TaskRow).status in ENDED
    }


def _task(stream: str) -> str:
    return stream.split("/", 2)[1]


def _version_at(reader: Reader, stream: str, seq: int) -> int:
    """The version of a stream's last record up to `seq`, by halves."""

    def is_seen(version: int) -> bool:
        found = reader.stretch(stream, version - 1, 1)
        return bool(found) and found[0].seq <= seq

    if seq == 0 or not is_seen(1):
        return 0
    seen, beyond = 1, reader.head(stream) + 1
    while beyond - seen > 1:
        middle = (seen + beyond) // 2
        if is_seen(middle):
            seen = middle
        else:
            beyond = middle
    return seen


def _event(record: Record) -> TaskEvent:
    name, fields = line_of(record)
    task = fields.pop("task")
    del fields["at"], fields["seq"]
    return TaskEvent(
        seq=record.seq,
        at=record.at,
        type=name,
        task=task,
        stream=record.stream,
        fields=fields,
    )
