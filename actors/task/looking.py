"""What a task waits for, looked up in the store: one space of rows, off its turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from ...storage.reader import Reader

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["Looks", "Rows"]

Rows: TypeAlias = dict[str, bytes | None]
"""Values by key; None where there is no such row."""


class Looks:
    """Reads rows behind all appends so far; one that is leaving takes none any more."""

    def __init__(self, task: Task, space: str) -> None:
        self._task = task
        self._space = space
        self._reads = 0

    @property
    def under_way(self) -> bool:
        """Whether rows are being read: whoever would wait for one waits for that."""
        return self._reads > 0

    def read(self, keys: Iterable[str], then: Callable[[Rows, float], None]) -> None:
        """Call `then` with the rows of these keys, as of the given second or later."""
        task, wanted = self._task, list(keys)
        if not wanted:
            return
        self._reads += 1
        now = task.house.now()

        def run(reader: Reader) -> Rows:
            return {key: reader.row(self._space, key) for key in wanted}

        def found(rows: Rows) -> None:
            self._reads -= 1
            if not task.parting.leaving:
                then(rows, now)

        task.read(run, found)
