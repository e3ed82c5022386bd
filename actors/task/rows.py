"""A task's one row: what lists and handles show without folding its stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ...storage.records import Row
from ..budget.account import Books
from ..events import ApprovalAnswered, QuestionAnswered, TaskPaused, TaskSubmitted
from ..names import (
    APPROVAL_ANSWERS,
    APPROVALS,
    QUESTION_ANSWERS,
    QUESTIONS,
    TASK_ROWS,
    TIMER_ROWS,
)
from .conditions import condition_of
from .state import TaskState

if TYPE_CHECKING:
    from ..loads import Loads

__all__ = [
    "COMES",
    "ENDED",
    "ERASED",
    "PASSIVE",
    "RESTS",
    "WAITS",
    "ApprovalRow",
    "QuestionRow",
    "TaskRow",
    "TimerRow",
    "Wake",
    "answer_of",
    "approval_row",
    "deadline_rows",
    "ended_row",
    "no_timer",
    "paused_row",
    "question_row",
    "queued_row",
    "said_of",
    "task_row",
    "timer_key",
    "timer_row",
]

RESTS = ("timer", "rate", "subtask")  # pauses that are no stop: nobody need end them
WAITS = ("approval", "question", *RESTS)  # pauses for what calls wait for
COMES = (*WAITS, "budget", "unknown_effect")  # those that end when something comes
ERASED = "erased"  # of a task that ended, and of which nothing else is left
ENDED = ("completed", "failed", "cancelled", ERASED)  # of tasks that are no more

PASSIVE = ("paused", "waiting")  # statuses of rows of tasks that stopped on their own


class TaskRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Status of a task as of its last stop or start; `output` is JSON text.

    `epoch` is the one that it paused in; `compensates` says that it takes effects back,
    `condition` names the condition that stopped its loop, where one did. Operations of
    a fork below `source_ops` are those of its `source`. `offered` is the definition of
    its agent that a task is parked before, until somebody adopts it.
    """

    task: str
    agent: str
    goal: str
    status: str
    group: str = ""
    priority: int = 0
    parent: str = ""
    reason: str = ""
    detail: str = ""
    ends_with: str = ""
    output: str = ""
    epoch: int = 0
    steps: dict[str, str] = msgspec.field(default_factory=dict)
    books: Books = Books()
    compensates: bool = False
    source: str = ""
    source_ops: int = 0
    condition: str = ""
    offered: str = ""


class ApprovalRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that somebody is to approve, as its task sees it.

    `arguments` is JSON text. An answer is a row of its own until the task has taken
    it: `open` means that the call still waits for one. `at` is when it was asked,
    `expires` the second from which it is of no use, `by` who answered it, and when.
    """

    approval: str
    task: str
    op: int
    tool: str
    arguments: str
    at: float
    status: Literal[
        "open", "approved", "rejected", "changed", "expired", "used", "dropped"
    ] = "open"
    expires: float | None = None
    by: str = ""
    answered: float = 0.0


class QuestionRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question to people, as its task sees it; of no call where `op` is 0.

    An answer is a row of its own until the task has taken it: `open` means that it
    still waits for one. `at` is when it was asked, `expires` the second from which on
    nobody may answer, `by` who did, and when.
    """

    question: str
    task: str
    op: int
    text: str
    choices: tuple[str, ...]
    about: str
    at: float
    status: Literal["open", "answered", "expired", "dropped"] = "open"
    expires: float | None = None
    answer: str = ""
    by: str = ""
    answered: float = 0.0


class TimerRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task that waits until second `at` since the epoch.

    With `warns` it does not: somebody is to be warned then that this expires.
    """

    task: str
    at: float
    warns: str = ""


class Wake:
    """What a task is woken for; shared by the incarnations of one activation.

    `order` was given at epoch `since`, the newest resume by `resumer` at `resumed`: it
    counts against earlier pauses only. With it, step `retry` is to be done again.
    The first incarnation may find that its last end was clean, and its stream among the
    `loads`; no later one can.
    """

    def __init__(
        self,
        *,
        since: int,
        order: Literal["run", "resume", "cancel", "compensate", "again"],
        by: str,
        clean: bool,
        loads: Loads,
        resumed: int = 0,
        resumer: str = "",
        retry: str = "",
        noted: int = 0,
    ) -> None:
        self.since = since
        self.order = order
        self.by = by
        self.resumed = resumed
        self.resumer = resumer
        self.retry = retry
        self.noted = noted  # notes that it was given before
        self.loads = loads
        self.told = 0  # the recovery whose progress admission was last told of
        self._clean = clean

    def take_clean(self) -> bool:
        """Whether this start follows a clean end; True once at most."""
        clean, self._clean = self._clean, False
        return clean


def task_row(task: TaskSubmitted, status: str, **fields: Any) -> Row:
    """The row of a task in some status."""
    forked = task.forked
    row = TaskRow(
        source=forked.task if forked else "",
        source_ops=forked.ops if forked else 0,
        task=task.task,
        agent=task.agent,
        goal=task.goal[:200],
        group=task.group,
        priority=task.priority,
        parent=task.parent,
        status=status,
        **fields,
    )
    return Row(space=TASK_ROWS, key=task.task, value=msgspec.json.encode(row))


def queued_row(row: TaskRow) -> Row:
    """The task's row once it is in the queue again."""
    new = msgspec.structs.replace(
        row,
        status="queued",
        reason="",
        detail="",
        ends_with="",
        condition="",
        offered="",
    )
    return Row(space=TASK_ROWS, key=row.task, value=msgspec.json.encode(new))


def timer_key(at: float, task: str, op: int, warning: str = "") -> str:
    """The key of a wait for second `at`: keys are in the order in which they come."""
    return f"{at:017.6f}/{task}/{op}{warning}"


def timer_row(task: str, op: int, at: float) -> Row:
    """The row of a wait for the time. `op` 0 is the task itself."""
    value = msgspec.json.encode(TimerRow(task=task, at=at))
    return Row(space=TIMER_ROWS, key=timer_key(at, task, op), value=value)


def no_timer(task: str, op: int, at: float) -> Row:
    """That wait is over."""
    return Row(space=TIMER_ROWS, key=timer_key(at, task, op), value=None)


def deadline_rows(state: TaskState, reason: str) -> list[Row]:
    """The row that wakes a task at its deadline, where it pauses just to wait.

    At every other stop it is taken away: nothing comes of waking it then.
    """
    deadline = state.task.deadline
    if deadline is None:
        return []
    make = timer_row if reason in WAITS else no_timer
    return [make(state.task.task, 0, deadline)]


def approval_row(approval: ApprovalRow) -> Row:
    """The row of an approval, written by its task."""
    value = msgspec.json.encode(approval)
    return Row(space=APPROVALS, key=approval.approval, value=value)


def answer_of(answered: ApprovalAnswered) -> Row:
    """The row of an answer, written by admission."""
    value = msgspec.json.encode(answered)
    return Row(space=APPROVAL_ANSWERS, key=answered.approval, value=value)


def question_row(question: QuestionRow) -> Row:
    """The row of a question, written by its task."""
    value = msgspec.json.encode(question)
    return Row(space=QUESTIONS, key=question.question, value=value)


def said_of(answered: QuestionAnswered) -> Row:
    """The row of what somebody said, written by admission."""
    value = msgspec.json.encode(answered)
    return Row(space=QUESTION_ANSWERS, key=answered.question, value=value)


def paused_row(state: TaskState, paused: TaskPaused, books: Books) -> Row:
    """The row of a task that waits."""
    # Waiting for the time, or for a sub-task, is no stop: nobody need end it.
    return task_row(
        state.task,
        "waiting" if paused.reason in RESTS else "paused",
        reason=paused.reason,
        detail=paused.detail,
        ends_with=paused.ends_with,
        epoch=paused.epoch,
        compensates=state.compensate,
        condition=paused.condition,
        steps=state.shown_statuses(),
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
        condition=condition_of(outcome.status),
        steps=state.shown_statuses(),
        books=books,
    )
