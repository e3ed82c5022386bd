"""Noticing what other processes send to the inbox."""

from __future__ import annotations

from collections.abc import Callable

from .backend import Backend
from .errors import StoreTrouble

__all__ = ["InboxWatch"]

LOOK_EVERY = 0.2  # seconds; a command is noticed within 250 ms


class InboxWatch:
    """Looks, on the thread that flushes, whether anybody else has written to the store.

    Args:
        backend: the opened store.
        call_later: runs a callback after some seconds.
        wake: has `look` called there.
    """

    def __init__(
        self,
        backend: Backend,
        call_later: Callable[[float, Callable[[], None]], object],
        wake: Callable[[], None],
    ) -> None:
        self._backend = backend
        self._call_later = call_later
        self._wake = wake
        self._listener: Callable[[], object] | None = None
        self._polls = False
        self._due = False

    def tell(self, listener: Callable[[], object]) -> None:
        """Call `listener` after each change from now on; it replaces the last one."""
        first, self._listener = self._listener is None, listener
        self._polls = self._backend.watch(listener)
        if first and self._polls:
            self._later()

    def look(self) -> Callable[[], object] | None:
        """Return whom to tell, if it is time to look and something has changed."""
        if not self._due:
            return None
        self._due = False
        self._later()
        try:
            return self._listener if self._backend.changed() else None
        except StoreTrouble:
            return None  # looked at again soon

    def _later(self) -> None:
        self._call_later(LOOK_EVERY, self._ring)

    def _ring(self) -> None:
        self._due = True
        self._wake()
