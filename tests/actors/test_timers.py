"""Tasks that wait for the time: rows without slot or thread, over every kill."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from perdure import Agent, Misuse, sleep
from perdure.actors import names
from perdure.actors.events import TaskActivated, TaskPaused, TimerFired, TimerSet
from perdure.models import Scripted
from perdure.supervision import SimulatedDispatcher, VirtualClock
from tests.actors.runs import disturb, sound
from tests.actors.world import (
    Calls,
    House,
    World,
    follow,
    job,
    tools_of,
)

HOUR = 3600.0
NAP: Sequence[Calls] = [
    [("sleep", {"seconds": HOUR}), ("look", {"what": "a"})],
    [("send", {"text": "awake"})],
]


def sleeper(world: World, calls: Sequence[Calls] = NAP, **options: Any) -> Agent:
    return Agent(
        name="sleeper",
        instructions="Wait, then send.",
        model=Scripted(follow({"task": calls})),
        tools=[sleep, *tools_of(world)],
        recovery="rules",
        **options,
    )


def awake(house: House, world: World, task: str, since: float) -> None:
    """All that must hold of a task that slept an hour, however often disturbed."""
    assert house.finish(task).status == "completed"
    assert [text for _, text in world.sent] == ["awake"]
    assert len(house.of(f"task/{task}", TimerSet)) == 1
    assert len(house.of(f"task/{task}", TimerFired)) == 1
    assert house.sim.clock.time() >= since + HOUR
    assert house.store.rows.get(names.TIMER_ROWS, {}) == {}
    sound(house)


def test_a_sleeping_task_holds_no_slot_and_no_actor() -> None:
    world, other = World(), World()
    house = House(sleeper(world), job(other), active=1)
    began = house.sim.clock.time()
    first, second = house.submit("sleeper"), house.submit()
    assert house.finish(second.id).status == "completed"
    assert house.sim.clock.time() < began + HOUR
    assert first.status == "waiting"
    assert not house.runtime._system.is_running(names.family(first.id))
    awake(house, world, first.id, began)


def test_a_sleep_ends_at_its_time() -> None:
    world = World()
    house = House(sleeper(world))
    task = house.submit("sleeper")
    (at,) = [
        one.at
        for one in house.of(f"task/{task.id}", TimerSet)
        or (house.until_hit("timer.set") and house.of(f"task/{task.id}", TimerSet))
    ]
    house.until_hit("timer.fired")
    assert at <= house.sim.clock.time() < at + 5.0


def test_a_sleep_is_no_stop_to_whoever_waits_for_the_task() -> None:
    told: list[str] = []
    house = House(sleeper(World()), on_event=lambda name, _: told.append(name))
    assert house.run("sleeper").status == "completed"
    assert house.until(lambda: bool(told))
    assert told == ["task.closed"]


def test_a_sleeping_task_can_be_cancelled() -> None:
    world = World()
    house = House(sleeper(world))
    task = house.submit("sleeper")
    assert house.until(lambda: task.status == "waiting")
    began = house.sim.clock.time()
    assert task.cancel().status == "cancelled"
    assert house.sim.clock.time() < began + HOUR
    assert house.store.rows[names.TIMER_ROWS] == {}


def test_each_sleep_is_one_pause() -> None:
    world = World()
    nap = [("sleep", {"seconds": HOUR})]
    house = House(sleeper(world, [nap, nap, nap]))
    task = house.submit("sleeper")
    assert house.finish(task.id).status == "completed"
    assert len(house.of(f"task/{task.id}", TaskPaused)) == 3
    orders = [one.order for one in house.of("services/admission", TaskActivated)]
    assert orders == ["run", "again", "again", "again"]


def test_a_sleep_goes_on_over_a_process_that_was_away() -> None:
    world = World()
    house = House(sleeper(world))
    task = house.submit("sleeper")
    began = house.sim.clock.time()
    assert house.until(lambda: task.status == "waiting")
    house.runtime.close()
    house.sim.clock.advance(2 * HOUR)
    house.reopen()
    awake(house, world, task.id, began)
    assert house.sim.clock.time() < began + 2 * HOUR + 60.0


def test_a_sleep_ends_by_a_clock_that_falls_behind_at_each_wait() -> None:
    # What is left may be too short to be waited for.
    class Slow(VirtualClock):
        def advance(self, seconds: float) -> None:
            wall = self.time() + max(0.0, seconds - 1e-6)
            super().advance(seconds)
            self.set_time(wall)

    world = World()
    house = House(
        sleeper(world), dispatcher=lambda seed: SimulatedDispatcher(seed, Slow())
    )
    task = house.submit("sleeper")
    awake(house, world, task.id, house.sim.clock.time())


@pytest.mark.parametrize("seconds", [-1, 1e9, "soon"])
def test_a_wait_of_no_length_is_refused(seconds: Any) -> None:
    house = House(sleeper(World(), [[("sleep", {"seconds": seconds})]]))
    began = house.sim.clock.time()
    assert house.run("sleeper").status == "completed"
    assert house.sim.clock.time() < began + 60.0


# -- not before ---------------------------------------------------------------


def test_a_task_gets_no_slot_before_its_time() -> None:
    house = House(job(World()))
    at = house.sim.clock.time() + HOUR
    late, early = house.submit(not_before=at), house.submit()
    assert house.finish(early.id).status == "completed"
    assert house.sim.clock.time() < at
    assert late.status == "queued"
    house.kill()
    house.reopen()
    assert house.finish(late.id).status == "completed"
    first = next(
        record
        for record in house.store.log
        if record.type == TaskActivated.__name__ and late.id.encode() in record.body
    )
    assert at <= first.at < at + 5.0
    assert house.store.rows[names.TIMER_ROWS] == {}


def test_a_task_that_began_is_not_held_back_where_the_clock_is_set_back() -> None:
    house = House(job(World()))
    clock = house.sim.clock
    task = house.submit(not_before=clock.time() + HOUR)
    house.until_hit("step.ended", step="find")
    task.pause()
    assert house.finish(task.id).reason == "operator"
    clock.set_time(clock.time() - HOUR)
    task.resume()
    assert house.finish(task.id).status == "completed"
    assert clock.monotonic() < HOUR + 60.0


def test_a_time_that_came_while_no_slot_was_free_has_come() -> None:
    house = House(job(World()), active=1)
    clock = house.sim.clock
    first = house.submit()
    late = house.submit(not_before=clock.time())
    clock.advance(1.0)
    house.until_hit("step.ended", task=first.id, step="find")
    clock.set_time(clock.time() - HOUR)
    assert house.finish(first.id).status == "completed"
    assert house.finish(late.id).status == "completed"
    assert clock.monotonic() < 60.0


def test_a_task_can_be_cancelled_before_its_time() -> None:
    house = House(job(World()))
    at = house.sim.clock.time() + HOUR
    task = house.submit(not_before=at)
    assert task.cancel().status == "cancelled"
    assert house.sim.clock.time() < at


@pytest.mark.parametrize("at", [float("nan"), float("inf"), -1.0, "now", True])
def test_a_time_that_is_none_is_refused(at: Any) -> None:
    house = House(job(World()))
    with pytest.raises(Misuse, match="not_before="):
        house.submit(not_before=at)


# -- disturbed ----------------------------------------------------------------


@pytest.mark.parametrize("part", range(6))
def test_a_process_cut_off_at_any_step_sleeps_once(part: int) -> None:
    # R3 P5
    steps = part + 1
    while True:
        world = World()
        house = House(sleeper(world), seed=part)
        began = house.sim.clock.time()
        task = house.submit("sleeper")
        for _ in range(steps):
            house.sim.step()
        ended = task.status == "completed"
        house.kill()
        house.reopen()
        awake(house, world, task.id, began)
        if ended:
            return
        steps += 6


@pytest.mark.parametrize("seed", range(16))
def test_any_sequence_of_crashes_and_kills_sleeps_once(seed: int) -> None:
    # R4
    chance = random.Random(seed)
    world = World()
    house = House(sleeper(world), seed=seed)
    began = house.sim.clock.time()
    task = house.submit("sleeper")
    disturb(house, task.id, chance, 30, 120)
    awake(house, world, task.id, began)
