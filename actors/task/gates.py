"""What an approval does to the call that waits for it, and to its task. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..events import ApprovalAsked, ApprovalExpired, ApprovalTaken, RejectionRepeated

if TYPE_CHECKING:
    from .state import Op, TaskState

__all__ = ["anew", "answered", "asking"]

REJECTIONS = 64  # calls of a step that are known to be rejected
SHOWN = 500  # characters of the arguments that a model is told of


def asking(
    ops: dict[int, Op], event: ApprovalAsked | ApprovalExpired | RejectionRepeated
) -> dict[int, Op]:
    """The operations once one waits for a person, or does not wait any more."""
    op, change = ops[event.op], msgspec.structs.replace
    match event:
        case ApprovalAsked(approval=approval, at=at, expires=expires):
            op = change(op, gate="asked", approval=approval, asks=op.asks + 1)
            op = change(op, asked_at=at, expires=expires, approver="", answered_at=0.0)
        case ApprovalExpired():
            op = change(op, gate="expired")
        case RejectionRepeated(rejected=rejected):
            op = change(op, gate="rejected", rejected=rejected)
    return {**ops, event.op: op}


def answered(state: TaskState, event: ApprovalTaken) -> TaskState:
    """An answer was taken: the call may go on, has failed, or is another call now."""
    change = msgspec.structs.replace
    op = change(state.ops[event.op], approver=event.by, answered_at=event.at)
    rejections = state.rejections
    if event.approved:
        op = change(op, gate="approved")
    elif event.tool:
        action = change(op.action, tool=event.tool, arguments=event.arguments)
        shown = event.arguments[:SHOWN]
        edited = f"{event.by} changed this call to {event.tool} {shown}"
        op = change(op, action=action, gate="", approval="", expires=None)
        op = change(op, edited=edited)
    else:
        why = f": {event.why}" if event.why else ""
        op = change(op, gate="rejected", rejected=f"{event.by} rejected it{why}")
        if event.call:
            kept = {**rejections, event.call: op.rejected}
            rejections = dict(list(kept.items())[-REJECTIONS:])
    ops = {**state.ops, event.op: op}
    return change(state, ops=ops, rejections=rejections)


def anew(op: Op) -> Op:
    """An operation after somebody resumed: what expired is asked anew."""
    if op.gate != "expired":
        return op
    return msgspec.structs.replace(op, gate="", approval="", expires=None)
