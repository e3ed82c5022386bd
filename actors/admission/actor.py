"""Admission alone moves tasks between the queue, activity, waiting and the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from ...storage.erasure import Erasure
from ...storage.errors import Fenced, Rejected
from ...storage.reader import Reader
from ...storage.records import Draft, Lease, Loaded, Row
from ...supervision.faults import hit
from ...supervision.lifecycle import Down, NotRunning, Up
from ...supervision.promise import Promise
from ...supervision.protocol import ChildFailed, ChildStarted, MayRestart
from ...supervision.spec import ChildSpec
from ..durable import Durable, Folded, Found
from ..events import ApprovalAnswered, Event, TaskLeft, TaskParked
from ..house import House
from ..names import ADMISSION, PLACES, TASK_ROWS, TASKS
from ..names import task as task_name
from ..protocol import (
    Adopt,
    Allocated,
    Answer,
    Cancel,
    Drain,
    Enlarged,
    Erase,
    FactChanged,
    Fork,
    InboxChanged,
    NotesTaken,
    Order,
    Pause,
    Progressed,
    Reply,
    Resolve,
    Resume,
    Retry,
    Steer,
    Stopped,
    Submit,
    WakeAgain,
    Warn,
)
from ..requests import Overdue, Requests
from ..task.rows import ENDED, TaskRow, Wake
from .activation import Activation, StartAgain, TellAgain
from .answers import Answers
from .callers import Callers
from .commands import Commands
from .erasing import Erasing
from .forking import Forks
from .gate import Gate
from .isolation import Isolation
from .lines import Lines, due
from .pausing import Pausing
from .place import Place
from .questions import Questions
from .queue import QueueState, apply
from .resting import Resting, places_of
from .retention import GoOn, LookBack, Retention
from .retrying import Retries
from .steering import Steering
from .verdicts import Verdicts
from .vetting import Vetting
from .warnings import Warnings

__all__ = ["Admission"]

T = TypeVar("T")


class Admission(Durable[QueueState]):
    """The queue and the slots; callers, activation and the gate are its parts.

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
        self.requests = Requests(self)
        self.lines = Lines({})
        self.resting = Resting(self)
        self.callers = Callers(self)
        self.answers = Answers(self)
        self.questions = Questions(self)
        self.warnings = Warnings(self)
        self.steering = Steering(self)
        self.pausing = Pausing(self)
        self.activation = Activation(self, family_of)
        self.commands = Commands(self)
        self.retries = Retries(self)
        self.forks = Forks(self)
        self.verdicts = Verdicts(self)
        self.erasing = Erasing(self)
        self.retention = Retention(self)
        self.vetting = Vetting(self)
        self.gate = Gate(self)
        self.isolation = Isolation(self)
        self.drains: list[Promise] | None = None
        self._left_alone: list[str] = []  # resting, where nobody is to be resumed
        self.ripe: set[str] = set()  # their time came, even if the clock was set back

    def fold(self, state: QueueState, event: Event) -> QueueState:
        """Fold by the rules of the queue."""
        return apply(state, event)

    def append(
        self,
        *events: Event,
        rows: Sequence[Row] = (),
        blobs: Sequence[bytes] = (),
        also: Sequence[tuple[Lease, Sequence[Draft]]] = (),
        erasure: Erasure | None = None,
    ) -> int:
        """Append; what takes an approval back is heard before, by who starts calls.

        Who rests is recalled before an event about it, and becomes a row after it.
        """
        all_, places, rests = self.resting.complete(events)
        gone = [
            (event.task, event.approval)
            for event in events
            if isinstance(event, ApprovalAnswered) and not event.approved
        ]
        for task, approval in gone:
            self.house.withdrawn.add(task, approval)
        try:
            seq = super().append(
                *all_,
                rows=[*rows, *places],
                blobs=blobs,
                also=also,
                erasure=erasure,
            )
        except (Rejected, Fenced):
            for task, approval in gone:
                self.house.withdrawn.discard(task, approval)
            raise
        self.resting.keep(rests)
        for event in all_:
            task = getattr(event, "task", "")
            if task:
                self.lines.put(task, self.state.tasks.get(task))
        return seq

    def _load(self, reader: Reader) -> Loaded:
        if self.house.held is None and not self.house.resume:
            self._left_alone = [row.key for row in reader.rows(PLACES)]
        return super()._load(reader)

    def loaded(self, folded: Folded) -> None:
        """Look which active tasks really run; the others are recovered or started."""
        self.lines = Lines(self.state.tasks)
        if self.house.held is None:
            self.isolation.opened()
            held = [] if self.house.resume else [*self.state.tasks, *self._left_alone]
            self.house.held = set(held)
        self.monitor(self.house.address(TASKS))
        for task in self.state.active():
            self.activation.watch(task)
            self.activation.remind(task)  # perhaps not told of its end yet
        self.pausing.opened()
        self.retention.opened()
        self.vetting.opened()
        self.commands.look()
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
                self.callers.submit(message)
            case Resume():
                self.pausing.resume(message)
            case Fork():
                self.forks.fork(message)
            case Retry():
                self.retries.retry(message)
            case Adopt():
                self.vetting.adopt(message)
            case Pause():
                self.pausing.pause(message)
            case Cancel():
                self.callers.cancel(message)
            case WakeAgain():
                self.callers.wake_again(message)
            case Answer():
                self.answers.answer(message)
            case Reply():
                self.questions.reply(message)
            case Steer():
                self.steering.steer(message)
            case NotesTaken():
                self.steering.taken(message)
            case Warn():
                self.warnings.warn(message)
            case Resolve():
                self.verdicts.resolve(message)
            case Erase():
                self.erasing.erase(message)
            case LookBack():
                self.retention.look()
            case GoOn():
                self.retention.go_on()
            case InboxChanged():
                self.commands.look()
            case Enlarged(grant=grant, refusal=refusal):
                self.commands.enlarged(grant, refusal)
            case FactChanged():
                self.commands.changed(message)
            case Drain(promise=promise):
                self._drain(promise)
            case Allocated(task=task, refusal=refusal):
                self.activation.allocated(task, refusal)
            case Progressed(task=task):
                self.isolation.progressed(task)
                self.gate.progressed(task)
            case Stopped(task=task):
                self.activation.farewells[task] = message
            case MayRestart():
                self.gate.may_restart(message)
            case ChildStarted(child=child, incarnation=incarnation):
                self.activation.started(child.removeprefix("task/"), incarnation)
            case ChildFailed(child=child, error=error):
                self.activation.not_started(child.removeprefix("task/"), error)
            case StartAgain(task=task):
                self.activation.activate(task)
            case TellAgain(task=task):
                self.activation.tell_again(task)
            case Down(name=name, reason=NotRunning()) if self.system.is_running(name):
                pass  # it was not there yet when it was watched
            case Down(name=name, incarnation=incarnation) if name.startswith("task/"):
                self.activation.down(name, incarnation or self.system.newest)
            case Up(name=name, incarnation=incarnation):
                self.requests.up(name)
                if name.startswith("task/"):
                    self.activation.up(name, incarnation)
            case Overdue():
                self.requests.overdue()
            case Found():
                self.hear(message)
        self._admit()

    def _admit(self) -> None:
        """Give free slots to those whose turn it is."""
        starting = self.activation.starting
        if self.drains is not None:
            if not starting and self.activation.idle >= self.lines.active:
                for promise in self.drains:
                    self.when_durable(self.last_seq, partial(promise.set, None))
            return
        if self.isolation.go_on():
            return
        for task in due(
            self.lines,
            self.state.rounds,
            slots=self.house.baseline.active_tasks,
            held=self.held,
            now=self.house.now(),
            ripe=self.ripe,
            starting=starting,
        ):
            self.activation.activate(task)

    def _drain(self, promise: Promise) -> None:
        self.drains = [*(self.drains or []), promise]
        for task in self.state.active():
            order = Order(what="drain", by="close")
            self.house.address(task_name(task)).tell(order)
        # After the orders: a task that is refused an operation knows why, and makes
        # no further attempt.
        self.house.executor.drain()

    def park(
        self,
        task: str,
        reason: str,
        ends_with: str,
        status: str = "parked",
        offered: str = "",
    ) -> None:
        """Take the task out until somebody resumes it; its own streams stay untouched.

        The mark is in the queue's stream and in the task's row.
        """
        starting = self.activation.starting
        starting.add(task)
        self.activation.farewells.pop(task, None)

        def found(row: TaskRow) -> None:
            starting.discard(task)
            if row.status in ENDED:  # the process died before it could leave
                self.activation.ended(TaskLeft(task=task, status=row.status))
                return
            new = msgspec.structs.replace(
                row,
                status=status,
                reason=status,
                detail=reason,
                ends_with=ends_with,
                offered=offered,
            )
            self.append(
                TaskParked(
                    task=task, status=status, reason=reason, ends_with=ends_with
                ),
                rows=[Row(space=TASK_ROWS, key=task, value=msgspec.json.encode(new))],
            )
            hit("admission.parked", task)

        self.with_row(task, found)

    def with_row(self, task: str, then: Callable[[TaskRow], None]) -> None:
        """Read a task's row, behind every append made so far."""

        def found(row: bytes | None) -> None:
            if row is not None:
                then(msgspec.json.decode(row, type=TaskRow))

        self.read_about(
            lambda _: [task], lambda reader: reader.row(TASK_ROWS, task), found
        )

    def read_about(
        self,
        of: Callable[[T], Iterable[str]],
        run: Callable[[Reader], T],
        then: Callable[[T], None],
    ) -> None:
        """Read, as `read` does; in `then` the `place` of those it is of is known."""

        def look(reader: Reader) -> tuple[T, dict[str, Place]]:
            value = run(reader)
            return value, places_of(reader, of(value))

        def found(values: tuple[T, dict[str, Place]]) -> None:
            value, places = values
            with self.resting.found(places):
                then(value)

        self.read(look, found)

    def place(self, task: str) -> Place | None:
        """Where an unfinished task stands; of one that rests, only in `read_about`."""
        return self.state.tasks.get(task) or self.resting.place(task)
