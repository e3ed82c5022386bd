"""Admission's part for forks: the source is read in slices, then the fork is queued.

A fork is a task of its own, with a ledger of its own: what its source did it can
neither resolve nor take back, and the same call is another effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...storage.errors import Fenced, Rejected, Undecodable
from ...storage.inbox import answer_row
from ...storage.reader import Reader
from ...storage.records import Row
from ...supervision.faults import hit
from ..errors import Misuse
from ..events import CommandApplied
from ..names import KEYS, TASK_ROWS
from ..protocol import Fork
from ..task import forked
from .commands import CommandAnswer
from .entering import enter
from .source import Source

if TYPE_CHECKING:
    from .actor import Admission

__all__ = ["Forks"]


class Forks:
    """Makes forks; each once, however often it is asked for.

    `under_way` are the tasks that are being read: they are not erased meanwhile, since
    a fork that comes to be is named by their erasure.
    """

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.under_way: list[str] = []

    def fork(self, message: Fork) -> None:
        """Fork a task, or find the one that the same key or id gave before."""
        admission, key = self._admission, message.key
        self.under_way.append(message.task)

        def look(reader: Reader) -> str | None:
            if reader.row(TASK_ROWS, message.new) is not None:
                return message.new  # asked again: an answer was lost in a crash
            row = reader.row(KEYS, key) if key is not None else None
            return row.decode() if row is not None else None

        def found(same: str | None) -> None:
            if same == message.task:
                why = f"key={key!r} is the one that {same} has; give its fork another"
                self._refuse(message, why)
            elif same is not None:
                self._answer(message, same)
            else:
                self._go_on(message, Source(message, admission.house.event_of))

        admission.read(look, found)

    def _go_on(self, message: Fork, source: Source) -> None:
        def run(reader: Reader) -> bool | str:
            try:
                return source.step(reader)
            except (Undecodable, Misuse) as error:
                return str(error)

        def found(more: bool | str) -> None:
            if isinstance(more, str):
                self._refuse(message, more)
            elif more:
                self._go_on(message, source)
            else:
                self._queue(message, source)

        self._admission.read(run, found)

    def _queue(self, message: Fork, source: Source) -> None:
        admission, house = self._admission, self._admission.house
        state = source.state
        agent = house.agents.get(state.task.agent)
        if agent is None:
            known = ", ".join(sorted(house.agents)) or "none"
            name = state.task.agent
            self._refuse(
                message, f"no agent {name!r} is registered (there are: {known})"
            )
            return
        task = forked.submission(state, message, agent, house.baseline, house.now())
        task = msgspec.structs.replace(task, forked=forked.place(state, source.seq))
        begins = forked.seed(state, task, source.done, message.by)
        beside, rows = _applied(message, message.new)
        try:
            seq = enter(
                admission,
                task,
                begins=begins,
                beside=beside,
                rows=rows,
                notes=len(state.steering),
            )
        except (Rejected, Fenced) as error:
            self._refuse(message, f"the fork cannot be stored: {error}")
            return
        admission.erasing.forked(message.task, message.new)
        if message.command:
            hit("inbox.applied", "fork")
        self._tell(message, seq, message.new)

    def _answer(self, message: Fork, task: str) -> None:
        admission = self._admission
        beside, rows = _applied(message, task)
        seq = admission.last_seq
        if beside:
            seq = admission.append(*beside, rows=rows)
        self._tell(message, seq, task)

    def _tell(self, message: Fork, seq: int, task: str) -> None:
        self.under_way.remove(message.task)
        promise = message.promise
        if promise is not None:
            self._admission.when_durable(seq, lambda: promise.set(task))

    def _refuse(self, message: Fork, why: str) -> None:
        self.under_way.remove(message.task)
        self._admission.callers.refuse(message, why)


def _applied(message: Fork, task: str) -> tuple[list[CommandApplied], list[Row]]:
    """What a command of the inbox leaves: its mark, and its answer."""
    if not message.command:
        return [], []
    applied = CommandApplied(
        command=message.command, kind="fork", task=message.task, done=True, said=task
    )
    answer = msgspec.json.encode(CommandAnswer(done=True, said=task))
    return [applied], [answer_row(message.command, answer)]
