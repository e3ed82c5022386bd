"""Summaries: a model call that is made before exchanges leave a request.

    would be cut -> DecisionMade -> one attempt -> checked -> SummaryTaken
                                                -> SummaryRefused, and cut by rule

The call of the step's work waits meanwhile, and its request is put together again
afterwards. The exchanges stay until a summary of them has passed every check, and in
the record for good. Whatever goes wrong, the request is cut as it would be without
summaries; after two failures in a row the task asks for none until a person has it go
on (K15).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ...supervision.faults import hit
from ..context.blocks import Block
from ..context.measures import named
from ..context.summary import Subject, check_summary
from ..events import (
    ActionObserved,
    CallModel,
    DecisionMade,
    Event,
    SummaryRefused,
    SummaryTaken,
)
from ..model import ModelReply
from ..protocol import Built, Replied
from .calibration import scale_of
from .state import Op, TaskState
from .summarised import is_summary, waiting

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["begin", "dropped", "observe", "refuse", "subject", "subject_of"]


def subject_of(state: TaskState, blocks: Sequence[Block]) -> Subject:
    """What a summary of those exchanges is asked of, and judged by."""
    return Subject(
        goal=state.task.goal,
        constraints=state.task.constraints,
        anchors={name: one.value for name, one in state.anchors.items()},
        before=state.summary.text,
        blocks=tuple(blocks),
    )


def subject(task: Task, op: Op) -> Subject | None:
    """What the request of a model call is to show summed up, if it asks for that."""
    return subject_of(task.state, _blocks(task, op)) if is_summary(op) else None


def begin(task: Task, op: Op, built: Built, scratch: Sequence[Block]) -> bool:
    """Decide on a summary of what a request would lose; False where it is just cut."""
    state, parting = task.state, task.parting
    if not task.agent.summaries or waiting(state.ops) != op.op:
        return False
    if state.summary.plain == op.op:
        return False
    if state.summary.failures >= task.house.baseline.summary_failures:
        return False
    if state.cancelled_by or parting.stopping is not None or parting.draining:
        return False
    leaving = [
        block
        for block in scratch
        if state.window.start <= block.id < built.window.start
    ]
    if not leaving:
        return False
    since, until = leaving[0].id, leaving[-1].id
    task.append(
        DecisionMade(
            op=state.next_op,
            step=op.step,
            action=CallModel(purpose="summarise", since=since, until=until),
            why=f"exchanges op{since} to op{until} do not fit into the next request",
            learned="",
        )
    )
    hit("task.decided", "model")
    return True


def observe(task: Task, op: Op, outcome: Replied, *, again: bool) -> None:
    """Check the words; only an attempt that surely did not run is made again."""
    repeat = again and outcome.status == "failed"
    observed = ActionObserved(
        op=op.op,
        attempt=op.attempt,
        status=outcome.status,
        again=repeat,
        reason=outcome.error,
    )
    if repeat:
        task.append(observed)
    else:
        task.append(observed, _judged(task, op, outcome))
    hit("task.observed", "model")


def refuse(task: Task, op: Op, why: str) -> None:
    """It is not made: it cannot be paid, or no request can be built."""
    failed = ActionObserved(op=op.op, attempt=op.attempt, status="failed", reason=why)
    task.append(failed, SummaryRefused(op=op.op, why=why))


def dropped(op: Op, why: str) -> list[Event]:
    """What else is to be written down where the task lets go of an operation."""
    if not is_summary(op):
        return []
    return [SummaryRefused(op=op.op, why=why, failed=False)]


def _blocks(task: Task, op: Op) -> Sequence[Block]:
    assert isinstance(op.action, CallModel)
    return task.operations.exchanges.blocks_of(
        range(op.action.since, op.action.until + 1)
    )


def _judged(task: Task, op: Op, outcome: Replied) -> SummaryTaken | SummaryRefused:
    if outcome.status != "completed":
        return SummaryRefused(op=op.op, why=f"the model call failed: {outcome.error}")
    if task.state.cancelled_by:
        why = "the task was cancelled meanwhile"
        return SummaryRefused(op=op.op, why=why, failed=False)
    blocks = _blocks(task, op)
    if not blocks:
        why = "the record does not hold the exchanges any more"
        return SummaryRefused(op=op.op, why=why, failed=False)
    reply = msgspec.json.decode(outcome.result, type=ModelReply)
    since, until = task.state.summary.since or blocks[0].id, blocks[-1].id
    checked = check_summary(
        subject_of(task.state, blocks),
        reply.content or "",
        first=since,
        last=until,
        limit=task.agent.request_limit or task.house.baseline.request_limit,
        measure=named(task.agent.measure, scale_of(task.state.seen)),
    )
    if isinstance(checked, str):
        return SummaryRefused(op=op.op, why=checked)
    return SummaryTaken(
        op=op.op,
        text=checked.text,
        since=since,
        until=until,
        replaced=tuple(block.evidence or "" for block in blocks),
        kept=checked.kept,
    )
