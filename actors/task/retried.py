"""A step that is done again: which one, what goes with it, and its fold. Pure.

Somebody says that a result does not count. The step and those that need it are pending
anew; what they did is in the record all the same, and no effect happens twice for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..context.blocks import Window
from ..errors import Misuse
from ..events import RetryAsked, StepRetried, TaskResumed
from ..guard.ladder import GuardState
from ..plan.needing import needing
from ..plan.standing import stuck_step
from . import stepping, summarised
from .choosing import Choice
from .commands import CancelSubtask, Command, Drive, LetGo, Reopen
from .observing import noted
from .parts import Op, Retry, StepRecord

if TYPE_CHECKING:
    from .state import TaskState

__all__ = ["affected", "after", "chosen", "due"]


def affected(state: TaskState, step: str) -> tuple[str, ...]:
    """The steps that are done again with one: itself, and all that need it."""
    return needing(state.plan, step)


def chosen(state: TaskState, step: str) -> str:
    """The step that is to be done again; where none is named, where the task stopped.

    Raises Misuse where there is no such step, or it has not begun.
    """
    records = {one.id: one for one in state.steps}
    known = ", ".join(records)
    if not step:
        running = state.step.id if state.step else ""
        stuck = running or stuck_step(state.plan, state.statuses()) or state.newest
        if not stuck:
            raise Misuse(f"no step of task {state.task.task} has begun: resume it")
        return stuck
    if step not in records:
        raise Misuse(f"there is no step {step!r}; the steps are: {known}")
    if not records[step].attempt:
        raise Misuse(f"step {step!r} has not begun: there is nothing to do again")
    return step


def due(state: TaskState, retry: Retry) -> tuple[Command, ...]:
    """What lets go of the open operations; once there is none, the step is reopened."""
    steps = affected(state, retry.step)
    opened = [op for op in state.open_ops() if op.step in steps]
    return tuple(_let_go(op) for op in opened) or (Reopen(retry.step),)


def _let_go(op: Op) -> Command:
    match op.gate:
        case "delegated":
            return CancelSubtask(op.op)
        case "returned":  # what it has used is still to be booked
            return Drive(op.op, op.attempt)
    return LetGo(op.op, op.attempt)


def after(state: TaskState, event: RetryAsked | StepRetried) -> TaskState:
    """A retry was asked for, or its steps have not begun any more."""
    if isinstance(event, StepRetried):
        return _reopened(state, event)
    step = state.step
    resumed = TaskResumed(by=event.by, deadline=step.deadline if step else None)
    return msgspec.structs.replace(
        stepping.resumed(state, resumed),
        retry=Retry(step=event.step, by=event.by),
        retried=event.since,
    )


def _reopened(state: TaskState, event: StepRetried) -> TaskState:
    change = msgspec.structs.replace
    running = state.step
    steps = tuple(
        StepRecord(id=one.id, attempt=one.attempt) if one.id in event.steps else one
        for one in state.steps
    )
    note = f"step {event.step} is done again, as {event.by} says"
    state = change(state, steps=steps, retry=None, notes=noted(state, note))
    if running is not None and running.id not in event.steps:
        return state  # it goes on, and ends first
    return change(
        state,
        ops={},
        answer=0,
        choice=Choice(),
        guard=GuardState(),
        anew=state.next_op,
        facts_until=state.next_op - 1,
        rejections={},
        summary=summarised.forgotten(state.summary),
        window=Window(),
    )
