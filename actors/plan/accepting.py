"""What judges a step: what its host gave, or one that the model may name. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..events import PlanStep
from .step import WHOLE

if TYPE_CHECKING:
    from ..acceptance import Accept
    from ..agent import Agent

__all__ = ["accept_of"]


def accept_of(agent: Agent, step: PlanStep) -> Accept | str | None:
    """Return what judges a step, None where nothing does, or why it cannot be judged.

    They are found by name, never stored: those of the host's steps in the agent's
    plan, those of written ones in its planner (A34).
    """
    if step.by == "model":
        if agent.planner is None:
            return "the agent has no planner any more, which judged this step"
        if not step.accept:
            return agent.planner.accept
        if step.accept in agent.planner.checks:
            return agent.planner.checks[step.accept]
        return f"the agent's planner lost the check {step.accept!r}"
    if agent.plan is None:
        lost = "the agent has no plan any more, which judged this step"
        return None if step.id == WHOLE else lost
    for one in agent.plan.steps:
        if one.id == step.id:
            return one.accept
    return "the agent's plan lost this step"
