"""What a caller hands in, checked before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from .actors.agent import Agent
from .actors.baseline import Baseline
from .actors.budget.account import Budget, limits_of
from .actors.events import StepPlan, TaskSubmitted
from .errors import Misuse
from .storage.codec import Codec

__all__ = ["agents_by_name", "baseline_with", "make_submission"]

LATEST = 253_402_300_800.0  # second since the epoch: the year 10000
TASK_LIMIT = 500_000  # bytes of a submission as JSON


def make_submission(
    agent: Agent,
    goal: str,
    *,
    task_id: str,
    rules: Baseline,
    codec: Codec,
    inputs: Mapping[str, Any] | None,
    constraints: Sequence[str],
    budget: Budget | None,
    group: str,
    priority: int,
    key: str | None,
    deadline: float | None,
    not_before: float | None,
) -> TaskSubmitted:
    """The event that a task begins with. Raises Misuse, naming field, value and fix."""
    if not isinstance(goal, str) or not goal.strip():
        raise Misuse(f"goal={goal!r}: say in words what is wanted")
    if budget is not None and not isinstance(budget, Budget):
        raise Misuse(f"budget={budget!r} is no Budget; give Budget(tokens=…)")
    if budget is not None and budget.cost is not None:
        raise Misuse(
            f"budget.cost={budget.cost!r}: no price is known for model "
            f"{agent.model.name!r}; limit tokens or model_calls instead"
        )
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
            "allowed: put big inputs into a file and name it"
        )
    return task


def _is_second(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value < LATEST  # type: ignore[operator]  # a number


def baseline_with(baseline: Baseline | None, active: int | None) -> Baseline:
    """The rules in force. Raises Misuse for a bad `active`."""
    found = Baseline() if baseline is None else baseline
    if not isinstance(found, Baseline):
        raise Misuse(f"baseline={baseline!r} is no Baseline; give Baseline(id=…)")
    if active is None:
        return found
    if type(active) is not int or active < 1:
        raise Misuse(f"active={active!r} must be a whole number of at least 1")
    return msgspec.structs.replace(found, active_tasks=active)


def agents_by_name(agents: Sequence[Agent]) -> dict[str, Agent]:
    """The agents by name. Raises Misuse for what is none, and for a name used twice."""
    if isinstance(agents, Agent) or not isinstance(agents, Iterable):
        raise Misuse(f"agents={agents!r} is no list; give agents=[agent]")
    found: dict[str, Agent] = {}
    for agent in agents:
        if not isinstance(agent, Agent):
            raise Misuse(
                f"agents= holds {agent!r}, which is no Agent; give Agent(name=…)"
            )
        if agent.name in found:
            raise Misuse(
                f"two agents are called {agent.name!r}: give one of them another name"
            )
        found[agent.name] = agent
    return found


def _steps(agent: Agent, goal: str, rules: Baseline) -> tuple[StepPlan, ...]:
    """The agent's plan as the task carries it; without one, one step: the goal."""
    if agent.plan is None:
        rounds = agent.max_rounds or rules.rounds_without_plan
        whole = StepPlan(
            id="task", goal=goal, done="", max_iterations=rounds, timeout=None
        )
        return (whole,)
    return tuple(
        StepPlan(
            id=step.id,
            goal=step.goal,
            done=step.done,
            max_iterations=step.max_iterations or rules.step_iterations,
            timeout=step.timeout,
        )
        for step in agent.plan.steps
    )
