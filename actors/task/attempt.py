"""What the ledger is asked for: one attempt of an operation, as the task has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..events import CallTool
from ..model import ModelRequest
from ..protocol import Perform
from ..rules import Rule
from .state import Op

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["attempt_of", "rules_of"]


def rules_of(task: Task) -> tuple[Rule, ...]:
    """What binds the calls of a task: its rules, and those its agent has by now."""
    return tuple(dict.fromkeys([*task.state.task.rules, *task.agent.rules]))


def attempt_of(task: Task, op: Op, request: ModelRequest | None) -> Perform:
    """The message that asks the ledger for an attempt of an operation."""
    model = Perform(
        op=op.op,
        attempt=op.attempt,
        step=op.step,
        kind="model",
        name="model",
        arguments="",
        occurrence=op.op,
        call_id="",
        parent=0,
        request=request,
        reply_to=task.address,
        start_by=task.slots.start_by(op),
    )
    action = op.action
    if not isinstance(action, CallTool):
        return model
    return msgspec.structs.replace(
        model,
        kind="tool",
        name=action.tool,
        arguments=action.arguments,
        call_id=action.call_id,
        parent=action.parent,
        approval="" if op.rejected else op.approval,
        expires=op.expires,
        earlier=max(op.asks - 1, 0),
        edited=op.edited,
        rejected=op.rejected,
        since=task.state.anew,
        given=task.subtasks.given(op.op),
        undoes=action.undoes,
        rules=rules_of(task),
    )
