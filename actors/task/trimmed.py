"""What of an ended task's stream is scratch, and its state without that. Pure.

Scratch is what led from one step to the next: decisions, requests, observations,
waits. What stays is what was asked for, the plan and its revisions, results with the
verdicts on them, what people said, how it recovered, and how it ended (A40, B79).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from ..events import (
    ActionObserved,
    AnchorsRefused,
    ContextRebuilt,
    DecisionMade,
    DriftFound,
    DriftOver,
    Event,
    KnowledgeTaken,
    LoopFound,
    PlanChecked,
    PlanKept,
    PlanRefused,
    PolicyFailed,
    RequestBuilt,
    RestAsked,
    SlotCame,
    SlotDeferred,
    StepEnded,
    StepInherited,
    StepStarted,
    SummaryRefused,
    SummaryTaken,
    TaskClosed,
    TaskClosing,
    TaskForked,
    TaskPaused,
    TaskResumed,
    TaskTrimmed,
    TimerFired,
    TimerSet,
)

if TYPE_CHECKING:
    from .state import TaskState

__all__ = [
    "KEPT",
    "after",
    "ended",
    "hosts",
    "is_scratch",
    "trimmed_to",
    "why_gone",
]

KEPT = frozenset(  # of a task's state: what is shown of one that ended
    {
        "asked",
        "cancelled_by",
        "compensate",
        "handed",
        "newest",
        "next_op",
        "noted",
        "plan",
        "planning",
        "recoveries",
        "retries",
        "steering",
        "steps",
        "undo_failed",
        "undone",
    }
)
PASSING = ("timer", "rate", "subtask")  # pauses that nobody had to end
_SCRATCH = (
    ActionObserved,
    AnchorsRefused,
    ContextRebuilt,
    DecisionMade,
    DriftFound,
    DriftOver,
    KnowledgeTaken,
    LoopFound,
    PlanChecked,
    PlanKept,
    PlanRefused,
    PolicyFailed,
    RequestBuilt,
    RestAsked,
    SlotCame,
    SlotDeferred,
    StepStarted,
    SummaryRefused,
    SummaryTaken,
    TaskForked,
    TimerFired,
    TimerSet,
)


def is_scratch(event: Event) -> bool:
    """Whether an event of an ended task's stream is of no use any more."""
    match event:
        case TaskPaused(reason=reason):
            return reason in PASSING
        case TaskResumed(anew=anew):
            return not anew
    return isinstance(event, _SCRATCH)


def hosts(event: Event) -> bool:
    """Whether the record of this scratch may become that of `TaskTrimmed`.

    What a task took of facts may be redacted by whoever has those erased, just then.
    """
    return is_scratch(event) and not isinstance(event, KnowledgeTaken)


def trimmed_to(state: TaskState, at: float) -> TaskTrimmed:
    """The event that stands for the scratch of a task that ended in `state`.

    The results of its steps stay where they are, in the events that accepted them.
    """
    first = type(state)()
    steps = tuple(msgspec.structs.replace(one, result="") for one in state.steps)
    state = msgspec.structs.replace(state, steps=steps)
    changed = {
        name: getattr(state, name)
        for name in sorted(KEPT)
        if getattr(state, name) != getattr(first, name)
        and not (name == "plan" and state.plan == state.task.steps)
    }
    found: dict[str, Any] = msgspec.to_builtins(changed, str_keys=True)
    for name, records in (("steps", state.steps), ("plan", state.plan)):
        if name in found:
            found[name] = [
                _told(value, record)
                for value, record in zip(found[name], records, strict=True)
            ]
    return TaskTrimmed(trimmed_at=at, state=found)


def why_gone(task: str, at: float, what: str) -> str:
    """What somebody is told who asks for what retention has let go at a second."""
    when = datetime.fromtimestamp(at, UTC).isoformat(" ", "seconds")
    return (
        f"task {task} has ended, and its scratch was let go at {when}: {what}; "
        "`perdure show`, `effects` and `log` have what stays"
    )


def _told(value: dict[str, Any], record: msgspec.Struct) -> dict[str, Any]:
    """The fields of a record that are not as they are by default."""
    usual = {
        one.encode_name: one.default
        for one in msgspec.structs.fields(record)
        if one.default is not msgspec.NODEFAULT
    }
    return {
        name: field
        for name, field in value.items()
        if name not in usual or msgspec.to_builtins(usual[name]) != field
    }


def ended(state: TaskState, event: TaskTrimmed) -> TaskState:
    """The task is where it was when it closed, but for what the next events say."""
    kept = msgspec.convert(event.state, type=type(state), str_keys=True)
    carried = {name: getattr(kept, name) for name in KEPT & event.state.keys()}
    return msgspec.structs.replace(
        type(state)(),
        version=state.version,
        submitted=state.submitted,
        trimmed=event.trimmed_at,
        **{"plan": state.task.steps, **carried},
    )


def after(state: TaskState, event: Event) -> TaskState:
    """Take in what stayed: results, and the end. All else is in the state already."""
    change = msgspec.structs.replace
    state = change(state, version=state.version + 1)
    match event:
        case StepEnded(status="completed") | StepInherited():
            steps = tuple(
                change(one, result=event.result)
                if one.id == event.step and one.status == "completed"
                else one
                for one in state.steps
            )
            return change(state, steps=steps)
        case TaskClosing():
            return change(state, status="closing", outcome=event)
        case TaskClosed(status=status):
            return change(state, status=status)
    return state
