"""What a store says of its tasks, as plain data; reads only, and needs no ownership.

A running task's status is not a field anywhere: it follows from its row, its place in
the queue and the fold of its stream.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .actors import events, names
from .actors.admission.place import Place
from .actors.budget import account
from .actors.budget.account import AccountState, shown
from .actors.events import Event, SubtaskStarted
from .actors.ledger.rows import undo_prefix
from .actors.price import cost_text
from .actors.rules import said
from .actors.task import state as task_state
from .actors.task.rows import ERASED, TaskRow
from .actors.task.state import TaskState
from .errors import Misuse
from .folds import event_of, fold, records_of, whole
from .reading import no_task, row_of
from .result import ENDED
from .storage.errors import Undecodable
from .storage.reader import Reader
from .storage.records import Record
from .views_approvals import Approval, approvals_of
from .views_judged import JudgedLine, judged_of
from .views_notes import Note, notes_of
from .views_places import place_of, places
from .views_plans import PlanLine, plan_lines
from .views_questions import Question, questions_of
from .views_rules import RulesLine, rules_of

__all__ = [
    "RecoveryLine",
    "StepLine",
    "TaskLine",
    "TaskSheet",
    "find",
    "goes_on",
    "sheet",
    "task_line",
    "tasks",
]

NAMED = 5  # tasks that a message about an unclear id lists


class TaskLine(msgspec.Struct, frozen=True, kw_only=True):
    """A task in a list; `goal` is its first 200 characters, `at` when it was queued."""

    task: str
    agent: str
    status: str
    reason: str
    detail: str
    ends_with: str
    steps_done: int
    steps_total: int
    goal: str
    at: float | None
    parent: str = ""


class StepLine(msgspec.Struct, frozen=True, kw_only=True):
    """How far a step is; `result` is what acceptance passed, `reason` why it ended."""

    step: str
    status: str
    attempt: int
    iterations: int
    max_iterations: int
    goal: str
    done: str
    reason: str
    result: Any


class RecoveryLine(msgspec.Struct, frozen=True, kw_only=True):
    """One pass through the pipeline of recovery, as far as it came.

    `number` is None where the task had not begun, or its load did not end.
    `declared_by` is empty until a declaration was accepted.
    """

    at: float
    cause: str
    actor: str = ""
    number: int | None = None
    snapshot: int | None = None
    replayed: int | None = None
    decided: dict[str, str] = {}
    declared_by: str = ""
    refused: int = 0


class TaskSheet(msgspec.Struct, frozen=True, kw_only=True):
    """All about one task; `budget` says limit and rest of each limited dimension.

    `said` is what the agent said of where the task stands before that paused for money,
    `undone` how many effects were taken back, `undoable` how many still can be;
    `condition` names the condition that stopped its loop, where one did; `trimmed` is
    the second since the epoch at which its scratch was let go; `rules` says which
    definition of its agent and which baseline it runs under.
    """

    task: str
    agent: str
    status: str
    reason: str
    detail: str
    ends_with: str
    goal: str
    constraints: tuple[str, ...]
    inputs: dict[str, Any]
    group: str
    priority: int
    key: str | None
    deadline: float | None
    at: float
    output: Any
    steps: tuple[StepLine, ...]
    spent: dict[str, Any]
    spent_unknown: dict[str, Any]
    spent_recovery: dict[str, Any]
    budget: dict[str, dict[str, Any]]
    recoveries: tuple[RecoveryLine, ...]
    approvals: tuple[Approval, ...] = ()
    questions: tuple[Question, ...] = ()
    notes: tuple[Note, ...] = ()
    said: str = ""
    parent: str = ""
    forked: str = ""
    subtasks: tuple[str, ...] = ()
    undone: int = 0
    undoable: int = 0
    plans: tuple[PlanLine, ...] = ()
    condition: str = ""
    judged: tuple[JudgedLine, ...] = ()
    trimmed: float | None = None
    rules: tuple[RulesLine, ...] = ()


def find(reader: Reader, text: str) -> str:
    """Return the id of the task that `text` is, or that alone begins with it.

    Sub-tasks, whose ids begin with their parent's, are meant only by more of the id.

    Raises:
        TaskNotFound: none does.
        Misuse: several do.
    """
    found = [row.key for row in reader.rows(names.TASK_ROWS, text)]
    if text in found:
        return text
    ids = set(found)
    found = [one for one in found if one.rpartition(".")[0] not in ids]
    if not text or not found:
        raise no_task(text)
    if len(found) > 1:
        more = ", …" if len(found) > NAMED else ""
        raise Misuse(
            f"{len(found)} tasks begin with {text!r} ({', '.join(found[:NAMED])}"
            f"{more}); give more of the id"
        )
    return found[0]


def tasks(reader: Reader) -> list[TaskLine]:
    """All tasks, in the order of their submission."""
    order = _submissions(reader)
    where = places(reader)
    rows = [
        msgspec.json.decode(row.value or b"", type=TaskRow)
        for row in reader.rows(names.TASK_ROWS)
    ]
    rows.sort(key=lambda row: (order.get(row.task, (len(order), 0.0))[0], row.task))
    return [
        _line(reader, row, where.get(row.task), order.get(row.task)) for row in rows
    ]


def task_line(reader: Reader, task: str) -> TaskLine:
    """One task as the list shows it. Raises TaskNotFound."""
    place = place_of(reader, task)
    row = row_of(reader, task)
    first = reader.examined(names.family(task), 0, 1)
    known = place is not None and first and first[0][1]
    since = (0, first[0][0].at) if known else _submissions(reader).get(task)
    return _line(reader, row, place, since)


def goes_on(reader: Reader, task: str) -> bool:
    """Whether a task that has just stopped was woken meanwhile."""
    place = place_of(reader, task)
    return place is not None and place.where == "active" and place.woken


def sheet(reader: Reader, task: str) -> TaskSheet:
    """All about one task, by its id. Raises TaskNotFound."""
    place = place_of(reader, task)
    row = row_of(reader, task)
    history = whole(reader, names.family(task))
    if row.status == ERASED:
        from .views_erased import tombstone

        return tombstone(row, history)
    state = TaskState()
    for _, event in history:
        state = task_state.apply(state, event)
    books = fold(reader, names.account(task), AccountState(), account.apply)
    submitted = state.task
    outcome = state.outcome
    source = submitted.forked
    return TaskSheet(
        task=task,
        agent=row.agent,
        status=_status(row, place, state),
        **_stop(row, state),
        goal=submitted.goal,
        constraints=said(submitted.constraints, submitted.rules),
        inputs=submitted.inputs,
        group=submitted.group,
        priority=submitted.priority,
        key=submitted.key,
        deadline=submitted.deadline,
        at=history[0][0].at,
        output=_json("" if outcome is None else outcome.output),
        steps=_steps(state, history),
        judged=judged_of(event for _, event in history),
        spent=shown(books.books.spent),
        spent_unknown=shown(books.books.unknown),
        spent_recovery=shown(books.books.recovery),
        budget=_budget(submitted.budget, books),
        recoveries=_recoveries(history + whole(reader, f"task/{task}/recovery")),
        approvals=tuple(approvals_of(reader, task)),
        questions=tuple(questions_of(reader, task)),
        notes=notes_of(reader, task, state),
        said=_said(state, history),
        parent=submitted.parent,
        rules=rules_of(reader, submitted, history[0][0].at),
        forked=f"{source.task} as of seq {source.seq}" if source else "",
        subtasks=tuple(
            event.child for _, event in history if isinstance(event, SubtaskStarted)
        ),
        plans=plan_lines(history),
        undone=state.undone,
        condition=row.condition,
        trimmed=state.trimmed or None,
        undoable=len(reader.rows(names.UNDOS, undo_prefix(task))),
    )


def _said(state: TaskState, history: list[tuple[Record, Event]]) -> str:
    """The words of the closing turn that a task pauses after."""
    shortage = state.shortage
    said = [
        event.said
        for _, event in history
        if isinstance(event, events.ActionObserved)
        and shortage is not None
        and event.op == shortage.op
    ]
    return said[-1] if said else ""


def _submissions(reader: Reader) -> dict[str, tuple[int, float]]:
    """Each task's place in the order of submissions, and when that was."""
    found: dict[str, tuple[int, float]] = {}
    for record in records_of(reader, names.ADMISSION):
        if record.type == events.TaskQueued.__name__:
            event = event_of(record)
            assert isinstance(event, events.TaskQueued)
            found[event.task] = (len(found), record.at)
        elif record.type == events.TaskImported.__name__:
            event = event_of(record)
            assert isinstance(event, events.TaskImported)
            for task in (event.task, *event.subtasks):
                found[task] = (len(found), event.queued_at)
    return found


def _line(
    reader: Reader, row: TaskRow, place: Place | None, since: tuple[int, float] | None
) -> TaskLine:
    state = TaskState()
    steps = row.steps
    if row.status not in ENDED:  # the row is of the last stop; the stream is of now
        try:
            state = fold(reader, names.family(row.task), state, task_state.apply)
            steps = state.statuses()
        except Undecodable:
            pass  # written by a newer perdure: the others are listed all the same
    return TaskLine(
        task=row.task,
        agent=row.agent,
        status=_status(row, place, state),
        **_stop(row, state),
        steps_done=sum(status == "completed" for status in steps.values()),
        steps_total=len(steps),
        goal=row.goal,
        at=None if since is None else since[1],
        parent=row.parent,
    )


def _status(row: TaskRow, place: Place | None, state: TaskState) -> str:
    """The row tells of stops; between two of them the queue says if the task runs."""
    if state.status in ENDED:
        return state.status
    if row.status == "queued" and place is not None and place.where == "active":
        return "running" if state.outcome is None else "closing"
    return row.status


def _stop(row: TaskRow, state: TaskState) -> dict[str, str]:
    """Why the task stopped and what ends it; the stream may be newer than the row."""
    if state.outcome is not None and not row.ends_with:
        return {"reason": state.outcome.reason, "detail": "", "ends_with": ""}
    return {"reason": row.reason, "detail": row.detail, "ends_with": row.ends_with}


def _steps(
    state: TaskState, history: list[tuple[Record, Event]]
) -> tuple[StepLine, ...]:
    reasons = {
        event.step: event.reason
        for _, event in history
        if isinstance(event, events.StepEnded)
    }
    standing = state.standings()
    return tuple(
        StepLine(
            step=plan.id,
            status=standing[plan.id].status,
            attempt=step.attempt,
            iterations=step.iterations,
            max_iterations=plan.max_iterations,
            goal=plan.goal,
            done=plan.done,
            reason=standing[plan.id].why or reasons.get(plan.id, ""),
            result=_json(step.result),
        )
        for plan, step in zip(state.plan, state.steps, strict=True)
    )


def _budget(limits: events.Amounts, books: AccountState) -> dict[str, dict[str, Any]]:
    found = {}
    for name, limit in (limits | books.granted).items():
        # A closed account gave back what it had not spent.
        left = books.available.get(name, limit) + books.returned.get(name, 0)
        found[_unit(name)] = {
            "limit": _amount(name, limit),
            "left": _amount(name, left),
        }
    return found


def _unit(name: str) -> str:
    return "seconds" if name == "milliseconds" else name


def _amount(name: str, value: int) -> Any:
    match name:
        case "cost":
            return cost_text(value)
        case "milliseconds":
            return value / 1000
    return value


def _recoveries(history: list[tuple[Record, Event]]) -> tuple[RecoveryLine, ...]:
    """Join what admission wrote of each recovery with what the task wrote of it."""
    found: list[RecoveryLine] = []
    change = msgspec.structs.replace
    for record, event in sorted(history, key=lambda pair: pair[0].seq):
        match event:
            case events.RecoveryBegan(cause=cause, actor=actor):
                found.append(RecoveryLine(at=record.at, cause=cause, actor=actor))
            case events.RecoveryLoaded():
                if not found or found[-1].number is not None:
                    cause = "a step was interrupted"
                    found.append(RecoveryLine(at=record.at, cause=cause))
                found[-1] = change(
                    found[-1],
                    number=event.number,
                    snapshot=event.snapshot,
                    replayed=event.replayed,
                )
            case events.EffectsVerified(decided=decided):
                found[-1] = change(found[-1], decided=decided)
            case events.RecoveryDeclared(accepted=True, by=by):
                found[-1] = change(found[-1], declared_by=by)
            case events.RecoveryDeclared():
                found[-1] = change(found[-1], refused=found[-1].refused + 1)
    return tuple(found)


def _json(text: str) -> Any:
    """What JSON text says; None for no text."""
    return msgspec.json.decode(text) if text else None
