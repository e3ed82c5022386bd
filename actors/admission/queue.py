"""The queue's state, pure: which task is where, and whose turn comes next."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..events import (
    ApprovalAnswered,
    CommandApplied,
    Event,
    ProgressSeen,
    QueueReopened,
    TaskActivated,
    TaskLeft,
    TaskParked,
    TaskPassivated,
    TaskQueued,
    TaskWoken,
)

__all__ = ["REGISTER", "Place", "QueueState", "apply", "due"]

REGISTER = "register the agent"  # what ends the wait of a task that lacks its agent


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where one unfinished task stands.

    `place` is its position for good; `clean` says that its actors ended as they
    should, so that it needs no recovery; `since` is the epoch its order was given for.

    `opening` says in which process it was activated last, `deaths` how many processes
    died under it since it was seen to get further, and `struck` whether the last of
    those deaths counts against it: it does where nobody else was active.
    """

    agent: str
    group: str
    priority: int
    place: int
    key: str | None = None
    where: Literal["queued", "active", "waiting", "parked"] = "queued"
    epoch: int = 0
    order: Literal["run", "resume", "cancel", "again"] = "run"
    by: str = ""
    since: int = 0
    clean: bool = True
    lacks_agent: bool = False
    opening: int = 0
    deaths: int = 0
    struck: bool = True
    not_before: float = 0.0

    @property
    def woken(self) -> bool:
        """Whether its order came after its last activation."""
        return self.since > self.epoch

    @property
    def forgiven(self) -> bool:
        """Whether somebody had it go on, so that its recoveries count anew."""
        return self.woken and self.order != "again"


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """All unfinished tasks by id, in the order of their submission.

    `openings` counts the processes that took over from one that had died, `unclean`
    those deaths in a row without progress anywhere. With `alone`, interrupted tasks
    are recovered one at a time.
    """

    version: int = 0
    tasks: dict[str, Place] = msgspec.field(default_factory=dict)
    openings: int = 0
    unclean: int = 0
    alone: bool = False

    def active(self) -> list[str]:
        """The tasks that hold a slot."""
        return [name for name, one in self.tasks.items() if one.where == "active"]

    def running(self) -> list[str]:
        """The tasks that were activated since the last process took over."""
        return [
            name for name in self.active() if self.tasks[name].opening == self.openings
        ]

    def with_key(self, key: str) -> str | None:
        """The unfinished task that was submitted with `key`."""
        return next((name for name, one in self.tasks.items() if one.key == key), None)


def apply(state: QueueState, event: Event) -> QueueState:
    """Fold one event of the queue's stream."""
    change = msgspec.structs.replace
    version = state.version + 1
    match event:
        case TaskQueued():
            place = Place(
                agent=event.agent,
                group=event.group,
                priority=event.priority,
                place=version,
                key=event.key,
                not_before=event.not_before or 0.0,
            )
        case TaskWoken(task=task, order=order, by=by):
            old = state.tasks[task]
            where = "active" if old.where == "active" else "queued"
            place = change(
                old,
                where=where,
                order=order,
                by=by,
                since=old.epoch + 1,
                lacks_agent=False,
                deaths=0 if order == "resume" else old.deaths,
            )
        case TaskActivated():
            place = change(
                state.tasks[event.task],
                where="active",
                epoch=event.epoch,
                order=event.order,
                by=event.by,
                since=event.since,
                clean=False,
                opening=state.openings,
            )
        case TaskPassivated(task=task, waiting=waiting):
            old = state.tasks[task]
            # Woken while it was still active: wake again.
            where = "waiting" if waiting and not old.woken else "queued"
            place = change(old, where=where, clean=True)
        case TaskParked(task=task, ends_with=ends_with):
            place = change(
                state.tasks[task], where="parked", lacks_agent=ends_with == REGISTER
            )
        case ApprovalAnswered() | CommandApplied():
            return change(state, version=version)
        case TaskLeft(task=task):
            tasks = {name: one for name, one in state.tasks.items() if name != task}
            return change(state, version=version, tasks=tasks, unclean=0, alone=False)
        case QueueReopened():
            return change(_reopened(state, event), version=version)
        case ProgressSeen(task=task):
            state = change(state, unclean=0, alone=False)
            place = change(state.tasks[task], deaths=0)
        case _:
            raise TypeError(f"{type(event).__name__} does not belong to the queue")
    tasks = {**state.tasks, event.task: place}
    return change(state, version=version, tasks=tasks)


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


def due(
    state: QueueState, *, slots: int, held: frozenset[str], now: float
) -> list[str]:
    """The tasks to activate now: by priority, then in order of submission.

    A cancelled task needs no free slot: it only winds up. `held` are left alone, and
    those whose time has not come at second `now` since the epoch.
    """
    free = slots - len(state.active())
    waiting = sorted(
        (-one.priority, one.place, name)
        for name, one in state.tasks.items()
        if one.where == "queued" and name not in held
    )
    chosen: list[str] = []
    for _, _, name in waiting:
        if state.tasks[name].order == "cancel":
            chosen.append(name)
        elif free > 0 and state.tasks[name].not_before <= now:
            chosen.append(name)
            free -= 1
    return chosen
