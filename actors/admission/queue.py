"""The queue's state, pure: which task is where, and whose turn comes next."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..events import (
    Event,
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
    """

    agent: str
    group: str
    priority: int
    place: int
    key: str | None = None
    where: Literal["queued", "active", "waiting", "parked"] = "queued"
    epoch: int = 0
    order: Literal["run", "resume", "cancel"] = "run"
    by: str = ""
    since: int = 0
    clean: bool = True
    lacks_agent: bool = False


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """All unfinished tasks by id, in the order of their submission."""

    version: int = 0
    tasks: dict[str, Place] = msgspec.field(default_factory=dict)

    def active(self) -> list[str]:
        """The tasks that hold a slot."""
        return [name for name, one in self.tasks.items() if one.where == "active"]

    def with_key(self, key: str) -> str | None:
        """The unfinished task that was submitted with `key`."""
        return next((name for name, one in self.tasks.items() if one.key == key), None)


def apply(state: QueueState, event: Event) -> QueueState:
    """Fold one event of the queue's stream."""
    version = state.version + 1
    match event:
        case TaskQueued():
            place = Place(
                agent=event.agent,
                group=event.group,
                priority=event.priority,
                place=version,
                key=event.key,
            )
        case TaskWoken(task=task, order=order, by=by):
            old = state.tasks[task]
            where = "active" if old.where == "active" else "queued"
            place = msgspec.structs.replace(
                old,
                where=where,
                order=order,
                by=by,
                since=old.epoch + 1,
                lacks_agent=False,
            )
        case TaskActivated():
            place = msgspec.structs.replace(
                state.tasks[event.task],
                where="active",
                epoch=event.epoch,
                order=event.order,
                by=event.by,
                since=event.since,
                clean=False,
            )
        case TaskPassivated(task=task, waiting=waiting):
            old = state.tasks[task]
            woken = old.since > old.epoch  # while it was still active: wake again
            place = msgspec.structs.replace(
                old, where="waiting" if waiting and not woken else "queued", clean=True
            )
        case TaskParked(task=task, ends_with=ends_with):
            place = msgspec.structs.replace(
                state.tasks[task], where="parked", lacks_agent=ends_with == REGISTER
            )
        case TaskLeft(task=task):
            tasks = {name: one for name, one in state.tasks.items() if name != task}
            return QueueState(version=version, tasks=tasks)
        case _:
            raise TypeError(f"{type(event).__name__} does not belong to the queue")
    return QueueState(version=version, tasks={**state.tasks, event.task: place})


def due(state: QueueState, *, slots: int, held: frozenset[str]) -> list[str]:
    """The tasks to activate now: by priority, then in order of submission.

    A cancelled task needs no free slot: it only winds up. `held` are left alone.
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
        elif free > 0:
            chosen.append(name)
            free -= 1
    return chosen
