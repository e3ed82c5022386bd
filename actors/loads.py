"""What the actors of a task begin with: their streams, read together and once."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from ..storage.errors import Undecodable
from ..storage.reader import Reader
from ..storage.records import Loaded, Snapshot
from .budget.account import AccountState
from .ledger.entry import LedgerState
from .names import GRANTS, NOTES, account, family, ledger
from .task.state import TaskState
from .upgrades import state_of

__all__ = ["Loads", "load"]

Found: TypeAlias = Loaded | Undecodable


def load(reader: Reader, stream: str, state: type[msgspec.Struct]) -> Loaded:
    """A stream with its newest snapshot that this code can read as such a state."""

    def usable(snapshot: Snapshot) -> bool:
        state_of(snapshot, state)
        return True

    return reader.load(stream, usable=usable)


class Loads:
    """The streams of a family whose actors have not started in this activation.

    Nobody writes them meanwhile: earlier epochs are fenced, and of this one there is
    nobody yet. So what was read stays true until its actor takes it, which it does
    once; a later incarnation reads anew.

    Args:
        task: whose they are.
        activated: the seq of its activation, which is flushed before they are read.
        new: its own stream, where it was only submitted and there is no other.
    """

    def __init__(self, task: str, activated: int, new: Loaded | None) -> None:
        self._states: dict[str, type[msgspec.Struct]] = {
            ledger(task): LedgerState,
            account(task): AccountState,
            family(task): TaskState,
        }
        self._found: dict[str, Found] = {}
        if new is not None:
            self._found = {
                stream: Loaded(stream=stream, snapshot=None, records=(), head=0, seq=0)
                for stream in (ledger(task), account(task))
            }
            self._found[family(task)] = new
        self._task = task
        self._noted: bool | None = None
        self._granted: bytes | None = None
        self.activated = activated

    def read(self, reader: Reader) -> None:
        """Load those that nobody took; what is damaged is its actor's to report."""
        self._noted = bool(reader.rows(NOTES, f"{self._task}/"))
        self._granted = reader.row(GRANTS, self._task)
        for stream, state in self._states.items():
            try:
                self._found[stream] = load(reader, stream, state)
            except Undecodable as error:
                self._found[stream] = error

    def take_noted(self) -> bool:
        """Whether there may be notes that the task has not taken; asked once."""
        noted, self._noted = self._noted, None
        return noted is not False

    def take_granted(self) -> bytes | None:
        """The pool's row of the task, as it was behind `activated`; asked once."""
        granted, self._granted = self._granted, None
        return granted

    def take(self, stream: str) -> Found | None:
        """What its actor begins with; None where it has to read."""
        self._states.pop(stream, None)
        return self._found.pop(stream, None)
