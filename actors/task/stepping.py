"""How a task's state follows its steps: started, decided on, ended, resumed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..context.blocks import Window
from ..context.drift import ACTS_KEPT, act_of
from ..events import (
    CallModel,
    CallTool,
    DecisionMade,
    FinishStep,
    PauseTask,
    StepEnded,
    StepStarted,
    TaskResumed,
    Undoes,
)
from ..guard.ladder import GuardState
from . import choosing, gates, recoveries, summarised
from .choosing import chose, is_own
from .failing import Failing
from .failures import blocked
from .observing import noted
from .parts import Op, Shortage

if TYPE_CHECKING:
    from .state import TaskState

__all__ = ["decided", "ended", "resumed", "started"]

WHY = 500  # characters of what stopped a step


def resumed(state: TaskState, event: TaskResumed) -> TaskState:
    """Whoever resumes gives every count of retries back, and the step its time."""
    change = msgspec.structs.replace
    state = change(state, shortage=None, choice=change(state.choice, stop=""))
    deadline = event.deadline
    if event.anew:
        summary = change(state.summary, failures=0)
        state = change(state, undo_failed="", summary=summary)
    else:
        steps = tuple(
            change(step, deadline=deadline) if step.status == "running" else step
            for step in state.steps
        )
        return change(state, status="running", pause=None, steps=steps)
    return change(
        state,
        status="running",
        pause=None,
        opinions=(),
        retries=0,
        choice=change(state.choice, failures=0),
        guard=GuardState(),
        tried={},
        anew=min((op.op for op in state.open_ops()), default=state.next_op),
        ops={n: gates.anew(change(op, tries=0)) for n, op in state.ops.items()},
        steps=tuple(
            change(step, deadline=deadline, tries=0)
            if step.status == "running"
            else change(step, status="pending")
            if step.status not in ("pending", "completed")
            else step
            for step in state.steps
        ),
        recovery=recoveries.resumed(state.recovery, event.by),
    )


def started(state: TaskState, event: StepStarted) -> TaskState:
    same = state.newest == event.step and event.attempt > 1
    steps = tuple(
        msgspec.structs.replace(
            step,
            status="running",
            attempt=event.attempt,
            iterations=0,
            deadline=event.deadline,
            tries=0,
            calls=0,
            why="",
            condition="",
        )
        if step.id == event.step
        else step
        for step in state.steps
    )
    return msgspec.structs.replace(
        state,
        status="running",
        steps=steps,
        ops={},
        answer=0,
        choice=choosing.Choice(memo=state.choice.memo, since=state.next_op),
        opinions=(),
        newest=event.step,
        guard=state.guard if same else GuardState(),
        window=Window(),
        summary=summarised.forgotten(state.summary),
        rejections=state.rejections if same else {},
        failing=state.failing if same else Failing(),
        facts_until=state.next_op - 1 if event.attempt == 1 else state.facts_until,
        progressed=state.progressed or state.recovery is None,
    )


def decided(state: TaskState, event: DecisionMade) -> TaskState:
    action = event.action
    if not isinstance(action, CallModel) and is_own(event.op, action):
        state = chose(state, event)
    if isinstance(action, FinishStep | PauseTask):
        return state
    op = Op(op=event.op, step=event.step, action=action)
    state, op = _counted(state, op)
    ops = {**state.ops, event.op: op}
    recovery, shortage = state.recovery, state.shortage
    match event.action:
        case CallModel(purpose="work"):
            ops = {n: one for n, one in ops.items() if one.open}
        case CallModel(purpose="closing"):
            shortage = Shortage(op=event.op, detail=event.why)
            state = msgspec.structs.replace(state, news=False)
        case CallTool(undoes=Undoes()):
            ops = {n: one for n, one in ops.items() if one.open}
        case CallTool() if is_own(event.op, action):
            pass  # it has seen the goal
        case CallTool(tool=tool, arguments=arguments):
            acts = (*state.acts, act_of(tool, arguments))[-ACTS_KEPT:]
            state = msgspec.structs.replace(state, acts=acts)
        case CallModel(purpose="declare") if recovery is not None:
            recovery = msgspec.structs.replace(recovery, declares=event.op)
    return msgspec.structs.replace(
        state, ops=ops, next_op=event.op + 1, recovery=recovery, shortage=shortage
    )


def _counted(state: TaskState, op: Op) -> tuple[TaskState, Op]:
    """Count a call for its step; one beyond the step's limit is marked instead."""
    if not isinstance(op.action, CallTool) or op.undoes:
        return state, op
    change = msgspec.structs.replace
    most = next((one.max_calls for one in state.plan if one.id == op.step), None)
    made = next((one.calls for one in state.steps if one.id == op.step), 0)
    if most is not None and made >= most:
        return state, change(op, beyond=True)
    steps = tuple(
        change(step, calls=made + 1) if step.id == op.step else step
        for step in state.steps
    )
    return change(state, steps=steps), op


def ended(state: TaskState, event: StepEnded) -> TaskState:
    steps = tuple(
        msgspec.structs.replace(
            step,
            status="running" if event.again else event.status,
            iterations=0 if event.again else step.iterations,
            deadline=event.deadline,
            result=event.result,
            evidence=event.op,
            why="" if event.status == "completed" else event.reason[:WHY],
            condition=event.condition,
            tries=step.tries + event.again,
        )
        if step.id == event.step
        else step
        for step in state.steps
    )
    completed = event.status == "completed"
    return msgspec.structs.replace(
        state,
        steps=steps,
        ops={},
        answer=0,
        choice=msgspec.structs.replace(state.choice, result=""),
        opinions=(),
        window=Window(),
        summary=state.summary if event.again else summarised.forgotten(state.summary),
        facts_until=state.next_op - 1,
        failures=blocked(state.failures, event),
        notes=() if completed else noted(state, f"{event.step}: {event.reason}"),
        retries=state.retries + event.again,
        progressed=state.progressed or completed,
    )
