"""A background without a thread of its own: its step runs between turns."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from .threads import run_guarded

__all__ = ["IdleStep", "is_overdue"]

WAIT = 0.005  # seconds that a step waits where there is always a turn to take


class IdleStep:
    """Runs `step` until it returns False, on a thread that has nothing else to do.

    `_claimed` is a lock used as an atomic flag: who acquires it has it queued, and it
    stays held until the run is over. `_wanted` is set before that is tried, and read
    after the flag is released, so that no wish is lost.

    Args:
        queue: puts it where a thread without a turn or a job finds it.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], bool],
        log: Callable[..., None],
        queue: Callable[[IdleStep], None],
    ) -> None:
        self._name = name
        self._step = step
        self._log = log
        self._queue = queue
        self._claimed = threading.Lock()
        self._claim = self._claimed.acquire
        self._wanted = False
        self._running = threading.Lock()
        self._runs_on: int | None = None  # the thread that is in it
        self._stopped = False
        self.since = 0.0  # monotonic seconds when it was queued

    def is_alive(self) -> bool:
        """Whether it still runs when it is woken."""
        return not self._stopped

    def wake(self) -> None:
        """Have the step run when there is nothing else to do."""
        self._wanted = True
        if self._claim(False):
            self.since = time.monotonic()
            self._queue(self)

    def run(self) -> None:
        """Run the step until there is no more to do; on the thread that took it."""
        with self._running:
            self._runs_on = threading.get_ident()
            self._wanted = False
            if not self._stopped:
                run_guarded(f"background {self._name}", self._drain, self._log)
            self._runs_on = None
        self._claimed.release()
        if self._wanted and not self._stopped:
            self.wake()

    def stop(self, timeout: float) -> bool:
        """Let it run dry, here; False if another thread is in it for `timeout` s."""
        self._stopped = True
        if self._runs_on == threading.get_ident():
            return True  # it ends when its caller returns
        if not self._running.acquire(timeout=timeout):
            return False
        try:
            run_guarded(f"background {self._name}", self._drain, self._log)
        finally:
            self._running.release()
        return True

    def _drain(self) -> None:
        while self._step():
            pass


def is_overdue(queue: deque[IdleStep]) -> bool:
    """Whether the first of a queue has waited too long for its thread."""
    try:
        return time.monotonic() - queue[0].since > WAIT
    except IndexError:
        return False  # another thread took it
