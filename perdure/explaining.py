"""The part of a `Runtime` that says why its tasks did what they did."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from .asking import Asking
from .reading import Reading, row_of

if TYPE_CHECKING:
    from .actors.plan.result import PlanResult
    from .storage.reader import Reader
    from .views_why import Why

__all__ = ["Explaining"]


class Explaining(Asking):
    """What callers ask about the past of a task; only reads the store."""

    _reading: Reading

    def why(
        self, task: str, *, step: str | None = None, last: int | None = None
    ) -> Why:
        """The story of a task: each iteration with its why, feedback and verdict.

        Args:
            task: its id.
            step: only this step of its plan.
            last: only so many iterations, the newest, and what came after them.

        Raises TaskNotFound, UseAsync inside an event loop, and Misuse where there is
        no such step or the task was erased.
        """
        self.refuse_in_loop("why", "`await runtime.awhy(...)`")
        return self._why(task, step, last)

    async def awhy(
        self, task: str, *, step: str | None = None, last: int | None = None
    ) -> Why:
        """`why` for event loops."""
        return await asyncio.to_thread(self._why, task, step, last)

    def plan(self, task: str) -> PlanResult:
        """The plan of a task and how far it is, with its attempts and revisions.

        Raises TaskNotFound, UseAsync inside an event loop, and Misuse where the task
        was erased.
        """
        self.refuse_in_loop("plan", "`await runtime.aplan(...)`")
        return self._plan(task)

    async def aplan(self, task: str) -> PlanResult:
        """`plan` for event loops."""
        return await asyncio.to_thread(self._plan, task)

    def _plan(self, task: str) -> PlanResult:
        from . import views_standing

        self._refuse_if_forked()
        return self._reading.read(lambda reader: views_standing.plan(reader, task))

    def _why(self, task: str, step: str | None, last: int | None) -> Why:
        from . import views_why

        self._refuse_if_forked()

        def read(reader: Reader) -> Why:
            row_of(reader, task)
            return views_why.why(reader, task, step, last)

        return self._reading.read(read)
