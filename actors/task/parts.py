"""The parts of a task's state: operations, steps, pause, recovery. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..events import Amounts, CallModel, CallTool
from .rest import Rest

__all__ = ["Op", "PauseState", "Recovery", "Retry", "Shortage", "StepRecord"]


class Op(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation of the running exchange, or one that is still open."""

    op: int
    step: str
    action: CallModel | CallTool
    attempt: int = 1
    status: Literal["open", "completed", "failed", "unknown"] = "open"
    tries: int = 0  # failed attempts of a model call
    estimated: int = 0  # input tokens of its newest request, before calibration
    doubt: bool = False  # an attempt may have run, and was made again undecided
    approval: str = ""
    asks: int = 0  # how often an approval was asked for
    asked_at: float = 0.0  # second since the epoch
    expires: float | None = None  # second from which the approval is of no use
    approver: str = ""
    answered_at: float = 0.0  # second since the epoch
    edited: str = ""  # who made another call of the one that the model made
    gate: Literal[
        "",
        "asked",
        "expired",
        "approved",
        "rejected",
        "waiting",
        "rested",
        "delegated",
        "returned",
        "question",
        "answered",
        "unanswered",
    ] = ""
    rejected: str = ""  # by whom, and why
    due: float = 0.0  # second since the epoch that it waits for
    question: str = ""  # the one that it asks
    child: str = ""  # the sub-task that it is
    amounts: Amounts = msgspec.field(default_factory=dict)  # of its money
    rest: Rest = Rest()
    beyond: bool = False  # over the calls that its step may make: it is not let out

    @property
    def wakes(self) -> float:
        """The second since the epoch that it waits for, where it waits for one."""
        return self.due if self.gate == "waiting" else self.rest.until

    @property
    def open(self) -> bool:
        """Whether the operation has no final outcome yet."""
        return self.status == "open"

    @property
    def undoes(self) -> bool:
        """Whether it takes the effect of another back."""
        return isinstance(self.action, CallTool) and self.action.undoes is not None


class StepRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far one step is; `result` is the accepted JSON text, `why` what stopped it.

    `attempt` is how often it was started, `tries` how often this attempt was tried
    again, `iterations` the replies of this try, `calls` the tool calls of all tries.
    `condition` names the condition of the loop that stopped it, where one did. What its
    status means for others is told by `plan.standing`: ``blocked`` and ``skipped`` are
    no statuses of a record.
    """

    id: str
    status: Literal[
        "pending",
        "running",
        "completed",
        "failed",
        "timed_out",
        "limited",
        "acceptance_error",
        "cancelled",
    ] = "pending"
    attempt: int = 0
    iterations: int = 0
    deadline: float | None = None
    result: str = ""
    evidence: int = 0
    why: str = ""
    condition: str = ""
    tries: int = 0
    calls: int = 0


class PauseState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a task waits, since which epoch, and what would end it.

    `left` is how many seconds its running step has left.
    """

    reason: str
    detail: str
    ends_with: str
    epoch: int
    left: float | None = None


class Recovery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the pipeline of recovery stands; `declares` is its open model call.

    `asked` is the declaration that a person was shown, `confirmed` who passed it.
    """

    number: int
    stage: Literal["loaded", "rebuilt", "verified"] = "loaded"
    declares: int = 0
    refused: int = 0
    why: str = ""
    asked: str = ""
    confirmed: str = ""


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """The step that somebody has done again, once what is open of it is let go of."""

    step: str
    by: str


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """What the task is to pause for after its closing turn, operation `op`."""

    op: int
    detail: str
