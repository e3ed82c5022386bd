"""The part of a `Runtime` that hands out what is held, and erases it for good."""

from __future__ import annotations

import asyncio
from typing import Any

from .actors.house import House
from .actors.names import MEMORY
from .actors.protocol import Erase, EraseFacts
from .actors.storable import is_storable
from .asking import Asking
from .errors import Misuse
from .export import export_subject, export_task
from .reading import Reading
from .storage.reader import Reader

__all__ = ["ErasingCalls", "check_by"]

LONGEST = 200  # characters of who has something erased


class ErasingCalls(Asking):
    """Export and erasure of what belongs to a task, or is about a subject."""

    _house: House
    _reading: Reading

    def export(
        self, *, task: str | None = None, subject: str | None = None
    ) -> list[dict[str, Any]]:
        """All that the store holds about a task, or all facts about a subject.

        The values are those that `perdure export` writes, one a line, in a fixed order.
        Sub-tasks are named, and exported on their own; of a subject these are its
        facts with their history and evidence, and the tasks that were shown some.

        Args:
            task: the id of any task, running or ended.
            subject: as facts were stated about it; one of the two.

        Raises:
            TaskNotFound: there is no such task.
            Misuse: not one of the two is given.
        """
        self._refuse_if_forked()
        _check_one("export", task, subject)

        def read(reader: Reader) -> list[dict[str, Any]]:
            if subject is not None:
                return list(export_subject(reader, subject))
            assert task is not None
            return list(export_task(reader, task))

        return self._reading.read(read)

    async def aexport(self, **options: Any) -> list[dict[str, Any]]:
        """`export` for event loops; the same arguments."""
        return await asyncio.to_thread(lambda: self.export(**options))

    def erase(
        self, *, task: str | None = None, subject: str | None = None, by: str
    ) -> bool:
        """Take an ended task, or all facts about a subject, out of the store for good.

        With a task its sub-tasks go. Its forks are tasks of their own: they keep what
        they took over until each is erased, too; the event of the erasure names them.
        What is left says that it was erased, when and by whom, and what it used; its id
        is not given again, its key may be. With a subject its facts go, their history,
        and what tasks were shown of them; a running task lets go of them at its next
        decision, and this waits for that.

        When this returns, no file of the store holds a byte of it, unless another
        process still reads what was there before (``journal.erasure_waits`` in the log
        says so): then they go once that ends. It takes as long as copying the store,
        and nothing is written meanwhile. Snapshots in an object store go right after.

        Args:
            task: the id of a task that completed, failed or was cancelled.
            subject: as facts were stated about it; one of the two.
            by: who has it erased; kept.

        Returns:
            True where something was there, False where it had gone before.

        Raises:
            Misuse: not one of the two is given; or there is no such task, it has not
                ended, or it is a sub-task.
            TimeoutError: it is not done yet; asking again is safe.
            UseAsync: inside an event loop.
        """
        self.refuse_in_loop("erase", "`await runtime.aerase(...)`")
        _check_one("erase", task, subject)
        check_by(by)
        if task is not None:
            there: bool = self._ask(lambda p: Erase(task=task, by=by, promise=p))
            return there
        assert subject is not None
        request = self._house.new_id()  # one for all attempts to ask
        count: int = self._ask(
            lambda p: EraseFacts(request=request, subject=subject, by=by, promise=p),
            to=MEMORY,
        )
        return count > 0

    async def aerase(self, **options: Any) -> bool:
        """`erase` for event loops; the same arguments."""
        return await asyncio.to_thread(lambda: self.erase(**options))


def _check_one(call: str, task: object, subject: object) -> None:
    given = [one for one in (task, subject) if one is not None]
    if len(given) != 1 or not isinstance(given[0], str) or not given[0]:
        raise Misuse(
            f"{call}: task={task!r}, subject={subject!r}: give one of them, as text"
        )
    if not is_storable(given[0]):
        raise Misuse(
            f"{call}: task={task!r}, subject={subject!r}: lone surrogates are stored "
            "nowhere; give the name as it was stored"
        )


def check_by(by: object) -> None:
    """Raise Misuse unless this says who has something erased, and can be stored."""
    if (
        isinstance(by, str)
        and 0 < len(by) <= LONGEST
        and by.strip()
        and is_storable(by)
    ):
        return
    raise Misuse(f"erase: by={by!r} must say who, in 1 to {LONGEST} characters")
