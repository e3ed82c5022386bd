"""The beat of the event loop: whether it still takes turns."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ...supervision.dispatch import Dispatcher

__all__ = ["BEATS_MISSED", "BEAT_PERIOD", "Beat"]

BEAT_PERIOD = 1.0  # seconds
BEATS_MISSED = 5  # in a row; then the loop is given up


class Beat:
    """Asks the loop for a sign each second, while something runs on it.

    Signs are counted, not seconds: a process that was stopped for a while, and its
    loop with it, has missed one.

    Args:
        dispatcher: whose timers ask.
        ask: has the loop call back in its next turn.
        busy: whether something runs on the loop.
        missed: told, on the timer thread, that five signs in a row did not come.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        ask: Callable[[Callable[[], None]], None],
        busy: Callable[[], bool],
        missed: Callable[[], None],
    ) -> None:
        self._dispatcher = dispatcher
        self._ask = ask
        self._busy = busy
        self._missed = missed
        self._lock = threading.Lock()
        self._watching = False
        self._asked = 0
        self._heard = 0  # the newest question that was answered

    def watch(self) -> None:
        """Something runs on the loop now; from any thread."""
        with self._lock:
            if self._watching:
                return
            self._watching = True
            self._heard = self._asked
        self._next()

    def _next(self) -> None:
        self._asked += 1
        number = self._asked

        def heard() -> None:
            self._heard = max(self._heard, number)

        self._ask(heard)
        self._dispatcher.call_later(BEAT_PERIOD, self._ring)

    def _ring(self) -> None:
        with self._lock:
            if not self._busy():
                self._watching = False
                return
        if self._asked - self._heard >= BEATS_MISSED:
            self._heard = self._asked  # the next loop begins with a clean slate
            self._missed()
        self._next()
