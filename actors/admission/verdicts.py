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
from ..errors import Misuse
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
                self._refuse(message, f"there is no effect {name!r}")
                return
            task = msgspec.json.decode(row, type=TaskRow)
            if task.status in ENDED:
                over = f"task {task.task} has ended ({task.status})"
                self._refuse(message, f"{over}: its effects stay as they are")
            elif doubt is None or not _is_of(doubt, message):
                self._refuse(
                    message, f"effect {name} is not unknown; see `perdure effects`"
                )
            else:
                self._take(message, task, doubt)

        self._admission.read(look, found)

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
        if said.happened != message.happened:
            what = "happened" if said.happened else "did not happen"
            self._refuse(
                message, f"effect {said.effect}: {said.by} said before that it {what}"
            )
            return
        self._answer(message, True, f"{said.by} said so before")
        promise = message.promise
        if promise is not None:
            admission = self._admission
            admission.when_durable(admission.last_seq, lambda: promise.set(False))

    def _refuse(self, message: Resolve, why: str) -> None:
        self._answer(message, False, why)
        if message.promise is not None:
            message.promise.fail(Misuse(why))

    def _answer(self, message: Resolve, done: bool, said: str) -> None:
        if message.command:
            self._admission.commands.apply(
                message.command, "resolve", message.task, done, said
            )


def _is_of(doubt: bytes, message: Resolve) -> bool:
    return msgspec.json.decode(doubt, type=DoubtRow).attempt == message.attempt
