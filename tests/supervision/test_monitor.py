from __future__ import annotations

from typing import Any

import pytest

from perdure.supervision import (
    SHUTDOWN,
    Actor,
    Crash,
    Down,
    NotRunning,
    SimulatedDispatcher,
    System,
    Up,
)


class Watcher(Actor):
    def __init__(self, heard: list[Any], *, absent: bool = True) -> None:
        super().__init__()
        self.heard = heard
        self.absent = absent

    def started(self) -> None:
        self.monitor(self.system.address("target"), absent=self.absent)

    def receive(self, message: Any) -> None:
        if message == "enough":
            self.demonitor(self.system.address("target"))
        else:
            self.heard.append(message)


class Target(Actor):
    def receive(self, message: Any) -> None:
        raise message


class Slow(Target):
    ready_when_started = False

    def receive(self, message: Any) -> None:
        self.ready()


@pytest.fixture
def heard() -> list[Any]:
    return []


@pytest.fixture(autouse=True)
def watch(system: System, sim: SimulatedDispatcher, heard: list[Any]) -> None:
    system.spawn("target", Target)
    sim.run()
    system.spawn("watcher", lambda: Watcher(heard))
    sim.run()


def test_monitors_hear_a_crash_with_its_reason(
    system: System, sim: SimulatedDispatcher, heard: list[Any]
) -> None:
    system.address("target").tell(ValueError("boom"))
    sim.run()
    (down,) = heard
    assert (down.name, down.incarnation) == ("target", 1)
    assert isinstance(down.reason, Crash)
    assert down.reason.error == "ValueError: boom"


def test_monitors_hear_each_next_incarnation(
    system: System, sim: SimulatedDispatcher, heard: list[Any]
) -> None:
    for _ in range(2):
        system.stop("target")
        sim.run()
        system.spawn("target", Target)
        sim.run()
    assert heard == [
        Down(name="target", incarnation=1, reason=SHUTDOWN),
        Up(name="target", incarnation=3),
        Down(name="target", incarnation=3, reason=SHUTDOWN),
        Up(name="target", incarnation=4),
    ]


def test_up_waits_for_ready(
    system: System, sim: SimulatedDispatcher, heard: list[Any]
) -> None:
    system.stop("target")
    sim.run()
    heard.clear()
    target = system.spawn("target", Slow)
    sim.run()
    assert heard == []
    target.tell("go")
    sim.run()
    assert heard == [Up(name="target", incarnation=3)]


def test_a_start_that_fails_is_down_without_up(
    system: System, sim: SimulatedDispatcher, heard: list[Any]
) -> None:
    class Broken(Target):
        def started(self) -> None:
            raise ValueError

    system.stop("target")
    sim.run()
    heard.clear()
    system.spawn("target", Broken)
    sim.run()
    assert [type(message) for message in heard] == [Down]


def test_a_dead_target_is_reported_at_once(
    system: System, sim: SimulatedDispatcher, heard: list[Any]
) -> None:
    late: list[Any] = []
    system.stop("target")
    sim.run()
    system.spawn("late", lambda: Watcher(late))
    sim.run()
    assert late == [Down(name="target", incarnation=0, reason=NotRunning())]


def test_a_monitor_set_before_the_first_start_hears_it(
    system: System, sim: SimulatedDispatcher, heard: list[Any]
) -> None:
    system.stop("target")
    sim.run()
    early: list[Any] = []
    system.spawn("early", lambda: Watcher(early))
    sim.run()
    system.spawn("target", Target)
    sim.run()
    assert [type(message) for message in early] == [Down, Up]


def test_who_knows_that_nobody_is_there_yet_hears_only_what_comes(
    system: System, sim: SimulatedDispatcher
) -> None:
    system.stop("target")
    sim.run()
    early: list[Any] = []
    system.spawn("early", lambda: Watcher(early, absent=False))
    sim.run()
    system.spawn("target", Target)
    sim.run()
    system.stop("target")
    sim.run()
    assert [type(message) for message in early] == [Up, Down]


def test_nothing_is_heard_after_demonitor(
    system: System, sim: SimulatedDispatcher, heard: list[Any]
) -> None:
    system.address("watcher").tell("enough")
    sim.run()
    system.stop("target")
    sim.run()
    assert heard == []


def test_a_dead_watcher_is_forgotten(
    system: System, sim: SimulatedDispatcher, heard: list[Any]
) -> None:
    system.stop("watcher")
    sim.run()
    system.stop("target")
    sim.run()
    assert (heard, system.dead_letters) == ([], 0)
