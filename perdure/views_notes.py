"""What people told a task on its way, as plain data."""

from __future__ import annotations

import msgspec

from .actors import names
from .actors.task.state import TaskState
from .actors.task.steered import NoteRow
from .storage.reader import Reader

__all__ = ["Note", "notes_of"]


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A note of somebody's, given at second `at`; `taken` once its task has read it."""

    number: int
    text: str
    by: str
    at: float
    taken: bool


def notes_of(reader: Reader, task: str, state: TaskState) -> tuple[Note, ...]:
    """The notes of a task by number; one that replaces another counts at once."""
    found = {
        one.number: Note(
            number=one.number, text=one.text, by=one.by, at=one.at, taken=True
        )
        for one in state.steering.values()
    }
    for row in reader.rows(names.NOTES, f"{task}/"):
        note = msgspec.json.decode(row.value or b"", type=NoteRow)
        if note.serial > state.noted:
            found[note.number] = Note(
                number=note.number, text=note.text, by=note.by, at=note.at, taken=False
            )
    return tuple(one for _, one in sorted(found.items()))
