"""The part of a `Runtime` that hands out all about a task, and erases it for good."""

from __future__ import annotations

import asyncio
from typing import Any

from .actors.protocol import Erase
from .asking import Asking
from .errors import Misuse
from .export import export_task
from .reading import Reading

__all__ = ["ErasingCalls", "check_by"]

LONGEST = 200  # characters of who has something erased


class ErasingCalls(Asking):
    """Export and erasure of what belongs to a task."""

    _reading: Reading

    def export(self, *, task: str) -> list[dict[str, Any]]:
        """All that the store holds about a task, as JSON values in a fixed order.

        The values are those that `perdure export` writes, one a line. Sub-tasks are
        named, and exported on their own.

        Args:
            task: the id of any task, running or ended.

        Raises:
            TaskNotFound: there is none.
        """
        self._refuse_if_forked()
        return self._reading.read(lambda reader: list(export_task(reader, task)))

    async def aexport(self, *, task: str) -> list[dict[str, Any]]:
        """`export` for event loops."""
        return await asyncio.to_thread(self.export, task=task)

    def erase(self, *, task: str, by: str) -> bool:
        """Take a task that has ended out of the store for good, with its sub-tasks.

        What is left says that it was erased, when and by whom, and what it used; its
        id is not given again, its key may be. When this returns, no file of the store
        holds a byte of it, unless another process still reads what was there before
        (``journal.erasure_waits`` in the log says so): then they go once that ends.
        It takes as long as copying the store, and nothing is written meanwhile.

        Args:
            task: the id of a task that completed, failed or was cancelled.
            by: who has it erased; kept.

        Returns:
            True where it was there, False where it had been erased before.

        Raises:
            Misuse: there is no such task, it has not ended, or it is a sub-task.
            UseAsync: inside an event loop.
        """
        self.refuse_in_loop("erase", "`await runtime.aerase(...)`")
        check_by(by)
        done: bool = self._ask(lambda p: Erase(task=task, by=by, promise=p))
        return done

    async def aerase(self, *, task: str, by: str) -> bool:
        """`erase` for event loops."""
        return await asyncio.to_thread(self.erase, task=task, by=by)


def check_by(by: object) -> None:
    """Raise Misuse unless this says who has something erased, and can be stored."""
    if isinstance(by, str) and by.strip() and len(by) <= LONGEST:
        try:
            by.encode()
        except UnicodeEncodeError:
            pass
        else:
            return
    raise Misuse(f"erase: by={by!r} must say who, in 1 to {LONGEST} characters")
