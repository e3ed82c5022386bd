"""Where time comes from: the system's clocks, or one that a test moves by hand."""

from __future__ import annotations

from time import monotonic as _monotonic
from time import time as _time
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
    """The host's clocks, without a call of ours around them: they are read often."""

    time = staticmethod(_time)
    monotonic = staticmethod(_monotonic)


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
