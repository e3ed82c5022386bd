"""A thread of the pool, and which jobs it may run without being lent to them."""

from __future__ import annotations

import sys
import threading
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cell import Cell
    from .pool import PoolDispatcher

__all__ = ["Trust", "Worker"]

QUICK_JOB = 0.0003  # seconds
NAMES = 1_024  # that are kept
TRUSTED = 100  # quick jobs of a name, beyond those that make up for its slow ones
MOST = 8  # slow ones in a row that a name can make up for


class Worker:
    """One thread of the pool; `gate` is held while it runs and released to wake it."""

    def __init__(self, pool: PoolDispatcher, number: int) -> None:
        self.pool = pool
        self.gate = threading.Lock()
        self.gate.acquire()
        self.cell: Cell | None = None
        self.job: str | None = None  # its name, while it runs
        self.since = 0.0  # monotonic seconds at the start of the turn or job
        self.reported = False
        self.lost = False
        self.lent = False  # to what takes it long: others see to everything else
        self.name = f"perdure-turns-{number}"
        self.thread = threading.Thread(
            target=pool.work, args=(self,), name=self.name, daemon=True
        )

    def report(self, cell: Cell, seconds: float) -> None:
        """Log a slow turn, with where it is just now."""
        self.reported = True
        frame = sys._current_frames().get(self.thread.ident or 0)  # noqa: SLF001 -- its API
        cell.system.log(
            "turn.slow",
            name=cell.name,
            incarnation=cell.incarnation,
            seconds=round(seconds, 3),
            stack="".join(traceback.format_stack(frame)) if frame else "",
        )


class Trust:
    """Which jobs are short, by their names: those that hardly ever took over 0.3 ms.

    A slow one costs its name what 100 quick ones gained: it holds up everything else
    for some 10 ms, and to lend a thread takes some 0.1 ms. What the threads write over
    each other is worth less than a lock.
    """

    def __init__(self) -> None:
        self._gained: dict[str, int] = {}

    def has(self, name: str) -> bool:
        """Whether a job of this name is expected to be short."""
        return self._gained.get(name, 0) >= TRUSTED

    def learn(self, name: str, seconds: float) -> None:
        """A job of this name has ended after so many seconds."""
        gained = self._gained.get(name, 0)
        if seconds > QUICK_JOB:
            gained -= TRUSTED
            if gained > 0:
                self._gained[name] = gained
            else:
                self._gained.pop(name, None)
        elif gained < MOST * TRUSTED and (gained or len(self._gained) < NAMES):
            self._gained[name] = gained + 1
