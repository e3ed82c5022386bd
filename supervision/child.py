"""What a supervisor knows of one child."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from .lifecycle import SHUTDOWN, Crash, Reason
from .promise import Promise
from .protocol import ChildFailed, ChildStarted, StartFailed

if TYPE_CHECKING:
    from .address import Address
    from .spec import ChildSpec

__all__ = ["Child", "Status", "error_text", "refuse"]


class Status(Enum):
    """Where a child stands; every other than ENDED leads to running again."""

    IDLE = auto()  # to be started when those before it are up
    STARTING = auto()
    RUNNING = auto()
    DOOMED = auto()  # alive; to be stopped when those after it have stopped
    STOPPING = auto()
    DUE = auto()  # crashed; its timer starts it again
    ASKING = auto()  # due; the gate has not answered yet
    ENDED = auto()  # not to be started again on its own account


class Child:
    """One child's state, changed by its supervisor only."""

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.name = spec.name
        self.status = Status.IDLE
        self.incarnation = 0
        self.was_up = False
        self.up_since = 0.0  # monotonic seconds
        self.crashes = 0  # in a row
        self.reason: Reason = SHUTDOWN
        self.callers: list[Promise | Address] = []

    def wants_restart(self, reason: Reason) -> bool:
        """Whether it starts again after it ended for `reason`."""
        match self.spec.restart:
            case "permanent":
                return True
            case "transient":
                return isinstance(reason, Crash)
            case "temporary":
                return False

    def answer(self) -> None:
        """Tell those who asked for it that it is up."""
        started = ChildStarted(child=self.name, incarnation=self.incarnation)
        callers, self.callers = self.callers, []
        for caller in callers:
            if isinstance(caller, Promise):
                caller.set(started)
            else:
                caller.tell(started)

    def answer_failed(self, error: str) -> None:
        """Tell those who asked for it that it will not be up."""
        callers, self.callers = self.callers, []
        for caller in callers:
            refuse(caller, self.name, error)


def refuse(caller: Promise | Address | None, name: str, error: str) -> None:
    """Tell one who asked for a child that it will not be up."""
    if isinstance(caller, Promise):
        caller.fail(StartFailed(f"{name}: {error}"))
    elif caller is not None:
        caller.tell(ChildFailed(child=name, error=error))


def error_text(reason: Reason) -> str:
    """The error of a crash in one line."""
    return reason.error if isinstance(reason, Crash) else "it ended"
