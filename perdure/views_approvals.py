"""What waits for a person's approval, and what people said, as plain data."""

from __future__ import annotations

from typing import Any

import msgspec

from .actors import names
from .actors.context.measure import canonical
from .actors.events import ApprovalAnswered
from .actors.task.rows import ApprovalRow
from .errors import Misuse
from .storage.reader import Reader

__all__ = ["Approval", "approvals", "approvals_of", "call_instead", "find_approval"]

ANSWERED_SHOWN = 20  # the newest that are not open any more
MAX_ARGUMENTS = 16_384  # bytes of JSON


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits, or waited, for a person; times are seconds since the epoch.

    `at` is when it was asked for, and `expires` from when on it is of no use, where
    that is limited. `status` is ``open``, then ``approved``, ``rejected`` or
    ``changed`` (another call was made of it) `by` somebody at second `answered`;
    ``used`` once the approved call has its outcome, ``expired`` or ``dropped``.
    """

    approval: str
    task: str
    op: int
    tool: str
    arguments: Any
    at: float
    status: str = "open"
    expires: float | None = None
    by: str = ""
    answered: float | None = None


def approvals(reader: Reader) -> list[Approval]:
    """The approvals that nobody has answered, of all tasks, oldest first."""
    return [one for one in _all(reader) if one.status == "open"]


def approvals_of(reader: Reader, task: str) -> list[Approval]:
    """The approvals of a task, oldest first; of those not open the newest twenty."""
    mine = [one for one in _all(reader) if one.task == task]
    closed = [one for one in mine if one.status != "open"][-ANSWERED_SHOWN:]
    return [one for one in mine if one.status == "open" or one in closed]


def _all(reader: Reader) -> list[Approval]:
    answers = {row.key: row.value for row in reader.rows(names.APPROVAL_ANSWERS)}
    found = [
        _shown(msgspec.json.decode(row.value or b"", type=ApprovalRow), answers)
        for row in reader.rows(names.APPROVALS)
    ]
    return sorted(found, key=lambda one: (one.at, one.op))


def _shown(row: ApprovalRow, answers: dict[str, bytes | None]) -> Approval:
    status, by, answered = str(row.status), row.by, row.answered
    body = answers.get(row.approval)
    if body is not None and status in ("open", "approved"):  # not yet taken
        answer = msgspec.json.decode(body, type=ApprovalAnswered)
        said = "changed" if answer.tool else "rejected"
        status = "approved" if answer.approved else said
        by, answered = answer.by, answer.at
    return Approval(
        approval=row.approval,
        task=row.task,
        op=row.op,
        tool=row.tool,
        arguments=msgspec.json.decode(row.arguments or "{}"),
        at=row.at,
        status=status,
        expires=row.expires,
        by=by,
        answered=answered or None,
    )


def find_approval(reader: Reader, approval: str) -> str:
    """The id of an approval, answered or not, that `approval` is. Raises Misuse."""
    if reader.row(names.APPROVALS, approval) is None:
        raise Misuse(
            f"there is no approval {approval!r} in the store; `perdure show ID` lists "
            "those of a task"
        )
    return approval


def call_instead(arguments: Any, tool: str | None) -> str:
    """The JSON text of the arguments of the call to make instead; "" for none.

    Raises Misuse for what is no JSON object, or has over 16,384 bytes.
    """
    if arguments is None:
        if tool is not None:
            raise Misuse(f"approve: tool={tool!r} is to be called with arguments=")
        return ""
    if not isinstance(arguments, dict):
        raise Misuse(f"approve: arguments={arguments!r} must be an object, by name")
    try:
        text = canonical(msgspec.to_builtins(arguments))
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise Misuse(f"approve: arguments are no JSON object ({error})") from None
    if size > MAX_ARGUMENTS:
        raise Misuse(f"approve: arguments have {size} bytes; at most {MAX_ARGUMENTS}")
    return text
