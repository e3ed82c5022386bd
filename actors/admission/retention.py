"""Admission's part for what ended tasks need no more: it goes some time after the end.

    a task leaves -> its row says when -> due: search in slices -> parts, one at a time

Each part is one small transaction, and the next one waits for a moment: what runs is
never held up. Nothing is begun while the runtime closes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...storage.records import Row
from ..events import ScratchDropped
from ..names import ENDED_ROWS
from .trim import Part, Round

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...storage.reader import Reader
    from .actor import Admission

__all__ = ["GoOn", "LookBack", "Retention", "ended_row"]

FIRST = 1.0  # seconds from the opening to the first look
LONGEST = 3600.0  # seconds; the clock may be set meanwhile
PAUSE = 0.05  # seconds between two parts
AGAIN = 1.0  # seconds until a part is tried that somebody stood in the way of
TOGETHER = 16  # tasks that are searched at a time


class LookBack(msgspec.Struct, frozen=True, kw_only=True):
    """It may be time for the task that ended first."""


class GoOn(msgspec.Struct, frozen=True, kw_only=True):
    """The pause between two parts is over."""


def ended_row(task: str, at: float) -> Row:
    """The row of a task that ended, among those that have scratch; oldest first."""
    return Row(space=ENDED_ROWS, key=f"{int(at):012d}/{task}", value=b"{}")


class Retention:
    """Lets scratch go, one part after another; off where the house keeps all."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._rings_at = 0.0
        self._round: Round | None = None
        self._keys: dict[str, str] = {}  # rows of the round, by task
        self._part: Part | None = None  # that waits for its time

    def opened(self) -> None:
        """Look soon what came due while no runtime had the store."""
        if self._admission.house.retention is not None:
            self._ring(self._admission.house.now() + FIRST)

    def left(self, at: float) -> None:
        """A task has ended at a second since the epoch."""
        retention = self._admission.house.retention
        if retention is not None and not self._rings_at and self._round is None:
            self._ring(at + retention)

    def _ring(self, at: float) -> None:
        self._rings_at = at
        wait = min(max(at - self._admission.house.now(), PAUSE), LONGEST)
        self._admission.after(wait, LookBack())

    def look(self) -> None:
        """Begin with the tasks that are due, unless some are under way."""
        admission = self._admission
        self._rings_at = 0.0
        if self._round is not None or admission.drains is not None:
            return
        if admission.erasing.busy:
            self._ring(admission.house.now() + AGAIN)
            return

        def found(rows: Sequence[Row]) -> None:
            retention = admission.house.retention
            assert retention is not None
            now = admission.house.now()
            due = {
                row.key.partition("/")[2]: row.key
                for row in rows
                if _ended(row) + retention <= now
            }
            if due and self._round is None:
                self._keys = due
                self._round = Round(
                    list(due),
                    admission.house.event_of,
                    lambda event: admission.draft("", 1, event),
                    now,
                )
                self.go_on()
            elif rows and not due and not self._rings_at:
                self._ring(_ended(rows[0]) + retention)

        def read(reader: Reader) -> list[Row]:
            return reader.rows_after(ENDED_ROWS, "", TOGETHER)

        admission.read(read, found)

    def go_on(self) -> None:
        """Take the part that waits, or read on to the next one."""
        admission, part, current = self._admission, self._part, self._round
        if current is None or admission.drains is not None:
            return
        if admission.erasing.busy:
            self._begin_anew()
            return
        if part is not None:
            self._take(part)
            return

        def found(step: Part | bool) -> None:
            if isinstance(step, Part):
                self._take(step)
            elif step:
                self.go_on()
            else:
                self._round = None
                self.look()

        admission.read(current.step, found)

    def _begin_anew(self) -> None:
        """Two who let go would each take the other for one who needs a value yet."""
        self._round = self._part = None
        self._ring(self._admission.house.now() + AGAIN)

    def _take(self, part: Part) -> None:
        admission = self._admission
        if admission.erasing.busy:
            self._begin_anew()
            return
        if part.task in admission.forks.under_way:  # it is being read
            self._part = part
            admission.after(AGAIN, GoOn())
            return
        self._part = None
        rows = list(part.rows)
        if part.over:
            rows.append(Row(space=ENDED_ROWS, key=self._keys[part.task], value=None))
            if part.why:  # perhaps a later perdure knows its records
                rows.append(ended_row(part.task, admission.house.now()))
        dropped = ScratchDropped(
            task=part.task,
            records=part.records,
            emptied=part.emptied,
            values=0 if part.erasure is None else len(part.erasure.blobs),
            over=part.over,
            why=part.why,
        )
        seq = admission.append(dropped, rows=rows, erasure=part.erasure)
        if part.over:
            library = admission.house.library
            admission.when_durable(seq, lambda: library.renew(part.names))
        admission.once_durable(seq, self._rest)

    def _rest(self) -> None:
        self._admission.after(PAUSE, GoOn())


def _ended(row: Row) -> float:
    """The second since the epoch at which a row's task ended."""
    return float(row.key.partition("/")[0])
