"""Rows that stand beside the streams: that each is of a task, and of one that lives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..actors import names
from ..actors.task.rows import ENDED, ApprovalRow, QuestionRow, TaskRow, TimerRow
from ..storage.reader import Reader
from ..storage.records import Row
from .report import Findings

__all__ = ["check_rows"]

PAGE = 1_000  # rows
_BY_ID = (  # spaces whose keys begin with a task's id, and what follows it
    (names.NOTES, "/"),
    (names.DOUBTS, ":"),
    (names.VERDICTS, ":"),
    (names.UNDOS, ":"),
    (names.EFFECT_KEYS, ":"),
    (names.EVIDENCE, ":"),
)
_TYPES: dict[str, Any] = {
    names.TIMER_ROWS: TimerRow,
    names.APPROVALS: ApprovalRow,
    names.QUESTIONS: QuestionRow,
}


def check_rows(reader: Reader, found: Findings) -> int:
    """Go through all rows that name a task; returns how many tasks have a row."""
    tasks = 0
    for row in _all(reader, names.TASK_ROWS):
        tasks += 1
        if not reader.head(names.family(row.key)):
            what = f"there is no stream task/{row.key}"
            found.add("row_of_none", _at(row), what)
    known = _Known(reader)
    for space, mark in _BY_ID:
        for row in _all(reader, space):
            task = row.key.rpartition(mark)[0]
            if not known.there(task):
                found.add("row_of_none", _at(row), f"there is no task {task}")
    for space, kind in _TYPES.items():
        for row in _all(reader, space):
            _check_waiting(reader, found, known, row, kind)
    for row in _all(reader, names.KEYS):
        _check_key(reader, found, known, row)
    return tasks


def _check_waiting(
    reader: Reader, found: Findings, known: _Known, row: Row, kind: Any
) -> None:
    """What a task waits for: the time, an approval, an answer."""
    try:
        waiting = msgspec.json.decode(row.value or b"", type=kind)
    except msgspec.MsgspecError as error:
        found.add("row_unreadable", _at(row), str(error))
        return
    task = waiting.task
    if not known.there(task):
        found.add("row_of_none", _at(row), f"there is no task {task}")
        return
    if getattr(waiting, "status", "open") != "open" or not known.ended(task):
        return
    if reader.row(row.space, row.key) == row.value:  # and the task ended before
        found.add("left_open", _at(row), f"task {task} has ended")


def _check_key(reader: Reader, found: Findings, known: _Known, row: Row) -> None:
    task = (row.value or b"").decode(errors="replace")
    if not known.there(task):
        found.add("row_of_none", _at(row), f"there is no task {task}")
        return
    first = reader.examined(names.family(task), 0, 1)
    if not first or not first[0][1] or first[0][0].type != "TaskSubmitted":
        return
    key = msgspec.json.decode(first[0][0].body).get("key")
    if key != row.key:
        what = f"it names task {task}, which has the key {key!r}"
        found.add("row_differs", _at(row), what)


class _Known:
    """Tasks by their rows; of those asked for, the last one is remembered."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._last = ""
        self._there = False

    def there(self, task: str) -> bool:
        if task != self._last:
            self._there = self._reader.row(names.TASK_ROWS, task) is not None
            self._last = task
        return self._there

    def ended(self, task: str) -> bool:
        value = self._reader.row(names.TASK_ROWS, task)
        try:
            return msgspec.json.decode(value or b"", type=TaskRow).status in ENDED
        except msgspec.MsgspecError:
            return False


def _all(reader: Reader, space: str) -> Iterator[Row]:
    after = ""
    while page := reader.rows_after(space, after, PAGE):
        yield from page
        after = page[-1].key


def _at(row: Row) -> str:
    return f"row {row.space}/{row.key}"
