"""The task's part for steps: started, iterated on, and interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...supervision.faults import hit
from ..events import (
    CallModel,
    DecisionMade,
    RecoveryLoaded,
    Ruling,
    StepEnded,
    StepStarted,
)
from .reasons import brought, why_now

if TYPE_CHECKING:
    from .actor import Task
    from .state import Op

__all__ = ["Steps"]


class Steps:
    """Writes down how steps begin and end; only the runtime sets their status."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def start(self, step: str, attempt: int) -> None:
        """Mark a step as running; its scratch is empty."""
        self._task.forget_exchanges()
        deadline = self.deadline(step)
        self._task.append(StepStarted(step=step, attempt=attempt, deadline=deadline))

    def deadline(self, step: str = "") -> float | None:
        """When a step that starts now is over; the running one by default."""
        if not step and self._task.state.step is not None:
            step = self._task.state.step.id
        for plan in self._task.state.plan:
            if plan.id == step and plan.timeout is not None:
                return self._task.house.now() + plan.timeout
        return None

    def beyond(self, op: Op) -> str:
        """Why a call is not let out that its step may not make any more, or nothing."""
        if not op.beyond:
            return ""
        plan = self._task.state.plan_of(op.step)
        most = None if plan is None else plan.max_calls
        return f"limit: step {op.step} has made its {most} tool calls (max_calls)"

    def left(self) -> float | None:
        """How many seconds the running step has left, where they are limited."""
        step = self._task.state.step
        if step is None or step.deadline is None:
            return None
        return max(step.deadline - self._task.house.now(), 0.0)

    def resumed(self, *, anew: bool) -> float | None:
        """When the running step is over that goes on now: what it waited for is free.

        With `anew` it has its whole time again.
        """
        pause = self._task.state.pause
        if anew or pause is None:
            return self.deadline()
        return None if pause.left is None else self._task.house.now() + pause.left

    def ask_model(self, iteration: int) -> None:
        """Decide on one more model call for the running step."""
        step = self._task.state.step
        assert step is not None
        self._task.append(
            *self._task.drifting.judge(),
            DecisionMade(
                op=self._task.state.next_op,
                step=step.id,
                action=CallModel(purpose="work"),
                why=why_now(self._task.state, iteration),
                learned=brought(
                    self._task.state, self._task.operations.exchanges.scratch
                ),
            ),
        )
        hit("task.decided", "model")

    def end(
        self,
        status: Any,
        reason: str,
        *,
        again: bool,
        condition: str = "",
        judged: tuple[Ruling, ...] = (),
    ) -> None:
        """Interrupt the running step; the next try goes through recovery (B55)."""
        step = self._task.state.step
        assert step is not None
        ended = StepEnded(
            step=step.id,
            status=status,
            reason=reason,
            result="",
            evidence=(),
            op=self._task.state.next_op - 1,
            again=again,
            deadline=self.deadline() if again else None,
            condition=condition,
            judged=judged,
        )
        self._task.forget_exchanges()
        if again:
            number = self._task.state.recoveries + 1
            version = self._task.state.version + 1
            loaded = RecoveryLoaded(number=number, snapshot=version, replayed=0)
            self._task.append(ended, loaded)
        else:
            self._task.append(ended)
        self.node(step.id, "step_interrupted")

    def node(self, step: str, reason: str) -> None:
        """Have the state kept at a key node, unless the step relies on the log."""
        plan = self._task.state.plan_of(step)
        if plan is None or plan.checkpoint != "log":
            self._task.snapshot(reason)

    def observed(self, step: str) -> None:
        """Have the state kept after an observation, where the step asks for that."""
        plan = self._task.state.plan_of(step)
        if plan is not None and plan.checkpoint == "every":
            self._task.snapshot("step_observed")
