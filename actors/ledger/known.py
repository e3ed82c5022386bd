"""What the ledger tells of the entries in its state without looking at each."""

from __future__ import annotations

from ..events import EffectRecorded, EffectRegistered, Event
from .entry import KEPT, LedgerState

__all__ = ["Known"]

KEYS_KEPT = 4 * KEPT  # before those that have left are sorted out


class Known:
    """Never a no where looking would say yes; a yes is looked up."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._failed = False

    def begin(self, state: LedgerState) -> None:
        """Learn it anew from a state."""
        self._keys = {one.key for one in state.entries.values()}
        self._failed = any(one.status == "failed" for one in state.entries.values())

    def note(self, event: Event, state: LedgerState) -> None:
        """Follow an event that led to `state`."""
        if isinstance(event, EffectRegistered):
            self._keys.add(event.key)
            if len(self._keys) > KEYS_KEPT:
                self.begin(state)
        elif isinstance(event, EffectRecorded) and event.status == "failed":
            self._failed = True

    def may_hold(self, key: str) -> bool:
        """Whether there may be an entry of this effect."""
        return key in self._keys

    def may_have_failed(self, state: LedgerState) -> bool:
        """Whether a call of the step, or one of the task that counts, may have."""
        return self._failed or bool(state.failed)
