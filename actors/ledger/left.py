"""Effects that left the ledger's state while their step runs, found by their key.

A step keeps its newest operations in the state. That an effect before them completed
is a row; its key is remembered by the actor as well, so that a new effect is not
looked up in the store: a read there waits for a flush.
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
from .entry import Earlier, LedgerState, leaving
from .places import outcome_of

if TYPE_CHECKING:
    from .actor import Ledger

__all__ = ["Left", "left_rows"]


class _OfStep(msgspec.Struct):
    step: str


def _prefix(task: str, step: str) -> str:
    return f"{task}:{step}:"


def left_rows(
    task: str, state: LedgerState, events: Sequence[Event], agent: Agent
) -> list[Row]:
    """A row for each effect of the running step that leaves with these events.

    One that failed may be made again, one that its caller named has a row already, and
    no call is ever the same as one that is repeated on purpose.
    """
    rows: list[Row] = []
    for event in events:
        if not isinstance(event, EffectRegistered):
            continue
        for entry in leaving(state, event):
            tool = agent.tools.get(entry.name)
            counts = entry.step == state.step and entry.effect != "read"
            if not counts or entry.named or entry.reused is not None:
                continue
            if entry.status == "completed" and not (tool and tool.repeat):
                key = _prefix(task, entry.step) + entry.key
                rows.append(Row(space=EFFECT_KEYS, key=key, value=b"%d" % entry.op))
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
        self._ops = {
            row.key.removeprefix(prefix): int(row.value or b"0")
            for row in reader.rows(EFFECT_KEYS, prefix)
        }

    def note(self, rows: Sequence[Row], step: str) -> None:
        """Remember what leaves with these rows."""
        if step != self._step:
            self._step, self._ops = step, {}
        for row in rows:
            self._ops[row.key.rpartition(":")[2]] = int(row.value or b"0")

    def find(
        self,
        wanted: Perform,
        tool: Tool,
        values: dict[str, Any],
        arguments: str,
        key: str,
    ) -> bool:
        """Whether such an effect left; the door goes on once its record is read."""
        op = self._ops.get(key)
        if op is None or op == wanted.op or wanted.step != self._step:
            return False
        ledger, house = self._ledger, self._ledger.house
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
