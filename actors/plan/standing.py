"""What the status of a step means for those that depend on it: one table. Pure.

    lets     they may begin
    waits    it is not over yet, and so they wait
    blocks   they cannot begin until somebody has it go on: they are ``blocked``
    skips    the task does without it, and so without them: they are ``skipped``
    over     the task has ended, and nothing begins any more

A step that nothing of this kind is known of counts by its own status; ``blocked`` and
``skipped`` follow from those of others and are stored nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from ..events import PlanStep

__all__ = [
    "MEANS",
    "Means",
    "Standing",
    "needs_shown",
    "output_step",
    "standings",
    "stuck_step",
]

Means: TypeAlias = Literal["lets", "waits", "blocks", "skips", "over"]

MEANS: Mapping[str, tuple[Means, Means]] = {  # of a required step, of another
    "pending": ("waits", "waits"),
    "running": ("waits", "waits"),
    "completed": ("lets", "lets"),
    "failed": ("blocks", "skips"),
    "timed_out": ("blocks", "skips"),
    "limited": ("blocks", "skips"),
    "acceptance_error": ("blocks", "skips"),
    "blocked": ("blocks", "blocks"),
    "skipped": ("skips", "skips"),
    "cancelled": ("over", "over"),
}


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a step stands: its status, whether it may begin, and why not."""

    status: str
    ready: bool = False
    why: str = ""


def standings(
    plan: Sequence[PlanStep], statuses: Mapping[str, str]
) -> dict[str, Standing]:
    """Where every step of a plan stands, in the order of the plan.

    Args:
        plan: the steps; what they need forms a DAG.
        statuses: the stored status of each step.
    """
    steps = {step.id: step for step in plan}
    found: dict[str, Standing] = {}

    left = list(reversed(plan))  # the first of the plan on top
    while left:
        step = left[-1]
        if before := [steps[one] for one in step.needs if one not in found]:
            left += before  # not by recursion: a chain may be as long as the plan
            continue
        left.pop()
        status = statuses[step.id]
        found[step.id] = (
            _of_pending(step, steps, found)
            if status == "pending"
            else Standing(status=status)
        )
    return {step.id: found[step.id] for step in plan}


def _of_pending(
    step: PlanStep, steps: Mapping[str, PlanStep], found: Mapping[str, Standing]
) -> Standing:
    means = {one: _means(steps[one], found[one].status) for one in step.needs}
    for of, status in (("skips", "skipped"), ("blocks", "blocked")):
        if held := [one for one in step.needs if means[one] == of]:
            names = ", ".join(f"{one} ({found[one].status})" for one in held)
            return Standing(status=status, why=f"needs {names}")
    return Standing(
        status="pending", ready=all(one == "lets" for one in means.values())
    )


def _means(step: PlanStep, status: str) -> Means:
    required, other = MEANS[status]
    return required if step.required else other


def output_step(plan: Sequence[PlanStep], statuses: Mapping[str, str]) -> str:
    """The step whose result is the output of a task, by its id; "" if none completed.

    It is the last in the plan of the completed steps that no other of them needs; one
    that the task does not require counts only where none that it does has completed.
    """
    done = [step for step in plan if statuses[step.id] == "completed"]
    done = [step for step in done if step.required] or done
    needed = {one for step in done for one in step.needs}
    return next((one.id for one in reversed(done) if one.id not in needed), "")


def stuck_step(plan: Sequence[PlanStep], statuses: Mapping[str, str]) -> str:
    """The first step that holds the task up, by its id; "" where none does.

    A task that has nothing to show is held up by steps that it does not require, too.
    """
    for means in ("blocks", "skips"):
        held = [one.id for one in plan if _means(one, statuses[one.id]) == means]
        if held and (means == "blocks" or not output_step(plan, statuses)):
            return held[0]
    return ""


def needs_shown(plan: Sequence[PlanStep]) -> list[tuple[str, ...] | None]:
    """What each step needs, as far as it is worth saying; None: the one before it."""
    before = [(), *((one.id,) for one in plan)]
    return [
        None if step.needs == usual else step.needs
        for step, usual in zip(plan, before, strict=False)
    ]
