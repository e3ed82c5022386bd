"""What a task can do next: the commands that `decide` gives its actor. Pure data."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

__all__ = [
    "OVERDUE",
    "Abandon",
    "Adopt",
    "AskConsent",
    "AskModel",
    "AskPolicy",
    "CancelSubtask",
    "Clear",
    "Close",
    "Command",
    "Compensate",
    "Conclude",
    "Declare",
    "Drive",
    "EndStep",
    "Judge",
    "JudgeTask",
    "LetGo",
    "MakePlan",
    "Rebuild",
    "Reopen",
    "StartStep",
    "StopFor",
    "VerifyEffects",
]


class Rebuild(msgspec.Struct, frozen=True, tag=True):
    """Fetch the record of the running step and make the context anew."""


class VerifyEffects(msgspec.Struct, frozen=True, tag=True):
    """Have every open operation decided by the ledger."""


class Declare(msgspec.Struct, frozen=True, tag=True):
    """Get a recovery declaration, from the model or from the record."""

    refused: int


class MakePlan(msgspec.Struct, frozen=True, tag=True):
    """Have the model write the plan, or look at it again."""

    refused: int


class AskConsent(msgspec.Struct, frozen=True, tag=True):
    """Ask a person whether required steps may be dropped."""

    op: int


class Adopt(msgspec.Struct, frozen=True, tag=True):
    """Do as a person said of a revision: put it in force, or leave the plan."""

    op: int


class StartStep(msgspec.Struct, frozen=True, tag=True):
    """Mark the next step as running."""

    step: str
    attempt: int


class AskModel(msgspec.Struct, frozen=True, tag=True):
    """Decide on one more iteration of the running step."""

    step: str
    iteration: int


class AskPolicy(msgspec.Struct, frozen=True, tag=True):
    """Have the agent's own policy decide what the running step does next."""

    step: str
    iteration: int


class Drive(msgspec.Struct, frozen=True, tag=True):
    """Take an open operation's attempt through the door."""

    op: int
    attempt: int


class Abandon(msgspec.Struct, frozen=True, tag=True):
    """The task is cancelled: let go of an operation that has not been started."""

    op: int
    attempt: int


class CancelSubtask(msgspec.Struct, frozen=True, tag=True):
    """The task is cancelled: so is what it handed on; its end is waited for."""

    op: int


class LetGo(msgspec.Struct, frozen=True, tag=True):
    """Its step is to be done again: let go of an operation, in doubt find out first."""

    op: int
    attempt: int


class Reopen(msgspec.Struct, frozen=True, tag=True):
    """Put a step, and those that need it, back to where they had not begun."""

    step: str


class Clear(msgspec.Struct, frozen=True, tag=True):
    """Effects are to be taken back: abandon an operation that surely did not happen."""

    op: int
    attempt: int


class Compensate(msgspec.Struct, frozen=True, tag=True):
    """Take the newest effect that is left back, as operation `op`; or end."""

    op: int


class Judge(msgspec.Struct, frozen=True, tag=True):
    """Have acceptance judge the answer of the running step."""

    op: int


class JudgeTask(msgspec.Struct, frozen=True, tag=True):
    """Have acceptance judge the whole task."""

    attempt: int


class EndStep(msgspec.Struct, frozen=True, tag=True):
    """The running step used up what it had; with `again` it is tried once more."""

    step: str
    status: Literal["limited", "timed_out"]
    reason: str
    again: bool
    condition: str = ""


class StopFor(msgspec.Struct, frozen=True, tag=True):
    """Pause: why, and what would end it; with `closing` the model is asked first.

    `condition` names what stopped the step that the task pauses for.
    """

    reason: str
    detail: str
    ends_with: str
    closing: bool = False
    condition: str = ""


OVERDUE = StopFor("deadline", "the task's deadline has passed", "cancel")


class Close(msgspec.Struct, frozen=True, tag=True):
    """Decide the outcome of the task."""

    status: Literal["completed", "failed", "cancelled"]
    reason: str


class Conclude(msgspec.Struct, frozen=True, tag=True):
    """Close the account and end."""


Command: TypeAlias = (
    Abandon
    | Adopt
    | AskConsent
    | MakePlan
    | CancelSubtask
    | Clear
    | Compensate
    | LetGo
    | Reopen
    | Rebuild
    | VerifyEffects
    | Declare
    | StartStep
    | AskModel
    | AskPolicy
    | Drive
    | Judge
    | JudgeTask
    | EndStep
    | StopFor
    | Close
    | Conclude
)
