"""Whether a task stands where somebody who waits for it, or follows it, stops."""

from __future__ import annotations

from typing import Literal, TypeAlias

from .reading import row_of
from .result import ENDED, STOPPED
from .storage.reader import Reader

__all__ = ["FollowUntil", "Stand", "is_asked", "stand_of"]

FollowUntil: TypeAlias = Literal["ended", "stopped"]
Stand: TypeAlias = Literal["there", "not_there", "unsure"]


def is_asked(reader: Reader, task: str) -> bool:
    """Whether a command for this task, or one for any approval, has no answer yet."""
    return any(
        one.subject == task or one.kind in ("approve", "reject", "answer")
        for one in reader.commands()
    )


def stand_of(reader: Reader, task: str, until: FollowUntil) -> Stand:
    """Whether the task has ended, or for ``stopped`` stands at a stop.

    The store cannot say so of a task that is about to go on: it was woken while it
    stopped, or somebody has asked something that the owner has yet to do.

    Raises TaskNotFound.
    """
    from . import views

    status = row_of(reader, task).status
    if status in ENDED:
        return "there"
    if until == "ended" or status not in STOPPED:
        return "not_there"
    if is_asked(reader, task) or views.goes_on(reader, task):
        return "unsure"
    return "there"
