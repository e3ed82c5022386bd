"""Where the outcomes of operations stand in a ledger: few rows lead to all of them.

Of every `BLOCK` operations one row says behind which version of the ledger's stream
they were begun, and their outcomes follow soon. One has a row of its own only where it
does not: it came when more than a block of newer operations had begun, or is not that
of the first attempt. A version is the same wherever the task is taken to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from ...storage.reader import Reader
from ...storage.records import Record, Row
from ..events import EffectRecorded, EffectRegistered, Event
from ..names import EVIDENCE, ledger
from .entry import LedgerState

__all__ = ["Outcome", "newest_recorded", "outcome_of", "own_key", "place_rows"]

BLOCK = 64  # operations
PAGE = 2 * BLOCK  # records


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How an operation ended last, and what it was."""

    kind: Literal["model", "tool"]
    name: str
    event: EffectRecorded


class _OwnRow(msgspec.Struct, frozen=True, array_like=True):
    after: int  # version of the ledger's stream
    kind: Literal["model", "tool"]
    name: str


def own_key(task: str, op: int) -> str:
    """The key of an operation's own row."""
    return f"{task}:{op:09d}"


def _block_key(task: str, block: int) -> str:
    return f"{task}:from-{block:08d}"


def place_rows(task: str, state: LedgerState, events: Sequence[Event]) -> Iterator[Row]:
    """The rows that change with these events, appended to a ledger in `state`."""
    newest = state.newest
    begun: dict[int, EffectRegistered] = {}
    for after, event in enumerate(events, state.version):
        match event:
            case EffectRegistered(op=op):
                if op // BLOCK > newest // BLOCK:
                    key = _block_key(task, op // BLOCK)
                    yield Row(space=EVIDENCE, key=key, value=b"%d" % after)
                newest = max(newest, op)
                begun[op] = event
            case EffectRecorded(op=op):
                made = begun.get(op) or state.entries[op]
                first = event.attempt == 1 and _is_open(state, op)
                if first and newest - op <= BLOCK:
                    continue
                row = _OwnRow(after=after, kind=made.kind, name=made.name)
                value = msgspec.json.encode(row)
                yield Row(space=EVIDENCE, key=own_key(task, op), value=value)


def _is_open(state: LedgerState, op: int) -> bool:
    entry = state.entries.get(op)
    return entry is None or entry.status == "pending"


def outcome_of(
    reader: Reader, event_of: Callable[[Record], Event], task: str, op: int
) -> Outcome | None:
    """The newest outcome of an operation; None where there is none, or none is left."""
    own = reader.row(EVIDENCE, own_key(task, op))
    if own is not None:
        row = msgspec.json.decode(own, type=_OwnRow)
        for event in _events(reader, event_of, task, row.after):
            if isinstance(event, EffectRecorded) and event.op == op:
                return Outcome(kind=row.kind, name=row.name, event=event)
        return None
    made: EffectRegistered | None = None
    for event in _events(reader, event_of, task, _block(reader, task, op // BLOCK)):
        match event:
            case EffectRegistered() if event.op == op:
                made = event
            case EffectRegistered() if event.op > op + BLOCK:
                return None
            case EffectRecorded() if event.op == op and made is not None:
                if made.trimmed:
                    return None
                return Outcome(kind=made.kind, name=made.name, event=event)
    return None


def newest_recorded(reader: Reader, task: str) -> int:
    """The newest operation of the last ones that have an outcome; 0 without any."""
    last = reader.head(ledger(task))
    while last > 0:
        page = reader.stretch(ledger(task), max(0, last - PAGE), min(PAGE, last))
        ops = [_op(one) for one in page if one.type == "EffectRecorded"]
        if ops:
            return max(ops)
        last -= PAGE
    return 0


def _block(reader: Reader, task: str, block: int) -> int:
    """The version behind which the operations of a block were begun."""
    for one in range(block, 0, -1):  # where none of it was, the one before leads there
        value = reader.row(EVIDENCE, _block_key(task, one))
        if value is not None:
            return int(value)
    return 0


def _events(
    reader: Reader, event_of: Callable[[Record], Event], task: str, after: int
) -> Iterator[Event]:
    while page := reader.stretch(ledger(task), after, PAGE):
        yield from (event_of(record) for record in page)
        after = page[-1].version


class _Op(msgspec.Struct):
    op: int


def _op(record: Record) -> int:
    return msgspec.json.decode(record.body, type=_Op).op
