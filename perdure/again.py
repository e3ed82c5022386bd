"""The part of a `Runtime` that has work done again, in its place or beside it."""

from __future__ import annotations

from .actors.house import House
from .actors.names import TASK_ROWS
from .actors.protocol import Retry
from .actors.storable import is_storable
from .errors import Misuse, TaskNotFound
from .reading import Reading
from .recalling import Recalling

__all__ = ["Again", "check_step"]


class Again(Recalling):
    """Retries of steps."""

    _house: House
    _reading: Reading

    def retry(self, task: str, step: str, by: str) -> None:
        """See `Handle.retry`."""
        self.refuse_in_loop("retry", "`await handle.aretry(...)`")
        check_step(step)
        self._known(task)
        self._ask(lambda p: Retry(task=task, step=step, by=by, promise=p))

    def _known(self, task: str) -> None:
        """Raise TaskNotFound unless there is such a task."""
        self._refuse_if_forked()
        if self._reading.read(lambda reader: reader.row(TASK_ROWS, task)) is None:
            raise TaskNotFound(f"no task {task!r} in the store; see `perdure ps`")


def check_step(step: object) -> None:
    """Raise Misuse unless this can be the id of a step."""
    if not isinstance(step, str) or not is_storable(step):
        raise Misuse(f"retry: step={step!r} must be the id of a step")
