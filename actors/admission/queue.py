"""The queue's state, pure: which task is where, and whose turn comes next."""

from __future__ import annotations

from collections import deque
from typing import Literal

import msgspec

from ..events import (
    ApprovalAnswered,
    CommandApplied,
    EffectResolved,
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
    parent: str = ""

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
    are recovered one at a time. `turns` says how many slots each group of unfinished
    tasks was given, counted from where the others stood when it came.
    """

    version: int = 0
    tasks: dict[str, Place] = msgspec.field(default_factory=dict)
    openings: int = 0
    unclean: int = 0
    alone: bool = False
    turns: dict[str, int] = msgspec.field(default_factory=dict)

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
                parent=event.parent,
            )
            if event.group not in state.turns:
                first = min(state.turns.values(), default=0)
                state = change(state, turns={**state.turns, event.group: first})
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
            old = state.tasks[event.task]
            if old.where == "queued":  # else it had its slot before
                turns = {**state.turns, old.group: state.turns[old.group] + 1}
                state = change(state, turns=turns)
            place = change(
                old,
                where="active",
                epoch=event.epoch,
                order=event.order,
                by=event.by,
                since=event.since,
                clean=False,
                opening=state.openings,
                not_before=0.0,  # it has come; a clock set back changes nothing
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
        case ApprovalAnswered() | EffectResolved() | CommandApplied():
            return change(state, version=version)
        case TaskLeft(task=task):
            tasks = {name: one for name, one in state.tasks.items() if name != task}
            group, turns = state.tasks[task].group, state.turns
            if not any(one.group == group for one in tasks.values()):
                turns = {name: n for name, n in turns.items() if name != group}
            return change(
                state,
                version=version,
                tasks=tasks,
                turns=turns,
                unclean=0,
                alone=False,
            )
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
    state: QueueState,
    *,
    slots: int,
    held: frozenset[str],
    now: float,
    ripe: frozenset[str] = frozenset(),
) -> list[str]:
    """The tasks to activate now: by priority, group by group, in order of submission.

    Of groups that wait with the same priority, the next slot goes to the one that was
    given the fewest: a thousand tasks do not keep one of another group waiting. A
    cancelled task needs no free slot: it only winds up. `held` are left alone, and
    those whose time has not come at second `now` since the epoch; that of the `ripe`
    ones has, whatever a clock that was set back says.
    """
    free = slots - len(state.active())
    waiting = [
        (one.place, name)
        for name, one in state.tasks.items()
        if one.where == "queued" and name not in held
    ]
    chosen = [name for _, name in waiting if state.tasks[name].order == "cancel"]
    if free <= 0:
        return chosen
    lines: dict[tuple[int, str], deque[tuple[int, str]]] = {}
    for place, name in sorted(waiting):
        one = state.tasks[name]
        ready = one.not_before <= now or name in ripe
        if ready and one.order != "cancel":
            line = lines.setdefault((-one.priority, one.group), deque())
            line.append((place, name))
    turns = dict(state.turns)
    for _ in range(free):
        if not lines:
            break
        key = min(lines, key=lambda one: (one[0], turns[one[1]], lines[one][0]))
        chosen.append(lines[key].popleft()[1])
        turns[key[1]] += 1
        if not lines[key]:
            del lines[key]
    return chosen
