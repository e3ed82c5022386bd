"""The product's pool on the explorer's threads."""

from __future__ import annotations

import threading
from collections.abc import Callable

from perdure.supervision import PoolDispatcher, VirtualClock
from perdure.supervision.worker import TRUSTED, Trust, Worker
from tests.supervision.interleaving import (
    WatchedDeque,
    WatchedList,
    WatchedLock,
    access,
)

__all__ = ["OnePool"]


class WatchedWorker(Worker):
    """The product's worker; what it runs, and whether it is lent, are accesses."""

    _job: str | None = None
    _lent = False

    @property
    def job(self) -> str | None:  # type: ignore[override]
        access()
        return self._job

    @job.setter
    def job(self, name: str | None) -> None:
        access()
        self._job = name

    @property
    def lent(self) -> bool:  # type: ignore[override]
        access()
        return self._lent

    @lent.setter
    def lent(self, lent: bool) -> None:
        access()
        self._lent = lent


class OnePool(PoolDispatcher):
    """The product's pool; its threads are the explorer's, and there is no watchdog.

    It trusts the jobs whose names are `quick`.
    """

    def __init__(self, threads: int = 1) -> None:
        self.clock = VirtualClock()  # type: ignore[assignment]
        self.log = lambda event, **fields: None
        self._queue = WatchedDeque()
        self._jobs = WatchedDeque()
        self._idle = WatchedDeque()
        self._backgrounds = []
        self._trust = Trust()
        self._trust._gained["quick"] = TRUSTED
        self._parked = WatchedList()
        self._lock = WatchedLock()  # type: ignore[assignment]
        self._running = 0
        self._threads = 0  # wanted besides: none is added
        self._forked = False
        self._open = True
        self._busy = threading.Event()
        self.workers = [WatchedWorker(self, n) for n in range(threads)]
        for worker in self.workers:
            worker.gate = WatchedLock()  # type: ignore[assignment]
            worker.gate._depth = 1  # type: ignore[attr-defined]
        self._workers = self.workers

    @property
    def _lent(self) -> int:  # type: ignore[override]
        access()
        return self._running

    @_lent.setter
    def _lent(self, count: int) -> None:
        access()
        self._running = count

    def bodies(self) -> list[Callable[[], None]]:
        """What the workers' threads do."""
        return [lambda worker=worker: self.work(worker) for worker in self.workers]
