"""Admission's part for effects in doubt: what a person says of them, once.

The word is an event of the queue's stream and a row, in the transaction that wakes the
task; the task's ledger reads the row and records the outcome. It is about one attempt:
of a later one it says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...storage.reader import Reader
from ...storage.records import Row
from ...supervision.faults import hit
from ..events import EffectResolved
from ..ledger.rows import DoubtRow
from ..names import DOUBTS, TASK_ROWS, VERDICTS, effect
from ..protocol import Resolve
from ..task.rows import ENDED, TaskRow

if TYPE_CHECKING:
    from .actor import Admission

__all__ = ["Verdicts"]


class Verdicts:
    """Takes the first word on each attempt; the same again changes nothing."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._taken: dict[str, EffectResolved] = {}  # by this incarnation

    def resolve(self, message: Resolve) -> None:
        """Keep what somebody says of an attempt, and have its task look."""
        name = effect(message.task, message.op)
        callers = self._admission.callers

        def look(reader: Reader) -> tuple[bytes | None, bytes | None, bytes | None]:
            return (
                reader.row(TASK_ROWS, message.task),
                reader.row(DOUBTS, name),
                reader.row(VERDICTS, name),
            )

        def found(values: tuple[bytes | None, bytes | None, bytes | None]) -> None:
            row, doubt, verdict = values
            said = self._taken.get(name)
            if said is None and verdict is not None:
                said = msgspec.json.decode(verdict, type=EffectResolved)
            if said is not None and said.attempt == message.attempt:
                self._said_before(message, said)
                return
            if row is None:
                callers.refuse(message, f"there is no effect {name!r}")
                return
            task = msgspec.json.decode(row, type=TaskRow)
            if task.status in ENDED:
                over = f"task {task.task} has ended ({task.status})"
                callers.refuse(message, f"{over}: its effects stay as they are")
            elif doubt is None or not _is_of(doubt, message):
                callers.refuse(
                    message, f"effect {name} is not unknown; see `perdure effects`"
                )
            else:
                self._take(message, task, doubt)

        self._admission.read_about(lambda _: [message.task], look, found)

    def forget(self, task: str) -> None:
        """Drop what was said of a task's effects from memory."""
        for name in [one for one in self._taken if one.startswith(f"{task}:")]:
            del self._taken[name]

    def _take(self, message: Resolve, task: TaskRow, doubt: bytes) -> None:
        resolved = EffectResolved(
            effect=effect(message.task, message.op),
            task=message.task,
            op=message.op,
            attempt=message.attempt,
            happened=message.happened,
            by=message.by,
            result=message.result,
        )
        self._taken[resolved.effect] = resolved
        value = msgspec.json.encode(resolved)
        row = Row(space=VERDICTS, key=resolved.effect, value=value)
        said = "it happened" if message.happened else "it did not happen"
        self._admission.callers.wake_resolved(message, task, said, resolved, row)
        hit("effect.resolved", msgspec.json.decode(doubt, type=DoubtRow).tool)

    def _said_before(self, message: Resolve, said: EffectResolved) -> None:
        admission = self._admission
        if said.happened != message.happened:
            what = "happened" if said.happened else "did not happen"
            admission.callers.refuse(
                message, f"effect {said.effect}: {said.by} said before that it {what}"
            )
            return
        if message.command:
            before = f"{said.by} said so before"
            admission.commands.apply(
                message.command, "resolve", message.task, True, before
            )
        promise = message.promise
        if promise is not None:
            admission.when_durable(admission.last_seq, lambda: promise.set(False))


def _is_of(doubt: bytes, message: Resolve) -> bool:
    return msgspec.json.decode(doubt, type=DoubtRow).attempt == message.attempt
