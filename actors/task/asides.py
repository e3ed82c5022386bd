"""Model calls besides the step's work that have one attempt, and may fail.

Whatever becomes of a closing turn or a summary, the task goes on without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol import Replied
from . import closing, summaries
from .state import Op
from .summarised import is_summary

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["observed", "refused"]


def refused(task: Task, op: Op, why: str) -> bool:
    """Go on without it, where it is such a call: it is not made."""
    if closing.is_closing(op):
        closing.refuse(task, op, why)
    elif is_summary(op):
        summaries.refuse(task, op, why)
    else:
        return False
    return True


def observed(task: Task, op: Op, outcome: Replied, *, again: bool) -> bool:
    """Take the outcome, where it is such a call."""
    if closing.is_closing(op):
        closing.observe(task, op, outcome, again=again)
    elif is_summary(op):
        summaries.observe(task, op, outcome, again=again)
    else:
        return False
    return True
