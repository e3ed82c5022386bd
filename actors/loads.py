"""What the actors of a task begin with: their streams, read together and once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from ..storage.errors import Undecodable
from ..storage.reader import Reader
from ..storage.records import Loaded, Snapshot
from .budget.account import AccountState
from .ledger.entry import LedgerState
from .names import account, family, ledger
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
        found: what is known of them already.
    """

    def __init__(self, task: str, found: Mapping[str, Found] | None = None) -> None:
        self._states: dict[str, type[msgspec.Struct]] = {
            ledger(task): LedgerState,
            account(task): AccountState,
            family(task): TaskState,
        }
        self._found = dict(found or {})

    @staticmethod
    def of_new(task: str, loaded: Loaded) -> dict[str, Found]:
        """Those of a task that was only submitted: it has no stream but its own."""
        empty = {
            stream: Loaded(stream=stream, snapshot=None, records=(), head=0, seq=0)
            for stream in (ledger(task), account(task))
        }
        return {**empty, family(task): loaded}

    def read(self, reader: Reader) -> None:
        """Load those that nobody took; what is damaged is its actor's to report."""
        for stream, state in self._states.items():
            try:
                self._found[stream] = load(reader, stream, state)
            except Undecodable as error:
                self._found[stream] = error

    def take(self, stream: str) -> Found | None:
        """What its actor begins with; None where it has to read."""
        self._states.pop(stream, None)
        return self._found.pop(stream, None)
