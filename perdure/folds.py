"""Streams read back without owning them: their events, and the state they come to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from .actors.events import EVENTS, Event
from .actors.task.standing import newest
from .actors.upgrades import UPGRADERS
from .storage.codec import Codec
from .storage.reader import Reader
from .storage.records import Record

__all__ = ["event_of", "family", "fold", "is_old", "records_of", "whole"]

PAGE = 10_000  # records
S = TypeVar("S", bound=msgspec.Struct)


def event_of(record: Record) -> Event:
    """The event of a record. Raises Undecodable where this code does not know it."""
    event = _codec().decode(record)
    assert isinstance(event, Event)
    return event


def is_old(record: Record) -> bool:
    """Whether a record is of an older version; raises as `event_of` does."""
    return _codec().check(record)


def records_of(reader: Reader, stream: str) -> tuple[Record, ...]:
    """All records of one stream, from the first."""
    return reader.all_of(stream)


def whole(reader: Reader, stream: str) -> list[tuple[Record, Event]]:
    """All records of one stream, each with its event."""
    return [(record, event_of(record)) for record in records_of(reader, stream)]


def family(reader: Reader, name: str, last: int) -> Iterator[Record]:
    """The records of a stream and of those under it, in order, up to seq `last`."""
    seen = 0
    while seen < last:
        page = reader.records(seen, PAGE, name)
        yield from (record for record in page if record.seq <= last)
        seen = page[-1].seq if page else last


def fold(reader: Reader, stream: str, first: S, apply: Callable[[S, Event], S]) -> S:
    """The state of a stream: its newest good snapshot and the events after it."""
    return newest(reader, stream, event_of, first, apply)[0]


@functools.cache
def _codec() -> Codec:
    return Codec(EVENTS, UPGRADERS)
