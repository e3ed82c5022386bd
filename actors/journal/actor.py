"""The journal's actor: while it lives, the journal is open and moves."""

from __future__ import annotations

from typing import Any

import msgspec

from ...storage.errors import StorageError
from ...supervision.actor import Actor
from ...supervision.backoff import Backoff
from ..house import House
from ..names import ADMISSION
from ..protocol import InboxChanged

__all__ = ["JournalActor", "JournalFailed"]

OPEN_LIMIT = 25.0  # seconds between two attempts to open, before the jitter


class JournalFailed(msgspec.Struct, frozen=True, kw_only=True):
    """The journal said that it cannot go on."""

    error: StorageError


class _OpenAgain(msgspec.Struct, frozen=True, kw_only=True):
    """The pause after a failed opening is over."""


class JournalActor(Actor):
    """Crashes when the journal fails; its restart opens the store anew.

    Everything above it restarts after it, and comes back from disk. A store that
    cannot be opened just now is waited for: a restart would count, and a disk that is
    away for an hour must not end the runtime.
    """

    ready_when_started = False

    def __init__(self, house: House) -> None:
        super().__init__()
        self.house = house
        rules = house.baseline
        limit = min(rules.backoff_limit, OPEN_LIMIT)
        self._backoff = Backoff(first=min(rules.backoff_first, limit), limit=limit)
        self._attempts = 0

    def started(self) -> None:
        """Take the journal that is open, or open the store again."""
        self._open()

    def _open(self) -> None:
        try:
            journal = self.house.take_journal()
        except StorageError as error:
            self._attempts += 1
            random = self.system.dispatcher.random
            delay = self._backoff.delay(self._attempts, random)
            self.system.log(
                "journal.trouble",
                kind="open",
                detail=str(error),
                retry_in=round(delay, 3),
            )
            self.after(delay, _OpenAgain())
            return
        address = self.address

        def failed(error: StorageError) -> None:
            address.tell(JournalFailed(error=error))

        journal.on_failed(failed)
        admission = self.house.address(ADMISSION)
        journal.watch_inbox(lambda: admission.tell(InboxChanged()))
        self.ready()

    def receive(self, message: Any) -> None:
        """Crash with what the journal failed with; open again when it is time."""
        match message:
            case JournalFailed(error=error):
                raise error
            case _OpenAgain():
                self._open()
