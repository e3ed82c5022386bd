"""What callers outside ask of admission: submit, cancel; and how each is answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from ...storage.errors import Fenced, Rejected
from ...storage.records import Row
from ..errors import Misuse
from ..events import (
    ApprovalAnswered,
    EffectResolved,
    Event,
    QuestionAnswered,
    TaskLeft,
    TaskRecalled,
    TaskWoken,
)
from ..names import KEYS, TASK_ROWS
from ..names import task as task_name
from ..protocol import (
    Adopt,
    Answer,
    Asked,
    Cancel,
    Fork,
    Order,
    Pause,
    Queued,
    Reply,
    Resolve,
    Retry,
    Steer,
    Submit,
    WakeAgain,
)
from ..task.rows import (
    COMES,
    ENDED,
    PASSIVE,
    TaskRow,
    answer_of,
    no_timer,
    queued_row,
    said_of,
)
from .entering import enter
from .place import Place

if TYPE_CHECKING:
    from .actor import Admission

__all__ = ["Callers", "leaving"]


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
        known = admission.lines.with_key(key)
        if known is not None:
            self._answer(message, known)
            return

        def found(row: bytes | None) -> None:
            earlier = admission.lines.with_key(key) or (row.decode() if row else None)
            if earlier is not None:
                self._answer(message, earlier)
            else:
                self._queue(message)

        admission.read(lambda reader: reader.row(KEYS, key), found)

    def _queue(self, message: Submit) -> None:
        admission, task = self._admission, message.task
        try:
            enter(admission, task)
        except (Rejected, Fenced):
            self._taken_before(message)
            return
        self._answer(message, task.task)

    def _answer(self, message: Submit, task: str) -> None:
        admission, promise = self._admission, message.promise
        if promise is not None:
            admission.when_durable(admission.last_seq, lambda: promise.set(task))
        self._tell_parent(message)

    def _tell_parent(self, message: Submit) -> None:
        """Answer a parent once its sub-task is durable."""
        admission, reply_to = self._admission, message.reply_to
        if reply_to is not None:
            queued = Queued(task=message.task.task)
            admission.when_durable(admission.last_seq, lambda: reply_to.tell(queued))

    def _taken_before(self, message: Submit) -> None:
        """The stream exists: this was submitted before a crash, and has ended since."""
        task, promise = message.task.task, message.promise
        self._tell_parent(message)
        if promise is None:
            return

        def found(row: bytes | None) -> None:
            if row is None:
                promise.fail(Misuse(f"task {task} cannot be stored"))
            else:
                promise.set(task)

        self._admission.read(lambda reader: reader.row(TASK_ROWS, task), found)

    def let_go(self, task: str) -> None:
        """Hold a task of an earlier process, and what it waits for, no longer."""
        admission = self._admission
        admission.held.discard(task)
        for name in sorted(n for n in admission.held if n.startswith(f"{task}.")):
            admission.held.discard(name)
            admission.activation.reactivate(name)

    def waking(
        self, row: TaskRow, order: Literal["resume", "again", "compensate"], by: str
    ) -> tuple[list[Event], list[Row]]:
        """What wakes a task that waits or is just about to; nothing for another."""
        place = self._admission.place(row.task)
        if place is None or row.status in ENDED:
            return [], []
        if place.order == "cancel" and place.where != "parked":
            return [], []  # a cancel is not taken back
        if place.where not in ("waiting", "parked") and not leaving(place, row):
            return [], []
        if place.order == "compensate" and place.where == "parked":
            order, by = "compensate", place.by
        woken = TaskWoken(task=row.task, order=order, by=by)
        return [woken], [queued_row(row)]

    def wake_again(self, message: WakeAgain) -> None:
        """Wake a task that waits for what has come; an active one looks when it stops.

        One that waits for something else stays where it is.
        """
        admission, task = self._admission, message.task
        if (message.promise or message.command) and task in admission.held:
            admission.held.discard(task)  # somebody wants it to go on; no timer does
            admission.activation.reactivate(task)
        elif message.by == "timer" and not message.command:
            place = admission.state.tasks.get(task)
            if place is not None and place.where == "queued":
                admission.ripe.add(task)

        def found(row: TaskRow) -> None:
            place = admission.place(task)
            if message.by != "timer" or place is None or not place.is_early:
                self._wake_again(message, row, "it goes on")
                return
            come = msgspec.structs.replace(place, not_before=0.0)
            recalled = TaskRecalled(task=task, place=come)
            admission.append(recalled, rows=[no_timer(task, 0, place.not_before)])

        admission.with_row(task, found)

    def wake_parent(self, message: WakeAgain, row: TaskRow, left: TaskLeft) -> None:
        """A sub-task has left; its parent looks at it, now or when it stops."""
        self._wake_again(message, row, "", left)

    def wake_resolved(
        self, message: Resolve, row: TaskRow, said: str, event: EffectResolved, to: Row
    ) -> None:
        """Somebody said how an effect ended; its task looks, now or when it stops."""
        self._wake_again(message, row, said, event, rows=[to])

    def wake_answered(
        self,
        message: Answer,
        row: TaskRow,
        event: ApprovalAnswered,
        said: str,
        warning: Sequence[Row],
    ) -> None:
        """Somebody answered an approval; its task looks, now or when it stops."""
        rows = [answer_of(event), *warning]
        self._wake_again(message, row, said, event, rows=rows)

    def wake_replied(
        self,
        message: Reply,
        row: TaskRow,
        event: QuestionAnswered,
        warning: Sequence[Row],
    ) -> None:
        """Somebody answered a question; its task looks, now or when it stops."""
        rows = [said_of(event), *warning]
        self._wake_again(message, row, "answered", event, rows=rows)

    def _wake_again(
        self,
        message: WakeAgain | Answer | Reply | Resolve,
        row: TaskRow,
        said: str,
        *events: Event,
        rows: Sequence[Row] = (),
    ) -> None:
        place = self._admission.place(row.task)
        woken: list[Event] = []
        more: list[Row] = []
        asleep = place is not None and place.where != "parked" and not place.woken
        if place is not None and asleep and place.order != "cancel":
            if row.status in PASSIVE and row.reason in COMES:
                woken, more = self.waking(row, "again", message.by)
            # An active task looks when it stops. One that waits may have stopped
            # after its row was read; it looks for itself what it waits for.
            stale = place.where == "waiting" and row.epoch != place.epoch
            if not woken and (stale or place.where == "active"):
                woken = [_look_again(place, row.task, message.by)]
        elif place is not None and _stops_woken(place, row):
            more = [queued_row(row)]  # who waits for it need not hear of this stop
        self.conclude(message, True, said, *events, *woken, rows=[*rows, *more])
        if place is not None and place.where == "active":
            order = Order(what="answer", by=message.by)
            self._admission.house.address(task_name(row.task)).tell(order)

    def conclude(
        self,
        message: Asked,
        done: bool,
        said: str,
        *events: Event,
        rows: Sequence[Row] = (),
        value: object = None,
    ) -> None:
        """Append what was done, and answer whoever asked for it.

        A promise is answered with `done`, or with a `value` in its place.
        """
        admission = self._admission
        seq = admission.last_seq
        if message.command:
            kind = _kind(message)
            task = message.task
            admission.commands.apply(
                message.command, kind, task, done, said, *events, rows=rows
            )
        elif events:
            seq = admission.append(*events, rows=rows)
        promise = message.promise
        if promise is not None:
            admission.when_durable(seq, lambda: promise.set(value or done))

    def refuse(self, message: Asked, why: str) -> None:
        """Tell whoever asked why it is not done; who called is to blame for it."""
        if message.command:
            self.conclude(message, False, why)
        elif message.promise is not None:
            message.promise.fail(Misuse(why))

    def wake(self, task: str, by: str) -> None:
        """Wake a parked task whose reason is gone; nobody asked for it."""
        admission = self._admission

        def found(row: TaskRow) -> None:
            place = admission.place(task)
            if place is not None and place.where == "parked":
                events, rows = self.waking(row, "resume", by)
                admission.append(*events, rows=rows)

        admission.with_row(task, found)

    def cancel(self, message: Cancel) -> None:
        """Write down that a task is to end, and wake it for that."""
        admission = self._admission
        task = message.task
        admission.held.discard(task)

        def found(row: TaskRow) -> None:
            place = admission.place(task)
            if place is None:
                self.conclude(message, False, f"it has ended: {row.status}")
                return
            active = place.where == "active"
            woken: list[Event] = []
            rows: list[Row] = []
            wanted: Literal["cancel", "compensate"] = "cancel"
            said = "it is to end"
            if active:
                said = admission.pausing.stops(task, "is to end")
            if message.compensate:
                if place.order == "cancel":
                    said = "it is to end already, and its effects stay as they are"
                    self.conclude(message, False, said)
                    return
                wanted = "compensate"
                said = "it is to end, once its effects are taken back"
            under_way = message.compensate and row.compensates
            if place.where == "parked" or not (place.order == wanted or under_way):
                # The row of an active task is its own: it may just have ended.
                rows = [] if active or row.status in ENDED else [queued_row(row)]
                woken = [TaskWoken(task=task, order=wanted, by=message.by)]
            self.conclude(message, True, said, *woken, rows=rows)
            if active:
                order = Order(what=wanted, by=message.by)
                admission.activation.order(task, order)
                admission.activation.reactivate(task)

        admission.with_row(task, found)


def _stops_woken(place: Place, row: TaskRow) -> bool:
    """Whether an active task has stopped for what has come meanwhile: it goes on."""
    stopped = row.status in PASSIVE and row.epoch == place.epoch
    return stopped and place.where == "active" and row.reason in COMES


def leaving(place: Place, row: TaskRow) -> bool:
    """Whether a task has paused, and nothing has it go on.

    It may be active still, or queued for a look at something else that came.
    """
    if place.where not in ("active", "queued") or row.status not in PASSIVE:
        return False
    again = place.order == "again" and row.reason in COMES
    goes_on = again or place.order in ("resume", "compensate")
    return not (goes_on and place.since > row.epoch)


def _look_again(place: Place, task: str, by: str) -> TaskWoken:
    """Have an active task look when it stops; what it may not have heard yet stays."""
    if place.order == "compensate" and place.where == "active":
        return TaskWoken(task=task, order="compensate", by=place.by)
    return TaskWoken(task=task, order="again", by=by)


def _kind(message: Asked) -> str:
    """What a command of the inbox that asks for this is called."""
    match message:
        case Cancel():
            return "cancel"
        case Adopt():
            return "adopt"
        case Pause():
            return "pause"
        case WakeAgain():
            return "extend"
        case Answer(approved=approved, arguments=instead):
            return "approve" if approved or instead else "reject"
        case Reply():
            return "answer"
        case Resolve():
            return "resolve"
        case Retry():
            return "retry"
        case Fork():
            return "fork"
        case Steer():
            return "steer"
        case _:
            return "resume"
