"""Pauses that people ask for: durable, for a whole tree, whatever its tasks do now.

A running task stops after the operations in flight, over every crash; one that is
queued or waits is taken out of the queue at once. A pause goes down to sub-tasks, and
whoever resumes a task resumes those that it had paused with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from ...storage.reader import Reader
from ...storage.records import Row
from ..events import Event, PauseAsked, PauseLifted, TaskParked, TaskWoken
from ..names import TASK_ROWS
from ..protocol import Order, Pause, Resume
from ..task.rows import COMES, ENDED, PASSIVE, TaskRow, queued_row

if TYPE_CHECKING:
    from .actor import Admission
    from .place import Place

__all__ = ["Pausing"]

OPERATOR = "operator"  # the reason of a pause that somebody asked for


class Pausing:
    """Admission's part for pauses, and for their ends."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    # ── pause ────────────────────────────────────────────────────────────────────

    def pause(self, message: Pause) -> None:
        """Have a task and its sub-tasks stop; say what is so."""
        admission = self._admission

        def found(known: dict[str, TaskRow]) -> None:
            row, place = known.get(message.task), self._place(message.task)
            if row is None:
                callers.conclude(message, False, f"no task {message.task!r}")
            elif place is None or row.status in ENDED:
                callers.conclude(message, False, f"it has ended: {row.status}")
            elif place.order == "cancel":
                callers.conclude(message, False, "it is to end, and pauses no more")
            else:
                self._pause(message, known)

        callers = admission.callers
        admission.read_about(dict.keys, _rows_of(message.task), found)

    def _pause(self, message: Pause, known: dict[str, TaskRow]) -> None:
        admission, root = self._admission, message.task
        said = self._said(known[root])
        events: list[Event] = []
        rows: list[Row] = []
        orders: list[str] = []
        for task, row in known.items():
            place = self._place(task)
            if place is None or place.order == "cancel" or place.pausing:
                continue
            by = message.by if task == root else _by_parent(root)
            asked = PauseAsked(task=task, by=by)
            if self._runs(task):
                if not _is_paused(row) or place.epoch != row.epoch:
                    events.append(asked)
                    orders.append(task)
            elif place.where != "parked" and not _is_paused(row):
                events += [asked, _parked(task, by)]
                rows.append(_paused_row(row, by))
        beside = [one for one in known if one != root and self._place(one) is not None]
        if events and beside:
            said = f"{said}; with its sub-tasks {', '.join(beside)}"
        admission.callers.conclude(message, True, said, *events, rows=rows)
        for task in orders:
            place = admission.state.tasks[task]
            order = Order(what="pause", by=place.pausing)
            admission.activation.order(task, order)

    def _said(self, row: TaskRow) -> str:
        """What a pause makes of a task, in words."""
        place = self._place(row.task)
        assert place is not None
        if place.where == "parked" and not place.pausing:
            return f"it is {row.status} already"
        if self._runs(row.task) and not (_is_paused(row) and place.epoch == row.epoch):
            return self.stops(row.task, "pauses at its next point")
        if _is_paused(row) or place.pausing:
            return f"it is paused, for {row.reason or OPERATOR}: {row.ends_with}"
        return "it is paused"

    def stops(self, task: str, how: str) -> str:
        """What is said of a running task that is to stop: after what it does so."""
        now = self._admission.house.executor.names_of(task)
        if not now:
            return f"it {how}"
        return f"it {how}, after what runs now: {', '.join(now)}; it may end before"

    def _runs(self, task: str) -> bool:
        """Whether a task is active, or chosen to be."""
        admission = self._admission
        place = admission.state.tasks.get(task)
        active = place is not None and place.where == "active"
        return active or task in admission.activation.starting

    def _place(self, task: str) -> Place | None:
        return self._admission.place(task)

    # ── what a stop was, and what it is to be ────────────────────────────────────

    def opened(self) -> None:
        """Take up what an admission that ended before could not settle."""
        for task in self._admission.state.tasks:
            self.stopped(task)

    def stopped(self, task: str) -> None:
        """A task has stopped by itself: it stays so, or goes on, as people want it."""
        admission = self._admission
        place = self._place(task)
        if place is None or not (place.pausing or place.lifted):
            return
        if place.where not in ("queued", "waiting"):
            return
        starting = admission.activation.starting
        starting.add(task)  # nothing is begun until its row is read

        def found(row: TaskRow) -> None:
            starting.discard(task)
            place = self._place(task)
            if place is None or place.where not in ("queued", "waiting"):
                return
            if place.pausing and not _is_paused(row) and row.status not in ENDED:
                admission.append(
                    _parked(task, place.pausing), rows=[_paused_row(row, place.pausing)]
                )
            elif place.lifted and row.reason == OPERATOR and row.status in PASSIVE:
                # It had paused as the pause was lifted.
                woken = TaskWoken(task=task, order="resume", by="resume")
                admission.append(woken, rows=[queued_row(row)])

        admission.with_row(task, found)

    # ── resume ───────────────────────────────────────────────────────────────────

    def resume(self, message: Resume) -> None:
        """Wake a task that waits, is parked, or is just about to wait."""
        admission = self._admission
        task = message.task
        if task in admission.held:
            admission.callers.let_go(task)
            place = admission.state.tasks.get(task)
            if place is not None and place.where in ("queued", "active"):
                lifted = [self._lifted(message)] if place.pausing else []
                admission.activation.reactivate(task)
                admission.callers.conclude(message, True, "it goes on", *lifted)
                return

        def found(known: dict[str, TaskRow]) -> None:
            row = known.get(task)
            if row is not None:
                self._resume(message, row, known)

        admission.read_about(dict.keys, _rows_of(task), found)

    def _resume(self, message: Resume, row: TaskRow, known: dict[str, TaskRow]) -> None:
        admission, callers = self._admission, self._admission.callers
        events, rows = callers.waking(row, "resume", message.by)
        lifted: list[str] = []
        if not events and self._is_stopping(row):
            events.append(self._lifted(message))
            lifted.append(row.task)
        for name, child in known.items():
            place = self._place(name)
            if place is None or place.pausing != _by_parent(row.task):
                continue
            woken, more = callers.waking(child, "resume", message.by)
            if not woken and self._is_stopping(child):
                woken = [PauseLifted(task=name, by=message.by)]
                lifted.append(name)
            events += woken
            rows += more
        said = _goes_on(row) if events else "it was not waiting"
        # Where none waited somebody else may have just woken it: the answer comes once
        # the store says so.
        callers.conclude(message, bool(events), said, *events, rows=rows)
        for name in lifted:
            order = Order(what="unpause", by=message.by)
            admission.activation.order(name, order)

    def _is_stopping(self, row: TaskRow) -> bool:
        place = self._place(row.task)
        return place is not None and bool(place.pausing) and self._runs(row.task)

    def _lifted(self, message: Resume) -> PauseLifted:
        return PauseLifted(task=message.task, by=message.by)


def _by_parent(task: str) -> str:
    return f"its parent {task}"


def _is_paused(row: TaskRow) -> bool:
    """Whether only a person's word has a task go on that has stopped."""
    return row.status == "paused" and row.reason not in COMES


def _parked(task: str, by: str) -> TaskParked:
    return TaskParked(task=task, status="paused", reason=by, ends_with="resume")


def _paused_row(row: TaskRow, by: str) -> Row:
    new = msgspec.structs.replace(
        row, status="paused", reason=OPERATOR, detail=by, ends_with="resume"
    )
    return Row(space=TASK_ROWS, key=row.task, value=msgspec.json.encode(new))


def _rows_of(task: str) -> Callable[[Reader], dict[str, TaskRow]]:
    """A look at the rows of a task and its sub-tasks, its own first."""

    def rows(reader: Reader) -> Iterator[TaskRow]:
        own = reader.row(TASK_ROWS, task)
        values = [own, *(row.value for row in reader.rows(TASK_ROWS, f"{task}."))]
        for value in values:
            if value is not None:
                yield msgspec.json.decode(value, type=TaskRow)

    return lambda reader: {row.task: row for row in rows(reader)}


def _goes_on(row: TaskRow) -> str:
    """What a resume brings: what only a person can end is waited for as before."""
    if row.reason in ("approval", "question"):
        return f"it is looked at again, and waits as before: {row.ends_with}"
    return "it goes on"
