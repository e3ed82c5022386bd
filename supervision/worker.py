"""One thread of the pool."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cell import Cell
    from .pool import PoolDispatcher

__all__ = ["Worker"]


class Worker:
    """One thread of the pool; `gate` is held while it runs and released to wake it."""

    def __init__(self, pool: PoolDispatcher, number: int) -> None:
        self.gate = threading.Lock()
        self.gate.acquire()
        self.cell: Cell | None = None
        self.since = 0.0  # monotonic seconds at the start of the turn
        self.reported = False
        self.lost = False
        self.lent = False  # to a job
        self.name = f"perdure-turns-{number}"
        self.thread = threading.Thread(
            target=pool.work, args=(self,), name=self.name, daemon=True
        )
