"""Where a task stands, read from the store by who does not own its streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from ...storage.reader import Reader
from ...storage.records import Record, Snapshot
from ..events import Event
from ..upgrades import state_of
from .state import TaskState, apply

__all__ = ["newest", "standing"]

S = TypeVar("S", bound=msgspec.Struct)


def newest(
    reader: Reader,
    stream: str,
    event_of: Callable[[Record], Event],
    first: S,
    fold: Callable[[S, Event], S],
) -> tuple[S, int]:
    """A stream's state and its last seq: from a good snapshot and the events after it.

    Not for an actor's turn: without a snapshot it goes through the whole stream.
    Raises Undecodable where this code does not know an event.
    """

    def usable(snapshot: Snapshot) -> bool:
        state_of(snapshot, type(first))
        return True

    loaded = reader.load(stream, usable=usable)
    state = first
    if loaded.snapshot is not None:
        state = state_of(loaded.snapshot, type(first))
    for record in loaded.records:
        state = fold(state, event_of(record))
    return state, loaded.seq


def standing(
    reader: Reader, event_of: Callable[[Record], Event], task: str
) -> TaskState:
    """The state of a task now, as `newest` reads it."""
    return newest(reader, f"task/{task}", event_of, TaskState(), apply)[0]
