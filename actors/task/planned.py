"""What a task's state holds of its planning, and how each event changes it. Pure.

The counts stand here, outside of any plan: another plan resets none of them (A84).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from ..events import (
    ActionObserved,
    AnswerRefused,
    CallModel,
    CallTool,
    ConsentAsked,
    DecisionMade,
    Event,
    Fired,
    PlanChecked,
    PlanKept,
    PlanMade,
    PlanRefused,
    PlanRevised,
    PlanStep,
    StepEnded,
    StepStarted,
    TaskResumed,
    TaskSubmitted,
    Trigger,
)
from ..plan.planner import Planner
from ..plan.proposal import FIXED
from ..plan.triggers import is_half, phases_done
from .asked import about
from .commands import Adopt, AskConsent, Command, MakePlan, StopFor
from .parts import Op, StepRecord

if TYPE_CHECKING:
    from .state import TaskState

__all__ = ["Planning", "consent_about", "followed", "is_planning", "planned", "plans"]

WHY = 200  # characters of what set a look off


class Planning(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How often a task was planned, what its plan is to be looked at for, and who asks.

    Args:
        number: of the plan in force, from 1; 0 where there is none yet.
        revised: revisions that came into force.
        failed: revisions that were refused or never came.
        attempted: attempts of steps in all, over every plan.
        due: triggers that fired since the last look, the newest of each.
        halved: half of the steps are completed, and that has fired.
        phases: those that are done, and have fired.
        asked: what the open look is for; empty where none is open.
        deadline: second since the epoch by which its calls end; None until it is said.
        max_steps: of the plan that is asked for; `checks` are the names it may give.
        refused: proposals refused in this look, the last one for `why`.
        stuck: why there is no first plan, until a person has the task go on.
        consent: the revision that waits for a person's word.
    """

    number: int = 0
    revised: int = 0
    failed: int = 0
    attempted: int = 0
    due: tuple[Fired, ...] = ()
    halved: bool = False
    phases: tuple[str, ...] = ()
    asked: tuple[Fired, ...] = ()
    deadline: float | None = None
    max_steps: int = 0
    checks: tuple[str, ...] = ()
    refused: int = 0
    why: str = ""
    stuck: str = ""
    consent: ConsentAsked | None = None


def is_planning(op: Op) -> bool:
    """Whether an operation asks for a plan, or for a look at it."""
    return isinstance(op.action, CallModel) and op.action.purpose == "plan"


def plans(state: TaskState, planner: Planner | None) -> Command | None:
    """What planning asks for before the task's work goes on, if anything.

    Args:
        state: the task, with no operation open.
        planner: the agent's; without one its plan is never looked at.
    """
    planning = state.planning
    if planning.consent is not None:
        op = planning.consent.op
        asked = about(state, consent_about(op))
        return AskConsent(op) if asked is None else Adopt(op)
    if planning.asked:
        return MakePlan(planning.refused)
    if planning.stuck:
        return StopFor("plan", f"no plan passed: {planning.stuck}", "resume")
    if not state.plan:
        return MakePlan(0)
    if planner is None or planning.revised + planning.failed >= planner.revisions:
        return None
    if any(one.trigger in planner.triggers for one in planning.due):
        return MakePlan(0)
    return None


def consent_about(op: int) -> str:
    """What the question is about whether the revision of operation `op` may be."""
    return f"plan/op{op}"


# ── what the plan's own events change ────────────────────────────────────────────


def planned(state: TaskState, event: Event) -> TaskState:
    """A look at the plan begins, or comes to its end."""
    change = msgspec.structs.replace
    planning = state.planning
    over = change(planning, asked=(), deadline=None, refused=0, why="")
    over = change(over, consent=None, stuck="")
    match event:
        case PlanChecked():
            planning = change(
                planning,
                asked=event.fired,
                deadline=event.deadline,
                max_steps=event.max_steps,
                checks=event.checks,
                due=(),
            )
            return change(state, planning=planning)
        case PlanMade(number=number, steps=steps):
            state = change(state, planning=change(over, number=number), progressed=True)
            return _replaced(state, steps)
        case PlanRevised(number=number, steps=steps):
            over = change(over, number=number, revised=over.revised + 1)
            state = _replaced(change(state, planning=over, progressed=True), steps)
            return change(state, planning=_crossed(state))
        case PlanKept():
            return change(state, planning=over, progressed=True)
        case PlanRefused(final=False, why=why):
            planning = change(planning, refused=planning.refused + 1, why=why)
            return change(state, planning=planning)
        case PlanRefused(why=why):
            first = not state.plan
            failed = over.failed + (not first)
            over = change(over, failed=failed, stuck=why if first else "")
            return change(state, planning=over)
        case ConsentAsked():
            return change(state, planning=change(planning, consent=event))
    return state


def _crossed(state: TaskState) -> Planning:
    """The planning of a task with another plan: what is done sets nothing off."""
    status = state.statuses()
    completed = sum(one == "completed" for one in status.values())
    return msgspec.structs.replace(
        state.planning,
        halved=is_half(completed, len(status)),
        phases=phases_done(state.plan, status),
    )


def _replaced(state: TaskState, steps: tuple[PlanStep, ...]) -> TaskState:
    """Other steps are in force; the records of those that stay are the same ones.

    A step that is to be tried anew keeps the number of its attempts: an effect of its
    own that happened is still known as its own.
    """
    held = {record.id: record for record in state.steps}
    records = []
    for step in steps:
        record = held.get(step.id)
        if record is None:
            record = StepRecord(id=step.id)
        elif record.status not in FIXED and record.status != "pending":
            record = StepRecord(id=step.id, attempt=record.attempt)
        records.append(record)
    return msgspec.structs.replace(state, plan=steps, steps=tuple(records))


# ── what the task's other events set off ─────────────────────────────────────────


def followed(before: TaskState, state: TaskState, event: Event) -> TaskState:
    """The state after any event, with what that means for the plan.

    Args:
        before: the state that the event found.
        state: the state that it left.
        event: what happened.
    """
    change = msgspec.structs.replace
    planning = state.planning
    match event:
        case DecisionMade():
            return state
        case ActionObserved():
            if not event.again:
                planning = _observed(before.ops[event.op], planning, event)
        case TaskSubmitted(steps=steps) if steps:
            planning = change(planning, number=1)
        case StepStarted():
            planning = change(planning, attempted=planning.attempted + 1)
        case StepEnded(status="completed"):
            planning = _completed(state, planning)
        case StepEnded(step=step, status=status, reason=reason):
            why = f"step {step} ended {status}: {reason}"
            planning = _due(planning, [("result", why)])
        case AnswerRefused(step=step, why=why):
            why = f"the answer of step {step} was refused: {why}"
            planning = _due(planning, [("result", why)])
        case TaskResumed():
            planning = _resumed(before, planning, event)
    if planning is state.planning:
        return state
    return change(state, planning=planning)


def _completed(state: TaskState, planning: Planning) -> Planning:
    """A step passed acceptance: perhaps with it a phase, or half of the plan."""
    status = state.statuses()
    done = phases_done(state.plan, status)
    fired: list[tuple[Trigger, str]] = []
    if new := [one for one in done if one not in planning.phases]:
        fired.append(("phase", f"done: {', '.join(new)}"))
    completed = sum(one == "completed" for one in status.values())
    half = is_half(completed, len(status))
    if half and not planning.halved:
        fired.append(("half", f"{completed} of {len(status)} steps are completed"))
    halved = half or planning.halved
    planning = msgspec.structs.replace(planning, phases=done, halved=halved)
    return _due(planning, fired)


def _observed(op: Op, planning: Planning, event: ActionObserved) -> Planning:
    if isinstance(op.action, CallTool):
        if event.status == "completed" or op.undoes:
            return planning
        return _due(planning, [("result", f"op{event.op}: {event.reason}")])
    if event.unsure:
        return _due(planning, [("unsure", f"op{event.op} said {event.unsure!r}")])
    return planning


def _resumed(before: TaskState, planning: Planning, event: TaskResumed) -> Planning:
    """Whoever has a task go on gives its planning its time again.

    A wait for the time, or for a slot, is part of the time that it has (A82).
    """
    paid = before.pause is not None and before.pause.reason == "budget"
    if planning.asked and (event.anew or paid):
        planning = msgspec.structs.replace(planning, deadline=None)
    if not event.anew:
        return planning
    return msgspec.structs.replace(planning, stuck="", refused=0)


def _due(planning: Planning, fired: Iterable[tuple[Trigger, str]]) -> Planning:
    due = {one.trigger: one for one in planning.due}
    for trigger, why in fired:
        due.pop(trigger, None)
        due[trigger] = Fired(trigger=trigger, why=" ".join(why.split())[:WHY])
    return msgspec.structs.replace(planning, due=tuple(due.values()))
