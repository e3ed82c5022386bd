"""Where time comes from: the system's clocks, or one that a test moves by hand."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock", "VirtualClock"]


class Clock(Protocol):
    """Two readings of time, both in seconds."""

    def time(self) -> float:
        """Seconds since the epoch; may jump when the host's clock is set."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed point; never goes back."""
        ...


class SystemClock:
    """The host's clocks."""

    def time(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since some fixed point."""
        return time.monotonic()


class VirtualClock:
    """A clock that stands still until it is told to move.

    `wall` is the first reading of `time()`, in seconds since the epoch;
    `monotonic()` starts at 0.
    """

    def __init__(self, wall: float = 1_700_000_000.0) -> None:
        self._monotonic = 0.0
        self._wall = wall

    def time(self) -> float:
        """Seconds since the epoch, as set and advanced."""
        return self._wall

    def monotonic(self) -> float:
        """Seconds advanced since the clock was made."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move both readings forward; raises ValueError for a negative step."""
        if seconds < 0:
            msg = f"advance({seconds}): a monotonic clock cannot go back; use set_time"
            raise ValueError(msg)
        self._monotonic += seconds
        self._wall += seconds

    def set_time(self, wall: float) -> None:
        """Set `time()` as an operator would; `monotonic()` does not notice."""
        self._wall = wall
