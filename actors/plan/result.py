"""What a task's plan came to so far, as its host sees it (A34)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..events import Event, PlanMade, PlanRevised, PlanStep, TaskSubmitted
from ..task.parts import StepRecord
from ..task.state import TaskState
from .standing import Standing, output_step, stuck_step

__all__ = ["PlanResult", "Revision", "plan_result", "revisions_of"]


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """Another plan that came into force.

    Args:
        number: of the plan, from 2: the first was no revision.
        why: the model's words for it.
        fired: the triggers that had the plan looked at.
        added, changed: ids of steps that are new, or differ from those before.
        dropped: ids of steps that are left out, and why each of them.
        consent: who let required steps be dropped; empty where none was.
    """

    number: int
    why: str
    fired: tuple[str, ...]
    added: tuple[str, ...]
    changed: tuple[str, ...]
    dropped: dict[str, str]
    consent: str = ""


class PlanResult(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, how far it is, and how often it was tried and revised.

    Args:
        task: whose plan it is.
        status: of the task, as `Handle.status` has it.
        phase: of the running step, or of the one that comes next; empty at the end.
        steps: the plan in force, in its order.
        records: how far each of them is, in the same order.
        standing: by step, its status with ``blocked`` and ``skipped``, whether it may
            begin, and why not.
        attempted: attempts of steps in all, over every plan of the task (A84).
        retries: how often the task tried a step again since somebody last had it go on.
        revisions: every other plan that came into force, oldest first.
        output: the step whose result is the task's output so far; empty where none is.
    """

    task: str
    status: str
    phase: str
    steps: tuple[PlanStep, ...]
    records: tuple[StepRecord, ...]
    standing: dict[str, Standing]
    attempted: int
    retries: int
    revisions: tuple[Revision, ...] = ()
    output: str = ""


def plan_result(
    state: TaskState, status: str, revisions: tuple[Revision, ...]
) -> PlanResult:
    """Put together what a task's state and its stream say of its plan."""
    return PlanResult(
        task=state.task.task,
        status=status,
        phase=_phase(state),
        steps=state.plan,
        records=state.steps,
        standing=state.standings(),
        attempted=state.planning.attempted,
        retries=state.retries,
        revisions=revisions,
        output=output_step(state.plan, state.statuses()),
    )


def _phase(state: TaskState) -> str:
    """The phase that is worked on, or that comes next."""
    standing = state.standings()
    ready = next((name for name, one in standing.items() if one.ready), "")
    step = state.step.id if state.step is not None else ready
    step = step or stuck_step(state.plan, state.statuses())
    return next((one.phase for one in state.plan if one.id == step), "")


def revisions_of(stream: Iterable[Event]) -> tuple[Revision, ...]:
    """The revisions in a task's stream, by what they changed of the plan before."""
    found: list[Revision] = []
    before: dict[str, PlanStep] = {}
    for event in stream:
        if not isinstance(event, TaskSubmitted | PlanMade | PlanRevised):
            continue
        after = {step.id: step for step in event.steps}
        if isinstance(event, PlanRevised):
            both = [one for one in after if one in before]
            found.append(
                Revision(
                    number=event.number,
                    why=event.why,
                    fired=tuple(one.trigger for one in event.fired),
                    added=tuple(one for one in after if one not in before),
                    changed=tuple(one for one in both if after[one] != before[one]),
                    dropped={one.id: one.why for one in event.dropped},
                    consent=event.consent,
                )
            )
        before = after
    return tuple(found)
