"""What a fork begins with: where its source stood, without what is open there. Pure.

The fork's own stream says all of it, so that it stands on nothing else: its source may
be erased. Operations count on from those of the source, whose evidence ids stay what
they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from ..context.measure import canonical
from ..events import Forked, StepInherited, TaskForked, TaskSubmitted
from ..evidence import evidence_id
from ..ledger.entry import Entry
from ..rules import merged
from .parts import StepRecord
from .planned import Planning

if TYPE_CHECKING:
    from ..agent import Agent
    from ..baseline import Baseline
    from ..protocol import Fork
    from .state import TaskState

__all__ = [
    "CARRIED",
    "LEFT",
    "begun",
    "inherited",
    "place",
    "seed",
    "submission",
    "told",
]

CARRIED = frozenset(
    {
        "acts",
        "adrift",
        "anchors",
        "facts_until",
        "failures",
        "findings",
        "newest",
        "next_op",
        "notes",
        "plan",
        "planning",
        "seen",
        "steering",
        "steps",
    }
)
LEFT = frozenset(  # what is open, counted, asked anew, or the source's alone
    {
        "answer",
        "anew",
        "asked",
        "cancelled_by",
        "choice",
        "compensate",
        "done",
        "failing",
        "fixed",
        "guard",
        "handed",
        "knowledge",
        "news",
        "noted",
        "opinions",
        "ops",
        "outcome",
        "pause",
        "progressed",
        "questions",
        "recoveries",
        "recovery",
        "rejections",
        "retried",
        "retries",
        "retry",
        "shortage",
        "status",
        "submitted",
        "summary",
        "tried",
        "trimmed",
        "undo_failed",
        "undone",
        "version",
        "window",
    }
)
SHOWN = 8  # effects of the step that was running
TEXT = 300  # characters of one of them


def submission(
    source: TaskState, asked: Fork, agent: Agent, rules: Baseline, now: float
) -> TaskSubmitted:
    """The event that a fork begins with; its agent and its rules are those of now."""
    change = msgspec.structs.replace
    old = source.task
    goal = asked.goal or old.goal
    steps = tuple(
        change(one, goal=goal) if one.goal == old.goal else one for one in source.plan
    )
    return change(
        old,
        task=asked.new,
        agent_digest=agent.digest(),
        baseline=rules.id,
        goal=goal,
        budget=old.budget if asked.budget is None else asked.budget,
        key=asked.key,
        deadline=old.deadline if old.deadline and old.deadline > now else None,
        steps=steps,
        not_before=None,
        parent="",
        parent_op=0,
        depth=0,
        rules=merged(agent.rules, old.rules),
    )


def seed(
    source: TaskState, task: TaskSubmitted, done: Iterable[Entry], by: str
) -> list[TaskForked | StepInherited]:
    """What else a fork begins with. `done` are the effects of the running step.

    Every step but the completed ones begins anew. Results stand in events of their own:
    together they may be too much for one.
    """
    step = source.step
    steps = tuple(
        _without(one) if one.status == "completed" else StepRecord(id=one.id)
        for one in source.steps
    )
    state = msgspec.structs.replace(
        source, plan=task.steps, steps=steps, planning=_settled(source.planning)
    )
    kept = {name: getattr(state, name) for name in sorted(CARRIED)}
    forked = TaskForked(
        by=by,
        state=msgspec.to_builtins(kept, str_keys=True),
        step=step.id if step else "",
        done=_said(source.task.task, done) if step else (),
    )
    results = [
        StepInherited(step=one.id, result=one.result)
        for one in source.steps
        if one.status == "completed" and one.result
    ]
    return [forked, *results]


def _settled(planning: Planning) -> Planning:
    """What is known of the plan in force; a look at it that is open is due anew."""
    due = {one.trigger: one for one in (*planning.asked, *planning.due)}
    return Planning(
        number=planning.number,
        due=tuple(due.values()),
        halved=planning.halved,
        phases=planning.phases,
    )


def _without(step: StepRecord) -> StepRecord:
    """A step that is over, without its result."""
    return msgspec.structs.replace(step, result="")


def _said(source: str, done: Iterable[Entry]) -> tuple[str, ...]:
    """What a source did in the step that is begun anew, in short, the newest last."""
    calls: dict[str, str] = {}
    for one in done:
        call = f"{one.name} {one.arguments}"
        result = canonical(one.result)
        short = call if len(call) <= TEXT else f"{call[:TEXT]}…"
        came = result if len(result) <= TEXT else f"{result[:TEXT]}…"
        calls[one.key] = f"{short} gave {came} ({evidence_id(one.op)})"
    return tuple(list(calls.values())[-SHOWN:])


def begun(state: TaskState, event: TaskForked) -> TaskState:
    """A fork stands where its source stood."""
    kept = msgspec.convert(event.state, type=type(state), str_keys=True)
    carried = {name: getattr(kept, name) for name in CARRIED}
    done = (event.step, *event.done)
    return msgspec.structs.replace(state, **carried, status="running", done=done)


def inherited(state: TaskState, event: StepInherited) -> TaskState:
    """A step that its source completed, with its result."""
    steps = tuple(
        msgspec.structs.replace(one, result=event.result)
        if one.id == event.step
        else one
        for one in state.steps
    )
    return msgspec.structs.replace(state, steps=steps)


def told(state: TaskState) -> tuple[str, ...]:
    """What the model is told of what the source did in a step that is not over yet."""
    forked = state.task.forked
    if forked is None or not state.done[1:]:
        return ()
    step, *done = state.done
    record = next((one for one in state.steps if one.id == step), None)
    if record is None or record.status == "completed":
        return ()
    head = (
        f"task {forked.task}, which this one was forked from, has done this in step "
        f"{step} already; it happened, and happens twice if it is called again:"
    )
    return ("\n  - ".join((head, *done)),)


def place(source: TaskState, seq: int) -> Forked:
    """Where a fork leaves its source: as of a place of the log."""
    return Forked(
        task=source.task.task, seq=seq, version=source.version, ops=source.next_op
    )
