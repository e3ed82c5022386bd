"""Whose records a task may open beside its own: those of what it was forked from."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from ...storage.reader import Reader
from ..names import TASK_ROWS
from ..task.rows import ERASED, TaskRow

__all__ = ["forks_of", "holder", "lineage"]


def lineage(reader: Reader, task: str) -> Iterator[tuple[str, int, bool]]:
    """The sources of a fork, the nearest first: id, and below which operation.

    The last part says whether the source was erased: then nothing of it is there, and
    nobody knows what it was forked from itself.
    """
    while (row := _row(reader, task)) is not None and row.source:
        source = _row(reader, row.source)
        yield row.source, row.source_ops, source is None or source.status == ERASED
        task = row.source


def holder(reader: Reader, task: str, op: int) -> tuple[str, bool]:
    """Whose operation one of this number is, and whether that task was erased."""
    found, erased = task, False
    for source, below, gone in lineage(reader, task):
        if op >= below:
            break
        found, erased = source, gone
    return found, erased


def forks_of(reader: Reader, tasks: Collection[str]) -> tuple[str, ...]:
    """The tasks that were forked from these or from forks of them, and are there.

    Goes through the rows of all tasks.
    """
    rows = [
        msgspec.json.decode(row.value or b"", type=TaskRow)
        for row in reader.rows(TASK_ROWS)
    ]
    found = dict.fromkeys(tasks)
    grown = True
    while grown:
        more = [r.task for r in rows if r.source in found and r.task not in found]
        found.update(dict.fromkeys(more))
        grown = bool(more)
    return tuple(one for one in found if one not in tasks)


def _row(reader: Reader, task: str) -> TaskRow | None:
    value = reader.row(TASK_ROWS, task)
    return None if value is None else msgspec.json.decode(value, type=TaskRow)
