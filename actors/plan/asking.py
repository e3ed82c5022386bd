"""How a model is asked for a plan, or for a look at one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..events import Fired, PlanStep
from ..model import ToolSchema

__all__ = ["asked_for", "plan_data", "tools_data"]

DESCRIPTION = 200  # characters of what a tool says of itself
FORM = (
    '{"steps": [{"id": "short-name", "goal": "what is to be done", "done": "when it is '
    'done", "needs": ["ids of steps it waits for"], "phase": "part of the plan", '
    '"kind": "query, generate or downstream", "required": true, "max_iterations": 5}], '
    '"why": "in a sentence"}'
)
RULES = (
    "Only id and goal must be there; a step without needs waits for the one before it. "
    "No tool can be called now."
)
FIRST = (
    "Write the plan of the task, before anything else is done: as one JSON object and "
    f"nothing more, {FORM}. {RULES}"
)
AGAIN = (
    "Look at the plan again. Where it still leads to the goal, answer with "
    '{"keep": true, "why": "in a sentence"}. Otherwise write every step that is still '
    f"to be done, as one JSON object and nothing more: {FORM}. {RULES} The goal stays, "
    "and so does each step that is completed or runs. A required step that is not "
    "finished is repeated under its id, or named beside the steps: "
    '"drop": [{"id": "its id", "why": "in a sentence"}]; a person is asked then.'
)


def asked_for(
    fired: Sequence[Fired], *, max_steps: int, checks: Sequence[str], why: str
) -> str:
    """Return what a planning call is asked to do, and why now.

    Args:
        fired: what the call is made for; ``start`` is the first plan.
        max_steps: that the whole plan may have.
        checks: names that a step may be judged by.
        why: what was wrong with the proposal before, if one was refused.
    """
    first = any(one.trigger == "start" for one in fired)
    parts = [FIRST if first else AGAIN]
    parts.append(f"The whole plan has at most {max_steps} steps.")
    if checks:
        named = ", ".join(checks)
        parts.append(f'A step may name "accept", what it is judged by: {named}.')
    if not first:
        said = "\n".join(f"- {one.trigger}: {one.why}" for one in fired)
        parts.append(f"It is looked at now, since:\n{said}")
    if why:
        parts.append(f"Refused before: {why}")
    return "\n".join(parts)


def plan_data(
    plan: Sequence[PlanStep], status: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the steps in force as plain JSON, each with its status."""
    return [
        {
            "id": step.id,
            "status": status[step.id],
            "goal": step.goal,
            "done": step.done,
            "needs": list(step.needs),
            "required": step.required,
            "max_iterations": step.max_iterations,
            **{
                name: value
                for name in ("phase", "kind", "max_calls", "accept")
                if (value := getattr(step, name))
            },
        }
        for step in plan
    ]


def tools_data(tools: Sequence[ToolSchema]) -> list[dict[str, str]]:
    """Return what there is to work with: each tool's name and what it says it does."""
    return [
        {
            "name": str(function.get("name", "")),
            "description": str(function.get("description", ""))[:DESCRIPTION],
        }
        for one in tools
        if isinstance(function := msgspec.to_builtins(one).get("function"), dict)
    ]
