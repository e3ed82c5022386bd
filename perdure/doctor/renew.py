"""What the streams say of a task: the row that it ought to have, the blobs it names."""

from __future__ import annotations

import msgspec

from ..actors import names
from ..actors.admission.place import Place
from ..actors.admission.queue import MOVES, QueueState, apply, placed
from ..actors.admission.resting import places_of
from ..actors.budget import account
from ..actors.events import TaskQueued, TaskRecalled, TaskSubmitted, task_of
from ..actors.task import state as task_state
from ..actors.task.rows import ENDED, TaskRow, ended_row, task_row
from ..folds import event_of, fold, whole
from ..storage.erasure import digests_in
from ..storage.errors import StorageError
from ..storage.reader import Reader

__all__ = ["Standing", "naming", "renewed_row"]

PAGE = 1_000  # records


class Standing:
    """Which tasks have not ended, by the queue; none where it cannot be read.

    Who rests does so where the log says, whatever its row; where not all of the log can
    be read, by its row.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._rests: dict[str, Place] | None = {}
        queue = QueueState()
        try:
            for _, event in whole(reader, names.ADMISSION):
                if isinstance(event, TaskRecalled):
                    self._rests.pop(event.task, None)
                elif isinstance(event, (*MOVES, TaskQueued)):
                    place = placed(queue, event)
                    if place.rests:
                        self._rests[event.task] = place
                queue = apply(queue, event)
        except Exception:  # a record, or whatever a fold trips over
            self._rests = None
            queue = _newest(reader)
        self._places = queue.tasks

    def place(self, task: str) -> Place | None:
        """Where a task stands; None once it has ended, or if there is none."""
        return self._places.get(task) or self.resting(task)

    def resting(self, task: str) -> Place | None:
        """Where a task rests; None where it does not."""
        if task in self._places:
            return None
        if self._rests is not None:
            return self._rests.get(task)
        try:
            return places_of(self._reader, [task]).get(task)
        except msgspec.MsgspecError:
            return None


def _newest(reader: Reader) -> QueueState:
    try:
        return fold(reader, names.ADMISSION, QueueState(), apply)
    except Exception:  # as above
        return QueueState()


def renewed_row(
    reader: Reader, task: str, place: Place | None, reason: str
) -> bytes | None:
    """The row that a task ought to have; None where nothing tells.

    That of a task that has ended says how. Any other is parked, for this reason.
    """
    if place is None:
        ended = _ended(reader, task)
        if ended is not None:
            return ended
    old = _old(reader, task)
    if place is None and old is not None and old.status in ENDED:
        return msgspec.json.encode(old)
    submitted = _submitted(reader, task)
    if submitted is not None:
        made = msgspec.json.decode(task_row(submitted, "").value or b"", type=TaskRow)
    elif place is not None:
        made = TaskRow(
            task=task,
            agent=place.agent,
            goal="",
            status="",
            group=place.group,
            priority=place.priority,
            parent=place.parent,
        )
    else:
        return None
    if old is not None:
        kept = {name: getattr(old, name) for name in ("epoch", "steps", "books")}
        made = msgspec.structs.replace(made, **kept)
    return msgspec.json.encode(
        msgspec.structs.replace(
            made, status="parked", reason="parked", detail=reason, ends_with="resume"
        )
    )


def naming(reader: Reader, digest: str) -> set[str]:
    """The tasks whose records mention a blob."""
    found: set[str] = set()
    for stream in reader.streams("task"):
        at = 0
        while page := reader.examined(stream, at, PAGE):
            at = page[-1][0].version
            if any(digest in digests_in([record.body]) for record, _ in page):
                found.add(task_of(stream))
    return found


def _ended(reader: Reader, task: str) -> bytes | None:
    try:
        state = fold(
            reader, names.family(task), task_state.TaskState(), task_state.apply
        )
        if state.outcome is None or state.status not in ENDED:
            return None
        books = fold(
            reader, names.account(task), account.AccountState(), account.apply
        ).books
    except Exception:  # a record, or whatever a fold trips over
        return None
    return ended_row(state, books).value


def _old(reader: Reader, task: str) -> TaskRow | None:
    value = reader.row(names.TASK_ROWS, task)
    try:
        return msgspec.json.decode(value or b"", type=TaskRow)
    except msgspec.MsgspecError:
        return None


def _submitted(reader: Reader, task: str) -> TaskSubmitted | None:
    try:
        first = reader.stretch(names.family(task), 0, 1)
        event = event_of(first[0]) if first else None
    except StorageError:
        return None
    return event if isinstance(event, TaskSubmitted) else None
