"""Events of a task in a few words."""

from __future__ import annotations

from typing import Any

from perdure.actors.events import (
    ActionObserved,
    CallModel,
    CallTool,
    DecisionMade,
    Event,
    PlanStep,
    StepEnded,
    StepStarted,
    TaskSubmitted,
)
from perdure.actors.task.state import TaskState, apply

__all__ = ["ask", "call", "ended", "fold", "observed", "started", "submitted"]


def fold(*events: Event) -> TaskState:
    state = TaskState()
    for event in events:
        state = apply(state, event)
    return state


def submitted(*steps: str, deadline: float | None = None) -> TaskSubmitted:
    plans = tuple(
        PlanStep(
            id=step,
            goal=f"do {step}",
            done="",
            max_iterations=5,
            needs=steps[max(place - 1, 0) : place],
        )
        for place, step in enumerate(steps)
    )
    return TaskSubmitted(
        task="t",
        agent="agent",
        agent_digest="",
        baseline="",
        goal="goal",
        inputs={},
        constraints=(),
        budget={},
        group="",
        priority=0,
        key=None,
        deadline=deadline,
        steps=plans,
    )


def started(step: str, attempt: int = 1, deadline: float | None = None) -> StepStarted:
    return StepStarted(step=step, attempt=attempt, deadline=deadline)


def ask(op: int, purpose: Any = "work", step: str = "a") -> DecisionMade:
    action = CallModel(purpose=purpose)
    return DecisionMade(op=op, step=step, action=action, why="", learned="")


def call(op: int, parent: int, tool: str = "f", step: str = "a") -> DecisionMade:
    index = op - parent - 1
    action = CallTool(
        tool=tool, arguments="{}", call_id=f"c{index}", parent=parent, index=index
    )
    return DecisionMade(op=op, step=step, action=action, why="", learned="")


def observed(op: int, status: Any = "completed", **fields: Any) -> ActionObserved:
    return ActionObserved(**{"op": op, "attempt": 1, "status": status, **fields})


def ended(step: str, status: Any = "completed", **fields: Any) -> StepEnded:
    return StepEnded(
        **{
            "step": step,
            "status": status,
            "reason": "",
            "result": "1" if status == "completed" else "",
            "evidence": (),
            "op": 1,
            **fields,
        }
    )
