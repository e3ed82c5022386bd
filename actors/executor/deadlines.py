"""Which runs are past their deadlines, seen with one timer for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from ...supervision.dispatch import Dispatcher
from ...supervision.threads import run_guarded
from .work import NEVER, Run

__all__ = ["Deadlines"]


class Deadlines:
    """Rings for each run whose `due` has come.

    One timer stands at the earliest, or before it where what it was set for has ended:
    hardly any deadline comes due, and a timer for each run would cost more than all
    else that is done for it.

    Args:
        dispatcher: whose timers ring.
        runs: those that may have a `due`, a list of its own.
        rung: told of one that is past it, on the timers' thread; may set a new `due`.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        runs: Callable[[], list[Run]],
        rung: Callable[[Run], None],
    ) -> None:
        self._dispatcher = dispatcher
        self._runs = runs
        self._rung = rung
        self._lock = threading.Lock()
        self._next = NEVER  # monotonic second at which it looks again

    def watch(self, run: Run, due: float) -> None:
        """Ring for the run at a monotonic second, unless `due` is changed till then.

        It must be among the runs already.
        """
        run.due = due
        if due < self._next:
            self._look_at(due)

    def _look_at(self, due: float) -> None:
        with self._lock:
            if due >= self._next:
                return
            self._next = due
        left = due - self._dispatcher.clock.monotonic()
        self._dispatcher.call_later(left, lambda: self._look(due))

    def _look(self, due: float) -> None:
        with self._lock:
            if due != self._next:
                return  # an earlier one was set behind it, and sees to the others
            self._next = NEVER  # before the look: who comes later sets its own
        now = max(self._dispatcher.clock.monotonic(), due)
        nearest = NEVER
        over: list[Run] = []
        for run in self._runs():
            if run.due <= now:
                over.append(run)
            else:
                nearest = min(nearest, run.due)
        if nearest < NEVER:
            self._look_at(nearest)
        for run in over:
            run.due = NEVER
            run_guarded("deadline", partial(self._rung, run), self._dispatcher.log)
