"""What others look up of a ledger without folding it: rows in its transactions.

An effect in doubt has a row from the record that says `unknown` to the record or the
attempt after it; a read in doubt concerns nobody: it is repeated. An effect that its
caller named has one for good, one that can be taken back has one until it has been.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ...storage.records import Row
from ..agent import Agent
from ..events import EffectRecorded, EffectRegistered, Event
from ..names import DOUBTS, UNDOS, effect
from .entry import Entry, LedgerState, apply
from .keys import keyed_row

__all__ = [
    "DoubtRow",
    "UndoRow",
    "rows_of",
    "undo_prefix",
]


class DoubtRow(msgspec.Struct, frozen=True, kw_only=True):
    """An effect that may have happened: which attempt of which call of which task."""

    task: str
    op: int
    attempt: int
    tool: str


class UndoRow(msgspec.Struct, frozen=True, kw_only=True):
    """A completed effect that can be taken back; `result` is as its record shows it."""

    op: int
    place: int
    attempt: int
    tool: str
    arguments: str
    request_id: str
    result: str


def undo_prefix(task: str) -> str:
    """How the keys of a task's undo rows begin; they sort by time of completion."""
    return f"{task}:"


def rows_of(
    task: str, state: LedgerState, events: Sequence[Event], agent: Agent
) -> list[Row]:
    """The rows that change with these events, appended to a ledger in `state`."""
    if all(_changes_none(state, event, agent) for event in events):
        return []
    found: dict[tuple[str, str], Row] = {}
    for row in (
        *_doubts(task, state, events),
        *_named(state, events),
        *_undos(task, state, events, agent),
    ):
        found[row.space, row.key] = row
    return list(found.values())


def _changes_none(state: LedgerState, event: Event, agent: Agent) -> bool:
    """Whether an event surely changes no row, as nearly all do."""
    if isinstance(event, EffectRegistered):
        return event.op not in state.entries and not event.named
    if not isinstance(event, EffectRecorded):
        return True
    entry = state.entries.get(event.op)
    if entry is None or entry.status != "pending" or entry.named:
        return False
    if event.status != "completed":
        return event.status == "failed"
    tool = agent.tools.get(entry.name)
    return entry.undoes is None and (tool is None or tool.undo is None)


def _doubts(task: str, state: LedgerState, events: Sequence[Event]) -> Iterator[Row]:
    for event in events:
        if not isinstance(event, EffectRegistered | EffectRecorded):
            continue
        entry = state.entries.get(event.op)
        if entry is None or entry.effect == "read":
            continue
        key = effect(task, event.op)
        if isinstance(event, EffectRecorded) and event.status == "unknown":
            yield _doubt(task, key, entry)
        elif entry.status == "unknown":
            yield Row(space=DOUBTS, key=key, value=None)


def _named(state: LedgerState, events: Sequence[Event]) -> Iterator[Row]:
    for event in events:
        named = isinstance(event, EffectRegistered) and bool(event.named)
        if isinstance(event, EffectRecorded):
            entry = state.entries.get(event.op)
            named = entry is not None and bool(entry.named)
        if named:
            state = apply(state, event)
            assert isinstance(event, EffectRegistered | EffectRecorded)
            yield keyed_row(state.entries[event.op])


def _undos(
    task: str, state: LedgerState, events: Sequence[Event], agent: Agent
) -> Iterator[Row]:
    made: dict[int, EffectRegistered] = {}
    for place, event in enumerate(events, state.version + 1):
        if isinstance(event, EffectRegistered):
            made[event.op] = event
        if not isinstance(event, EffectRecorded) or event.status != "completed":
            continue
        begun = made.get(event.op) or state.entries[event.op]
        if begun.undoes is not None:
            yield Row(space=UNDOS, key=_undo_key(task, begun.undoes.place), value=None)
            continue
        tool = agent.tools.get(begun.name)
        if tool is None or tool.undo is None or event.by == "record":
            continue
        row = UndoRow(
            op=begun.op,
            place=place,
            attempt=begun.attempt,
            tool=begun.name,
            arguments=begun.arguments,
            request_id=begun.request_id,
            result=event.result,
        )
        key, value = _undo_key(task, row.place), msgspec.json.encode(row)
        yield Row(space=UNDOS, key=key, value=value)


def _undo_key(task: str, place: int) -> str:
    return f"{undo_prefix(task)}{place:012d}"


def _doubt(task: str, key: str, entry: Entry) -> Row:
    row = DoubtRow(task=task, op=entry.op, attempt=entry.attempt, tool=entry.name)
    return Row(space=DOUBTS, key=key, value=msgspec.json.encode(row))
