"""What the pool remembers of the rows that it alone writes, so that few are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from ...storage.reader import Reader
from ..events import Amounts, Granted
from ..names import GRANTS
from .account import lowered

if TYPE_CHECKING:
    from .pool import Pool

__all__ = ["RETURNED", "Given", "Recent"]

RETURNED = "returned"  # a row for each task that has given its grants back

PER_SLOT = 2  # tasks remembered for each that may be active


class Given(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a task that has not ended was granted, by grant; a row of the pool's.

    The grants in `passed` are within the grant of another task, and not out once more.
    """

    grants: dict[str, Amounts] = msgspec.field(default_factory=dict)
    passed: tuple[str, ...] = ()

    def plus(self, granted: Granted) -> Given:
        """What it is with one more grant."""
        return Given(
            grants={**self.grants, granted.grant: granted.amounts},
            passed=(*self.passed, granted.grant) if granted.parent else self.passed,
        )

    def own(self, grant: str) -> bool:
        """Whether the pool really gave it: neither passed on, nor a limit lowered."""
        return grant not in self.passed and not lowered(self.grants[grant])


Then: TypeAlias = Callable[[Given, bool], None]


class Recent:
    """What the tasks that were asked about last have; of others the rows tell.

    While a row is read, whatever else concerns its task waits in line: nothing is
    written about it meanwhile, and what was found is the newest.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        # What each has, whether it has given all back, and the seq it is sure from.
        self._known: dict[str, tuple[Given, bool, int]] = {}
        self._lines: dict[str, list[Then]] = {}
        self._forgotten = 0  # the newest seq that one was written with, at most

    def __len__(self) -> int:
        return len(self._known)

    def opened(self) -> None:
        """Earlier incarnations have written what is not known here."""
        self._forgotten = self._pool.last_seq

    def look(
        self, task: str, then: Then, as_of: int = 0, row: bytes | None = None
    ) -> None:
        """Go on with what a task has, and whether it has given all back before.

        Behind seq `as_of`, where it is not 0, somebody found this `row` of it.
        """
        line = self._lines.get(task)
        if line is not None:
            line.append(then)
            return
        if task not in self._known:
            if not as_of or self._forgotten > as_of:
                self._lines[task] = [then]
                self._read(task)
                return
            self.keep(task, _given(row))
        given, ended, _ = self._known[task]
        then(given, ended)

    def keep(self, task: str, given: Given, *, ended: bool = False) -> None:
        """That is how it stands now."""
        self._known.pop(task, None)  # it is the newest now
        self._known[task] = given, ended, self._pool.last_seq
        most = PER_SLOT * self._pool.house.baseline.active_tasks
        while len(self._known) > most:
            _, _, seq = self._known.pop(next(iter(self._known)))
            self._forgotten = max(self._forgotten, seq)

    def _read(self, task: str) -> None:
        def look(reader: Reader) -> tuple[bytes | None, bool]:
            return reader.row(GRANTS, task), reader.row(RETURNED, task) is not None

        def found(rows: tuple[bytes | None, bool]) -> None:
            value, ended = rows
            self.keep(task, _given(value), ended=ended)
            for then in self._lines.pop(task):
                self.look(task, then)

        self._pool.read(look, found)


def _given(row: bytes | None) -> Given:
    return Given() if row is None else msgspec.json.decode(row, type=Given)
