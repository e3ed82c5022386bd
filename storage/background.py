"""What a journal is given to run on, as it sees it, and what it has without."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, TypeAlias

__all__ = ["Background", "Step", "daemon_timer", "no_hit"]

Step: TypeAlias = Callable[[], bool]


class Background(Protocol):
    """A step that runs on a thread of its own."""

    def wake(self, within: float = 0.0) -> None:
        """Let the step run until it returns False, not on this thread.

        It runs at once, or within so many seconds, whichever call wants it first.
        """
        ...

    def stop(self, timeout: float) -> object:
        """Let the running step finish, then end; wait `timeout` seconds at most."""
        ...


def no_hit(point: str, subject: str) -> None:
    """No fault is planned."""


def daemon_timer(delay: float, callback: Callable[[], None]) -> None:
    """Call back in `delay` seconds, on a thread that keeps no process alive."""
    timer = threading.Timer(delay, callback)
    timer.daemon = True
    timer.start()
