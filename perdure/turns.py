"""What happened to a task between its iterations, in a sentence each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from .actors import events
from .actors.events import Event
from .events import NAMES
from .storage.records import Record

__all__ = ["Turn", "turn_of"]


class Turn(msgspec.Struct, frozen=True, kw_only=True, tag="turn"):
    """An event that turned the story; `what` is its name in the log.

    `condition` names the condition of the task's loop that held, where one did.
    """

    seq: int
    at: float
    what: str
    step: str
    says: str
    by: str = ""
    condition: str = ""


def turn_of(record: Record, event: Event, step: str) -> Turn | None:
    """The turn that an event is, or None; `step` is the one that runs."""
    says = _SAYS.get(type(event))
    if says is None:
        return None
    text = says(event)
    if not text:
        return None
    return Turn(
        seq=record.seq,
        at=record.at,
        what=NAMES[record.type],
        step=getattr(event, "step", "") or step,
        says=text,
        by=getattr(event, "by", ""),
        condition=getattr(event, "condition", ""),
    )


def _ended(event: events.StepEnded) -> str:
    if event.status == "completed":
        return f"{event.step} passed acceptance"
    again = ", and is tried again" if event.again else ""
    return f"{event.step} {event.status}: {event.reason}{again}"


def _paused(event: events.TaskPaused) -> str:
    return f"{event.reason}: {event.detail}; ends with: {event.ends_with}"


def _resumed(event: events.TaskResumed) -> str:
    if event.anew:
        return "somebody had it go on: every count begins anew"
    return "what it waited for has come"


def _taken(event: events.ApprovalTaken) -> str:
    if event.tool:
        return f"operation {event.op} became {event.tool} {event.arguments[:200]}"
    word = "approved" if event.approved else "rejected"
    why = f": {event.why}" if event.why else ""
    return f"operation {event.op} was {word}{why}"


def _found(event: events.LoopFound) -> str:
    ops = ", ".join(f"op{op}" for op in event.found.ops)
    return f"{event.stage}: {event.found.says} ({ops})"


def _cancelled(event: events.CancelRequested) -> str:
    return "it is to end" + (", its effects taken back" if event.compensate else "")


def _alerted(event: events.Alerted) -> str:
    return f"{event.available} of {event.granted} {event.dimension} are left"


def _fired(event: events.PlanChecked | events.PlanRevised) -> str:
    return "; ".join(f"{one.trigger}: {one.why}" for one in event.fired)


def _planned(event: events.PlanMade | events.PlanRevised) -> str:
    steps = ", ".join(one.id for one in event.steps)
    why = f": {event.why}" if event.why else ""
    return f"plan {event.number} is in force ({steps}){why}"


def _revised(event: events.PlanRevised) -> str:
    gone = "".join(f"; without {one.id}: {one.why}" for one in event.dropped)
    by = f"; {event.consent} consented" if event.consent else ""
    return f"{_planned(event)}{gone}{by}; for {_fired(event)}"


def _consent(event: events.ConsentAsked) -> str:
    gone = "; ".join(f"{one.id}: {one.why}" for one in event.dropped)
    return f"a revision that drops required steps waits for a person ({gone})"


_SAYS: dict[type[Event], Callable[[Any], str]] = {
    events.TaskForked: lambda event: f"a fork; {event.step or 'no step'} ran there",
    events.StepInherited: lambda event: f"{event.step} was completed before the fork",
    events.PlanChecked: lambda event: f"the plan is looked at: {_fired(event)}",
    events.PlanMade: _planned,
    events.PlanRevised: _revised,
    events.PlanKept: lambda event: f"the plan stays: {event.why}",
    events.PlanRefused: lambda event: f"no plan of operation {event.op}: {event.why}",
    events.ConsentAsked: _consent,
    events.StepStarted: lambda event: f"{event.step} begins, attempt {event.attempt}",
    events.StepEnded: _ended,
    events.LoopFound: _found,
    events.DriftFound: lambda event: f"off its goal, which is shown again: {event.why}",
    events.PolicyFailed: lambda event: f"the policy: {event.why}",
    events.SummaryRefused: lambda event: f"no summary: {event.why}",
    events.TaskPaused: _paused,
    events.TaskResumed: _resumed,
    events.ApprovalAsked: lambda event: (
        f"{event.tool} (operation {event.op}) waits for a person: {event.approval}"
    ),
    events.ApprovalTaken: _taken,
    events.ApprovalExpired: lambda event: f"operation {event.op}: nobody answered",
    events.RejectionRepeated: lambda event: f"operation {event.op}: {event.rejected}",
    events.QuestionAsked: lambda event: f"{event.question} asks: {event.text[:300]}",
    events.QuestionTaken: lambda event: (
        f"{event.question} was answered: {event.answer[:300]}"
    ),
    events.QuestionExpired: lambda event: f"{event.question}: nobody answered in time",
    events.NoteTaken: lambda event: f"note {event.number}: {event.text[:300]}",
    events.StepRetried: lambda event: (
        f"done again from step {event.step}: {', '.join(event.steps)}"
    ),
    events.SubtaskStarted: lambda event: f"handed on to task {event.child}",
    events.SubtaskEnded: lambda event: f"task {event.child} is {event.status}",
    events.CancelRequested: _cancelled,
    events.Alerted: _alerted,
    events.TaskClosing: lambda event: f"{event.status}: {event.reason}",
}
