"""Calls that a limit refuses: told to the model, or a reason to pause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..budget.account import Refusal
from ..events import CallTool
from . import asides, closing
from .failing import LIMIT
from .state import Op

if TYPE_CHECKING:
    from .actor import Task
    from .operations import Operations

__all__ = ["Limits", "sample_name"]


def sample_name(task: Task, op: Op) -> str:
    """The name that what such a call takes is learned by; undos have none."""
    if not isinstance(op.action, CallTool):
        return f"model:{task.agent.model.name}"
    return "" if op.undoes else f"tool:{op.action.tool}"


class Limits:
    """Refusals, each kept until the account has answered for all calls of its reply.

    Where a call of the reply was let out, those beyond a limit of calls are answered
    with that limit, and the model goes on with what it got (K36). Where none was, the
    task pauses, and makes the same calls once its limits are extended (K30).
    """

    def __init__(self, task: Task, operations: Operations) -> None:
        self._task = task
        self._operations = operations
        self._refused: dict[int, Refusal] = {}

    @property
    def waiting(self) -> bool:
        """Whether a refusal waits for the account's other answers."""
        return bool(self._refused)

    def refuse(self, op: Op, refusal: Refusal) -> None:
        """The account did not set aside what this operation may use."""
        if asides.refused(self._task, op, f"it cannot be paid: {refusal}"):
            return
        if isinstance(op.action, CallTool):
            self._refused[op.op] = refusal
        else:
            self._pause(op, refusal)

    def look(self, op: Op) -> None:
        """The account answered for this operation; perhaps its reply is now decided."""
        task = self._task
        if not isinstance(op.action, CallTool):
            return
        calls = [
            one
            for one in task.state.ops.values()
            if isinstance(one.action, CallTool)
            and one.action.parent == op.action.parent
        ]
        asked = {("reserve", one.op, one.attempt) for one in calls}
        if task.requests.open(asked.__contains__):
            return
        sent = self._operations.sent
        let_out = any(not one.open or one.op in sent for one in calls)
        for one in calls:
            refusal = self._refused.pop(one.op, None)
            if refusal is None or not one.open:
                continue
            if let_out and refusal.dimension.startswith("tool"):
                self._operations.answer(one, f"{LIMIT}{refusal}")
            else:
                self._pause(one, refusal)

    def _pause(self, op: Op, refusal: Refusal) -> None:
        self._task.parting.stop_for(closing.pause_for(refusal), op)
