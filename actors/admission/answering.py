"""What is known of an approval or a question that somebody answers, in one look."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import msgspec

from ...storage.reader import Reader
from ..names import TASK_ROWS
from ..protocol import Asked
from ..task.rows import ApprovalRow, QuestionRow, TaskRow

if TYPE_CHECKING:
    from .actor import Admission

__all__ = ["look_up"]

R = TypeVar("R", ApprovalRow, QuestionRow)
M = TypeVar("M", bound=Asked)


def look_up(
    admission: Admission,
    message: M,
    key: str,
    *,
    spaces: tuple[str, str],
    kind: type[R],
    unknown: str,
    then: Callable[[M, R, TaskRow, bytes | None], None],
) -> None:
    """Read what waits for an answer, with its task and the answer it may have.

    Args:
        admission: whose turn it is.
        message: the answer; where it names a task, that must be the one that asks.
        key: the id of what is answered.
        spaces: of the rows of what is asked, and of those of the answers.
        kind: of the row.
        unknown: what the caller is told where there is none.
        then: called in a later turn with the message, which names the task then, the
            two rows, and the answer that was given before, if one was.
    """
    asked_in, answered_in = spaces

    def look(reader: Reader) -> tuple[R, bytes | None, TaskRow] | None:
        found = reader.row(asked_in, key)
        if found is None:
            return None
        asked = msgspec.json.decode(found, type=kind)
        row = reader.row(TASK_ROWS, asked.task)
        if row is None or message.task not in ("", asked.task):
            return None
        answered = reader.row(answered_in, key)
        return asked, answered, msgspec.json.decode(row, type=TaskRow)

    def found(values: tuple[R, bytes | None, TaskRow] | None) -> None:
        if values is None:
            admission.callers.refuse(message, unknown)
            return
        asked, answered, task = values
        then(msgspec.structs.replace(message, task=asked.task), asked, task, answered)

    def of(values: tuple[R, bytes | None, TaskRow] | None) -> list[str]:
        return [] if values is None else [values[2].task]

    admission.read_about(of, look, found)
