"""Where a task stands, read from the store by who does not own its stream."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ...storage.reader import Reader
from ...storage.records import Record, Snapshot
from ..durable import STATE_SCHEMA
from ..events import Event
from .state import TaskState, apply

__all__ = ["standing"]


def standing(
    reader: Reader, event_of: Callable[[Record], Event], task: str
) -> TaskState:
    """The state of a task: its newest good snapshot and the events after it.

    Not for an actor's turn: without a snapshot it goes through the whole stream.
    Raises Undecodable where this code does not know an event.
    """

    def usable(snapshot: Snapshot) -> bool:
        if snapshot.state_schema != STATE_SCHEMA:
            return False
        msgspec.json.decode(snapshot.body, type=TaskState)
        return True

    loaded = reader.load(f"task/{task}", usable=usable)
    state = TaskState()
    if loaded.snapshot is not None:
        state = msgspec.json.decode(loaded.snapshot.body, type=TaskState)
    for record in loaded.records:
        state = apply(state, event_of(record))
    return state
