"""What an agent is, as data: kept once for its digest, compared when it has changed.

Functions go by name: of a tool what it takes and how often it may run, of what judges a
result its name. What is text is there as a digest of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from .acceptance import Accept, AllOf, AnyOf, ModelJudge
from .context.measure import canonical

if TYPE_CHECKING:
    from .agent import Agent
    from .tool import Tool

__all__ = ["Change", "Definition", "changes", "define", "held_by", "in_words"]

TEXTS = ("title", "description")  # of a JSON Schema, for people and models
NAMED = ("properties", "$defs")  # parts of one whose keys are names


class ToolForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool: its parameters without their texts, and how its effects are told apart.

    `undo` is the effect class of what takes its effects back, empty where nothing does.
    """

    effect: str
    parameters: dict[str, Any]
    text: str
    repeat: bool = False
    keyed: bool = False
    undo: str = ""


class StepForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step of the host's plan; `accept` is the name of what judges it."""

    id: str
    text: str
    needs: tuple[str, ...] = ()
    required: bool = True
    accept: str = ""


class PlannerForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who has the model write plans: the names of what judges written steps."""

    max_steps: int
    accept: str = ""
    checks: dict[str, str] = {}


class Definition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of an agent that its tasks rest on."""

    name: str
    decides: Literal["model", "policy"]
    text: str
    tools: dict[str, ToolForm] = {}
    plan: tuple[StepForm, ...] | None = None
    planner: PlannerForm | None = None
    accept: str = ""
    output: dict[str, Any] | None = None
    rules: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """16 hex digits that name it."""
        return _digest(msgspec.to_builtins(self))


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between two definitions.

    A task in progress goes on over one that is `compatible`; else somebody decides.
    """

    field: str
    said: str
    compatible: bool = False


# ── making one ───────────────────────────────────────────────────────────────────


def define(agent: Agent) -> Definition:
    """The definition of an agent as it is now."""
    plan, planner = agent.plan, agent.planner
    steps = None
    if plan is not None:
        steps = tuple(
            StepForm(
                id=one.id,
                text=_digest([one.goal, one.done]),
                needs=plan.needs(one),
                required=one.required,
                accept=_judge(one.accept),
            )
            for one in plan.steps
        )
    writes = None
    if planner is not None:
        writes = PlannerForm(
            max_steps=planner.max_steps,
            accept=_judge(planner.accept),
            checks={name: _judge(one) for name, one in planner.checks.items()},
        )
    output = None
    if agent.output is not None:
        output = _without_texts(msgspec.json.schema(agent.output))
    return Definition(
        name=agent.name,
        decides="model" if agent.policy is None else "policy",
        text=_digest(agent.instructions),
        tools={name: _tool(one) for name, one in agent.tools.items()},
        plan=steps,
        planner=writes,
        accept=_judge(agent.accept),
        output=output,
        rules=tuple(_digest(msgspec.to_builtins(rule)) for rule in agent.rules),
    )


def _tool(tool: Tool) -> ToolForm:
    told = tool.schema()["function"]
    return ToolForm(
        effect=tool.effect,
        parameters=_without_texts(told["parameters"]),
        text=_digest(told),
        repeat=tool.repeat,
        keyed=tool.key is not None,
        undo="" if tool.undo is None else tool.undo.effect,
    )


def _judge(accept: Accept | None) -> str:
    """The name of what judges a result; empty for nothing."""
    match accept:
        case None:
            return ""
        case AllOf(parts=parts):
            return f"all_of({', '.join(map(_judge, parts))})"
        case AnyOf(parts=parts):
            return f"any_of({', '.join(map(_judge, parts))})"
        case ModelJudge():
            return "judge"
        case function:
            name: str = getattr(function, "__name__", type(function).__name__)
            return name


def _without_texts(schema: Any, *, names: bool = False) -> Any:
    """A JSON Schema without what only people and models read; `names` are kept."""
    match schema:
        case dict():
            return {
                key: sorted(value)
                if key == "required" and not names
                else _without_texts(value, names=not names and key in NAMED)
                for key, value in schema.items()
                if names or key not in TEXTS
            }
        case list():
            return [_without_texts(one) for one in schema]
    return schema


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


# ── comparing two ────────────────────────────────────────────────────────────────


def changes(old: Definition, new: Definition) -> list[Change]:
    """What differs, field by field, the same however often it is asked.

    Texts may change and tools may be added under a task in progress. All else is held:
    a tool that is gone or takes something else may be named by an open operation, by
    an effect that is to be taken back, or by the keys that effects are known by again;
    a step or a judge that is gone is what makes a result complete.
    """
    return list(_changes(old, new))


def held_by(found: Iterable[Change]) -> list[Change]:
    """Those over which a task in progress does not go on by itself."""
    return [one for one in found if not one.compatible]


def in_words(found: Iterable[Change]) -> str:
    """Changes in one line."""
    return "; ".join(f"{one.field} {one.said}" for one in found)


def _changes(old: Definition, new: Definition) -> Iterator[Change]:
    if old.text != new.text:
        yield Change(field="instructions", said="changed", compatible=True)
    if old.decides != new.decides:
        said = f"was a {old.decides}, is a {new.decides}"
        yield Change(field="what decides", said=said)
    for name in old.tools:
        yield from _tool_changes(name, old.tools[name], new.tools.get(name))
    for name in new.tools:
        if name not in old.tools:
            yield Change(field=f"tool {name!r}", said="added", compatible=True)
    yield from _plan_changes(old.plan, new.plan)
    yield from _planner_changes(old.planner, new.planner)
    yield from _differ("accept", old.accept, new.accept)
    if old.output != new.output:
        yield Change(field="output", said="has another schema")
    if old.rules != new.rules:
        said = "changed; a task keeps those it was given, and new ones bind it too"
        yield Change(field="rules", said=said, compatible=True)


def _tool_changes(name: str, old: ToolForm, new: ToolForm | None) -> Iterator[Change]:
    field = f"tool {name!r}"
    if new is None:
        yield Change(field=field, said="removed")
        return
    yield from _differ(f"{field} effect", old.effect, new.effect)
    if old.parameters != new.parameters:
        yield Change(field=f"{field} parameters", said=_parameters(old, new))
    if old.repeat != new.repeat:
        yield Change(field=f"{field} repeat", said=f"was {old.repeat}, is {new.repeat}")
    if old.keyed != new.keyed:
        said = "added" if new.keyed else "removed"
        yield Change(field=f"{field} key", said=said)
    if old.undo != new.undo:
        yield from _differ(f"{field} undo", old.undo, new.undo, added=True)
    if old.text != new.text and old.parameters == new.parameters:
        yield Change(field=f"{field} description", said="changed", compatible=True)


def _parameters(old: ToolForm, new: ToolForm) -> str:
    """How what a tool takes has changed, by name."""
    before, now = (one.parameters.get("properties", {}) for one in (old, new))
    said = [f"{name!r} removed" for name in before if name not in now]
    said += [f"{name!r} added" for name in now if name not in before]
    said += [
        f"{name!r} changed"
        for name in before
        if name in now and before[name] != now[name]
    ]
    return ", ".join(said) or "changed"


def _plan_changes(
    old: tuple[StepForm, ...] | None, new: tuple[StepForm, ...] | None
) -> Iterator[Change]:
    if old is None or new is None:
        if old is not new:
            yield Change(field="plan", said="removed" if old else "added")
        return
    steps = {one.id: one for one in new}
    known = {one.id for one in old}
    for one in old:
        step = steps.get(one.id)
        field = f"step {one.id!r}"
        if step is None:
            yield Change(field=field, said="removed")
            continue
        if one.needs != step.needs:
            said = f"were {list(one.needs)}, are {list(step.needs)}"
            yield Change(field=f"{field} needs", said=said)
        if one.required != step.required:
            said = f"was {one.required}, is {step.required}"
            yield Change(field=f"{field} required", said=said)
        yield from _differ(f"{field} accept", one.accept, step.accept)
        if one.text != step.text:
            yield Change(field=f"{field} text", said="changed", compatible=True)
    for step in new:
        if step.id not in known:
            yield Change(field=f"step {step.id!r}", said="added")


def _planner_changes(
    old: PlannerForm | None, new: PlannerForm | None
) -> Iterator[Change]:
    if old is None or new is None:
        if old is not new:
            yield Change(field="planner", said="removed" if old else "added")
        return
    if old.max_steps != new.max_steps:
        said = f"was {old.max_steps}, is {new.max_steps}"
        yield Change(field="planner max_steps", said=said, compatible=True)
    yield from _differ("planner accept", old.accept, new.accept)
    for name in sorted({*old.checks, *new.checks}):
        before, now = old.checks.get(name, ""), new.checks.get(name, "")
        yield from _differ(f"planner check {name!r}", before, now, added=True)


def _differ(field: str, old: str, new: str, *, added: bool = False) -> Iterator[Change]:
    """Two names, of which one may be missing; `added` says that a new one may come."""
    if old == new:
        return
    if not old:
        yield Change(field=field, said=f"{new} added", compatible=added)
    elif not new:
        yield Change(field=field, said=f"{old} removed")
    else:
        yield Change(field=field, said=f"was {old}, is {new}")
