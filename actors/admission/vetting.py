"""Whether this code can read a task of an earlier process, and its agent go on with it.

Asked before anything of the task is begun: what cannot be read, or not be gone on with,
is parked with the reason, and its own streams stay untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from ...storage.errors import (
    NewerSchema,
    NoUpgradePath,
    StorageError,
    Undecodable,
    UnknownType,
)
from ...storage.reader import Reader
from ...storage.records import Loaded, Record, Row, Snapshot
from ..budget.account import AccountState
from ..definition import Change, Definition, changes, held_by, in_words
from ..events import AgentChanged, Event, TaskSubmitted, TaskWoken
from ..ledger.entry import LedgerState
from ..names import AGENTS, GRANTS, TASK_ROWS, account, family, ledger
from ..protocol import Adopt
from ..task.rows import ENDED, TaskRow
from ..task.state import TaskState
from ..upgrades import is_current, state_of
from .first import all_of_new, first_of, loaded_of, submitted_of
from .gate import recoveries
from .place import Place
from .queue import ADOPT, UPGRADE
from .resting import lacking, places_of

if TYPE_CHECKING:
    from ..agent import Agent
    from ..house import House
    from .actor import Admission

__all__ = ["Vetted", "Vetting", "differences", "is_readable", "vet"]

PAGE = 1_000  # records
WORDS = 2_000  # characters of a reason
AGAIN = "it can go on again"


class Vetted(msgspec.Struct, frozen=True, kw_only=True):
    """What stands between a task and going on.

    `unreadable` says why this code cannot read it, and `unfit` that other code could.
    `changes` is how its agent differs from the definition `before` that it ran under;
    `rules` is the baseline that it ran under, `strikes` its recoveries so far. Of a
    task that was only submitted `stream` is all there is, and `granted` says whether
    something was granted.
    """

    submitted: TaskSubmitted | None = None
    stream: Loaded | None = None
    granted: bool = True
    strikes: Sequence[Record] | None = None
    unreadable: str = ""
    unfit: bool = False
    before: str = ""
    rules: str = ""
    changes: tuple[Change, ...] = ()


def vet(
    reader: Reader, *, house: House, task: str, place: Place, new: bool = False
) -> Vetted:
    """Look at a task's streams, and at how its agent has changed; writes nothing.

    Of a `new` one there is only what this process submitted.
    """
    try:
        first = all_of_new(reader, task) if new else first_of(reader, task)
        submitted = submitted_of(task, first, house.event_of)
        if new:
            granted = reader.row(GRANTS, task) is not None
            stream = loaded_of(task, first)
            return Vetted(submitted=submitted, stream=stream, granted=granted)
        is_readable(reader, house.codec.check, family(task), TaskState)
        is_readable(reader, house.codec.check, account(task), AccountState)
        is_readable(reader, house.codec.check, ledger(task), LedgerState)
    except (NewerSchema, NoUpgradePath, UnknownType) as error:
        return Vetted(unreadable=str(error), unfit=True)
    except Undecodable as error:
        return Vetted(unreadable=str(error))
    before = place.digest or submitted.agent_digest
    agent = house.agents.get(place.agent)
    return Vetted(
        submitted=submitted,
        before=before,
        rules=place.rules or submitted.baseline,
        strikes=recoveries(reader, task),
        changes=() if agent is None else differences(reader, before, agent),
    )


def is_readable(
    reader: Reader,
    check: Callable[[Record], bool],
    stream: str,
    kind: type[msgspec.Struct],
) -> bool:
    """Raise as `check` does for a record that a load of the stream meets.

    Returns whether one of them is of an older version, as `check` says.
    """
    old = False
    for page in _pages(reader, stream, kind):
        for record in page:
            old = check(record) or old
    return old


def _pages(
    reader: Reader, stream: str, kind: type[msgspec.Struct]
) -> Iterator[list[Record]]:
    """The records that a load meets, and the one that its snapshot stands at."""
    after = 0
    for snapshot in reader.snapshots(stream):
        if is_current(snapshot, kind) or _is_usable(reader, snapshot, kind):
            after = snapshot.version - 1
            break
    page = reader.stretch(stream, after, PAGE)
    if after and not page:  # the snapshot is ahead of its stream
        page = reader.stretch(stream, 0, PAGE)
    while page:
        yield page
        if len(page) < PAGE:
            return
        page = reader.stretch(stream, page[-1].version, PAGE)


def _is_usable(reader: Reader, snapshot: Snapshot, kind: type[msgspec.Struct]) -> bool:
    try:
        state_of(reader.whole(snapshot), kind)
    except StorageError:
        return False
    return True


def differences(reader: Reader, before: str, agent: Agent) -> tuple[Change, ...]:
    """How an agent differs from the definition of that digest."""
    if before == agent.digest():
        return ()
    kept = reader.row(AGENTS, before)
    try:
        old = msgspec.json.decode(kept or b"", type=Definition)
    except msgspec.MsgspecError:
        said = "is not in the store, so that nobody can say what changed"
        return (Change(field=f"its definition {before}", said=said),)
    return tuple(changes(old, agent.definition))


class Vetting:
    """Admission's part for tasks that other code began, or another agent.

    Each is vetted once a process; what this one submits was begun by this very code.
    """

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._passed: set[str] = set()
        self._kept: set[str] = set()  # definitions that this incarnation has written
        self._opened = 0  # the queue's version when it was loaded

    def opened(self) -> None:
        """Look again at what was parked for want of an agent, or of other code."""
        admission = self._admission
        self._opened = admission.state.version
        agents = list(admission.house.agents)

        def found(places: dict[str, Place]) -> None:
            for task, place in places.items():
                if task in admission.held:
                    continue
                if place.lacks_agent:
                    admission.callers.wake(task, f"agent {place.agent} is registered")
                else:
                    self._look_again(task, place)

        admission.read(lambda reader: lacking(reader, agents), found)

    def _look_again(self, task: str, place: Place) -> None:
        admission = self._admission
        look = partial(vet, house=admission.house, task=task, place=place)
        admission.read_about(lambda _: [task], look, partial(self._again, task))

    def _again(self, task: str, vetted: Vetted) -> None:
        admission = self._admission
        place = admission.place(task)
        if place is None or place.where != "parked" or vetted.unreadable:
            return
        if not self._held(place, vetted):
            admission.callers.wake(task, AGAIN)

    def passed(self, task: str, place: Place) -> bool:
        """Whether the task need not be looked at before it goes on."""
        return task in self._passed or self._began_here(place)

    def _began_here(self, place: Place) -> bool:
        return place.place > self._opened

    def look(self, reader: Reader, task: str, place: Place) -> Vetted:
        """Look at a task that is to be activated; on the journal's reader."""
        new = self._began_here(place) and not place.epoch
        return vet(reader, house=self._admission.house, task=task, place=place, new=new)

    def holds_back(self, task: str, vetted: Vetted) -> bool:
        """Park a task that cannot go on; else write down what it goes on with."""
        admission = self._admission
        place = admission.state.tasks[task]
        if vetted.unreadable:
            ends_with = UPGRADE if vetted.unfit else "resume"
            admission.park(task, vetted.unreadable, ends_with)
            return True
        if place.order == "cancel":
            return False  # it only winds up
        held = self._held(place, vetted)
        if held:
            agent = admission.house.agents[place.agent].digest()
            reason = (
                f"its agent {place.agent!r} has changed, from {vetted.before} to "
                f"{agent}: {in_words(held)}"
            )
            admission.park(task, reason[:WORDS], ADOPT, offered=agent)
            return True
        self._passed.add(task)
        rules = admission.house.baseline.id
        if vetted.changes or vetted.rules not in ("", rules):
            by = "adopt" if held_by(vetted.changes) else ""
            event, rows = self._changed(task, vetted, by)
            admission.append(event, rows=rows)
        return False

    def _held(self, place: Place, vetted: Vetted) -> list[Change]:
        """The changes over which the task does not go on."""
        agent = self._admission.house.agents[place.agent]
        return [] if agent.adopts(vetted.before) else held_by(vetted.changes)

    def _changed(
        self, task: str, vetted: Vetted, by: str
    ) -> tuple[AgentChanged, list[Row]]:
        """The event that a task goes on with its agent as it is now, and its row."""
        house = self._admission.house
        place = self._admission.place(task)
        assert place is not None
        agent = house.agents[place.agent]
        event = AgentChanged(
            task=task,
            before=vetted.before,
            digest=agent.digest(),
            baseline=house.baseline.id,
            changes=tuple(in_words([one]) for one in vetted.changes),
            by=by,
        )
        return event, self.definition(agent.name, agent.digest())

    def forget(self, task: str) -> None:
        """The task has left."""
        self._passed.discard(task)

    # ── definitions ──────────────────────────────────────────────────────────────

    def definition(self, name: str, digest: str) -> list[Row]:
        """The row of an agent's definition, where this incarnation wrote none yet."""
        agent = self._admission.house.agents.get(name)
        if digest in self._kept or agent is None or agent.digest() != digest:
            return []
        value = msgspec.json.encode(agent.definition)
        return [Row(space=AGENTS, key=digest, value=value)]

    def wrote(self, digest: str) -> None:
        """The row of a definition was appended."""
        self._kept.add(digest)

    # ── adopt ────────────────────────────────────────────────────────────────────

    def adopt(self, message: Adopt) -> None:
        """Have a parked task go on with its agent as somebody has seen it."""
        admission, task = self._admission, message.task
        known = admission.state.tasks.get(task)

        def look(reader: Reader) -> tuple[TaskRow | None, Vetted]:
            value = reader.row(TASK_ROWS, task)
            place = known or places_of(reader, [task]).get(task)
            row = None if value is None else msgspec.json.decode(value, type=TaskRow)
            if row is None or place is None:
                return row, Vetted()
            return row, vet(reader, house=admission.house, task=task, place=place)

        def found(values: tuple[TaskRow | None, Vetted]) -> None:
            row, vetted = values
            if row is None or (why := self._why_not(message, row, vetted)):
                why = why if row is not None else f"there is no task {task!r}"
                admission.callers.refuse(message, why)
            else:
                self._adopt(message, row, vetted)

        admission.read_about(lambda _: [task], look, found)

    def _why_not(self, message: Adopt, row: TaskRow, vetted: Vetted) -> str:
        place = self._admission.place(row.task)
        if place is None or row.status in ENDED:
            return f"task {row.task} has ended ({row.status})"
        if place.where != "parked" or not row.offered:
            return f"task {row.task} is not parked for a change of its agent"
        agent = self._admission.house.agents.get(place.agent)
        if agent is None:
            return f"no agent {place.agent!r} is registered: register it first"
        if agent.digest() != message.digest:
            return (
                f"agent {place.agent!r} is {agent.digest()} now, and not the "
                f"{message.digest} that was looked at: see what differs, then adopt it"
            )
        return vetted.unreadable

    def _adopt(self, message: Adopt, row: TaskRow, vetted: Vetted) -> None:
        admission, task = self._admission, message.task
        place = admission.place(task)
        assert place is not None
        admission.held.discard(task)
        changed, rows = self._changed(task, vetted, message.by)
        woken, more = admission.callers.waking(row, "resume", message.by)
        events: list[Event] = [changed]
        for one in woken:
            assert isinstance(one, TaskWoken)
            again = place.retry if place.woken else ""
            events.append(msgspec.structs.replace(one, retry=again))
        said = f"it goes on with agent {place.agent} as it is now, {changed.digest}"
        admission.callers.conclude(message, True, said, *events, rows=[*rows, *more])
