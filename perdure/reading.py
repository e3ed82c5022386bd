"""Reads of the store for threads outside the actors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import msgspec

from .actors.names import TASK_ROWS
from .actors.task.rows import TaskRow
from .errors import StoreRefused, TaskNotFound
from .storage.errors import StorageError
from .storage.reader import Reader

__all__ = ["Reading", "no_task", "row_of"]

T = TypeVar("T")


class Reading:
    """One reader shared by all threads, which outlives a failure of the journal.

    It is not the journal's: a journal that fails closes its own readers, whoever is
    reading at that moment.

    Args:
        make: opens a reader of the store as it is now.
    """

    def __init__(self, make: Callable[[], Reader]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._reader: Reader | None = None
        self._over: BaseException | None = None

    def read(self, run: Callable[[Reader], T]) -> T:
        """Return what `run` reads; a read that fails is tried once more, anew.

        Raises StoreRefused where it fails again, and what `close` was given after it.
        """
        with self._lock:
            if self._over is not None:
                raise self._over
            try:
                return self._once(run)
            except StorageError:
                self._let_go()
            try:
                return self._once(run)
            except StorageError as error:
                self._let_go()
                raise StoreRefused(str(error)) from None

    def renew(self) -> None:
        """The store was opened again: perhaps the path names another file now."""
        with self._lock:
            self._let_go()

    def close(self, over: BaseException) -> None:
        """Let the store go; later reads raise `over`."""
        with self._lock:
            self._let_go()
            self._over = over

    def _once(self, run: Callable[[Reader], T]) -> T:
        if self._reader is None:
            self._reader = self._make()
        return run(self._reader)

    def _let_go(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


def row_of(reader: Reader, task: str) -> TaskRow:
    """The row of a task. Raises TaskNotFound."""
    row = reader.row(TASK_ROWS, task)
    if row is None:
        raise no_task(task)
    return msgspec.json.decode(row, type=TaskRow)


def no_task(word: str) -> TaskNotFound:
    """What somebody is told who names a task that is not there."""
    return TaskNotFound(
        f"there is no task {word!r} in the store; list its tasks with `perdure ps`"
    )
