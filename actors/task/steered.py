"""Notes that people give a task on its way; kept in view until it ends. Pure.

A note is a row until the task takes it. It is never dropped for a newer one: where
there is no room, whoever gives one is told so, and may replace another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...storage.records import Row
from ..context.render import NoteView
from ..events import NoteTaken
from ..guard.ladder import GuardState
from ..names import NOTES

if TYPE_CHECKING:
    from .state import TaskState

__all__ = [
    "BY_SHOWN",
    "NOTES_MOST",
    "NOTE_LENGTH",
    "NoteRow",
    "note_key",
    "note_row",
    "taken",
]

NOTES_MOST = 8  # of a task
NOTE_LENGTH = 500  # characters
BY_SHOWN = 80  # characters of who gave it


class NoteRow(msgspec.Struct, frozen=True, kw_only=True):
    """A note that its task has not taken yet: number `number` of those in view.

    `serial` counts all notes of the task, `at` is the second since the epoch.
    """

    task: str
    serial: int
    number: int
    text: str
    by: str
    at: float


def note_key(task: str, serial: int) -> str:
    """The key of a note's row; by key, they are in order."""
    return f"{task}/{serial:09}"


def note_row(note: NoteRow) -> Row:
    """The row of a note, written by admission."""
    key = note_key(note.task, note.serial)
    return Row(space=NOTES, key=key, value=msgspec.json.encode(note))


def taken(state: TaskState, event: NoteTaken) -> TaskState:
    """The state with a note in view; a person's word: all may be tried again (A107)."""
    note = NoteView(number=event.number, text=event.text, by=event.by, at=event.at)
    steering = {**state.steering, event.number: note}
    return msgspec.structs.replace(
        state, steering=steering, noted=event.serial, guard=GuardState(), tried={}
    )
