"""A task's one row: what lists and handles show without folding its stream."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ...storage.records import Row
from ..budget.account import Books
from ..events import TaskPaused, TaskSubmitted
from ..names import TASK_ROWS
from .state import TaskState

__all__ = ["TaskRow", "Wake", "ended_row", "paused_row", "task_row"]


class TaskRow(msgspec.Struct, frozen=True, kw_only=True):
    """Status of a task as of its last stop or start; `output` is JSON text."""

    task: str
    agent: str
    goal: str
    status: str
    group: str = ""
    priority: int = 0
    reason: str = ""
    detail: str = ""
    ends_with: str = ""
    output: str = ""
    steps: dict[str, str] = msgspec.field(default_factory=dict)
    books: Books = Books()


class Wake:
    """What a task is woken for; shared by the incarnations of one activation.

    `order` was given at epoch `since`: a resume counts against earlier pauses only.
    The first incarnation may find that its last end was clean; no later one can.
    """

    def __init__(
        self,
        *,
        since: int,
        order: Literal["run", "resume", "cancel"],
        by: str,
        clean: bool,
    ) -> None:
        self.since = since
        self.order = order
        self.by = by
        self.told = 0  # the recovery whose progress admission was last told of
        self._clean = clean

    def take_clean(self) -> bool:
        """Whether this start follows a clean end; True once at most."""
        clean, self._clean = self._clean, False
        return clean


def task_row(task: TaskSubmitted, status: str, **fields: Any) -> Row:
    """The row of a task in some status."""
    row = TaskRow(
        task=task.task,
        agent=task.agent,
        goal=task.goal[:200],
        group=task.group,
        priority=task.priority,
        status=status,
        **fields,
    )
    return Row(space=TASK_ROWS, key=task.task, value=msgspec.json.encode(row))


def paused_row(state: TaskState, paused: TaskPaused, books: Books) -> Row:
    """The row of a task that waits."""
    return task_row(
        state.task,
        "paused",
        reason=paused.reason,
        detail=paused.detail,
        ends_with=paused.ends_with,
        steps={step.id: step.status for step in state.steps},
        books=books,
    )


def ended_row(state: TaskState, books: Books) -> Row:
    """The row of a task that ended."""
    outcome = state.outcome
    assert outcome is not None
    return task_row(
        state.task,
        outcome.status,
        reason=outcome.reason,
        output=outcome.output,
        steps={step.id: step.status for step in state.steps},
        books=books,
    )
