"""What waits for a person's approval, as plain data."""

from __future__ import annotations

from typing import Any

import msgspec

from .actors import names
from .actors.task.rows import ApprovalRow
from .errors import Misuse
from .storage.reader import Reader

__all__ = ["Approval", "approvals", "find_approval"]


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits; `at` is when it was asked for, in seconds since the epoch."""

    approval: str
    task: str
    op: int
    tool: str
    arguments: Any
    at: float


def approvals(reader: Reader, task: str = "") -> list[Approval]:
    """The approvals that nobody has answered, of one task or of all, oldest first."""
    answered = {row.key for row in reader.rows(names.APPROVAL_ANSWERS)}
    found = [
        msgspec.json.decode(row.value or b"", type=ApprovalRow)
        for row in reader.rows(names.APPROVALS)
        if row.key not in answered
    ]
    open_ones = [
        one for one in found if one.status == "open" and task in ("", one.task)
    ]
    open_ones.sort(key=lambda one: (one.at, one.op))
    return [
        Approval(
            approval=one.approval,
            task=one.task,
            op=one.op,
            tool=one.tool,
            arguments=msgspec.json.decode(one.arguments or "{}"),
            at=one.at,
        )
        for one in open_ones
    ]


def find_approval(reader: Reader, approval: str) -> str:
    """The id of an approval, answered or not, that `approval` is. Raises Misuse."""
    if reader.row(names.APPROVALS, approval) is None:
        raise Misuse(
            f"there is no approval {approval!r} in the store; `perdure show ID` lists "
            "those of a task"
        )
    return approval
