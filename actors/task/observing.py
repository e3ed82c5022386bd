"""How a task's state follows what is observed of its operations. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..events import ActionObserved, CallModel, CallTool, LoopFound, RequestBuilt
from ..guard import ladder
from ..guard.seen import Outcome, Seen
from ..guard.tried import tried_after
from . import failing
from .calibration import seen_after
from .choosing import counted
from .failures import Failure
from .failures import observed as failed
from .rest import Rest

if TYPE_CHECKING:
    from .parts import Op
    from .state import TaskState

__all__ = ["estimated", "found", "no_room", "noted", "observed", "whole"]

NOTES_KEPT = 8  # refusals and failures that stay visible to the model
NOTE_SHOWN = 500  # characters of the anchors that were refused


def observed(state: TaskState, event: ActionObserved) -> TaskState:
    """An attempt has an outcome; what is to be remembered of it is."""
    op = state.ops[event.op]
    tries = op.tries + (event.status != "completed" and event.retry)
    if event.again:
        doubt = op.doubt or event.status == "unknown"
        op = msgspec.structs.replace(
            op, attempt=event.attempt + 1, tries=tries, doubt=doubt, rest=Rest()
        )
    else:
        op = msgspec.structs.replace(op, status=event.status, tries=tries)
    steps, answer = state.steps, state.answer
    work = isinstance(op.action, CallModel) and op.action.purpose == "work"
    if work and event.status == "completed":
        answer = event.op if event.calls == 0 else 0
        steps = tuple(
            msgspec.structs.replace(step, iterations=step.iterations + 1)
            if step.id == op.step
            else step
            for step in steps
        )
    if op.undoes:
        state = _undone(state, event)
    aside = isinstance(op.action, CallModel) and op.action.purpose != "work"
    notes = state.notes
    if event.said:
        notes = noted(state, f"before the pause for money you said: {event.said}")
    elif event.status != "completed" and not event.again and event.reason:
        notes = notes if aside else noted(state, event.reason)
    anchors = state.anchors
    if event.anchors:
        anchors = {**anchors, **event.anchors}
    guard = state.guard
    if event.seen is not None:
        guard = ladder.observed(guard, whole(event.seen, op, event.status))
    seen = state.seen
    if event.input_tokens:
        seen = seen_after(seen, estimated=op.estimated, reported=event.input_tokens)
    failures = state.failures
    if failures or event.status != "completed":
        failures = _failures(state, op, event)
    return msgspec.structs.replace(
        state,
        version=state.version + 1,
        failures=failures,
        tried=tried_after(state.tried, event.op, event.seen, event.status),
        failing=failing.observed(state.failing, op, event),
        guard=guard,
        ops={**state.ops, event.op: op},
        steps=steps,
        answer=answer,
        notes=notes,
        anchors=anchors,
        choice=state.choice if event.again else counted(state.choice, op),
        seen=seen,
        progressed=state.progressed or not (aside or event.again),
        news=state.news or not (aside or event.again),
    )


def estimated(state: TaskState, event: RequestBuilt) -> TaskState:
    """Keep what the estimate of the request was, until its provider says better."""
    if event.measure != "estimate":
        return state
    op = msgspec.structs.replace(
        state.ops[event.op], estimated=event.size * 1_000 // event.scale
    )
    return msgspec.structs.replace(state, ops={**state.ops, event.op: op})


def _undone(state: TaskState, event: ActionObserved) -> TaskState:
    if event.again:
        return state
    if event.status == "completed":
        return msgspec.structs.replace(state, undone=state.undone + 1)
    return msgspec.structs.replace(state, undo_failed=event.reason)


def found(state: TaskState, event: LoopFound) -> TaskState:
    """The task goes round in circles: the model is told, until it is stopped."""
    guard = ladder.taken(state.guard, event.stage, event.found, state.next_op)
    note = ladder.told(event.stage, event.found.says)
    notes = noted(state, note) if note else state.notes
    return msgspec.structs.replace(state, guard=guard, notes=notes)


def whole(seen: Seen, op: Op, status: Outcome) -> Seen:
    """What an event holds of an action, with what it says anyway filled in."""
    assert isinstance(op.action, CallTool)
    return msgspec.structs.replace(seen, op=op.op, tool=op.action.tool, status=status)


def _failures(state: TaskState, op: Op, event: ActionObserved) -> dict[str, Failure]:
    """What failed; a call that was not let out as one of a circle is no failure."""
    seen = event.seen
    if not isinstance(op.action, CallTool) or (
        event.refused
        and seen is not None
        and ladder.blocked(state.guard, event.op, seen.action)
    ):
        return state.failures
    return failed(state.failures, op.action, event)


def noted(state: TaskState, note: str) -> tuple[str, ...]:
    """The notes with one more; the oldest goes first."""
    return (*state.notes, note)[-NOTES_KEPT:]


def no_room(refused: dict[str, str]) -> str:
    """What the model is told of anchors that the task has no room for."""
    shown = "; ".join(f"{name} ({why})" for name, why in refused.items())
    return f"not kept in view: {shown}"[:NOTE_SHOWN]
