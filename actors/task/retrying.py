"""The task's part for a step that is done again.

asked for -> what is open of it is let go of -> it has not begun any more
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..events import RetryAsked, StepRetried
from ..names import account
from ..protocol import Settle
from . import retried
from .state import Op

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["Retrying"]


class Retrying:
    """Hears of a retry once, whoever crashes in between."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def begin(self) -> None:
        """Write down what the task was woken for, where that is a retry."""
        task, wake = self._task, self._task.wake
        state = task.state
        if not wake.retry or wake.resumed <= state.retried or state.cancelled_by:
            return
        if state.outcome is None:
            asked = RetryAsked(step=wake.retry, by=wake.resumer, since=wake.resumed)
            task.append(asked)

    def let_go(self, op: Op) -> None:
        """Let go of an operation; of one that may have happened, find out first."""
        task, operations = self._task, self._task.operations
        if op.op in operations.in_doubt:
            operations.drive(op)
        elif op.op not in operations.sent and not operations.fetches(op):
            # A crash may have left money set aside for an attempt that never was.
            back = Settle(
                op=op.op,
                attempt=op.attempt,
                book="none",
                amounts={},
                completed=False,
                reported=True,
                reply_to=task.address,
            )
            task.house.address(account(task.id)).tell(back)
            by = task.state.retry.by if task.state.retry else ""
            task.abandon(op, f"dropped by a retry that {by} asked for")

    def reopen(self, step: str) -> None:
        """Put the step, and those that need it, back to where they had not begun."""
        task, state = self._task, self._task.state
        steps = retried.affected(state, step)
        by = state.retry.by if state.retry else ""
        if state.step is None or state.step.id in steps:
            task.forget_exchanges()
        task.append(StepRetried(step=step, steps=steps, by=by))
        task.judged = False
        task.snapshot("a step is done again")
