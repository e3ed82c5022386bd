"""What a task does next, from its state alone. Pure: same state, same commands.

The actor carries commands out and is told of the ends by events; a command that is
already under way is not begun twice, and after a crash all are simply decided again.
"""

from __future__ import annotations

from datetime import UTC, datetime

from ..baseline import Baseline
from ..events import CallTool
from ..plan.planner import Planner
from ..plan.standing import stuck_step
from . import retried
from .asked import of_the_task, waits_for
from .asked import opened as asked_by
from .choosing import by_policy
from .commands import (
    OVERDUE,
    Abandon,
    AskModel,
    CancelSubtask,
    Clear,
    Close,
    Command,
    Compensate,
    Conclude,
    Declare,
    Drive,
    EndStep,
    Judge,
    JudgeTask,
    Rebuild,
    StartStep,
    StopFor,
    VerifyEffects,
)
from .conditions import Held, Moment, condition_of, first_held, is_overdue
from .planned import plans
from .state import Op, Shortage, TaskState
from .summarised import is_summary
from .tries import tries_left

__all__ = ["decide"]


def decide(
    state: TaskState,
    *,
    now: float,
    rules: Baseline,
    judged: bool,
    policy: bool = False,
    planner: Planner | None = None,
    refused: StopFor | None = None,
) -> tuple[Command, ...]:
    """Return the commands that are due, in order; none where the task has ended.

    Args:
        now: seconds since the epoch; only deadlines look at it.
        rules: how often the running step, and a declaration, may be tried again.
        judged: the whole task passed acceptance in this incarnation.
        policy: the agent decides by a policy of its own, and asks no model.
        planner: the agent's, where its plan is looked at again.
        refused: what a room of the task wants it to stop for.
    """
    if state.submitted is None or state.status in ("completed", "failed", "cancelled"):
        return ()
    if state.status == "paused":
        return ()
    if state.status == "closing":
        return (Conclude(),)
    if state.recovery is not None:
        return _recover(state, rules.declaration_retries, now)
    if state.cancelled_by:
        return _cancel(state, now)
    if state.retry is not None:
        return retried.due(state, state.retry)
    if state.shortage is not None:
        return (_wind_up(state, state.shortage),)
    if opened := state.open_ops():
        if asked := [op for op in opened if is_summary(op)]:
            opened = asked  # the call that it is for is put together again afterwards
        if drives := _drives(opened, now):
            return drives
    at = Moment(state, now, refused, planner)
    if not at.overdue:
        if opened:
            return (_wait(state, opened),)
        if asks := of_the_task(state):
            return (waits_for(asks),)
    due = _work(at, rules, judged=judged)
    return (by_policy(state, due) if policy else due,)


def _recover(state: TaskState, declarations: int, now: float) -> tuple[Command, ...]:
    recovery = state.recovery
    assert recovery is not None
    match recovery.stage:
        case "loaded":
            return (Rebuild(),)
        case "rebuilt":
            return (VerifyEffects(),)
    declares = state.ops.get(recovery.declares)
    if state.cancelled_by:
        return _cancel(state, now)
    if declares is not None and declares.open:
        if _waits(declares, now):
            return (_wait(state, [declares]),)
        return (Drive(declares.op, declares.attempt),)
    if recovery.refused > declarations:
        detail = f"the declaration contradicts the record: {recovery.why}"
        return (StopFor("recovery_mismatch", detail, "resume"),)
    if is_overdue(state, now):
        return (OVERDUE,)
    return (Declare(recovery.refused),)


def _cancel(state: TaskState, now: float) -> tuple[Command, ...]:
    opened = state.open_ops()
    if not state.compensate:
        if opened:
            return tuple(_let_go(op) for op in opened)
        return (Close("cancelled", f"cancelled by {state.cancelled_by}"),)
    if left := [op for op in opened if not op.undoes]:
        return tuple(_let_go(op, compensate=True) for op in left)
    if opened:
        return _drives(opened, now) or (_wait(state, opened),)
    if state.undo_failed:
        return (StopFor("undo", state.undo_failed, "resume, or cancel"),)
    return (Compensate(state.next_op),)


def _let_go(op: Op, *, compensate: bool = False) -> Command:
    match op.gate:
        case "delegated":
            return CancelSubtask(op.op)
        case "returned":  # what it has used is still to be booked
            return Drive(op.op, op.attempt)
    return (Clear if compensate else Abandon)(op.op, op.attempt)


def _wind_up(state: TaskState, shortage: Shortage) -> Command:
    """The closing turn, then the pause; what was refused stays open for later."""
    closing = state.ops.get(shortage.op)
    if closing is not None and closing.open:
        return Drive(closing.op, closing.attempt)
    return StopFor("budget", shortage.detail, "extend")


def _drives(ops: list[Op], now: float) -> tuple[Command, ...]:
    return tuple([Drive(op.op, op.attempt) for op in ops if not _waits(op, now)])


def _waits(op: Op, now: float) -> bool:
    if op.rest.until > now:
        return True
    if not op.gate:
        return False
    if op.gate in ("asked", "expired", "delegated", "question"):
        return True
    return op.gate == "waiting" and op.due > now


def _wait(state: TaskState, ops: list[Op]) -> Command:
    """Nothing else can run: wait for a person, for sub-tasks, or for the time."""
    asked = [op for op in ops if op.gate == "asked"]
    if questions := asked_by(state):
        return waits_for(questions, asked)
    if asked:
        return _approval(asked)
    if handed := [op.child for op in ops if op.gate == "delegated"]:
        return StopFor("subtask", f"sub-task {', '.join(handed)}", "its end")
    if resting := [op for op in ops if op.gate != "expired"]:
        return _timer(resting)
    return StopFor("approval_expired", f"{_calls(ops)}: nobody answered", "resume")


def _timer(ops: list[Op]) -> Command:
    first = min(ops, key=lambda op: op.wakes)
    until = f"until {datetime.fromtimestamp(first.wakes, UTC)}"
    if not first.rest.until:
        return StopFor("timer", until, "time")
    of = f" for a slot of {first.rest.service}" if first.rest.service else ""
    return StopFor("rate", f"{until}{of}", "time")


def _approval(ops: list[Op]) -> Command:
    ids = ", ".join(op.approval for op in ops)
    return StopFor("approval", f"{_calls(ops)} must be approved", f"approve {ids}")


def _calls(ops: list[Op]) -> str:
    return ", ".join(
        f"{op.action.tool} (operation {op.op})"
        for op in ops
        if isinstance(op.action, CallTool)
    )


def _work(at: Moment, rules: Baseline, *, judged: bool) -> Command:
    """One more iteration, a step's beginning, or what stops the loop (B51, B52)."""
    state, step = at.state, at.step
    if (held := first_held(at)) is not None:
        return _stopped(held, at, tries_left(state, rules), judged=judged)
    if state.answer:
        return Judge(state.answer)
    if (due := plans(state, at.planner)) is not None:
        return due
    if step is None:
        return _begin(state)
    return AskModel(step.id, step.iterations + 1)


def _stopped(held: Held, at: Moment, retries: int, *, judged: bool) -> Command:
    """What a condition that holds leads to: an end of the step, or of the task."""
    state, refused = at.state, at.refused
    if refused is not None and condition_of(refused.reason) == held.name:
        return refused
    step = at.step.id if at.step is not None else ""
    match held.name:
        case "deadline":
            return OVERDUE
        case "loop":
            return StopFor("loop", held.why, "resume")
        case "tool_errors":
            reason = "service" if state.guard.kind == "service" else "tool_errors"
            return StopFor(reason, held.why, "resume")
        case "step_timeout":
            return EndStep(step, "timed_out", held.why, retries > 0, held.name)
        case "max_calls":  # its tries share them: another one could make none
            return EndStep(step, "limited", held.why, again=False, condition=held.name)
        case "max_iterations":
            return EndStep(step, "limited", held.why, retries > 0, held.name)
    assert held.name == "satisfied", held
    if judged:
        return Close("completed", "every step and the task passed acceptance")
    return JudgeTask(state.retries)


def _begin(state: TaskState) -> Command:
    """No step runs: begin the next, or stop for one that holds the task up."""
    standing = state.standings()
    for step in state.steps:
        if standing[step.id].ready:
            return StartStep(step.id, step.attempt + 1)
    stuck = stuck_step(state.plan, state.statuses())
    step = next(step for step in state.steps if step.id == stuck)
    detail = f"step {step.id}: {step.why}"
    return StopFor(step.status, detail, "resume", condition=step.condition)
