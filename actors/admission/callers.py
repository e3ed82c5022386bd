"""What callers outside ask of admission: submit, resume, pause, cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...storage.errors import Fenced, Rejected
from ...storage.records import Row
from ...supervision.faults import hit
from ...supervision.promise import Promise
from ..errors import Misuse
from ..events import TaskQueued, TaskWoken
from ..names import KEYS, TASK_ROWS
from ..names import task as task_name
from ..protocol import Cancel, Order, Resume, Submit
from ..task.rows import TaskRow, task_row

if TYPE_CHECKING:
    from .actor import Admission

__all__ = ["Callers"]


class Callers:
    """Admission's part for callers; each is answered once what was done is durable."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    def submit(self, message: Submit) -> None:
        """Queue a task, or find the one that the same key or id gave before."""
        admission = self._admission
        key, task = message.task.key, message.task.task
        if task in admission.state.tasks:  # asked again: an answer was lost in a crash
            self._answer(message, task)
            return
        if key is None:
            self._queue(message)
            return
        known = admission.state.with_key(key)
        if known is not None:
            self._answer(message, known)
            return

        def found(row: bytes | None) -> None:
            earlier = admission.state.with_key(key) or (row.decode() if row else None)
            if earlier is not None:
                self._answer(message, earlier)
            else:
                self._queue(message)

        admission.read(lambda reader: reader.row(KEYS, key), found)

    def _queue(self, message: Submit) -> None:
        admission = self._admission
        task = message.task
        stream = f"task/{task.task}"
        rows = [task_row(task, "queued")]
        if task.key is not None:
            rows.append(Row(space=KEYS, key=task.key, value=task.task.encode()))
        first = admission.draft(stream, 1, task)
        first = msgspec.structs.replace(first, rows=tuple(rows))
        queued = TaskQueued(
            task=task.task,
            agent=task.agent,
            group=task.group,
            priority=task.priority,
            key=task.key,
        )
        try:
            lease = admission.house.journal.acquire(stream, 0)
            admission.append(queued, also=[(lease, [first])])
        except (Rejected, Fenced):
            self._taken_before(message)
            return
        hit("admission.queued", task.agent)
        self._answer(message, task.task)

    def _answer(self, message: Submit, task: str) -> None:
        admission = self._admission
        admission.when_durable(admission.last_seq, lambda: message.promise.set(task))

    def _taken_before(self, message: Submit) -> None:
        """The stream exists: this was submitted before a crash, and has ended since."""
        task = message.task.task

        def found(row: bytes | None) -> None:
            if row is None:
                message.promise.fail(Misuse(f"task {task} cannot be stored"))
            else:
                message.promise.set(task)

        self._admission.read(lambda reader: reader.row(TASK_ROWS, task), found)

    def resume(self, message: Resume) -> None:
        """Wake a task that waits, is parked, or is just about to wait."""
        admission = self._admission
        task = message.task
        if task in admission.held:
            admission.held.discard(task)
            if admission.state.tasks[task].where in ("queued", "active"):
                admission.activation.reactivate(task)
                message.promise.set(True)
                return

        def found(row: TaskRow) -> None:
            place = admission.state.tasks.get(task)
            leaving = place is not None and place.where == "active"
            if place is None or not (
                place.where in ("waiting", "parked")
                or (leaving and row.status == "paused")
            ):
                # Perhaps somebody else has just woken it: the store says so first.
                seq = admission.last_seq
                admission.when_durable(seq, lambda: message.promise.set(False))
                return
            woken = TaskWoken(task=task, order="resume", by=message.by)
            seq = admission.append(woken, rows=[_queued_row(row)])
            admission.when_durable(seq, lambda: message.promise.set(True))

        admission.with_row(task, found)

    def wake(self, task: str, by: str) -> None:
        """Wake a parked task whose reason is gone; nobody asked for it."""
        admission = self._admission

        def found(row: TaskRow) -> None:
            if admission.state.tasks[task].where == "parked":
                woken = TaskWoken(task=task, order="resume", by=by)
                admission.append(woken, rows=[_queued_row(row)])

        admission.with_row(task, found)

    def cancel(self, message: Cancel) -> None:
        """Write down that a task is to end, and wake it for that."""
        admission = self._admission
        task = message.task
        admission.held.discard(task)

        def found(row: TaskRow) -> None:
            place = admission.state.tasks.get(task)
            if place is None:
                message.promise.set(False)
                return
            active = place.where == "active"
            if place.order != "cancel" or place.where == "parked":
                # The row of an active task is its own: it may just have ended.
                rows = [] if active else [_queued_row(row)]
                woken = TaskWoken(task=task, order="cancel", by=message.by)
                admission.append(woken, rows=rows)
            seq = admission.last_seq
            admission.when_durable(seq, lambda: message.promise.set(True))
            if active:
                order = Order(what="cancel", by=message.by)
                admission.house.address(task_name(task)).tell(order)
                admission.activation.reactivate(task)

        admission.with_row(task, found)

    def pause(self, task: str, by: str, promise: Promise) -> None:
        """Tell a running task to pause; it is told again when it restarts."""
        admission = self._admission
        place = admission.state.tasks.get(task)
        if place is None or place.where != "active":
            promise.set(False)
            return
        order = Order(what="pause", by=by)
        admission.activation.orders[task] = order
        admission.house.address(task_name(task)).tell(order)
        promise.set(True)


def _queued_row(row: TaskRow) -> Row:
    """The task's row once it is in the queue again."""
    new = msgspec.structs.replace(
        row, status="queued", reason="", detail="", ends_with=""
    )
    return Row(space=TASK_ROWS, key=row.task, value=msgspec.json.encode(new))
