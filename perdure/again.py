"""The part of a `Runtime` that has work done again, in its place or beside it."""

from __future__ import annotations

import msgspec

from .actors.budget.account import Budget, limits_of
from .actors.house import House
from .actors.memory.lineage import forks_of
from .actors.names import TASK_ROWS
from .actors.protocol import Fork, Retry
from .actors.storable import is_storable
from .errors import Misuse
from .people import check_words
from .reading import Reading, row_of
from .recalling import Recalling
from .storage.reader import Reader

__all__ = ["Again", "check_fork", "check_step", "kept_of"]

LONGEST = 100_000  # characters of a goal, or of a key


class Again(Recalling):
    """Retries of steps, and forks of tasks."""

    _house: House
    _reading: Reading

    def retry(self, task: str, step: str, by: str) -> None:
        """See `Handle.retry`."""
        self.refuse_in_loop("retry", "`await handle.aretry(...)`")
        check_step(step)
        check_words("retry", by=by)
        self._known(task)
        self._ask(lambda p: Retry(task=task, step=step, by=by, promise=p))

    def make_fork(
        self,
        task: str,
        *,
        at: int | None = None,
        budget: Budget | None = None,
        goal: str | None = None,
        key: str | None = None,
        by: str = "operator",
    ) -> str:
        """See `Handle.fork`; returns the new task's id."""
        self.refuse_in_loop("fork", "`await handle.afork(...)`")
        check_fork(at, budget, goal, key)
        check_words("fork", by=by)
        self._known(task)
        message = Fork(
            task=task,
            new=self._house.new_id(),
            at=at,
            budget=None if budget is None else limits_of(budget),
            goal=goal or "",
            key=key,
            by=by,
        )
        made: str = self._ask(lambda p: msgspec.structs.replace(message, promise=p))
        return made

    def _known(self, task: str) -> None:
        """Raise TaskNotFound unless there is such a task."""
        self._refuse_if_forked()
        self._reading.read(lambda reader: row_of(reader, task))


def check_fork(
    at: int | None, budget: Budget | None, goal: str | None, key: str | None
) -> None:
    """Raise Misuse, naming argument, value and fix, for what makes no fork."""
    if at is not None and (type(at) is not int or at < 1):
        raise Misuse(f"fork: at={at!r} must be a seq, as `perdure log` shows them")
    if budget is not None and not isinstance(budget, Budget):
        raise Misuse(f"fork: budget={budget!r} is no Budget; give Budget(tokens=…)")
    for name, text in (("goal", goal), ("key", key)):
        if text is None:
            continue
        if not isinstance(text, str) or not text.strip() or not is_storable(text):
            raise Misuse(f"fork: {name}={text!r} must be text, or left out")
        if len(text) > LONGEST:
            raise Misuse(
                f"fork: {name} has {len(text)} characters, {LONGEST} are allowed"
            )


def kept_of(reader: Reader, task: str) -> str:
    """What somebody who would erase a task has to know of its forks, and to say."""
    forks = forks_of(
        reader, [task, *(one.key for one in reader.rows(TASK_ROWS, f"{task}."))]
    )
    kept = f"; its forks {', '.join(forks)} keep what they took over" if forks else ""
    return f"{kept}: say so with --yes"


def check_step(step: object) -> None:
    """Raise Misuse unless this can be the id of a step."""
    if not isinstance(step, str) or not is_storable(step):
        raise Misuse(f"retry: step={step!r} must be the id of a step")
