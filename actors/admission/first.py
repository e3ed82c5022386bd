"""A task's first record, which may be damaged: admission must not fall with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ...storage.errors import Undecodable
from ...storage.reader import Reader
from ...storage.records import Record
from ..events import Event, TaskSubmitted
from ..names import family

__all__ = ["First", "first_of", "submitted_of"]

First: TypeAlias = list[tuple[Record, bool]]  # and whether it matches its checksum


def first_of(reader: Reader, task: str) -> First:
    """The first record of a task's stream, sound or not; none where it is missing."""
    return reader.examined(family(task), 0, 1)


def submitted_of(
    task: str, first: First, event_of: Callable[[Record], Event]
) -> TaskSubmitted:
    """What was submitted. Raises Undecodable where that cannot be read."""
    if not first or first[0][0].version != 1:
        raise Undecodable(f"task {task}", "its first record is missing")
    record, sound = first[0]
    if not sound:
        subject = f"record {record.seq} of {record.stream}"
        raise Undecodable(subject, "its checksum does not match")
    submitted = event_of(record)
    if not isinstance(submitted, TaskSubmitted):
        raise Undecodable(f"task {task}", f"it begins with {record.type}")
    return submitted
