"""How often a step may be tried again, by its kind and by what the task has left."""

from __future__ import annotations

from ..baseline import Baseline
from .state import TaskState

__all__ = ["tries_left"]


def tries_left(state: TaskState, rules: Baseline) -> int:
    """How often the running step may still be tried again.

    That is the retries of its kind (B82), and never more than the task as a whole has
    left (B47). Without a kind, or a running step, it is what the task has left.
    """
    left = rules.task_retries - state.retries
    step = state.step
    if step is not None:
        plan = state.plan_of(step.id)
        if plan is not None and plan.kind is not None:
            left = min(left, rules.retries_of(plan.kind) - step.tries)
    return max(left, 0)
