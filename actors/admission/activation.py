"""How a task becomes active and stops being so: agent, money, strikes, actors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from ...storage.records import Loaded, Record
from ...supervision.faults import hit
from ...supervision.protocol import StartChild, StopChild
from ...supervision.spec import ChildSpec
from ..events import (
    Event,
    RecoveriesForgiven,
    RecoveryBegan,
    TaskActivated,
    TaskLeft,
    TaskPassivated,
)
from ..loads import Loads
from ..names import POOL, TASKS, family
from ..names import task as task_name
from ..protocol import Allocate, Order, Stopped, WakeAgain
from ..requests import BACKSTOP
from ..task.rows import COMES, TaskRow, Wake, no_timer, queued_row
from .queue import ENDING, REGISTER
from .retention import ended_row
from .vetting import Vetted

if TYPE_CHECKING:
    from .actor import Admission

__all__ = ["Activation", "StartAgain", "TellAgain"]

START_AGAIN = 1.0  # seconds until actors that did not start are started again


class StartAgain(msgspec.Struct, frozen=True, kw_only=True):
    """The pause after a failed start is over."""

    task: str


class TellAgain(msgspec.Struct, frozen=True, kw_only=True):
    """A task may not have heard what it was told."""

    task: str


class Activation:
    """Admission's part for what runs; a task is in `starting` until its actors are up.

    Args:
        family_of: makes the supervisor of a task's actors from task, epoch, agent and
            what it is woken for.
    """

    def __init__(
        self,
        admission: Admission,
        family_of: Callable[[str, int, str, Wake], ChildSpec],
    ) -> None:
        self._admission = admission
        self._family_of = family_of
        self.starting: set[str] = set()
        self.idle: set[str] = set()  # active, but nothing of them runs here
        self.farewells: dict[str, Stopped] = {}
        self._over: dict[str, int] = {}  # newest incarnation of what ran before
        self._failures: dict[str, str] = {}  # why actors did not start, the last time
        self._new: dict[str, Loaded] = {}  # the streams of tasks that never ran
        self._recovering: set[str] = set()  # who holds a recovery permit
        self._for_permit: deque[str] = deque()
        self._gives = False

    def reactivate(self, task: str) -> None:
        """Activate a task that holds a slot but does not run, and was left alone."""
        admission = self._admission
        if (
            task in self.idle
            and admission.drains is None
            and not admission.isolation.on  # else it has its turn there
        ):
            self.activate(task)

    def activate(self, task: str) -> None:
        """Begin, or begin again: ask for the agent, the money and the strikes first."""
        admission = self._admission
        self.idle.discard(task)
        self.starting.add(task)
        place = admission.state.tasks[task]
        if place.agent not in admission.house.agents and place.order != "cancel":
            admission.park(task, f"no agent {place.agent!r} is registered", REGISTER)
            return
        if place.epoch and admission.vetting.passed(task, place):
            self._begin(task)
            return
        as_of = admission.last_seq

        def found(vetted: Vetted) -> None:
            if admission.vetting.holds_back(task, vetted):
                return
            if vetted.strikes is not None:
                admission.gate.seen(task, vetted.strikes)
            if place.epoch:
                # Its grant stands before its first activation. The pool may have it
                # back, of a task that had only to leave, and would give it once more.
                self._begin(task)
                return
            submitted = vetted.submitted
            assert submitted is not None
            if vetted.stream is not None:
                self._new[task] = vetted.stream
            message = Allocate(
                task=task,
                amounts=submitted.budget,
                reply_to=admission.address,
                parent=submitted.parent,
                nothing=0 if vetted.granted else as_of,
            )
            pool = admission.house.address(POOL)
            admission.requests.send(("pool", task), pool, message)

        look = partial(admission.vetting.look, task=task, place=place)
        admission.read(look, found)

    def allocated(self, task: str, refusal: str | None) -> None:
        """The pool answered: wait for more money, start, or recover."""
        admission = self._admission
        if not admission.requests.answered(("pool", task)):
            return
        winds_up = admission.state.tasks[task].ending  # without any money
        if refusal is not None and not winds_up:
            self._new.pop(task, None)
            admission.park(task, refusal, "resume", "paused")
        else:
            self._begin(task)

    def _begin(self, task: str) -> None:
        if self._admission.state.tasks[task].clean:
            self._start(task, recovery=None)
        else:
            self._recover(task)

    def _recover(self, task: str) -> None:
        """Recover, with a permit: only so many load at once."""
        self._for_permit.append(task)
        self._give_permits()

    def _give_permits(self) -> None:
        if self._gives:
            return  # whoever gives them sees that there are more
        self._gives, most = True, self._admission.house.baseline.recovery_permits
        while self._for_permit and len(self._recovering) < most:
            task = self._for_permit.popleft()
            self._recovering.add(task)
            self._admission.gate.with_strikes(task, partial(self._permitted, task))
        self._gives = False

    def _permitted(self, task: str, records: Sequence[Record]) -> None:
        admission = self._admission
        why = admission.gate.why_park(records)
        struck = admission.isolation.struck(task)
        if why and struck and not admission.state.tasks[task].forgiven:
            last = self._failures.pop(task, "")
            admission.park(task, f"{why}; last: {last}" if last else why, "resume")
            self._return_permit(task)
        else:
            self._start(task, recovery=len(records))

    def _return_permit(self, task: str) -> None:
        self._recovering.discard(task)
        self._give_permits()

    def _start(self, task: str, recovery: int | None) -> None:
        """Append the activation, a recovery's begin with it, then start the actors."""
        admission = self._admission
        place = admission.state.tasks[task]
        epoch = place.epoch + 1
        admission.house.journal.raise_epoch(family(task), epoch)
        also = []
        if recovery is not None:
            cause = self._failures.get(task, "process ended")
            struck = admission.isolation.struck(task)
            began: list[Event] = [
                RecoveryBegan(task=task, epoch=epoch, cause=cause, strike=struck)
            ]
            if place.forgiven:
                began.insert(0, RecoveriesForgiven(task=task, by=place.by))
            also = [admission.gate.strike(task, epoch, recovery + 1, *began)]
        activated = TaskActivated(
            task=task, epoch=epoch, order=place.order, by=place.by, since=place.since
        )
        rows = [no_timer(task, 0, place.not_before)] if place.not_before else []
        seq = admission.append(activated, rows=rows, also=also)
        self._over[task] = admission.system.newest
        admission.ripe.discard(task)
        hit("admission.activated", place.agent)
        new = self._new.pop(task, None)
        wake = Wake(
            loads=Loads(task, seq, new),
            since=place.since,
            order=place.order,
            by=place.by,
            clean=place.clean,
            resumed=place.resumed,
            resumer=place.resumer,
            retry=place.retry,
            noted=place.noted,
        )
        spec = self._family_of(task, epoch, place.agent, wake)
        start = StartChild(spec=spec, reply_to=admission.address)

        def go() -> None:
            tasks = admission.house.address(TASKS)
            if recovery is not None:
                # An admission that crashed may have had an earlier epoch's actors
                # started just now; they are fenced, and in the way.
                tasks.tell(StopChild(name=family(task)))
            self._over[task] = admission.system.newest
            self.watch(task, absent=False)  # it has yet to be started
            admission.requests.send(("start", task), tasks, start)

        if new:
            go()  # nothing is read, and what it writes comes after its activation
        else:
            admission.once_durable(seq, go)

    def not_started(self, task: str, error: str) -> None:
        """A start failed: it is a recovery that failed, and is begun again as one."""
        admission = self._admission
        if not admission.requests.answered(("start", task)):
            return
        self._failures[task] = f"its actors did not start: {error}"
        self._return_permit(task)
        if admission.drains is None:
            admission.after(START_AGAIN, StartAgain(task=task))
        else:
            self.starting.discard(task)
            self.idle.add(task)

    def started(self, task: str, incarnation: int) -> None:
        """All four actors are up."""
        admission = self._admission
        if self.is_over(task, incarnation):
            return
        if not admission.requests.answered(("start", task)):
            return
        self._failures.pop(task, None)
        self._return_permit(task)
        self.starting.discard(task)
        self.watch(task)
        self._tell(task)  # what came while it started reached nobody

    def watch(self, task: str, *, absent: bool = True) -> None:
        """Hear of the task's supervisor and of the task itself."""
        admission = self._admission
        for name in (family(task), task_name(task)):
            admission.monitor(admission.house.address(name), absent=absent)

    def is_over(self, task: str, incarnation: int) -> bool:
        """Whether a task's supervisor is one of before its last activation, or end.

        What it said may come late, and is nothing of what runs now.
        """
        return incarnation <= self._over.get(task, 0)

    def up(self, name: str, incarnation: int) -> None:
        """A task's actors are up, or the task itself is."""
        task = name.split("/")[1]
        if task not in self._admission.state.tasks:
            return
        if name == family(task):
            self.started(task, incarnation)  # the supervisor's answer may be lost
        elif name == task_name(task):
            self._tell(task)

    def _tell(self, task: str) -> None:
        """Tell a task that is up what it was told before."""
        admission, name = self._admission, task_name(task)
        place = admission.state.tasks[task]
        self.remind(task)
        admission.steering.tell(task)
        if place.pausing and place.order != "cancel":
            order = Order(what="pause", by=place.pausing)
            admission.house.address(name).tell(order)
        if admission.drains is not None:  # it was restarting when the others heard it
            admission.house.address(name).tell(Order(what="drain", by="close"))

    def remind(self, task: str) -> None:
        """Tell a task that it is to end, where it is."""
        place = self._admission.state.tasks[task]
        match place.order:
            case "cancel" | "compensate" as what:
                order = Order(what=what, by=place.by)
                self._admission.house.address(task_name(task)).tell(order)

    def order(self, task: str, order: Order) -> None:
        """Tell a running task something: again, while it has not left."""
        self._admission.house.address(task_name(task)).tell(order)
        self._admission.after(BACKSTOP, TellAgain(task=task))

    def tell_again(self, task: str) -> None:
        """A task that was told something has had its time."""
        place = self._admission.state.tasks.get(task)
        if place is None or place.where != "active":
            return
        if place.pausing or place.order in ENDING:
            self._tell(task)
            self._admission.after(BACKSTOP, TellAgain(task=task))

    def down(self, name: str, incarnation: int) -> None:
        """A task's actors are gone: for the reason it gave, or recover it."""
        admission = self._admission
        task = name.split("/")[1]
        place = admission.state.tasks.get(task)
        if name != family(task) or place is None:
            return
        if place.where != "active" or task in self.starting:
            return
        if self.is_over(task, incarnation):
            return
        self._over[task] = incarnation
        admission.demonitor(admission.house.address(family(task)))
        admission.demonitor(admission.house.address(task_name(task)))
        admission.steering.left(task)
        stopped = self.farewells.pop(task, None)
        if stopped is not None and stopped.epoch != place.epoch:
            stopped = None  # of actors that have been recovered since: it came late
        if stopped is not None:
            admission.house.withdrawn.forget(task)
        if stopped is None:
            alone = admission.isolation.on and not admission.isolation.ran(task)
            if admission.drains is None and task not in admission.held and not alone:
                self.activate(task)
            else:
                self.idle.add(task)
        elif stopped.how == "ended":
            self.ended(TaskLeft(task=task, status=stopped.status))
        elif stopped.how == "waiting" and place.woken:
            self.starting.add(task)  # nothing else is begun until its row is read
            admission.with_row(task, self._wake_again)
        else:
            waiting = stopped.how == "waiting"
            admission.append(TaskPassivated(task=task, waiting=waiting))
            hit("admission.passivated", place.agent)
            admission.pausing.stopped(task)
            if task not in admission.state.tasks:
                self._forget(task)

    def ended(self, left: TaskLeft) -> None:
        """A task gives its slot back; its parent hears of it in one transaction."""
        admission = self._admission
        place = admission.state.tasks[left.task]
        if not place.parent:
            now = admission.house.now()
            admission.append(left, rows=[ended_row(left.task, now)])
            admission.retention.left(now)
            self._forget(left.task)
            admission.erasing.left()
            hit("admission.left", place.agent)
            return
        wake = WakeAgain(task=place.parent, by=f"sub-task {left.task}")

        def found(row: TaskRow) -> None:
            self.starting.discard(left.task)
            admission.callers.wake_parent(wake, row, left)
            self._forget(left.task)
            admission.erasing.left()
            hit("admission.left", place.agent)

        self.starting.add(left.task)  # nothing of it is begun until its parent is told
        admission.with_row(place.parent, found)

    def _forget(self, task: str) -> None:
        """Nobody writes the task's streams now: the journal lets go of them."""
        admission = self._admission
        self._over.pop(task, None)
        admission.vetting.forget(task)
        admission.gate.forget(task)
        forget = partial(admission.house.journal.forget, family(task))
        admission.when_durable(admission.last_seq, forget)

    def _wake_again(self, row: TaskRow) -> None:
        """A task that was woken while it was active has stopped: it goes on at once."""
        admission = self._admission
        self.starting.discard(row.task)
        place = admission.state.tasks[row.task]
        looks = place.order == "again" or (
            row.compensates and place.order == "compensate"
        )
        on = not looks or row.reason in COMES
        rows = [queued_row(row)] if on else []
        admission.append(TaskPassivated(task=row.task, waiting=True), rows=rows)
        hit("admission.passivated", place.agent)
        admission.pausing.stopped(row.task)
