"""Where a task stands, or stood at some place of the log; reads only.

Then it is read page by page, up to that place; now it has snapshots.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from ...storage.reader import Reader
from ...storage.records import Record
from ..errors import Misuse
from ..ledger import entry as entries
from ..ledger.entry import Entry, LedgerState
from ..names import TASK_ROWS, family, ledger
from ..protocol import Fork
from ..task.rows import ERASED, TaskRow
from ..task.standing import newest
from ..task.state import TaskState, apply
from ..task.trimmed import why_gone

if TYPE_CHECKING:
    from ..events import Event

__all__ = ["Source"]

PAGE = 1_000  # records of one slice


class Source:
    """The task that is forked, once `step` has said that it is read.

    `seq` is the place as of which it is: that of its newest record up to there.
    """

    def __init__(self, asked: Fork, event_of: Callable[[Record], Event]) -> None:
        self._asked = asked
        self._event_of = event_of
        self._seen = 0
        self._ledger = LedgerState()
        self.state = TaskState()
        self.seq = 0

    def step(self, reader: Reader) -> bool:
        """Read one slice more; True while there are others.

        Raises Misuse where there is nothing to fork, Undecodable where this code does
        not know a record.
        """
        task, at = self._asked.task, self._asked.at
        if not self._seen:
            self._check(reader)
        if at is None:
            return self._now(reader)
        page = reader.records(self._seen, PAGE, family(task))
        for record in page:
            if record.seq > at:
                return self._over()
            if record.stream == family(task):
                self.state = apply(self.state, self._event_of(record))
                self.seq = record.seq
            elif record.stream == ledger(task):
                self._ledger = entries.apply(self._ledger, self._event_of(record))
        if page:
            self._seen = page[-1].seq
            return True
        return self._over()

    def _now(self, reader: Reader) -> bool:
        task, event_of = self._asked.task, self._event_of
        stream = family(task)
        self.state, self.seq = newest(reader, stream, event_of, self.state, apply)
        self._ledger, _ = newest(
            reader, ledger(task), event_of, self._ledger, entries.apply
        )
        return self._over()

    def _check(self, reader: Reader) -> None:
        task, at = self._asked.task, self._asked.at
        row = reader.row(TASK_ROWS, task)
        if row is None:
            raise Misuse(f"there is no task {task!r}")
        if msgspec.json.decode(row, type=TaskRow).status == ERASED:
            raise Misuse(f"task {task} was erased: nothing is left to fork")
        last = reader.durable_seq
        if at is not None and at > last:
            raise Misuse(f"at={at}: the log ends at seq {last}")
        first = reader.records(0, 1, family(task))
        if at is not None and first and at < first[0].seq:
            raise Misuse(f"at={at}: task {task} begins at seq {first[0].seq}")

    def _over(self) -> bool:
        if self.state.submitted is None:
            raise Misuse(f"there is no task {self._asked.task!r}")
        if at := self.state.trimmed:
            raise Misuse(why_gone(self._asked.task, at, "no fork can begin there"))
        return False

    @property
    def done(self) -> list[Entry]:
        """The effects that were completed in the step that ran, oldest first."""
        step = self.state.step
        return [
            one
            for one in entries.in_order(self._ledger.entries.values())
            if step is not None
            and one.step == step.id
            and one.status == "completed"
            and one.effect != "read"
            and one.undoes is None
        ]
