"""The task's part for notes of people: taken as soon as it is awake, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...storage.reader import Reader
from ...storage.records import Row
from ...supervision.faults import hit
from ..events import NoteTaken
from ..names import ADMISSION, NOTES
from ..protocol import NotesTaken, TakeNotes
from .steered import BY_SHOWN, NoteRow, note_key

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["Steering"]


class Steering:
    """The task's part for notes: it takes them as soon as it is awake.

    `told` says that those from before its start are here: no request is made before.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self.told = True

    def begin(self, *, clean: bool) -> None:
        """Look for notes, where there may be some."""
        task = self._task
        cut_off = not clean and task.wake.loads.take_noted()
        if cut_off or task.wake.noted > task.state.noted:
            self.told = False
            self._look()

    def come(self, message: TakeNotes) -> None:
        """Somebody has given one; admission hears when it is taken."""
        if message.noted > self._task.state.noted:
            self._look()
        else:
            self._tell()

    def _tell(self) -> None:
        task = self._task
        noted = NotesTaken(task=task.id, noted=task.state.noted)
        task.house.address(ADMISSION).tell(noted)

    def _look(self) -> None:
        task = self._task

        def read(reader: Reader) -> tuple[bytes, ...]:
            rows = reader.rows(NOTES, f"{task.id}/")
            return tuple(row.value for row in rows if row.value is not None)

        task.read(read, self._found)

    def _found(self, notes: tuple[bytes, ...]) -> None:
        """Take what is new, in the order in which it was given."""
        task = self._task
        self.told = True
        if task.parting.leaving:
            return
        for body in notes:
            note = msgspec.json.decode(body, type=NoteRow)
            if note.serial <= task.state.noted:
                continue
            event = NoteTaken(
                serial=note.serial,
                number=note.number,
                text=note.text,
                by=note.by[:BY_SHOWN],
                at=note.at,
            )
            gone = Row(space=NOTES, key=note_key(task.id, note.serial), value=None)
            task.append(event, rows=[gone])
            hit("note.taken")
            task.parting.gone_on("loop")
        self._tell()
