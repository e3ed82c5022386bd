"""Admission's part for steps that are to be done again: looked at, then woken."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from ...storage.errors import Undecodable
from ...storage.reader import Reader
from ..errors import Misuse
from ..events import TaskWoken
from ..names import DOUBTS, TASK_ROWS, effect
from ..protocol import Retry
from ..task import retried
from ..task.rows import ENDED, TaskRow, queued_row
from ..task.standing import standing
from .callers import leaving
from .queue import ENDING

if TYPE_CHECKING:
    from ..events import Event
    from .actor import Admission

__all__ = ["Retries"]


class Retries:
    """Wakes a task that rests, for a step that it has begun before."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    def retry(self, message: Retry) -> None:
        """Have a step done again, or say why that cannot be."""
        admission = self._admission
        look = _look(message, admission.house.event_of)

        def found(values: tuple[TaskRow | None, str, str]) -> None:
            row, step, wrong = values
            if row is None:
                admission.callers.refuse(message, f"there is no task {message.task!r}")
            elif why := self._not_resting(row) or wrong:
                admission.callers.refuse(message, why)
            else:
                self._wake(message, row, step)

        admission.read_about(lambda _: [message.task], look, found)

    def _not_resting(self, row: TaskRow) -> str:
        place = self._admission.place(row.task)
        if place is None or row.status in ENDED:
            return f"task {row.task} has ended ({row.status}): fork it instead"
        if place.order in ENDING:
            return f"task {row.task} is to end: fork it once it has"
        if place.where in ("waiting", "parked") or leaving(place, row):
            return ""
        now = "running" if place.where == "active" else place.where
        return f"task {row.task} is {now}: pause it first"

    def _wake(self, message: Retry, row: TaskRow, step: str) -> None:
        admission = self._admission
        admission.held.discard(row.task)
        woken = TaskWoken(task=row.task, order="resume", by=message.by, retry=step)
        said = f"it goes on from step {step}"
        admission.callers.conclude(message, True, said, woken, rows=[queued_row(row)])


def _look(
    message: Retry, event_of: Callable[..., Event]
) -> Callable[[Reader], tuple[TaskRow | None, str, str]]:
    def look(reader: Reader) -> tuple[TaskRow | None, str, str]:
        """The task's row, the step that is meant, and what is wrong with it."""
        value = reader.row(TASK_ROWS, message.task)
        if value is None:
            return None, "", ""
        row = msgspec.json.decode(value, type=TaskRow)
        if row.status in ENDED:
            return row, "", ""
        try:
            state = standing(reader, event_of, message.task)
            step = retried.chosen(state, message.step)
        except (Misuse, Undecodable) as error:
            return row, "", str(error)
        if state.outcome is not None or state.cancelled_by:
            return row, "", f"task {row.task} is to end: fork it once it has"
        steps = retried.affected(state, step)
        for op in state.open_ops():
            name = effect(row.task, op.op)
            if op.step in steps and reader.row(DOUBTS, name) is not None:
                doubt = f"effect {name} may have happened: resolve it first"
                return row, "", doubt
        return row, step, ""

    return look
