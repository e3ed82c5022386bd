"""What is left to say of a task that was erased."""

from __future__ import annotations

from datetime import UTC, datetime

from .actors import events
from .actors.budget.account import shown
from .actors.events import Event
from .actors.task.rows import TaskRow
from .storage.records import Record
from .views import TaskSheet

__all__ = ["tombstone"]


def tombstone(row: TaskRow, history: list[tuple[Record, Event]]) -> TaskSheet:
    """The sheet of an erased task: who had it erased, when, and what it used."""
    ((record, event),) = history
    assert isinstance(event, events.TaskErased)
    when = datetime.fromtimestamp(event.erased_at, UTC).isoformat(" ", "seconds")
    return TaskSheet(
        task=row.task,
        agent=row.agent,
        status=row.status,
        reason=f"erased by {event.by} at {when}",
        detail="",
        ends_with="",
        goal="",
        constraints=(),
        inputs={},
        group=row.group,
        priority=row.priority,
        key=None,
        deadline=None,
        at=record.at,
        output=None,
        steps=(),
        spent=shown(row.books.spent),
        spent_unknown=shown(row.books.unknown),
        spent_recovery=shown(row.books.recovery),
        budget={},
        recoveries=(),
        parent=row.parent,
    )
