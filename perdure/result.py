"""What a task came to, as a caller sees it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from .actors.agent import Agent
from .actors.budget.account import shown
from .actors.task import rows
from .actors.task.rows import TaskRow

__all__ = ["STOPPED", "Result", "Status", "Until", "ending", "result_of"]

Status: TypeAlias = Literal[
    "queued",
    "running",
    "paused",
    "parked",
    "completed",
    "failed",
    "cancelled",
    "erased",
]
Until: TypeAlias = Literal["stopped", "ended", "compensated"]
ENDED = frozenset(rows.ENDED)
STOPPED = ENDED | {"paused", "parked"}


def ending(compensate: bool) -> Until:
    """What whoever cancels a task waits for."""
    return "compensated" if compensate else "ended"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A task at one of its stops.

    Args:
        status: completed, failed, cancelled, paused or parked; erased where nothing
            else is left of it.
        output: the accepted output of a completed task: JSON, or the agent's `output`.
        reason: why it stopped, in a word (``budget``, ``operator``) or a sentence.
        detail: the particulars.
        ends_with: what lets a paused or parked task go on.
        spent: recorded outcomes by dimension; `spent_unknown` and `spent_recovery` are
            booked apart.
        steps: status by step; one that cannot begin is ``blocked`` by what it needs, or
            ``skipped`` with it.
        condition: the condition that stopped its loop, where one did: ``satisfied``,
            ``max_iterations``, ``max_calls``, ``step_timeout``, ``tool_errors``,
            ``loop``, ``context``, ``budget``, ``person``, ``deadline``, ``cancelled``.
    """

    task: str
    status: Status
    output: Any = None
    reason: str = ""
    detail: str = ""
    ends_with: str = ""
    spent: dict[str, Any] = msgspec.field(default_factory=dict)
    spent_unknown: dict[str, Any] = msgspec.field(default_factory=dict)
    spent_recovery: dict[str, Any] = msgspec.field(default_factory=dict)
    steps: dict[str, str] = msgspec.field(default_factory=dict)
    condition: str = ""


def result_of(row: TaskRow, agent: Agent | None) -> Result:
    """Make a result of a task's row; `agent` gives the output its type."""
    output: Any = None
    if row.output:
        typed = agent is not None and agent.output is not None
        kind: Any = agent.output if agent is not None and typed else Any
        output = msgspec.json.decode(row.output, type=kind)
    return Result(
        task=row.task,
        status=row.status,  # type: ignore[arg-type]  # the task's row holds no other
        output=output,
        reason=row.reason,
        detail=row.detail,
        ends_with=row.ends_with,
        spent=shown(row.books.spent),
        spent_unknown=shown(row.books.unknown),
        spent_recovery=shown(row.books.recovery),
        steps=row.steps,
        condition=row.condition,
    )
