from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from perdure.supervision import (
    EVENTS,
    Actor,
    ChildSpec,
    PoolDispatcher,
    Shutdown,
    SimulatedDispatcher,
    Supervisor,
    SupervisorSpec,
    System,
)


class EventLog:
    """Keeps what is logged, and refuses what the table does not list."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.strangers: list[str] = []

    def __call__(self, event: str, **fields: Any) -> None:
        if set(EVENTS.get(event, ())) != set(fields):
            self.strangers.append(f"{event} {sorted(fields)}")
        self.events.append((event, fields))

    def of(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.events if name == event]


@pytest.fixture
def log() -> Iterator[EventLog]:
    log = EventLog()
    yield log
    assert log.strangers == []


@pytest.fixture
def sim() -> SimulatedDispatcher:
    return SimulatedDispatcher(seed=1)


@pytest.fixture
def system(sim: SimulatedDispatcher, log: EventLog) -> System:
    return System(sim, log)


@pytest.fixture
def pool() -> Iterator[PoolDispatcher]:
    pool = PoolDispatcher(threads=2)
    yield pool
    pool.close(timeout=5.0)


@pytest.fixture
def pool_system(pool: PoolDispatcher, log: EventLog) -> System:
    return System(pool, log)


class Kid(Actor):
    """A child that writes down its starts and stops, and does what it is told."""

    def __init__(self, diary: list[str], moods: list[str]) -> None:
        super().__init__()
        self.diary = diary
        self.moods = moods

    def started(self) -> None:
        mood = self.moods.pop(0) if self.moods else "well"
        if mood == "ill":
            self.diary.append(f"ill {self.name}")
            raise ValueError("ill at start")
        self.diary.append(f"start {self.name}")

    def receive(self, message: Any) -> None:
        match message:
            case "normal":
                self.stop()
            case "shutdown":
                self.stop(Shutdown(detail="asked"))
            case _:
                raise ValueError(message)

    def stopped(self) -> None:
        self.diary.append(f"stop {self.name}")


class Family:
    """A supervisor named "sup" and what became of its children."""

    Kid = Kid

    def __init__(self, system: System, sim: SimulatedDispatcher, log: EventLog) -> None:
        self.system = system
        self.log = log
        self.sim = sim
        self.diary: list[str] = []
        self.moods: dict[str, list[str]] = {}

    def kid(
        self,
        name: str,
        *,
        kind: Callable[[list[str], list[str]], Actor] = Kid,
        **options: Any,
    ) -> ChildSpec:
        moods = self.moods.setdefault(name, [])
        return ChildSpec(name=name, factory=lambda: kind(self.diary, moods), **options)

    def raise_up(self, *children: ChildSpec, **options: Any) -> None:
        spec = SupervisorSpec(
            **{"children": children, "intensity": None, "period": 60.0, **options}
        )
        self.system.spawn("sup", lambda: Supervisor(spec))
        self.sim.run(until=self.settled)

    def settled(self) -> bool:
        """Whether nothing can run before virtual time has to move."""
        return self.sim.idle

    def tell(self, name: str, message: Any) -> None:
        assert self.system.address(name).tell(message)
        self.sim.run(until=self.settled)

    def wait(self, seconds: float) -> None:
        self.sim.run_for(seconds)
        self.sim.run(until=self.settled)

    def is_up(self, *names: str) -> list[bool]:
        return [self.system.is_running(name) for name in names]

    def take_diary(self) -> list[str]:
        taken, self.diary[:] = list(self.diary), []
        return taken


@pytest.fixture
def family(system: System, sim: SimulatedDispatcher, log: EventLog) -> Family:
    return Family(system, sim, log)


@pytest.fixture
def make_family() -> type[Family]:
    return Family
