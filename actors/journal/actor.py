"""The journal's actor: while it lives, the journal is open and moves."""

from __future__ import annotations

from typing import Any

import msgspec

from ...storage.errors import StorageError
from ...supervision.actor import Actor
from ..house import House

__all__ = ["JournalActor", "JournalFailed"]


class JournalFailed(msgspec.Struct, frozen=True, kw_only=True):
    """The journal said that it cannot go on."""

    error: StorageError


class JournalActor(Actor):
    """Crashes when the journal fails; its restart opens the store anew.

    Everything above it restarts after it, and comes back from disk.
    """

    def __init__(self, house: House) -> None:
        super().__init__()
        self.house = house

    def started(self) -> None:
        """Take the journal that is open, or open the store again."""
        journal = self.house.take_journal()
        address = self.address

        def failed(error: StorageError) -> None:
            address.tell(JournalFailed(error=error))

        journal.on_failed(failed)

    def receive(self, message: Any) -> None:
        """Crash with what the journal failed with."""
        if isinstance(message, JournalFailed):
            raise message.error
