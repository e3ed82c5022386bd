"""The host's clock is set back an hour or forward a day, and tasks go on.

Deadlines go by the wall clock, for that is what whoever set them meant; timeouts,
pauses and settle times go by the monotonic one.
"""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Plan, Step
from perdure.actors.events import EffectRecorded, StepEnded
from tests.actors.runs import WIDE, check, wide
from tests.actors.test_unknown import Mail
from tests.actors.world import House, World, job, taken, unbalanced

HOUR = 3600.0  # seconds
DAY = 24 * HOUR
JUMPS = [-HOUR, DAY]
SOON = 120.0  # virtual seconds; far below an hour


def jump(house: House, seconds: float) -> None:
    house.sim.clock.set_time(house.sim.clock.time() + seconds)


@pytest.mark.parametrize("steps", range(5, 230, 15))
@pytest.mark.parametrize("seconds", JUMPS, ids=["back", "forward"])
def test_a_task_goes_on_when_the_clock_is_set(seconds: float, steps: int) -> None:
    world = World()
    plan = [Step(id=name, goal=name, accept=taken) for name in WIDE]
    house = House(wide(world, plan=plan), seed=steps)
    task = house.submit()
    for _ in range(steps):
        house.sim.step()
    jump(house, seconds)
    if seconds < 0:
        check(house, world, task.id)
    else:
        # What was registered and not begun yet is over by its `not_after`: it surely
        # did not run, the model is told so, and the task goes on: its acceptance takes
        # an answer after that.
        assert house.finish(task.id).status == "completed"
        over = {
            one.error
            for one in house.of(f"task/{task.id}/ledger", EffectRecorded)
            if one.status != "completed"
        }
        assert over <= {"its time was over before it started"}
        assert len(world.sent) == len({text for _, text in world.sent})
        assert unbalanced(house.store) == []
        assert house.log.crashes() == []
    assert house.sim.clock.monotonic() < SOON


@pytest.mark.parametrize("steps", range(20, 230, 30))
@pytest.mark.parametrize("seconds", JUMPS, ids=["back", "forward"])
def test_a_recovery_goes_on_when_the_clock_was_set_meanwhile(
    seconds: float, steps: int
) -> None:
    world = World()
    house = House(wide(world), seed=steps)
    task = house.submit()
    for _ in range(steps):
        house.sim.step()
    house.kill()
    jump(house, seconds)
    house.reopen()
    check(house, world, task.id)
    assert house.sim.clock.monotonic() < SOON


@pytest.mark.parametrize("seconds", JUMPS, ids=["back", "forward"])
def test_the_settle_time_of_an_absence_is_not_the_wall_clocks(seconds: float) -> None:
    # P2: a clock that was set forward must not make an early absence believed, nor
    # one that was set back have it doubted for an hour.
    mail = Mail()
    house, task = mail.cut_before_the_act()
    opened = house.sim.clock.monotonic()
    assert house.until(lambda: bool(mail.asked))
    first = house.sim.clock.monotonic()
    jump(house, seconds)
    assert house.until(lambda: bool(mail.sent))
    assert first < opened + 2.0 <= house.sim.clock.monotonic() < SOON
    assert house.finish(task.id).status == "completed"
    assert len(mail.sent) == 1


def standing_agent(world: World, timeout: float | None) -> Any:
    plan = Plan(steps=(Step(id="find", goal="find it", timeout=timeout),))
    return job(world, plan=plan)


def test_a_steps_deadline_goes_by_the_wall_clock() -> None:
    ended: list[list[str]] = []
    for seconds in (-HOUR, 0.0, DAY):
        house = House(standing_agent(World(), timeout=2 * HOUR))
        task = house.submit()
        assert house.until_hit("step.started")
        jump(house, seconds)
        house.finish(task.id)
        ended.append([one.status for one in house.of(f"task/{task.id}", StepEnded)][:1])
    assert ended == [["completed"], ["completed"], ["timed_out"]]


def test_a_pause_before_a_restart_goes_by_the_monotonic_clock() -> None:
    house = House(job(World()))
    task = house.submit()
    assert house.until_hit("step.ended", step="find")
    house.sim.crash(f"task/{task.id}/task")
    assert house.until_hit("supervisor.restarting")
    jump(house, -HOUR)
    assert house.finish(task.id).status == "completed"
    assert house.sim.clock.monotonic() < SOON
