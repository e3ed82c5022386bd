"""Until when a supervisor's children have time, on one timer for all of them.

Most limits pass unneeded, and each timer costs: so there is one, for whoever is due
first, that looks again for the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from .actor import Actor
    from .child import Child
    from .dispatch import Timer

__all__ = ["Dues", "Tick", "What"]

What: TypeAlias = Literal["restart", "start", "stop"]


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """The timer went off: somebody is due."""


class Dues:
    """What each child is due for, and when."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._dues: dict[Child, tuple[float, What]] = {}  # monotonic seconds
        self._timer: Timer | None = None
        self._looks = 0.0  # when it goes off

    def set(self, child: Child, delay: float | None, what: What) -> None:
        """The child is due in so many seconds, and for nothing else; None: for ever."""
        self.drop(child)
        if delay is None:
            return
        now = self._actor.system.clock.monotonic()
        self._dues[child] = now + delay, what
        if self._timer is None or now + delay < self._looks:
            self._arm(now)

    def drop(self, child: Child) -> None:
        """The child is due for nothing."""
        self._dues.pop(child, None)

    def over(self) -> Iterator[tuple[Child, What]]:
        """Who is due now, and for what; whoever is dropped meanwhile is left out."""
        self._timer, now = None, self._actor.system.clock.monotonic()
        for child in list(self._dues):
            due, what = self._dues.get(child, (inf, "stop"))
            if due <= now:
                del self._dues[child]
                yield child, what
        self._arm(now)

    def _arm(self, now: float) -> None:
        if not self._dues:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._looks = min(due for due, _ in self._dues.values())
        self._timer = self._actor.after(max(0.0, self._looks - now), Tick())
