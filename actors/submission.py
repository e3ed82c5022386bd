"""A task's submission, checked before anything is written: a host's or a parent's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..storage.codec import Codec
from .agent import Agent
from .baseline import Baseline
from .budget.account import Budget, limits_of
from .errors import Misuse
from .events import PlanStep, TaskSubmitted
from .plan.step import WHOLE
from .rules import Rule, check_rules, merged

__all__ = ["make_submission"]

LATEST = 253_402_300_800.0  # second since the epoch: the year 10000
TASK_LIMIT = 500_000  # bytes of a submission as JSON
NAMED = 100  # characters of a message that a name may take


def make_submission(
    agent: Agent,
    goal: str,
    *,
    task_id: str,
    rules: Baseline,
    codec: Codec,
    inputs: Mapping[str, Any] | None,
    constraints: Sequence[str],
    bound_by: Sequence[Rule],
    budget: Budget | None,
    group: str,
    priority: int,
    key: str | None,
    deadline: float | None,
    not_before: float | None,
) -> TaskSubmitted:
    """The event that a task begins with; `bound_by` are rules beside its agent's.

    Raises Misuse, naming field, value and fix.
    """
    if not isinstance(goal, str) or not goal.strip():
        raise Misuse(f"goal={goal!r}: say in words what is wanted")
    if budget is not None and not isinstance(budget, Budget):
        raise Misuse(f"budget={budget!r} is no Budget; give Budget(tokens=…)")
    if inputs is not None and not isinstance(inputs, Mapping):
        raise Misuse(f"inputs={inputs!r} is no mapping; give names with JSON values")
    if isinstance(constraints, str):
        raise Misuse(f"constraints={constraints!r}: give a list of texts")
    for name, at in (("deadline", deadline), ("not_before", not_before)):
        if at is not None and not _is_second(at):
            raise Misuse(f"{name}={at!r} must be a second since the epoch, or None")
    if type(priority) is not int:
        raise Misuse(f"priority={priority!r} must be a whole number")
    task = TaskSubmitted(
        task=task_id,
        agent=agent.name,
        agent_digest=agent.digest(),
        baseline=rules.id,
        goal=goal,
        inputs=dict(inputs or {}),
        constraints=tuple(constraints),
        rules=merged(agent.rules, check_rules(bound_by, "submit")),
        budget=limits_of(budget or Budget()),
        group=group,
        priority=priority,
        key=key,
        deadline=deadline,
        steps=_steps(agent, goal, rules),
        not_before=not_before,
    )
    try:
        body = codec.encode(task)[2]
    except Exception as error:
        raise Misuse(f"the task cannot be stored: {error}") from None
    if len(body) > TASK_LIMIT:
        raise Misuse(
            f"the task has {len(body)} bytes with its inputs, {TASK_LIMIT} are "
            f"allowed, and most stand in {_biggest(task)}: put big inputs into a file "
            "and name it"
        )
    return task


def _biggest(task: TaskSubmitted) -> str:
    """The argument that takes the most room, as its caller wrote it."""
    parts: dict[str, Any] = {
        "goal": task.goal,
        "the agent's plan": task.steps,
        "rules": task.rules,
        **{f"constraints[{n}]": one for n, one in enumerate(task.constraints)},
        **{f"inputs[{name!r}]": (name, one) for name, one in task.inputs.items()},
    }
    found = max(parts, key=lambda name: len(msgspec.json.encode(parts[name])))
    return found[:NAMED]


def _is_second(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value < LATEST  # type: ignore[operator]  # a number


def _steps(agent: Agent, goal: str, rules: Baseline) -> tuple[PlanStep, ...]:
    """The agent's plan as the task carries it; without one, one step: the goal.

    Without one and with a planner there are none yet: the model writes them.
    """
    if agent.plan is None and agent.planner is not None:
        return ()
    if agent.plan is None:
        rounds = agent.max_rounds or rules.rounds_without_plan
        if agent.policy is not None:
            rounds = 0  # its budget bounds it
        whole = PlanStep(
            id=WHOLE, goal=goal, done="", max_iterations=rounds, timeout=None
        )
        return (whole,)
    return tuple(
        PlanStep(
            id=step.id,
            goal=step.goal,
            done=step.done,
            max_iterations=step.max_iterations
            or (0 if agent.policy is not None else rules.step_iterations),
            timeout=step.timeout,
            needs=agent.plan.needs(step),
            required=step.required,
            phase=step.phase,
            kind=step.kind,
            max_calls=step.max_calls,
            checkpoint=step.checkpoint,
        )
        for step in agent.plan.steps
    )
