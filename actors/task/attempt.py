"""What the others are asked for: one attempt of an operation, as the task has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..context.blocks import Block, Window
from ..context.judging import Question
from ..context.render import TaskView
from ..events import CallModel, CallTool, Purpose
from ..model import ModelRequest
from ..protocol import Assemble, Perform
from ..rules import Rule
from . import summaries
from .calibration import scale_of
from .opinions import question_of
from .recovery import view_of
from .state import Op

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["attempt_of", "request_of", "rules_of"]


def rules_of(task: Task) -> tuple[Rule, ...]:
    """What binds the calls of a task: its rules, and those its agent has by now."""
    submitted, now = task.state.task.rules, task.agent.rules
    if submitted == now:
        return now
    return tuple(dict.fromkeys([*submitted, *now]))


def request_of(
    task: Task, op: Op, purpose: Purpose, scratch: tuple[Block, ...]
) -> Assemble:
    """The message that asks the context for the request of a model call."""
    state = task.state
    done = task.pipeline.operations
    view = view_of(state, done, purpose=purpose)
    return Assemble(
        op=op.op,
        attempt=op.attempt,
        version=state.version,
        view=view,
        scratch=scratch,
        purpose=purpose,
        window=Window() if purpose in ("declare", "closing", "plan") else state.window,
        subject=summaries.subject(task, op),
        reply_to=task.address,
        scale=scale_of(state.seen),
        question=_question(task, op, view),
    )


def _question(task: Task, op: Op, view: TaskView) -> Question | None:
    """What a model is to judge, where it is asked to."""
    action = op.action
    if not isinstance(action, CallModel) or action.purpose != "judge":
        return None
    reply = task.operations.exchanges.replies.get(action.judges)
    text = (reply.content or "") if reply is not None else ""
    return question_of(task.state, view, action, text)


def attempt_of(task: Task, op: Op, request: ModelRequest | None) -> Perform:
    """The message that asks the ledger for an attempt of an operation.

    A model call besides the step's work says its purpose in its name.
    """
    state = task.state
    plan = state.plan_of(op.step)
    model = Perform(
        op=op.op,
        attempt=op.attempt,
        step=op.step,
        kind="model",
        name=_model(op.action),
        arguments="",
        occurrence=op.op,
        call_id="",
        parent=0,
        request=request,
        reply_to=task.address,
        start_by=task.slots.start_by(op),
        checkpoint="nodes" if plan is None else plan.checkpoint,
        until=None if op.undoes else state.task.deadline,
        holds=tuple(
            [
                step.id
                for step in state.steps
                if step.attempt and step.status != "completed" and step.id != op.step
            ]
        ),
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
        since=state.anew,
        given=task.subtasks.given(op.op) or task.questions.given(op.op),
        undoes=action.undoes,
        rules=rules_of(task),
    )


def _model(action: CallModel | CallTool) -> str:
    if isinstance(action, CallTool) or action.purpose == "work":
        return "model"
    return f"model ({action.purpose})"
