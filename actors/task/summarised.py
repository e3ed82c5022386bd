"""What a task's state holds of summaries, and how each event changes it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..events import CallModel, RequestBuilt, SummaryRefused, SummaryTaken
from .parts import Op

if TYPE_CHECKING:
    from .state import TaskState

__all__ = ["Summarised", "after", "asked", "forgotten", "is_summary", "waiting"]


class Summarised(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What requests show of exchanges that they hold no more, and what went wrong.

    `text` stands for the exchanges `since` to `until`. `failures` came in a row, and
    `plain` is the model call whose request is cut without a summary.
    """

    text: str = ""
    since: int = 0
    until: int = 0
    failures: int = 0
    plain: int = 0


def is_summary(op: Op) -> bool:
    """Whether an operation asks for a summary."""
    return isinstance(op.action, CallModel) and op.action.purpose == "summarise"


def waiting(ops: dict[int, Op]) -> int:
    """The open model call of the step's work, whose request is to be cut; else 0."""
    for op in ops.values():
        action = op.action
        if op.open and isinstance(action, CallModel) and action.purpose == "work":
            return op.op
    return 0


def asked(ops: dict[int, Op], event: RequestBuilt) -> dict[int, Op]:
    """A summary is asked of what fits into its request, and of no more."""
    op = ops.get(event.op)
    if op is None or not is_summary(op) or not event.blocks:
        return ops
    assert isinstance(op.action, CallModel)
    change = msgspec.structs.replace
    action = change(op.action, since=event.blocks[0][0], until=event.blocks[-1][1])
    return {**ops, event.op: change(op, action=action)}


def after(state: TaskState, event: SummaryTaken | SummaryRefused) -> TaskState:
    """What requests show from here; a refused one leaves what they showed."""
    change = msgspec.structs.replace
    summary, window = state.summary, state.window
    match event:
        case SummaryTaken(text=text, since=since, until=until):
            window = change(window, start=max(window.start, until + 1))
            summary = change(summary, text=text, since=since, until=until, failures=0)
        case SummaryRefused(failed=failed):
            failures = summary.failures + failed
            summary = change(summary, failures=failures, plain=waiting(state.ops))
    return change(state, summary=summary, window=window)


def forgotten(summary: Summarised) -> Summarised:
    """A step is over, and what was summed up of it; that it went wrong is not."""
    return Summarised(failures=summary.failures)
