"""What of the store belongs to a task beside its streams: rows, commands, values.

Read from records as they stand: what a newer perdure wrote need not be understood to
be exported, or erased.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..storage.reader import Reader
from ..storage.records import Record
from .names import (
    APPROVAL_ANSWERS,
    APPROVALS,
    CALLER_KEYS,
    DOUBTS,
    EFFECT_KEYS,
    EVIDENCE,
    FACTS,
    FACTS_PAST,
    KEYS,
    NOTES,
    QUARANTINED,
    QUESTION_ANSWERS,
    QUESTIONS,
    TIMER_ROWS,
    UNDOS,
    VERDICTS,
)
from .task.expiring import warning_key
from .task.rows import timer_key

__all__ = ["is_under", "named_by", "rows_under"]

_NAMING = (
    "TaskSubmitted",
    "ApprovalAsked",
    "QuestionAsked",
    "EffectRegistered",
    "TimerSet",
    "SlotDeferred",
)
_UNDER = (
    (NOTES, "/"),
    (QUARANTINED, "/"),
    (DOUBTS, ":"),
    (VERDICTS, ":"),
    (UNDOS, ":"),
    (EFFECT_KEYS, ":"),
    (EVIDENCE, ":"),
)


def is_under(space: str, key: str, task: str) -> bool:
    """Whether a row's key begins with the task's id, as in `rows_under`."""
    if space in (FACTS, FACTS_PAST):
        return key.startswith(f"task:{task}/")
    return any(space == one and key.startswith(f"{task}{mark}") for one, mark in _UNDER)


def rows_under(reader: Reader, task: str) -> Iterator[tuple[str, str]]:
    """Space and key of the rows whose keys begin with the task's id."""
    for space, mark in _UNDER:
        for row in reader.rows(space, f"{task}{mark}"):
            yield space, row.key
    for space in (FACTS, FACTS_PAST):
        for row in reader.rows(space, f"task:{task}/"):
            yield space, row.key


def named_by(record: Record) -> Iterator[tuple[str, str]]:
    """Space and key of the rows that a record of the task's streams names."""
    if record.type not in _NAMING:
        return
    body = msgspec.json.decode(record.body)
    yield from _timers(record, body)
    match record.type:
        case "TaskSubmitted" if body.get("key"):
            yield KEYS, body["key"]
        case "ApprovalAsked":
            yield APPROVALS, body.get("approval", "")
            yield APPROVAL_ANSWERS, body.get("approval", "")
        case "QuestionAsked":
            yield QUESTIONS, body.get("question", "")
            yield QUESTION_ANSWERS, body.get("question", "")
        case "EffectRegistered" if body.get("named"):
            yield CALLER_KEYS, body.get("key", "")


def _timers(record: Record, body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The rows of what the record has its task wait for, or warned of."""
    task, op = record.stream.partition("/")[2], body.get("op", 0)
    expires = body.get("expires")
    for at in (body.get("not_before"), body.get("deadline"), body.get("at"), expires):
        if at is not None:
            yield TIMER_ROWS, timer_key(at, task, op)
    if expires is not None:
        yield TIMER_ROWS, warning_key(task, op, body["at"], expires)
