"""Model calls besides the step's work.

Whatever becomes of a closing turn, a summary or a look at the plan, the task goes on
without it; a first plan, and an opinion on an answer, it cannot do without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...supervision.faults import hit
from ..events import ActionObserved, CallTool
from ..model import ModelReply
from ..protocol import Replied
from . import closing, planning, summaries
from .opinions import is_opinion, read_opinion
from .planned import is_planning
from .state import Op
from .summarised import is_summary

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["deferred", "observed", "overdue", "refused"]


def refused(task: Task, op: Op, why: str) -> bool:
    """Go on without it, where it is such a call: it is not made."""
    if closing.is_closing(op):
        closing.refuse(task, op, why)
    elif is_summary(op):
        summaries.refuse(task, op, why)
    elif is_planning(op) and task.state.plan:
        planning.refuse(task, op, why)
    else:
        return False
    return True


def observed(task: Task, op: Op, outcome: Replied, *, again: bool) -> bool:
    """Take the outcome, where it is such a call."""
    if isinstance(op.action, CallTool):
        return False
    if closing.is_closing(op):
        closing.observe(task, op, outcome, again=again)
    elif is_summary(op):
        summaries.observe(task, op, outcome, again=again)
    elif is_planning(op):
        planning.observe(task, op, outcome, again=again)
    elif is_opinion(op) and outcome.status == "completed" and not again:
        _take_opinion(task, op, outcome)
    else:
        return False
    return True


def deferred(task: Task, op: Op, service: str, at: float) -> bool:
    """Go on without it, where it is such a call and cannot wait until second `at`."""
    why = f"{service} takes no more calls now"
    if is_planning(op):
        return planning.overdue(task, op, at, why)
    return refused(task, op, why)


def overdue(task: Task, op: Op) -> bool:
    """Give it up, where it is such a call and its time is over."""
    return is_planning(op) and planning.overdue(task, op, task.house.now())


def _take_opinion(task: Task, op: Op, outcome: Replied) -> None:
    """Only a reply is special: one that fails is tried again like the step's work."""
    reply = msgspec.json.decode(outcome.result, type=ModelReply)
    usage = reply.usage
    counted = usage is not None and usage.source == "reported"
    task.append(
        ActionObserved(
            op=op.op,
            attempt=op.attempt,
            status="completed",
            input_tokens=usage.input_tokens if usage and counted else 0,
        ),
        read_opinion(op, reply),
    )
    hit("task.observed", "model")
