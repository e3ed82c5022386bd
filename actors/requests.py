"""Requests that are open: sent again when the other side comes up, or when overdue."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from ..supervision.actor import Actor
from ..supervision.address import Address
from ..supervision.dispatch import Timer

__all__ = ["BACKSTOP", "Overdue", "Requests"]

BACKSTOP = 60.0  # seconds until an unanswered request is sent again


class Overdue(msgspec.Struct, frozen=True, kw_only=True):
    """A timer's word to its own actor: look whether the request is still open."""

    key: Any


class Requests:
    """The open requests of one actor, by key; each is idempotent on the other side."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._open: dict[Hashable, tuple[Address, Any, Timer]] = {}
        self._watched: set[str] = set()

    def send(self, key: Hashable, to: Address, message: Any) -> None:
        """Send a request and remember it until `answered`."""
        if to.name not in self._watched:
            self._watched.add(to.name)
            self._actor.monitor(to)
        self.answered(key)  # it has a backstop already where it is sent again
        backstop = self._actor.after(BACKSTOP, Overdue(key=key))
        self._open[key] = (to, message, backstop)
        to.tell(message)

    def answered(self, key: Hashable) -> bool:
        """Close a request; False where it was not open (a second answer)."""
        found = self._open.pop(key, None)
        if found is None:
            return False
        found[2].cancel()
        return True

    def up(self, name: str) -> None:
        """The actor `name` has a new incarnation: send it what it has not answered."""
        for to, message, _ in list(self._open.values()):
            if to.name == name:
                to.tell(message)

    def overdue(self, key: Hashable) -> None:
        """The backstop of a request rang."""
        if key in self._open:
            to, message, _ = self._open[key]
            self.send(key, to, message)

    def open(self, matching: Callable[[Hashable], bool] = lambda _: True) -> int:
        """How many requests are open."""
        return sum(1 for key in self._open if matching(key))
