"""Effects that left the ledger's state while their step runs, found by their key.

A step keeps its newest operations in the state. Of the effects before them that
completed the state keeps the last keys, and rows hold the others, many in one; the
actor remembers all, so that a new effect is not looked up in the store: a read there
waits for a flush.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ...storage.reader import Reader
from ...storage.records import Loaded, Row
from ..agent import Agent
from ..events import EffectRecorded, EffectRegistered, Event
from ..names import EFFECT_KEYS
from ..protocol import Perform
from ..tool import Tool
from ..upgrades import todays
from .entry import LEAVES, Earlier, LedgerState, apply
from .places import outcome_of

if TYPE_CHECKING:
    from .actor import Ledger

__all__ = ["Left", "left_rows"]


_OPS = msgspec.json.Decoder(dict[str, int])


class _OfStep(msgspec.Struct):
    step: str


def _prefix(task: str, step: str) -> str:
    return f"{task}:{step}:"


def left_rows(
    task: str, state: LedgerState, events: Sequence[Event], agent: Agent
) -> list[Row]:
    """A row of the effects that left the state last, where it lets them go now.

    No call is ever the same as one that is repeated on purpose.
    """
    rows: list[Row] = []
    for event in events:
        begins = isinstance(event, EffectRegistered) and event.step == state.step
        if begins and len(state.leaves) >= LEAVES:
            ops = {
                key: op
                for key, (op, name) in state.leaves.items()
                if (tool := agent.tools.get(name)) is None or not tool.repeat
            }
            if ops:
                key = f"{_prefix(task, state.step)}{min(ops.values()):09d}"
                value = msgspec.json.encode(ops)
                rows.append(Row(space=EFFECT_KEYS, key=key, value=value))
        if len(events) > 1:
            state = apply(state, event)
    return rows


class Left:
    """The ledger's part for effects of the running step that its state has let go."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._step = ""
        self._ops: dict[str, int] = {}
        self._reading: set[tuple[int, int]] = set()  # attempts whose record is read

    def load(self, reader: Reader, loaded: Loaded) -> None:
        """Learn from the store what left in the running step, which `loaded` names."""
        made = [one for one in loaded.records if one.type == "EffectRegistered"]
        if made:
            newest = self._ledger.house.event_of(made[-1])
            assert isinstance(newest, EffectRegistered)
            step = newest.step
        elif loaded.snapshot is not None:
            body = todays(loaded.snapshot, LedgerState)
            step = msgspec.json.decode(body, type=_OfStep).step
        else:
            return
        prefix = _prefix(self._ledger.task, step)
        self._step = step
        self._ops = {}
        self._take(reader.rows(EFFECT_KEYS, prefix))

    def note(self, rows: Sequence[Row], step: str) -> None:
        """Remember what leaves with these rows."""
        if step != self._step:
            self._step, self._ops = step, {}
        self._take(rows)

    def _take(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._ops |= _OPS.decode(row.value or b"{}")

    def find(
        self,
        wanted: Perform,
        tool: Tool,
        values: dict[str, Any],
        arguments: str,
        key: str,
    ) -> bool:
        """Whether such an effect left; the door goes on once its record is read."""
        ledger, house = self._ledger, self._ledger.house
        last = ledger.state.leaves.get(key)
        op = self._ops.get(key) if last is None else last[0]
        if op is None or op == wanted.op or wanted.step != ledger.state.step:
            return False
        at = (wanted.op, wanted.attempt)
        if at in self._reading:  # asked for once more meanwhile
            return True
        self._reading.add(at)

        def read(reader: Reader) -> EffectRecorded:
            found = outcome_of(reader, house.event_of, ledger.task, op)
            assert found is not None
            return found.event

        def go_on(found: EffectRecorded) -> None:
            self._reading.discard(at)
            earlier = Earlier(
                op=found.op,
                arguments=arguments,
                status=found.status,
                result=found.result,
                blob=found.blob,
                anchors=found.anchors,
            )
            ledger.door.unless_made(wanted, tool, values, arguments, key, earlier)

        ledger.read(read, go_on)
        return True
