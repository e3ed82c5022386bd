"""The closing turn: one cheap model call before a task pauses for money.

    refused -> snapshot -> DecisionMade -> rebuild -> one attempt -> pause

The floor of the budget pays for it. What the agent says of where the task stands is
kept as a note, for whoever looks and for the model once the task goes on. It has one
attempt: where it fails, is cut off or cannot be paid, the task pauses without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...supervision.faults import hit
from ..budget.account import FLOORED, Refusal
from ..events import ActionObserved, CallModel, DecisionMade
from ..model import ModelReply
from ..protocol import Replied
from .commands import StopFor
from .state import Op, TaskState

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["begin", "is_closing", "observe", "pause_for", "refuse"]

SAID_LIMIT = 2_000  # characters that are kept


def is_closing(op: Op) -> bool:
    """Whether an operation is a closing turn."""
    return isinstance(op.action, CallModel) and op.action.purpose == "closing"


def pause_for(refusal: Refusal) -> StopFor:
    """The pause that a refusal asks for; with a closing turn where a floor is left.

    Dimensions without a floor keep nothing for it, and calls of unknown price are not
    made.
    """
    known = refusal.requested is not None
    return StopFor(
        "budget",
        str(refusal),
        "extend" if known else "resume",
        closing=known and refusal.dimension in FLOORED and refusal.remaining > 0,
    )


def begin(task: Task, stop: StopFor) -> bool:
    """Begin a closing turn where one is due; False where the task just pauses.

    A task that recovers has not declared where it stands yet, and an agent that
    declares by the rules is not asked where it stands.
    """
    state = task.state
    if not stop.closing or task.agent.recovery != "declare" or not _may(state):
        return False
    assert state.step is not None
    task.snapshot("budget_exhausted")
    decided = DecisionMade(
        op=state.next_op,
        step=state.step.id,
        action=CallModel(purpose="closing"),
        why=stop.detail,
        learned="",
    )
    task.append(decided)
    hit("task.decided", "model")
    # Its request is the short one of a recovery, as the one after the pause will be.
    task.pipeline.recalled = False
    task.pipeline.recall()
    return True


def _may(state: TaskState) -> bool:
    """Whether there is something to say, and nothing speaks against it.

    One that is open serves this pause, too.
    """
    if not state.news or state.recovery or state.step is None or state.shortage:
        return False
    return not any(map(is_closing, state.open_ops()))


def observe(task: Task, op: Op, outcome: Replied, *, again: bool) -> None:
    """Take the words; only an attempt that surely did not run is made again."""
    said = ""
    if outcome.status == "completed":
        reply = msgspec.json.decode(outcome.result, type=ModelReply)
        said = (reply.content or "").strip()[:SAID_LIMIT]
    task.append(
        ActionObserved(
            op=op.op,
            attempt=op.attempt,
            status=outcome.status,
            again=again and outcome.status == "failed",
            reason=outcome.error,
            said=said,
        )
    )
    hit("task.observed", "model")


def refuse(task: Task, op: Op, why: str) -> None:
    """It is not made: the floor cannot pay for it, or no request can be built."""
    task.append(
        ActionObserved(op=op.op, attempt=op.attempt, status="failed", reason=why)
    )
