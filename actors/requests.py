"""Requests that are open: sent again when the other side comes up, or when overdue."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from ..supervision.actor import Actor
from ..supervision.address import Address

__all__ = ["BACKSTOP", "Overdue", "Requests"]

BACKSTOP = 60.0  # seconds until an unanswered request is sent again


class Overdue(msgspec.Struct, frozen=True, kw_only=True):
    """A timer's word to its own actor: look which requests are open for long."""


class Requests:
    """The open requests of one actor, by key; each is idempotent on the other side."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._open: dict[Hashable, tuple[Address, Any, float]] = {}  # and since when
        self._watched: set[str] = set()
        self._looks = False  # whether a timer is set

    def send(self, key: Hashable, to: Address, message: Any) -> None:
        """Send a request and remember it until `answered`."""
        if to.name not in self._watched:
            self._watched.add(to.name)
            self._actor.monitor(to)
        self._open.pop(key, None)  # it is the newest now
        self._open[key] = (to, message, to.system.clock.monotonic())
        if not self._looks:
            self._looks = True
            self._actor.after(BACKSTOP, Overdue())
        to.tell(message)

    def answered(self, key: Hashable) -> bool:
        """Close a request; False where it was not open (a second answer)."""
        return self._open.pop(key, None) is not None

    def up(self, name: str) -> None:
        """The actor `name` has a new incarnation: send it what it has not answered."""
        for to, message, _ in list(self._open.values()):
            if to.name == name:
                to.tell(message)

    def overdue(self) -> None:
        """The backstop rang: send again what is open for that long."""
        self._looks = False
        for key, (to, message, since) in list(self._open.items()):
            left = since + BACKSTOP - to.system.clock.monotonic()
            if left > 0:
                self._looks = True
                self._actor.after(left, Overdue())
                return
            self.send(key, to, message)

    def open(self, matching: Callable[[Hashable], bool] = lambda _: True) -> int:
        """How many requests are open."""
        return sum(1 for key in self._open if matching(key))
