"""Runs of one job, disturbed or not, and all that must hold of each."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec

from perdure import Agent, Result
from perdure.actors import names
from perdure.actors.admission.queue import QueueState
from perdure.actors.admission.queue import apply as apply_queue
from perdure.actors.budget.account import AccountState
from perdure.actors.budget.account import apply as apply_account
from perdure.actors.budget.pool import PoolState, apply_pool
from perdure.actors.ledger.entry import LedgerState
from perdure.actors.ledger.entry import apply as apply_ledger
from perdure.actors.memory.state import MemoryState
from perdure.actors.memory.state import apply as apply_memory
from perdure.actors.task.state import TaskState
from perdure.actors.task.state import apply as apply_task
from perdure.actors.upgrades import body_of
from perdure.actors.windows.window import WindowsState
from perdure.actors.windows.window import apply as apply_windows
from perdure.models import Scripted
from perdure.storage.memory import MemoryStore
from tests.actors.world import (
    Calls,
    House,
    World,
    comparable,
    decode,
    disturbed,
    follow,
    job,
    redone,
    unbalanced,
)

__all__ = [
    "EXPECTED",
    "FOLDS",
    "MAILS",
    "SERVICES",
    "WIDE",
    "actors_of",
    "check",
    "disturb",
    "fold_of",
    "not_reproduced",
    "sound",
    "undisturbed",
    "wide",
]

WIDE: dict[str, Sequence[Calls]] = {
    "find": [
        [
            ("look", {"what": "a"}),
            ("look", {"what": "b"}),
            ("write", {"name": "g", "text": "2"}),
        ]
    ],
    "write": [
        [
            ("write", {"name": "f", "text": "1"}),
            ("send", {"text": "x"}),
            ("look", {"what": "c"}),
        ],
        [("send", {"text": "y"})],
    ],
    "send": [[("send", {"text": "hello"}), ("send", {"text": "there"})]],
}
MAILS = ["hello", "there", "x", "y"]
SERVICES = (
    names.JOURNAL,
    names.SERVICES,
    names.POOL,
    names.WINDOWS,
    names.MEMORY,
    names.TIMERS,
    names.ADMISSION,
    names.TASKS,
)


def wide(world: World, **options: Any) -> Agent:
    """The job with parallel calls of every effect class."""
    return job(world, model=Scripted(follow(WIDE)), **options)


def undisturbed() -> dict[str, Any]:
    house = House(wide(World()))
    return comparable(house.run())


EXPECTED = undisturbed()


def actors_of(task: str) -> list[str]:
    own = (names.task, names.ledger, names.account, names.context, names.family)
    return [name(task) for name in own]


def check(house: House, world: World, task: str) -> Result:
    """All that must hold of a run, however often it was disturbed."""
    result = house.finish(task)
    assert (result.status, result.reason) == (
        "completed",
        "every step and the task passed acceptance",
    )
    assert comparable(result) == EXPECTED  # P3
    assert sorted(text for _, text in world.sent) == MAILS  # P2
    sound(house)
    assert house.store.owner is None
    assert house.log.of("runtime.drain_incomplete") == []
    return result


def sound(house: House) -> None:
    """What must hold of a store whatever ran on it, however often disturbed."""
    assert redone(house.store) == []  # P6
    assert unbalanced(house.store) == []  # P3
    assert disturbed(house.store) == []  # B36
    assert house.log.crashes() == []
    assert house.log.strangers == []
    house.runtime.close()
    assert not_reproduced(house.store) == []  # P5


FOLDS: dict[str, tuple[type[Any], Any]] = {
    "/ledger": (LedgerState, apply_ledger),
    "/account": (AccountState, apply_account),
    "services/pool": (PoolState, apply_pool),
    "services/windows": (WindowsState, apply_windows),
    "services/memory": (MemoryState, apply_memory),
    "services/admission": (QueueState, apply_queue),
}


def fold_of(stream: str) -> tuple[type[Any], Any] | None:
    if stream.endswith("/recovery"):
        return None
    for end, found in FOLDS.items():
        if stream.endswith(end):
            return found
    return TaskState, apply_task


def not_reproduced(store: MemoryStore) -> list[str]:
    """Snapshots that differ from the fold of the events that they cover."""
    wrong: list[str] = []
    for stream, records in store.streams.items():
        if (found := fold_of(stream)) is None:
            continue
        kind, fold = found
        bodies = {0: body_of(kind())}
        state = kind()
        for record in records:
            state = fold(state, decode(record))
            bodies[record.version] = body_of(state)
        for snapshot, _ in store.snapshots.get(stream, []):
            state = msgspec.json.decode(snapshot.body, type=kind)
            for record in records[snapshot.version :]:
                state = fold(state, decode(record))
            if bodies[snapshot.version] != snapshot.body:
                wrong.append(f"{stream} snapshot {snapshot.version}")
            if body_of(state) != bodies[len(records)]:
                wrong.append(f"{stream} tail after {snapshot.version}")
    return wrong


def disturb(house: House, task: str, chance: Random, least: int, most: int) -> None:
    """Crash an actor or kill the process, up to four times, so many steps apart."""
    for _ in range(chance.randint(1, 4)):
        for _ in range(chance.randint(least, most)):
            house.sim.step()
        name = chance.choice([*actors_of(task), *SERVICES, *["kill"] * 4])
        if name == "kill":
            house.kill()
            house.reopen()
        else:
            house.sim.crash(name)
