"""The queue's state, pure: which task is where, and which groups had their turn."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..events import (
    AgentChanged,
    ApprovalAnswered,
    CommandApplied,
    EffectResolved,
    Event,
    ExpiryNear,
    NoteGiven,
    PauseAsked,
    PauseLifted,
    ProgressSeen,
    QuestionAnswered,
    QueueReopened,
    ScratchDropped,
    TaskActivated,
    TaskErased,
    TaskImported,
    TaskLeft,
    TaskParked,
    TaskPassivated,
    TaskQueued,
    TaskRecalled,
    TaskWoken,
)
from .place import Place

__all__ = [
    "ADOPT",
    "ENDING",
    "MOVES",
    "REGISTER",
    "REMEMBERED",
    "UPGRADE",
    "QueueState",
    "Rounds",
    "apply",
    "placed",
]

ENDING = ("cancel", "compensate")  # orders that a task only winds up for
REGISTER = "register the agent"  # what ends the wait of a task that lacks its agent
UPGRADE = "start a perdure that can read it"  # of one that this code cannot
ADOPT = "adopt, or the agent as it was"  # of one whose agent has changed
LAG = 1  # round that a slow start may be behind, and still be counted in its own
COMES = (TaskQueued, TaskWoken, TaskRecalled, TaskPassivated)  # it may wait from here
MOVES = (
    AgentChanged,
    TaskWoken,
    TaskActivated,
    TaskPassivated,
    TaskParked,
    PauseAsked,
    PauseLifted,
    NoteGiven,
    ProgressSeen,
)  # they change the place of a task that is known
REMEMBERED = 1_000  # groups that had a slot lately, of one priority


class Rounds(msgspec.Struct, frozen=True, kw_only=True):
    """Whose turn it is among groups of one priority: each gets one slot a round.

    `at` is the newest round that a slot was given for, `next` the round that the next
    slot of a group is for. A group that is not named there is at `at`: whoever did not
    wait, or comes anew, has no rounds to catch up on.
    """

    at: int = 0
    next: dict[str, int] = msgspec.field(default_factory=dict)

    def of(self, group: str) -> int:
        """The round that the group's next slot is for."""
        return self.next.get(group, self.at)

    def come(self, group: str) -> Rounds:
        """The group waits, from this round on where it has not just had a slot."""
        return self._with(group, self.of(group), self.at)

    def given(self, group: str) -> Rounds:
        """A slot was given to a task of the group."""
        turn = self.of(group)
        return self._with(group, turn + 1, max(self.at, turn))

    def back(self, group: str) -> Rounds:
        """A task that was not done with its slot has none: its turn comes again."""
        return self._with(group, max(self.of(group) - 1, self.at - LAG), self.at)

    def _with(self, group: str, turn: int, at: int) -> Rounds:
        known = [
            (name, n)
            for name, n in self.next.items()
            if n >= at - LAG and name != group
        ]
        return Rounds(at=at, next=dict([*known, (group, turn)][-REMEMBERED:]))


class QueueState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tasks that have a slot or are due for one, in the order of their submission.

    Who rests is a row (`resting.py`), and stands here again once it is recalled: what
    waits costs the others nothing, however many wait.

    `openings` counts the processes that took over from one that had died, `unclean`
    those deaths in a row without progress anywhere. With `alone`, interrupted tasks
    are recovered one at a time. `rounds` says by priority whose turn it is.
    """

    version: int = 0
    tasks: dict[str, Place] = msgspec.field(default_factory=dict)
    openings: int = 0
    unclean: int = 0
    alone: bool = False
    rounds: dict[int, Rounds] = msgspec.field(default_factory=dict)

    def active(self) -> list[str]:
        """The tasks that hold a slot."""
        return [name for name, one in self.tasks.items() if one.where == "active"]

    def running(self) -> list[str]:
        """The tasks that were activated since the last process took over."""
        return [
            name for name in self.active() if self.tasks[name].opening == self.openings
        ]


def apply(state: QueueState, event: Event) -> QueueState:
    """Fold one event of the queue's stream."""
    change = msgspec.structs.replace
    version = state.version + 1
    match event:
        case (
            ApprovalAnswered()
            | QuestionAnswered()
            | ExpiryNear()
            | EffectResolved()
            | CommandApplied()
            | ScratchDropped()
            | TaskImported()
            | TaskErased()
        ):
            return change(state, version=version)
        case TaskLeft(task=task):
            return _left(change(state, version=version), task)
        case QueueReopened():
            return change(_reopened(state, event), version=version)
        case ProgressSeen():
            state = change(state, unclean=0, alone=False)
        case TaskActivated(task=task):
            old = state.tasks[task]
            if old.where == "queued" and not _winds_up(state, old):
                state = _turned(state, old, Rounds.given)
        case TaskPassivated(task=task, waiting=False):
            state = _turned(state, state.tasks[task], Rounds.back)
    place = placed(state, event)
    if isinstance(event, COMES) and place.where == "queued" and not place.rests:
        state = _turned(state, place, Rounds.come)
    return change(state, version=version, tasks=_with(state, event, place))


def placed(state: QueueState, event: Event) -> Place:
    """The place of an event's task after it. Raises TypeError where it has none."""
    change = msgspec.structs.replace
    match event:
        case TaskQueued():
            return Place(
                agent=event.agent,
                group=event.group,
                priority=event.priority,
                place=state.version + 1,
                key=event.key,
                not_before=event.not_before or 0.0,
                parent=event.parent,
                notes=event.notes,
            )
        case TaskRecalled(place=place):
            return place
        case TaskWoken(task=task, order=order, by=by, retry=retry):
            old = state.tasks[task]
            where = "active" if old.where == "active" else "queued"
            # Only of a parked task can a cancel be taken back.
            back = old.where == "parked" and old.order == "cancel"
            if order == "resume":
                old = change(old, resumed=old.epoch + 1, resumer=by, retry=retry)
            return change(
                old,
                where=where,
                order=order,
                by=by,
                since=old.epoch + 1,
                pausing=old.pausing if order == "again" else "",
                lifted=False,
                lacks_agent=False,
                unfit=False,
                deaths=0 if order == "resume" else old.deaths,
                ending=order in ENDING or (old.ending and not back),
            )
        case TaskActivated(task=task):
            return change(
                state.tasks[task],
                where="active",
                epoch=event.epoch,
                order=event.order,
                by=event.by,
                since=event.since,
                clean=False,
                lifted=False,
                opening=state.openings,
                not_before=0.0,  # it has come; a clock set back changes nothing
            )
        case TaskPassivated(task=task, waiting=waiting):
            old = state.tasks[task]
            # Woken while it was still active: wake again.
            where = "waiting" if waiting and not old.woken else "queued"
            return change(old, where=where, clean=True)
        case TaskParked(task=task, ends_with=ends_with):
            return change(
                state.tasks[task],
                where="parked",
                lacks_agent=ends_with == REGISTER,
                unfit=ends_with in (UPGRADE, ADOPT),
            )
        case AgentChanged(task=task, digest=digest, baseline=rules):
            return change(state.tasks[task], digest=digest, rules=rules)
        case PauseAsked(task=task, by=by):
            return change(state.tasks[task], pausing=by or "somebody", lifted=False)
        case PauseLifted(task=task):
            return change(state.tasks[task], pausing="", lifted=True)
        case NoteGiven(task=task, serial=serial, number=number):
            old = state.tasks[task]
            return change(old, notes=max(old.notes, number), noted=serial)
        case ProgressSeen(task=task):
            return change(state.tasks[task], deaths=0)
    raise TypeError(f"{type(event).__name__} does not belong to the queue")


def _with(state: QueueState, event: Event, place: Place) -> dict[str, Place]:
    task: str = getattr(event, "task")  # noqa: B009 - every one that has a place
    if place.rests and not isinstance(event, TaskRecalled):
        return _without(state.tasks, task)
    tasks = {**state.tasks, task: place}
    if isinstance(event, TaskRecalled):  # where it stood before it rested
        return dict(sorted(tasks.items(), key=lambda one: one[1].place))
    return tasks


def _without(tasks: dict[str, Place], task: str) -> dict[str, Place]:
    rest = tasks.copy()
    rest.pop(task, None)
    return rest


def _left(state: QueueState, task: str) -> QueueState:
    tasks = _without(state.tasks, task)
    priority, rounds = state.tasks[task].priority, state.rounds
    if not any(one.priority == priority for one in tasks.values()):
        rounds = {n: one for n, one in rounds.items() if n != priority}
    return msgspec.structs.replace(
        state, tasks=tasks, rounds=rounds, unclean=0, alone=False
    )


def _reopened(state: QueueState, event: QueueReopened) -> QueueState:
    change = msgspec.structs.replace
    struck = len(event.interrupted) == 1
    tasks = dict(state.tasks)
    for name in event.interrupted:
        deaths = tasks[name].deaths + 1
        tasks[name] = change(tasks[name], deaths=deaths, struck=struck)
    return change(
        state,
        tasks=tasks,
        openings=state.openings + 1,
        unclean=state.unclean + 1 if event.interrupted else 0,
        alone=event.alone,
    )


def _turned(
    state: QueueState, place: Place, turn: Callable[[Rounds, str], Rounds]
) -> QueueState:
    rounds = turn(state.rounds.get(place.priority, Rounds()), place.group)
    return msgspec.structs.replace(
        state, rounds={**state.rounds, place.priority: rounds}
    )


def _winds_up(state: QueueState, place: Place) -> bool:
    parent = state.tasks.get(place.parent) if place.parent else None
    waits = parent is not None and parent.where == "active" and parent.ending
    return waits or place.ending
