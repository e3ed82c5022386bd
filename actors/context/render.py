"""The texts of the task layer, rendered from state.

The moving part ends with one line of JSON in a fence, so that a program can read
back what a model is told. Same view, same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..events import Known
from ..model import ToolSchema
from ..plan.asking import tools_data
from .facts import Finding, line
from .measure import canonical

__all__ = [
    "FactView",
    "FailureView",
    "NoteView",
    "OperationView",
    "StepView",
    "TaskView",
    "known_line",
    "moving_data",
    "render_moving",
    "render_recovery",
    "render_task_stable",
]

SAME = "the goal itself"
REMINDER = 1_000  # characters of the goal, and of the constraints, shown twice
ADRIFT = "Your last actions have little to do with it. It still is:"
STEERED = "From the operator; it counts more than the plan"
CLAIMED = "Noted by you, confirmed by nobody"
_OPEN = "\n```json\n"
_CLOSE = "\n```"
_OPENERS = "Bounded: read_evidence opens each by its id, recall finds those not listed."


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the plan; `done` is its completion criterion in words.

    Without a `goal` it is the whole task: its goal is not said twice. `needs` are the
    steps that it waits for, where these are not just the one before it.
    """

    id: str
    goal: str = ""
    done: str = ""
    status: str = "pending"
    needs: tuple[str, ...] | None = None


class FactView(msgspec.Struct, frozen=True, kw_only=True):
    """A conclusion and the evidence it rests on.

    `value` is JSON text, bounded by the caller. `step` is the step that found it, `by`
    says of a variable that is kept in view who put it there.
    """

    name: str
    value: str
    evidence: str
    step: str = ""
    by: str = ""


class OperationView(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded operation of the current step whose exchange is not in scratch.

    `arguments` is JSON text; `result` is the text the model saw or would have seen.
    """

    tool: str
    arguments: str
    outcome: str
    result: str
    evidence: str


class FailureView(msgspec.Struct, frozen=True, kw_only=True):
    """What failed before in the task: a call with its arguments, or a step.

    `arguments` is the beginning of their JSON text, empty for a step; `why` the newest
    reason.
    """

    what: str
    arguments: str
    times: int
    why: str


class NoteView(msgspec.Struct, frozen=True, kw_only=True):
    """What a person told the task on its way, at a second since the epoch."""

    number: int
    text: str
    by: str
    at: float


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is told of its task.

    Args:
        goal: the user's words, verbatim.
        constraints: what must hold throughout.
        inputs: the task's parameters, plain JSON.
        knowledge: the core facts of the task's scopes, whole.
        steps: the plan, in order, with statuses.
        current: id of the step being worked on.
        facts: confirmed by the record, oldest first.
        claims: what the model itself put in view; nobody confirmed it.
        operations: finished operations of the current step, oldest first.
        findings: what requests no longer show whole, in short, oldest first.
        failures: what failed before and is in no note, oldest first.
        notes: decisions and failures that must stay visible, with reasons.
        steering: what people told the task on its way.
        adrift: the newest actions have little to do with the goal.
        uncertain: what the record cannot decide.
        next: the suggested next action.
        summary: what a summary says of exchanges that are not shown any more.
        plan: the steps as a plan is written, where one is asked for.
    """

    goal: str
    constraints: tuple[str, ...] = ()
    inputs: dict[str, Any] = {}
    knowledge: tuple[Known, ...] = ()
    steps: tuple[StepView, ...] = ()
    current: str | None = None
    facts: tuple[FactView, ...] = ()
    claims: tuple[FactView, ...] = ()
    operations: tuple[OperationView, ...] = ()
    findings: tuple[Finding, ...] = ()
    failures: tuple[FailureView, ...] = ()
    notes: tuple[str, ...] = ()
    steering: tuple[NoteView, ...] = ()
    adrift: bool = False
    uncertain: tuple[str, ...] = ()
    next: str = ""
    summary: str = ""
    plan: list[dict[str, Any]] | None = None


def render_task_stable(view: TaskView) -> str:
    """Return what stays the same while the task works: goal, knowledge, plan."""
    parts = [_section("Goal", view.goal)]
    if view.constraints:
        parts.append(_section("Constraints", _bullets(view.constraints)))
    if view.inputs:
        parts.append(_section("Inputs", canonical(view.inputs)))
    if view.knowledge:
        parts.append(_section("Known", "\n".join(map(known_line, view.knowledge))))
    if view.steps:
        lines = map(_plan_line, view.steps)
        parts.append(_section("Plan", "\n".join(lines)))
    return "\n\n".join(parts)


def render_moving(view: TaskView, *, opens: bool = False) -> str:
    """Return where the task stands now: progress, facts, next action.

    The goal stands in the stable part, once; here only while the task is adrift, then
    at the head, bounded. `opens` says whether the model has tools that open what is
    shown in short.
    """
    lines = [_section("Where the task stands", _progress(view))]
    if view.adrift:
        lines.insert(0, _section("Back to the goal", _reminder(view)))
    if view.steering:
        lines.append(_section(STEERED, _steered(view)))
    if found := _found(view):
        whole = f"{_OPENERS}\n{found}" if opens else found
        lines.append(_section("Found before, in short; the newest last", whole))
    if view.notes:
        lines.append(_section("Notes", _bullets(view.notes)))
    if view.claims:
        lines.append(_section(CLAIMED, _claims(view)))
    if view.failures:
        lines.append(_section("Failed before", _failed(view)))
    if view.uncertain:
        lines.append(_section("Not certain", _bullets(view.uncertain)))
    if view.next:
        lines.append(_section("Next action", view.next))
    lines.append("## Confirmed by the record")
    return "\n\n".join(lines) + _fenced(_data("progress", view))


def render_recovery(
    view: TaskView, kind: str = "recovery", tools: Sequence[ToolSchema] = ()
) -> str:
    """Return the context after a crash: goal, confirmed facts, next action.

    It stands in place of the stable and the moving part, with an empty scratch;
    the history is not put back. Source of the three modules: B33, B41, B42.
    `kind` is ``closing`` where a task is about to pause for money instead, and ``plan``
    where a plan is asked for, which can count on these `tools`.
    """
    goal = [view.goal]
    if view.constraints:
        goal.append(f"Constraints:\n{_bullets(view.constraints)}")
    if view.knowledge:
        goal.append("\n".join(["Known:", *map(known_line, view.knowledge)]))
    facts = [_progress(view)]
    if view.steering:
        facts.append(f"{STEERED}:\n{_steered(view)}")
    if view.notes:
        facts.append(_bullets(view.notes))
    if found := _found(view):
        facts.append(f"Found before, in short:\n{found}")
    if view.failures:
        facts.append(f"Failed before:\n{_failed(view)}")
    if view.summary:
        facts.append(view.summary)
    facts.append("Values, with their evidence, stand in the JSON at the end.")
    action = [view.next or "Go on from the break; do not plan anew."]
    if view.claims:
        action.append(f"{CLAIMED}:\n{_claims(view)}")
    if view.uncertain:
        action.append(f"Not certain:\n{_bullets(view.uncertain)}")
    data = _data(kind, view)
    data["inputs"] = view.inputs
    data["uncertain"] = list(view.uncertain)
    if view.plan is not None:
        data["plan"], data["tools"] = view.plan, tools_data(tools)
    parts = [
        _section("Task goal", "\n\n".join(goal)),
        _section("Confirmed facts", "\n\n".join(facts)),
        _section("Next action", "\n\n".join(action)),
    ]
    return "\n\n".join(parts) + _fenced(data)


def known_line(fact: Known) -> str:
    """Return the line that shows a fact: key, value, and where it comes from (A102)."""
    value = json.loads(fact.value)
    if not isinstance(value, str) or not value.isprintable():
        value = fact.value
    about = [f"about {fact.subject}"] if fact.subject else []
    about += [fact.evidence] if fact.evidence else []
    if fact.until is not None:
        about.append(f"until {datetime.fromtimestamp(fact.until, UTC):%Y-%m-%d %H:%M}Z")
    return f"- {fact.key}: {value}" + (f" ({'; '.join(about)})" if about else "")


def moving_data(text: str) -> dict[str, Any]:
    """Read back the JSON at the end of a moving or a recovery part.

    Raises ValueError where there is none.
    """
    _, fence, rest = text.rpartition(_OPEN)
    if not fence or not rest.endswith(_CLOSE):
        raise ValueError("the text does not end with a fenced JSON object")
    data: dict[str, Any] = json.loads(rest.removesuffix(_CLOSE))
    return data


def _section(title: str, body: str) -> str:
    return f"## {title}\n{body}"


def _failed(view: TaskView) -> str:
    lines = []
    for one in view.failures:
        call = f"{one.what} {one.arguments}".rstrip()
        times = "once" if one.times == 1 else f"{one.times} times"
        lines.append(f"- {call}: {times}; {one.why}")
    return "\n".join(lines)


def _bullets(items: tuple[str, ...]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _steered(view: TaskView) -> str:
    lines = []
    for one in view.steering:
        when = datetime.fromtimestamp(one.at, UTC).strftime("%Y-%m-%d %H:%M UTC")
        # Further lines are set in: none of them looks like our own text.
        text = "\n  ".join(one.text.splitlines())
        lines.append(f"{one.by}, {when}: {text}")
    return _bullets(tuple(lines))


def _reminder(view: TaskView) -> str:
    lines = [ADRIFT, _reminded(view.goal)]
    if view.constraints:
        lines.append(f"Constraints:\n{_reminded(_bullets(view.constraints))}")
    return "\n".join(lines)


def _reminded(text: str) -> str:
    if len(text) <= REMINDER:
        return text
    return f"{text[:REMINDER]} (cut; the whole stands above)"


def _claims(view: TaskView) -> str:
    # The value as JSON: a name or a line break in it cannot look like our own text.
    lines = (f"{canonical(c.name)}: {c.value} ({c.evidence})" for c in view.claims)
    return _bullets(tuple(lines))


def _found(view: TaskView) -> str:
    """What was found before, without what the facts and anchors say already."""
    told = (*view.facts, *view.claims)
    shown = {said for one in told for said in (one.name, _plain(one.value))}
    operations = {done.evidence for done in view.operations}
    lines = (
        line(one, shown) for one in view.findings if one.evidence not in operations
    )
    return _bullets(tuple(filter(None, lines)))


def _plain(value: str) -> str:
    """The text of a JSON value, as a finding would show it."""
    return value[1:-1] if value[:1] == '"' else value


def _plan_line(step: StepView) -> str:
    criterion = f" Done when: {step.done}" if step.done else ""
    needs = ""
    if step.needs is not None:
        needs = f" Needs: {', '.join(step.needs) or 'no other step'}."
    return f"- {step.id}: {step.goal or SAME}{criterion}{needs}"


def _progress(view: TaskView) -> str:
    if not view.steps and view.plan is not None:
        return "There is no plan yet."
    if not view.steps:
        return "The task has no plan; it is one step."
    lines = [f"{step.id}: {step.status}" for step in view.steps]
    text = "Steps: " + ", ".join(lines) + "."
    if current := _current(view):
        text += f"\nCurrent step {_plan_line(current).removeprefix('- ')}"
    return text


def _current(view: TaskView) -> StepView | None:
    return next((step for step in view.steps if step.id == view.current), None)


def _data(kind: str, view: TaskView) -> dict[str, Any]:
    current = _current(view)
    return {
        "kind": kind,
        "step": None
        if current is None
        else {"id": current.id, "goal": current.goal or SAME, "done": current.done},
        "steps": {step.id: step.status for step in view.steps},
        "facts": [
            {
                "name": fact.name,
                "value": json.loads(fact.value),
                "evidence": fact.evidence,
                **({"by": fact.by} if fact.by else {"step": fact.step}),
            }
            for fact in view.facts
        ],
        "operations": [
            {
                "tool": done.tool,
                "arguments": json.loads(done.arguments),
                "outcome": done.outcome,
                "result": done.result,
                "evidence": done.evidence,
            }
            for done in view.operations
        ],
    }


def _fenced(data: dict[str, Any]) -> str:
    # Canonical JSON is one line, so no value in it can close the fence.
    return f"{_OPEN}{canonical(data)}{_CLOSE}"
