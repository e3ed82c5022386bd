"""One run as data: who does what, and what goes wrong when. All of it from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

__all__ = [
    "CloseProcess",
    "CrashActor",
    "Fault",
    "JumpClock",
    "KillAt",
    "KillProcess",
    "Order",
    "RaiseAt",
    "Reply",
    "Schedule",
    "Slow",
    "TaskSpec",
    "schedule_of",
]

LABELS = ("task", "ledger", "account", "admission", "pool")
BETWEEN_APPENDS = tuple(
    f"{label}.{part}.after" for label in LABELS for part in ("append", "apply")
)
ELSEWHERE = (
    "journal.append.before",
    "journal.append.after",
    "journal.flush.before",
    "journal.flush.after",
    "journal.ack.before",
    "snapshot.taken",
    "task.decided",
    "task.reserved",
    "task.observed",
    "task.closing",
    "effect.registered",
    "effect.executing",
    "effect.executed",
    "effect.recorded",
    "effect.settled",
    "recovery.loaded",
    "recovery.rebuilt",
    "recovery.verified",
    "recovery.declared",
    "recovery.began",
    "admission.queued",
    "admission.activated",
    "admission.passivated",
    "admission.left",
    "approval.asked",
    "approval.answered",
    "inbox.applied",
    "timer.set",
    "timer.fired",
)
# A raise at these is the executor's, or the writer's, to bear: not a crash of an actor.
RAISING = (*BETWEEN_APPENDS, "journal.append.before", "task.decided", "effect.recorded")
AROUND_SUB_TASKS = (
    "subtask.started",
    "subtask.ended",
    "admission.queued",
    "admission.left",
    "admission.passivated",
)
ORDERS = ("pause", "resume", "cancel", "extend")
NEVER = 100_000  # steps; more than any run takes
HOUR = 3600.0  # seconds


class Event(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something that goes wrong."""


class CrashActor(Event, frozen=True, kw_only=True):
    """At a step, one of the living actors crashes; `which` is in [0, 1)."""

    step: int
    which: float


class RaiseAt(Event, frozen=True, kw_only=True):
    """The `nth` time that a fault point is passed, it raises."""

    point: str
    nth: int


class KillProcess(Event, frozen=True, kw_only=True):
    """At a step the process dies; of what waits for a flush, a share is on disk.

    With `straggling` its writer wakes up once more when the next process is there.
    """

    step: int
    reached: float
    straggling: bool = False


class KillAt(Event, frozen=True, kw_only=True):
    """The same, the `nth` time that a fault point is passed: inside a turn."""

    point: str
    nth: int
    reached: float


class JumpClock(Event, frozen=True, kw_only=True):
    """At a step somebody sets the wall clock."""

    step: int
    seconds: float


class CloseProcess(Event, frozen=True, kw_only=True):
    """At a step the process is closed as it should be, and opened again."""

    step: int


Fault: TypeAlias = (
    CrashActor | RaiseAt | KillProcess | KillAt | JumpClock | CloseProcess
)


class Slow(msgspec.Struct, frozen=True, kw_only=True):
    """The `job`-th tool call sleeps before it acts and before it returns (seconds)."""

    job: int
    before: float
    after: float


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """At a step somebody tells a task something; `what` is one of `ORDERS`.

    Or it is `submit`, `close`, or `stray`: the answer to what that task never asked.
    With `part` it is told to that one of the task's sub-tasks so far, if there is any.
    """

    step: int
    what: str
    task: int
    part: int | None = None


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """How somebody answers the next approval, `delay` steps after it was asked.

    By `inbox` another process does, even while this one is down. With `again` somebody
    else answers the opposite, the other way, later on.
    """

    delay: int
    approved: bool
    inbox: bool
    again: bool


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One task: when it is submitted, and with how much money.

    It is to begin `after` seconds, at the earliest; `agent` is one of the script's.
    """

    step: int
    priority: int
    model_calls: int
    agent: str
    after: float | None


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run. Faults come within the first `storm` steps, then it must end well.

    `lags` are seconds until the world shows an effect that happened, in turn, and
    `away` seconds that pass between a process and the next. `replies` go to approvals
    as they are asked; whoever else asks is told yes at once.
    """

    seed: int
    storm: int
    active: int
    rules: bool
    snapshot_events: int
    tasks: tuple[TaskSpec, ...]
    faults: tuple[Fault, ...]
    slow: tuple[Slow, ...]
    orders: tuple[Order, ...]
    lags: tuple[float, ...]
    replies: tuple[Reply, ...]
    away: tuple[float, ...]


def schedule_of(seed: int) -> Schedule:
    """The schedule of a seed."""
    chance = random.Random(f"schedule {seed}")
    waits = random.Random(f"waits {seed}")
    storm = chance.randint(150, 700)
    tasks = tuple(
        TaskSpec(
            step=0 if number == 0 else chance.randrange(storm // 2),
            priority=chance.choice((0, 0, 1)),
            model_calls=chance.choice((4, 100, 100)),
            agent=waits.choice(("worker", "waiter")),
            after=waits.choice((None, None, None, 3.0, 30.0)),
        )
        for number in range(chance.choice((1, 2, 2, 3)))
    )
    faults = tuple(_fault(chance, storm) for _ in range(chance.choice((1, 2, 3, 3, 5))))
    slow = tuple(
        _slow(chance, job)
        for job in sorted(chance.sample(range(1, 16), chance.choice((0, 1, 2, 4))))
    )
    orders = tuple(
        Order(
            step=chance.randrange(storm),
            what=chance.choice(ORDERS),
            task=chance.randrange(len(tasks)),
        )
        for _ in range(chance.choice((0, 1, 2, 3)))
    ) + tuple(
        Order(
            step=waits.randrange(storm), what="stray", task=waits.randrange(len(tasks))
        )
        for _ in range(waits.choice((0, 0, 1)))
    )
    hands = random.Random(f"hands {seed}")
    if hands.random() < 0.3:
        agent = hands.choice(("chief", "chief", "head"))
        first = msgspec.structs.replace(tasks[0], agent=agent)
        tasks = (first, *tasks[1:2])
        orders += tuple(_to_parts(hands, storm))
        faults += tuple(_around_sub_tasks(hands))
    return Schedule(
        seed=seed,
        storm=storm,
        active=chance.choice((1, 2, 2)),
        rules=chance.random() < 0.4,
        snapshot_events=chance.choice((3, 8, 64)),
        tasks=tasks,
        faults=faults,
        slow=slow,
        orders=tuple(
            sorted(
                (order for order in orders if order.task < len(tasks)),
                key=lambda order: order.step,
            )
        ),
        lags=tuple(chance.choice((0.0, 0.5, 1.6)) for _ in range(8)),
        replies=tuple(_reply(waits) for _ in range(waits.choice((0, 3, 6)))),
        away=tuple(waits.choice((0.0, 0.0, 4.0, 40.0)) for _ in range(6)),
    )


def _to_parts(chance: random.Random, storm: int) -> Iterator[Order]:
    """What is told to sub-tasks, and to their parent while they run."""
    for _ in range(chance.choice((0, 1, 2))):
        yield Order(
            step=chance.randrange(40, storm),
            what=chance.choice(ORDERS),
            task=0,
            part=chance.randrange(4),
        )
    if chance.random() < 0.3:
        yield Order(step=chance.randrange(60, storm), what="cancel", task=0)


def _around_sub_tasks(chance: random.Random) -> Iterator[Fault]:
    for _ in range(chance.choice((0, 1, 1))):
        point = chance.choice(AROUND_SUB_TASKS)
        reached = chance.choice((0.0, 0.5, 1.0))
        yield KillAt(point=point, nth=chance.randint(1, 4), reached=reached)


def _reply(chance: random.Random) -> Reply:
    return Reply(
        delay=chance.choice((0, 0, 5, 20, 60, NEVER)),
        approved=chance.random() < 0.6,
        inbox=chance.random() < 0.5,
        again=chance.random() < 0.3,
    )


def _fault(chance: random.Random, storm: int) -> Fault:
    step = chance.randrange(20, storm)
    kinds = ("crash", "crash", "raise", "kill", "kill at", "kill in flight", "rare")
    match chance.choice(kinds):
        case "crash":
            return CrashActor(step=step, which=chance.random())
        case "raise":
            return RaiseAt(point=chance.choice(RAISING), nth=_nth(chance))
        case "kill":
            return KillProcess(
                step=step,
                reached=chance.choice((0.0, 0.5, 1.0)),
                straggling=chance.random() < 0.5,
            )
        case "kill at":
            point = chance.choice((*BETWEEN_APPENDS, *ELSEWHERE))
            reached = chance.choice((0.0, 0.5, 1.0))
            return KillAt(point=point, nth=_nth(chance), reached=reached)
        case "kill in flight":  # the world has acted, the record is not written
            return KillAt(
                point="effect.executed", nth=chance.randint(1, 24), reached=0.0
            )
        case _:
            if chance.random() < 0.5:
                return CloseProcess(step=step)
            ways = (-HOUR, 24 * HOUR, 3.0, -3.0)
            return JumpClock(step=step, seconds=chance.choice(ways))


def _nth(chance: random.Random) -> int:
    return chance.choice((1, 2, 3, 5, chance.randint(1, 40)))


def _slow(chance: random.Random, job: int) -> Slow:
    """Slow, hung until past the deadline, or hung after it acted."""
    before, after = chance.choice(((1.0, 1.0), (14.0, 0.0), (0.0, 14.0), (40.0, 0.0)))
    return Slow(job=job, before=before, after=after)
