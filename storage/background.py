"""What a journal is given to run on, as it sees it, and what it has without."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, TypeAlias

__all__ = ["Background", "Step", "daemon_timer", "no_hit"]

Step: TypeAlias = Callable[[], bool]


class Background(Protocol):
    """A step that runs whenever it is woken, on some thread but never on two."""

    def wake(self) -> None:
        """Let the step run soon until it returns False; not inside this call."""
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
