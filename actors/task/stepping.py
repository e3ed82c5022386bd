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
    change = msgspec.structs.replace
    action, op = event.action, event.op
    own = is_own(op, action)  # a policy's: it has seen the goal
    # The first of what the policy decided: its other calls carry an index.
    first = own and not (isinstance(action, CallTool) and action.index)
    choice, answer = state.choice, state.answer
    if own:
        choice = chose(choice, event)
        answer = op if isinstance(action, FinishStep) else 0
    ops, news, acts = state.ops, state.news, state.acts
    recovery, shortage = state.recovery, state.shortage
    calls = beyond = False
    begins = first
    match action:
        case CallTool(undoes=None):
            beyond = _has_no_calls_left(state, event.step)
            calls = not beyond
            if not own:
                acts = (*acts, act_of(action.tool, action.arguments))[-ACTS_KEPT:]
        case CallTool() | CallModel(purpose="work"):
            begins = True
        case CallModel(purpose="closing"):
            shortage, news = Shortage(op=op, detail=event.why), False
        case CallModel(purpose="declare") if recovery is not None:
            recovery = change(recovery, declares=op)
    if begins:
        ops = {n: one for n, one in ops.items() if one.open}
    if not isinstance(action, FinishStep | PauseTask):
        made = Op(op=op, step=event.step, action=action, beyond=beyond)
        ops = {**ops, op: made}
    steps = state.steps
    if first or calls:
        steps = tuple(
            [
                change(
                    step, iterations=step.iterations + first, calls=step.calls + calls
                )
                if step.id == event.step
                else step
                for step in steps
            ]
        )
    return change(
        state,
        version=state.version + 1,
        choice=choice,
        answer=answer,
        ops=ops,
        steps=steps,
        next_op=op + 1,
        acts=acts,
        news=news,
        recovery=recovery,
        shortage=shortage,
    )


def _has_no_calls_left(state: TaskState, step: str) -> bool:
    """Whether a step has made as many calls as it may: one more is marked instead."""
    plan = state.plan_of(step)
    if plan is None or plan.max_calls is None:
        return False
    made = next((one.calls for one in state.steps if one.id == step), 0)
    return made >= plan.max_calls


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
