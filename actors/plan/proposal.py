"""A plan as a model writes it, judged before anything of it is believed. Pure.

What a model writes is data: a step names what it waits for and what it is judged by,
and brings neither code nor acceptance. It is refused whole, with one reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..context.measure import canonical
from ..events import DroppedStep, Kind, PlanStep
from ..naming import NAME
from ..storable import is_storable
from .graph import wrong_needs

__all__ = [
    "FIXED",
    "WHY",
    "Accepted",
    "Bounds",
    "Drop",
    "Proposal",
    "WrittenStep",
    "digest_of",
    "goal_digest",
    "judged",
    "read",
]

FIXED = ("completed", "running")  # statuses of steps that no revision touches (A83)
REPLY = 100_000  # characters of a reply that are read
STEPS = 200  # that a reply may name; how many may stand in the plan is said apart
GOAL = 1_000  # characters of a step's goal, and of its criterion
PHASE = 64  # characters
WHY = 500  # characters of a reason
PLAN = 6_000  # characters of the texts of a plan: they stand in every request
ITERATIONS = 20  # of one written step, at most
CALLS = 1_000  # of tools in one written step, at most


class WrittenStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step as the model writes it; what it leaves out has its default."""

    id: str
    goal: str | None = None
    done: str | None = None
    needs: tuple[str, ...] | None = None
    accept: str | None = None
    phase: str | None = None
    kind: Kind | None = None
    required: bool | None = None
    max_iterations: int | None = None
    max_calls: int | None = None


class Drop(msgspec.Struct, frozen=True, kw_only=True):
    """An unfinished step that the model wants to do without."""

    id: str
    why: str


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of a reply: a plan, or that the old one stays (`keep`)."""

    steps: tuple[WrittenStep, ...] = ()
    drop: tuple[Drop, ...] = ()
    keep: bool = False
    goal: str | None = None
    why: str = ""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan is held to.

    Args:
        max_steps: completed, running and pending steps together.
        checks: names that a step may be judged by.
        iterations: of a step that does not say how many it takes.
        characters: of a request, where it counts those; its plan takes a third at most.
    """

    max_steps: int
    checks: tuple[str, ...]
    iterations: int
    characters: int


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that passed every rule: all its steps, and what it does without."""

    steps: tuple[PlanStep, ...]
    dropped: tuple[DroppedStep, ...]
    why: str

    @property
    def needs_consent(self) -> tuple[DroppedStep, ...]:
        """Dropped steps that the task requires: a person must agree."""
        return tuple(one for one in self.dropped if one.required)


def digest_of(steps: Sequence[PlanStep]) -> str:
    """Digest of steps as they stand in a plan."""
    return _digest(msgspec.to_builtins(tuple(steps)))


def goal_digest(goal: str) -> str:
    """Digest of a task's goal; a plan never changes it."""
    return _digest(goal)


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def read(text: str) -> Proposal | str:
    """Read a model's reply, or say what is wrong with its form."""
    start, end = text.find("{"), text.rfind("}")
    if len(text) > REPLY:
        return f"it has {len(text)} characters; {REPLY} are read"
    if start < 0 or end < start:
        return "it holds no JSON object"
    try:
        found = msgspec.json.decode(text[start : end + 1], type=Proposal)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return f"it is not of the form asked for: {error}"
    if not is_storable(text):
        return "it holds text that is not Unicode"
    if len(found.steps) > STEPS or len(found.drop) > STEPS:
        return f"it names more than {STEPS} steps"
    return found


def judged(
    said: Proposal,
    *,
    goal: str,
    plan: Sequence[PlanStep],
    status: Mapping[str, str],
    bounds: Bounds,
) -> Accepted | str:
    """Return the plan that a proposal makes, or why it is refused (A83, K49).

    Args:
        said: what the model wrote; `keep` is the caller's to look at.
        goal: the task's, verbatim.
        plan: the steps in force; none where this is the first plan.
        status: of each of them.
        bounds: what the plan is held to.
    """
    if said.goal is not None and goal_digest(said.goal) != goal_digest(goal):
        return "the goal was changed; it stays as the user gave it"
    if wrong := _wrong_form(said):
        return wrong
    old = {step.id: step for step in plan}
    fixed = [step for step in plan if status[step.id] in FIXED]
    ids = [one.id for one in said.steps]
    if twice := next((one for one in ids if ids.count(one) > 1), None):
        return f"two steps are called {twice!r}"
    if wrong := _rewritten(said, fixed, status):
        return wrong
    new = [one for one in said.steps if one.id not in {step.id for step in fixed}]
    made = list(fixed)
    for one in new:
        step = _step(one, old.get(one.id), made, bounds)
        if isinstance(step, str):
            return step
        made.append(step)
    dropped = _dropped(said, old, made, status)
    if isinstance(dropped, str):
        return dropped
    if wrong := wrong_needs({step.id: step.needs for step in made}):
        return wrong
    if wrong := _too_much(made, plan, bounds):
        return wrong
    return Accepted(steps=tuple(made), dropped=dropped, why=said.why[:WHY])


def _wrong_form(said: Proposal) -> str:
    for one in said.steps:
        if not NAME.fullmatch(one.id):
            return f"step id {one.id[:70]!r}: use 1-64 letters, digits, . _ or -"
        for name, text, most in (
            ("goal", one.goal, GOAL),
            ("done", one.done, GOAL),
            ("phase", one.phase, PHASE),
        ):
            if text is not None and len(text) > most:
                return (
                    f"step {one.id!r}: its {name} has {len(text)} characters, {most} "
                    "are allowed"
                )
        for name, number, most in (
            ("max_iterations", one.max_iterations, ITERATIONS),
            ("max_calls", one.max_calls, CALLS),
        ):
            if number is not None and not 1 <= number <= most:
                return f"step {one.id!r}: {name}={number} must be from 1 to {most}"
    return ""


def _rewritten(
    said: Proposal, fixed: Sequence[PlanStep], status: Mapping[str, str]
) -> str:
    """Which step that stays as it is the proposal tells otherwise, by its digest."""
    written = {one.id: one for one in said.steps}
    for step in fixed:
        one = written.get(step.id)
        if one is not None and digest_of([_over(step, one)]) != digest_of([step]):
            return (
                f"step {step.id!r} is {status[step.id]}: it stays as it is, and so "
                "does its id; use another id"
            )
    return ""


def _over(step: PlanStep, one: WrittenStep) -> PlanStep:
    """A step with everything that was written of it in its place."""
    given = {
        name: value
        for name in one.__struct_fields__
        if (value := getattr(one, name)) is not None
    }
    if one.needs is not None:
        given["needs"] = tuple(dict.fromkeys(one.needs))
    return msgspec.structs.replace(step, **given)


def _step(
    one: WrittenStep, old: PlanStep | None, before: Sequence[PlanStep], bounds: Bounds
) -> PlanStep | str:
    """A written step as the task carries it: over what it was, where it was one."""
    if old is None:
        if one.goal is None:
            return f"step {one.id!r}: it says no goal"
        old = PlanStep(
            id=one.id,
            goal=one.goal,
            done="",
            max_iterations=bounds.iterations,
            needs=(before[-1].id,) if before else (),
            by="model",
        )
    elif old.required and one.required is False:
        return (
            f"step {one.id!r} is required; it can be dropped by name, and not be made "
            "optional"
        )
    if one.accept and old.by == "host":
        return f"step {one.id!r} is the host's: what judges it is not yours to name"
    if one.accept and one.accept not in bounds.checks:
        known = ", ".join(map(repr, bounds.checks)) or "none"
        return f"step {one.id!r}: there is no check {one.accept[:70]!r}; known: {known}"
    step = _over(old, one)
    if old.accept and not step.accept:
        step = msgspec.structs.replace(step, accept=old.accept)
    if not step.goal.strip():
        return f"step {one.id!r}: its goal is empty"
    return step


def _dropped(
    said: Proposal,
    old: Mapping[str, PlanStep],
    made: Sequence[PlanStep],
    status: Mapping[str, str],
) -> tuple[DroppedStep, ...] | str:
    """What a plan does without; an unfinished required step must be among it (A83)."""
    stays = {step.id for step in made}
    named: dict[str, str] = {}
    for one in said.drop:
        if one.id not in old:
            return f"drop names {one.id[:70]!r}, which is no step of the plan"
        if status[one.id] in FIXED:
            return f"drop names step {one.id!r}, which is {status[one.id]}: it stays"
        if one.id in stays:
            return f"step {one.id!r} is both among the steps and dropped"
        if not one.why.strip():
            return f"drop of step {one.id!r} says no why"
        named[one.id] = one.why[:WHY]
    for step in old.values():
        if step.id in stays or step.id in named:
            continue
        if step.required and status[step.id] != "skipped":
            return (
                f"step {step.id!r} is required, unfinished and left out: repeat it, or "
                "name it in drop and say why"
            )
        named[step.id] = "it was left out"
    return tuple(
        DroppedStep(id=one, why=why, required=old[one].required)
        for one, why in named.items()
    )


def _too_much(made: Sequence[PlanStep], old: Sequence[PlanStep], bounds: Bounds) -> str:
    """Whether a plan is too long; one of the host's that is longer may stay as long."""
    if not made:
        return "it holds no steps"
    if len(made) > bounds.max_steps:
        return (
            f"it makes {len(made)} steps with those that are fixed; "
            f"{bounds.max_steps} are allowed"
        )
    texts, most = _texts(made), min(PLAN, bounds.characters // 3)
    if texts > max(most, _texts(old)):
        return f"its texts have {texts} characters; {most} are allowed"
    return ""


def _texts(plan: Sequence[PlanStep]) -> int:
    return sum(len(step.goal) + len(step.done) + len(step.id) for step in plan)
