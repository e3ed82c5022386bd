"""A task's first records, which may be damaged: admission must not fall with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ...storage.errors import Undecodable
from ...storage.reader import Reader
from ...storage.records import Loaded, Record
from ..events import Event, TaskSubmitted
from ..names import family

__all__ = ["First", "all_of_new", "first_of", "loaded_of", "submitted_of"]

MOST = 64  # records that a task which has not begun may have, to be read at once

First: TypeAlias = list[tuple[Record, bool]]  # and whether it matches its checksum


def first_of(reader: Reader, task: str) -> First:
    """The first record of a task's stream, sound or not; none where it is missing."""
    return reader.examined(family(task), 0, 1)


def all_of_new(reader: Reader, task: str) -> First:
    """The records of a task that was only submitted, sound or not."""
    return reader.examined(family(task), 0, MOST)


def loaded_of(task: str, first: First) -> Loaded | None:
    """A task's stream, where these are surely all of its records, and sound."""
    whole = 0 < len(first) < MOST
    records = tuple(record for record, sound in first if sound)
    numbers = [record.version for record in records]
    if not whole or numbers != list(range(1, len(first) + 1)):
        return None
    return Loaded(
        stream=family(task),
        snapshot=None,
        records=records,
        head=len(records),
        seq=records[-1].seq,
    )


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
