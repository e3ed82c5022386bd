"""Admission alone moves tasks between the queue, activity, waiting and the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from ...storage.errors import Fenced, Rejected
from ...storage.reader import Reader
from ...storage.records import Draft, Lease, Record, Row
from ...supervision.faults import hit
from ...supervision.lifecycle import Crash, Down, Up
from ...supervision.promise import Promise
from ...supervision.protocol import (
    ChildFailed,
    ChildStarted,
    GiveUp,
    MayRestart,
    Restart,
    StartChild,
    StopChild,
)
from ...supervision.spec import ChildSpec
from ..durable import Durable, Folded
from ..errors import Misuse
from ..events import (
    Event,
    ProgressMade,
    RecoveriesForgiven,
    RecoveryBegan,
    TaskActivated,
    TaskLeft,
    TaskParked,
    TaskPassivated,
    TaskQueued,
    TaskSubmitted,
    TaskWoken,
)
from ..house import House
from ..names import ADMISSION, KEYS, POOL, TASK_ROWS, TASKS, family
from ..names import task as task_name
from ..protocol import (
    Allocate,
    Allocated,
    Cancel,
    Drain,
    Order,
    Pause,
    Progressed,
    Resume,
    Stopped,
    Submit,
)
from ..requests import Overdue, Requests
from ..task.rows import TaskRow, Wake, task_row
from .queue import QueueState, apply, due
from .strikes import why_park

__all__ = ["Admission"]


START_AGAIN = 1.0  # seconds until actors that did not start are started again


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """What this actor waited for, a read or a flush, has ended."""

    incarnation: int
    value: Any
    then: Callable[[Any], None]


class _StartAgain(msgspec.Struct, frozen=True, kw_only=True):
    """The pause after a failed start is over."""

    task: str


class Admission(Durable[QueueState]):
    """The queue, the slots, and the gate of recoveries.

    Args:
        family_of: makes the supervisor of a task's actors from task, epoch, agent and
            what it is woken for.
    """

    label = "admission"

    def __init__(
        self,
        house: House,
        epoch: int,
        family_of: Callable[[str, int, str, Wake], ChildSpec],
    ) -> None:
        super().__init__(house, ADMISSION, epoch, QueueState())
        self.family_of = family_of
        self.requests = Requests(self)
        self.starting: set[str] = set()
        self.idle: set[str] = set()  # active, but nothing of them runs here
        self.failures: dict[str, str] = {}  # why actors did not start, the last time
        self.orders: dict[str, Order] = {}
        self.farewells: dict[str, Stopped] = {}
        self.drains: list[Promise] | None = None
        self._strikes: dict[str, list[Callable[[Sequence[Record]], None]]] = {}

    def fold(self, state: QueueState, event: Event) -> QueueState:
        """Fold by the rules of the queue."""
        return apply(state, event)

    def loaded(self, folded: Folded) -> None:
        """Look which active tasks really run; the others are recovered or started."""
        if self.house.held is None:
            self.house.held = set() if self.house.resume else set(self.state.tasks)
        self.monitor(self.house.address(TASKS))
        for task in self.state.active():
            self._watch(task)
            if self.state.tasks[task].order == "cancel":  # perhaps not told of it yet
                order = Order(what="cancel", by=self.state.tasks[task].by)
                self.house.address(task_name(task)).tell(order)
        self._admit()

    @property
    def held(self) -> set[str]:
        """Tasks of earlier processes that nobody has resumed in this one."""
        assert self.house.held is not None
        return self.house.held

    def handle(self, message: Any) -> None:
        """Hear callers, tasks, the pool and the supervisors."""
        match message:
            case Submit():
                self._submit(message)
            case Resume():
                self._resume(message)
            case Pause(task=task, by=by, promise=promise):
                self._order(task, Order(what="pause", by=by), promise)
            case Cancel():
                self._cancel(message)
            case Drain(promise=promise):
                self._drain(promise)
            case Allocated(task=task, refusal=refusal):
                self._allocated(task, refusal)
            case Progressed(task=task):
                self._progressed(task)
            case Stopped(task=task):
                self.farewells[task] = message
            case MayRestart():
                self._may_restart(message)
            case ChildStarted(child=child):
                self._started(child.removeprefix("task/"))
            case ChildFailed(child=child, error=error):
                self._not_started(child.removeprefix("task/"), error)
            case _StartAgain(task=task):
                self._activate(task)
            case Down(name=name):
                self._down(name)
            case Up(name=name):
                self._up(name)
            case Overdue(key=key):
                self.requests.overdue(key)
            case _Found(incarnation=incarnation, value=value, then=then):
                if incarnation == self.incarnation:
                    if isinstance(value, BaseException):
                        raise value
                    then(value)
        self._admit()

    # ── in and out of the queue ──────────────────────────────────────────────────

    def _submit(self, message: Submit) -> None:
        key, task = message.task.key, message.task.task
        if task in self.state.tasks:  # asked again: an answer was lost in a crash
            self._answer(message, task)
            return
        if key is None:
            self._queue(message)
            return
        known = self.state.with_key(key)
        if known is not None:
            self._answer(message, known)
            return

        def found(row: bytes | None) -> None:
            earlier = self.state.with_key(key) or (row.decode() if row else None)
            if earlier is not None:
                self._answer(message, earlier)
            else:
                self._queue(message)

        self._read(lambda reader: reader.row(KEYS, key), found)

    def _queue(self, message: Submit) -> None:
        task = message.task
        stream = f"task/{task.task}"
        rows = [task_row(task, "queued")]
        if task.key is not None:
            rows.append(Row(space=KEYS, key=task.key, value=task.task.encode()))
        first = msgspec.structs.replace(self.draft(stream, 1, task), rows=tuple(rows))
        queued = TaskQueued(
            task=task.task,
            agent=task.agent,
            group=task.group,
            priority=task.priority,
            key=task.key,
        )
        try:
            lease = self.house.journal.acquire(stream, 0)
            self.append(queued, also=[(lease, [first])])
        except (Rejected, Fenced):
            self._taken_before(message)
            return
        hit("admission.queued", task.agent)
        self._answer(message, task.task)

    def _answer(self, message: Submit, task: str) -> None:
        """Answer a submit once the task is durable."""
        self.when_durable(self.last_seq, lambda: message.promise.set(task))

    def _taken_before(self, message: Submit) -> None:
        """The stream exists: this was submitted before a crash, and has ended since."""
        task = message.task.task

        def found(row: bytes | None) -> None:
            if row is None:
                message.promise.fail(Misuse(f"task {task} cannot be stored"))
            else:
                message.promise.set(task)

        self._read(lambda reader: reader.row(TASK_ROWS, task), found)

    def _resume(self, message: Resume) -> None:
        task = message.task
        if task in self.held:
            self.held.discard(task)
            if self.state.tasks[task].where in ("queued", "active"):
                self._reactivate(task)
                message.promise.set(True)
                return

        def found(row: TaskRow) -> None:
            place = self.state.tasks.get(task)
            leaving = place is not None and place.where == "active"
            if place is None or not (
                place.where in ("waiting", "parked")
                or (leaving and row.status == "paused")
            ):
                # Perhaps somebody else has just woken it: the store says so first.
                self.when_durable(self.last_seq, lambda: message.promise.set(False))
                return
            seq = self.append(
                TaskWoken(task=task, order="resume", by=message.by),
                rows=[_queued_row(row)],
            )
            self.when_durable(seq, lambda: message.promise.set(True))

        self._with_row(task, found)

    def _with_row(self, task: str, then: Callable[[TaskRow], None]) -> None:
        """Read a task's row, behind every append made so far."""

        def found(row: bytes | None) -> None:
            if row is not None:
                then(msgspec.json.decode(row, type=TaskRow))

        self._read(lambda reader: reader.row(TASK_ROWS, task), found)

    def _cancel(self, message: Cancel) -> None:
        task = message.task
        self.held.discard(task)

        def found(row: TaskRow) -> None:
            place = self.state.tasks.get(task)
            if place is None:
                message.promise.set(False)
                return
            active = place.where == "active"
            if place.order != "cancel":
                # The row of an active task is its own: it may just have ended.
                rows = [] if active else [_queued_row(row)]
                woken = TaskWoken(task=task, order="cancel", by=message.by)
                self.append(woken, rows=rows)
            self.when_durable(self.last_seq, lambda: message.promise.set(True))
            if active:
                order = Order(what="cancel", by=message.by)
                self.house.address(task_name(task)).tell(order)
                self._reactivate(task)

        self._with_row(task, found)

    def _order(self, task: str, order: Order, promise: Promise) -> None:
        place = self.state.tasks.get(task)
        if place is None or place.where != "active":
            promise.set(False)
            return
        self.orders[task] = order
        self.house.address(task_name(task)).tell(order)
        promise.set(True)

    def _drain(self, promise: Promise) -> None:
        self.drains = [*(self.drains or []), promise]
        for task in self.state.active():
            order = Order(what="drain", by="close")
            self.house.address(task_name(task)).tell(order)
        # After the orders: a task that is refused an operation knows why, and makes
        # no further attempt.
        self.house.executor.drain()

    # ── activation ───────────────────────────────────────────────────────────────

    def _admit(self) -> None:
        if self.drains is not None:
            if self.idle.issuperset(self.state.active()) and not self.starting:
                for promise in self.drains:
                    self.when_durable(self.last_seq, partial(promise.set, None))
            return
        slots = self.house.baseline.active_tasks - len(
            self.starting - set(self.state.active())
        )
        for task in due(self.state, slots=slots, held=frozenset(self.held)):
            if task not in self.starting:
                self._activate(task)

    def _reactivate(self, task: str) -> None:
        """Activate a task that holds a slot but does not run, and was left alone."""
        if task in self.idle and self.drains is None:
            self._activate(task)

    def _activate(self, task: str) -> None:
        """Begin, or begin again: ask for the agent, the money and the strikes first."""
        self.idle.discard(task)
        self.starting.add(task)
        if self.state.tasks[task].agent not in self.house.agents:
            agent = self.state.tasks[task].agent
            self._park(task, f"no agent {agent!r} is registered", "register the agent")
            return

        def found(record: Sequence[Record]) -> None:
            submitted = self.house.codec.decode(record[0])
            assert isinstance(submitted, TaskSubmitted)
            message = Allocate(
                task=task, amounts=submitted.budget, reply_to=self.address
            )
            self.requests.send(("pool", task), self.house.address(POOL), message)

        self._read(lambda reader: reader.records(0, 1, f"task/{task}"), found)

    def _allocated(self, task: str, refusal: str | None) -> None:
        if not self.requests.answered(("pool", task)):
            return
        if refusal is not None:
            self._park(task, refusal, "resume", "paused")
            return
        place = self.state.tasks[task]
        if place.clean:
            self._start(task, recovery=None)
            return

        def found(records: Sequence[Record]) -> None:
            why = why_park(records, now=self.house.now(), rules=self.house.baseline)
            if why and place.since <= place.epoch:
                last = self.failures.pop(task, "")
                self._park(task, f"{why}; last: {last}" if last else why, "resume")
            else:
                self._start(task, recovery=len(records))

        self._with_strikes(task, found)

    def _start(self, task: str, recovery: int | None) -> None:
        """Append the activation, a recovery's begin with it, then start the actors."""
        place = self.state.tasks[task]
        epoch = place.epoch + 1
        self.house.journal.raise_epoch(family(task), epoch)
        also = []
        if recovery is not None:
            cause = self.failures.get(task, "process ended")
            began: list[Event] = [RecoveryBegan(task=task, epoch=epoch, cause=cause)]
            if place.since > place.epoch:  # somebody had it go on: count anew
                began.insert(0, RecoveriesForgiven(task=task, by=place.by))
            also = [self._strike(task, epoch, recovery + 1, *began)]
        activated = TaskActivated(
            task=task, epoch=epoch, order=place.order, by=place.by, since=place.since
        )
        clean = place.clean
        seq = self.append(activated, also=also)
        hit("admission.activated", place.agent)
        wake = Wake(since=place.since, order=place.order, by=place.by, clean=clean)
        spec = self.family_of(task, epoch, place.agent, wake)
        start = StartChild(spec=spec, reply_to=self.address)

        def flushed(_: Any) -> None:
            tasks = self.house.address(TASKS)
            if recovery is not None:
                # An admission that crashed may have had an earlier epoch's actors
                # started just now; they are fenced, and in the way.
                tasks.tell(StopChild(name=family(task)))
            self.requests.send(("start", task), tasks, start)

        done = _Found(incarnation=self.incarnation, value=None, then=flushed)
        address = self.address
        self.when_durable(seq, lambda: address.tell(done))

    def _not_started(self, task: str, error: str) -> None:
        """A start failed: it is a recovery that failed, and is begun again as one."""
        if not self.requests.answered(("start", task)):
            return
        self.failures[task] = f"its actors did not start: {error}"
        if self.drains is None:
            self.after(START_AGAIN, _StartAgain(task=task))
        else:
            self.starting.discard(task)
            self.idle.add(task)

    def _started(self, task: str) -> None:
        if not self.requests.answered(("start", task)):
            return
        self.failures.pop(task, None)
        self.starting.discard(task)
        self._watch(task)
        if self.drains is not None:
            order = Order(what="drain", by="close")
            self.house.address(task_name(task)).tell(order)

    def _watch(self, task: str) -> None:
        self.monitor(self.house.address(family(task)))
        self.monitor(self.house.address(task_name(task)))

    def _up(self, name: str) -> None:
        self.requests.up(name)
        if not name.startswith("task/"):
            return
        task = name.split("/")[1]
        place = self.state.tasks.get(task)
        if place is None or name != task_name(task):
            return
        order = self.orders.get(task)
        if place.order == "cancel":
            order = Order(what="cancel", by=place.by)
        if order is not None:
            self.house.address(name).tell(order)

    def _down(self, name: str) -> None:
        """A task's actors are gone: for the reason it gave, or recover it."""
        if not name.startswith("task/") or name.count("/") != 1:
            return
        task = name.split("/")[1]
        place = self.state.tasks.get(task)
        if place is None or place.where != "active" or task in self.starting:
            return
        self.orders.pop(task, None)
        self.demonitor(self.house.address(family(task)))
        self.demonitor(self.house.address(task_name(task)))
        stopped = self.farewells.pop(task, None)
        if stopped is None:
            if self.drains is None and task not in self.held:
                self._activate(task)
            else:
                self.idle.add(task)
        elif stopped.how == "ended":
            self.append(TaskLeft(task=task, status=stopped.status))
            hit("admission.left", place.agent)
        else:
            waiting = stopped.how == "waiting"
            self.append(TaskPassivated(task=task, waiting=waiting))
            hit("admission.passivated", place.agent)

    # ── crash loops ──────────────────────────────────────────────────────────────

    def _may_restart(self, message: MayRestart) -> None:
        task = message.supervisor.removeprefix("task/")
        supervisor = self.house.address(message.supervisor)

        def found(records: Sequence[Record]) -> None:
            place = self.state.tasks.get(task)
            if place is None or place.where != "active":
                supervisor.tell(GiveUp(child=message.child, reason="the task ended"))
                return
            why = why_park(records, now=self.house.now(), rules=self.house.baseline)
            cause = (
                message.reason.error
                if isinstance(message.reason, Crash)
                else type(message.reason).__name__
            )
            if why:
                self._park(task, f"{why}; last: {cause}", "resume")
                supervisor.tell(GiveUp(child=message.child, reason=why))
                return
            began = RecoveryBegan(
                task=task, epoch=place.epoch, cause=cause, actor=message.child
            )
            change = self._strike(task, place.epoch, len(records) + 1, began)
            seq = self.house.journal.append([change])[-1].seq
            hit("recovery.began", place.agent)
            answer = Restart(child=message.child)
            self.when_durable(seq, lambda: supervisor.tell(answer))

        self._with_strikes(task, found)

    def _progressed(self, task: str) -> None:
        place = self.state.tasks.get(task)
        if place is None:
            return

        def found(records: Sequence[Record]) -> None:
            if records and records[-1].type == "RecoveryBegan":
                made = ProgressMade(task=task)
                change = self._strike(task, place.epoch, len(records) + 1, made)
                self.house.journal.append([change])

        self._with_strikes(task, found)

    def _strike(
        self, task: str, epoch: int, version: int, *events: Event
    ) -> tuple[Lease, list[Draft]]:
        stream = f"task/{task}/recovery"
        lease = self.house.journal.acquire(stream, epoch)
        return lease, [
            self.draft(stream, version + place, event)
            for place, event in enumerate(events)
        ]

    def _with_strikes(
        self, task: str, then: Callable[[Sequence[Record]], None]
    ) -> None:
        """Read a task's recovery stream; one reader of it at a time may append."""
        waiting = self._strikes.setdefault(task, [])
        waiting.append(then)
        if len(waiting) == 1:
            self._read_strikes(task)

    def _read_strikes(self, task: str) -> None:
        def found(records: Sequence[Record]) -> None:
            waiting = self._strikes[task]
            waiting.pop(0)(records)
            if waiting:
                self._read_strikes(task)
            else:
                del self._strikes[task]

        stream = f"task/{task}/recovery"
        self._read(lambda reader: reader.load(stream).records, found)

    def _park(
        self, task: str, reason: str, ends_with: str, status: str = "parked"
    ) -> None:
        """Take the task out until somebody resumes it; its own streams stay untouched.

        The mark is in the queue's stream and in the task's row.
        """
        self.starting.add(task)
        self.farewells.pop(task, None)

        def found(row: TaskRow) -> None:
            self.starting.discard(task)
            new = msgspec.structs.replace(
                row, status=status, reason=status, detail=reason, ends_with=ends_with
            )
            self.append(
                TaskParked(
                    task=task, status=status, reason=reason, ends_with=ends_with
                ),
                rows=[Row(space=TASK_ROWS, key=task, value=msgspec.json.encode(new))],
            )
            hit("admission.parked", task)

        self._with_row(task, found)

    # ── reads ────────────────────────────────────────────────────────────────────

    def _read(self, run: Callable[[Reader], Any], then: Callable[[Any], None]) -> None:
        """Read behind all appends so far; `then` runs in a turn of this incarnation."""
        address, incarnation = self.address, self.incarnation

        def done(value: Any) -> None:
            address.tell(_Found(incarnation=incarnation, value=value, then=then))

        self.house.journal.read(run, done)


def _queued_row(row: TaskRow) -> Row:
    """The task's row once it is in the queue again."""
    new = msgspec.structs.replace(
        row, status="queued", reason="", detail="", ends_with=""
    )
    return Row(space=TASK_ROWS, key=row.task, value=msgspec.json.encode(new))
