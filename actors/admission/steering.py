"""Notes for tasks: kept as rows, with their places in the queue's stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...storage.reader import Reader
from ...supervision.faults import hit
from ..events import NoteGiven
from ..names import TASK_ROWS
from ..names import task as task_name
from ..protocol import NotesTaken, Steer, TakeNotes
from ..task.rows import ENDED, PASSIVE, TaskRow
from ..task.steered import NOTES_MOST, NoteRow, note_row
from .queue import ENDING

if TYPE_CHECKING:
    from .actor import Admission

__all__ = ["Steering"]


class Steering:
    """Admission's part for notes; no task is woken for one."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    def steer(self, message: Steer) -> None:
        """Keep a note for a task, or say why not."""
        admission = self._admission

        def look(reader: Reader) -> bytes | None:
            return reader.row(TASK_ROWS, message.task)

        def found(row: bytes | None) -> None:
            if row is None:
                admission.callers.refuse(message, f"there is no task {message.task!r}")
                return
            task = msgspec.json.decode(row, type=TaskRow)
            if wrong := self._wrong(message, task):
                admission.callers.refuse(message, wrong)
            else:
                self._keep(message, task)

        admission.read_about(lambda _: [message.task], look, found)

    def _wrong(self, message: Steer, row: TaskRow) -> str:
        """Why a note is of no use, or cannot be kept; or nothing."""
        task = message.task
        place = self._admission.place(task)
        if place is None or row.status in ENDED:
            return f"task {task} has ended ({row.status}): nobody reads a note any more"
        if place.order in ENDING or place.ending:
            return f"task {task} is to end: nobody reads a note any more"
        if message.replace:
            if not 1 <= message.replace <= place.notes:
                return (
                    f"task {task} has no note {message.replace}; it has {place.notes}"
                )
        elif place.notes >= NOTES_MOST:
            return (
                f"task {task} has {NOTES_MOST} notes, and none is dropped for another: "
                "replace one of them, by its number"
            )
        return ""

    def _keep(self, message: Steer, row: TaskRow) -> None:
        admission = self._admission
        place = admission.place(message.task)
        assert place is not None
        note = NoteRow(
            task=message.task,
            serial=place.noted + 1,
            number=message.replace or place.notes + 1,
            text=message.text,
            by=message.by,
            at=admission.house.now(),
        )
        given = NoteGiven(
            task=note.task, serial=note.serial, number=note.number, by=note.by
        )
        when = "it stands in every request from its next one on"
        if place.where == "parked" or (
            place.where == "waiting" and row.status in PASSIVE
        ):
            when = f"{row.status} as before; {when}"
        said = f"note {note.number} is kept: {when}"
        admission.callers.conclude(
            message, True, said, given, rows=[note_row(note)], value=note.number
        )
        hit("note.given")
        if place.where == "active":
            self.tell(note.task)

    def tell(self, task: str) -> None:
        """Have an active task take what it may not have heard of."""
        admission = self._admission
        place = admission.state.tasks[task]
        if place.noted and task not in admission.activation.idle:
            take = TakeNotes(noted=place.noted)
            address = admission.house.address(task_name(task))
            admission.requests.send(("notes", task), address, take)

    def taken(self, message: NotesTaken) -> None:
        """A task has them in view."""
        place = self._admission.state.tasks.get(message.task)
        if place is None or message.noted >= place.noted:
            self.left(message.task)

    def left(self, task: str) -> None:
        """A task has stopped: it looks for its notes when it starts."""
        self._admission.requests.answered(("notes", task))
