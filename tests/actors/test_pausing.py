"""Pauses that people ask for: for a whole tree, whatever its tasks do, and durable."""

from __future__ import annotations

import random

import pytest

from perdure import Agent
from perdure.actors import names
from perdure.actors.events import (
    PauseAsked,
    PauseLifted,
    RecoveryBegan,
    TaskParked,
    TaskPaused,
)
from perdure.models import Scripted
from tests.actors.runs import sound
from tests.actors.test_questions import asked, asker
from tests.actors.test_timers import sleeper
from tests.actors.world import House, World, follow, handing_on, job, quick, tools_of


def rest(house: House, seconds: float = 3600.0) -> None:
    house.until(lambda: False, seconds)


def clerk(world: World) -> Agent:
    """The one that has a part handed to it, with four looks to do."""
    looks = [[("look", {"what": str(n)})] for n in range(4)]
    return Agent(
        name="agent",
        instructions="Look.",
        model=Scripted(follow({"task": looks})),
        tools=tools_of(world),
        recovery="rules",
    )


def test_a_queued_task_that_is_paused_does_not_begin_until_it_is_resumed() -> None:
    house = House(job(World()), baseline=quick(active_tasks=1))
    first, second = house.submit(), house.submit()
    assert second.pause(by="approver") is True
    result = second.result()
    assert result is not None
    assert (result.status, result.reason, result.ends_with) == (
        "paused", "operator", "resume",
    )  # fmt: skip
    house.finish(first.id)
    rest(house)
    assert house.kinds(f"task/{second.id}") == ["TaskSubmitted"]
    assert second.resume() is True
    assert house.finish(second.id).status == "completed"
    sound(house)


def test_a_task_that_waits_for_the_time_stays_paused_when_it_comes() -> None:
    house = House(sleeper(World()))
    task = house.submit("sleeper")
    assert house.until(lambda: task.status == "waiting")
    assert task.pause() is True
    rest(house, 7 * 24 * 3600.0)
    assert task.status == "paused"
    assert task.resume() is True
    assert house.finish(task.id).status == "completed"


def test_a_task_that_is_paused_stays_so_when_its_question_is_answered() -> None:
    house = House(asker())
    task = house.submit()
    (question,) = asked(house, task.id)
    assert task.pause() is True
    assert [one.question for one in house.runtime.questions()] == [question]
    assert task.answer(question, "red") is True
    rest(house)
    assert task.status == "paused"
    house.kill()
    house.reopen()
    rest(house)
    handle = house.runtime.task(task.id)
    assert handle.status == "paused"
    assert handle.resume() is True
    assert house.finish(task.id).status == "completed"
    sound(house)


def test_to_pause_twice_is_to_pause_once() -> None:
    house = House(job(World()))
    task = house.submit()
    assert house.until_hit("step.ended", step="find")
    assert [task.pause(), task.pause()] == [True, True]
    assert house.finish(task.id).reason == "operator"
    assert task.pause() is True
    rest(house)
    assert task.pause() is True
    assert len(house.of(names.ADMISSION, PauseAsked)) == 1
    assert len(house.of(f"task/{task.id}", TaskPaused)) == 1
    assert house.of(names.ADMISSION, TaskParked) == []
    task.resume()
    assert house.finish(task.id).status == "completed"
    assert task.pause() is False


def test_a_pause_survives_a_kill_before_it_took_effect() -> None:
    world = World()
    house = House(job(world, recovery="rules"))
    task = house.submit()
    assert house.until_hit("step.ended", step="find")
    task.pause()
    assert house.runtime.task(task.id).status == "running"
    house.kill()
    house.reopen()
    assert house.finish(task.id).reason == "operator"
    assert world.sent == []
    assert len(house.of(f"task/{task.id}/recovery", RecoveryBegan)) == 1
    house.runtime.task(task.id).resume()
    assert house.finish(task.id).status == "completed"
    sound(house)


def test_a_pause_survives_a_runtime_that_is_closed_before_it_took_effect() -> None:
    house = House(job(World(), recovery="rules"))
    task = house.submit()
    assert house.until_hit("step.ended", step="find")
    task.pause()
    house.runtime.close()
    house.reopen()
    rest(house)
    assert house.runtime.task(task.id).status == "paused"
    house.runtime.task(task.id).resume()
    assert house.finish(task.id).status == "completed"


@pytest.mark.parametrize("seed", range(30))
def test_a_task_that_is_resumed_before_it_has_paused_goes_on(seed: int) -> None:
    house, rng = House(job(World()), seed=seed), random.Random(seed)
    task = house.submit()
    for _ in range(rng.randrange(1, 300)):
        house.sim.step()
    assert task.pause() in (True, False)
    for _ in range(rng.randrange(0, 40)):
        house.sim.step()
    task.resume()
    assert house.until(lambda: task.status == "completed")
    sound(house)


def test_a_pause_of_a_parent_pauses_its_sub_task_and_so_does_resume() -> None:
    world = World()
    house = House(clerk(world), handing_on())
    task = house.submit("boss")
    assert house.until(lambda: world.looks == 1)
    assert task.pause(by="approver") is True
    rest(house)
    looked = world.looks
    child = house.runtime.task(f"{task.id}.2")
    assert (task.status, child.status) == ("paused", "paused")
    assert looked < 4
    result = child.result()
    assert result is not None
    assert result.reason == "operator"
    (mine, other) = house.of(names.ADMISSION, PauseAsked)
    assert (mine.by, other.by) == ("approver", f"its parent {task.id}")
    assert task.resume() is True
    assert house.finish(task.id).status == "completed"
    assert world.looks == 4
    sound(house)


def test_a_sub_task_that_was_paused_by_itself_is_not_resumed_with_its_parent() -> None:
    world = World()
    house = House(clerk(world), handing_on())
    task = house.submit("boss")
    assert house.until(lambda: world.looks == 1)
    child = house.runtime.task(f"{task.id}.2")
    child.pause()
    assert house.finish(child.id).reason == "operator"
    task.pause()
    task.resume()
    rest(house)
    assert (task.status, child.status) == ("waiting", "paused")
    child.resume()
    assert house.finish(task.id).status == "completed"


def test_a_paused_tree_is_cancelled_whole() -> None:
    # R23
    world = World()
    house = House(clerk(world), handing_on())
    task = house.submit("boss")
    assert house.until(lambda: world.looks == 1)
    task.pause()
    rest(house)
    assert task.cancel().status == "cancelled"
    assert task.cancel().status == "cancelled"
    assert house.runtime.task(f"{task.id}.2").status == "cancelled"
    assert task.pause() is False
    sound(house)


@pytest.mark.parametrize("seed", range(25))
def test_pauses_and_resumes_at_any_moment_leave_nothing_behind(seed: int) -> None:
    # R23
    house, rng = House(clerk(World()), handing_on(), seed=seed), random.Random(seed)
    task = house.submit("boss").id
    for _ in range(12):
        for _ in range(rng.randrange(1, 150)):
            if not house.sim.step():
                break
        handle = house.runtime.task(task)
        match rng.randrange(4):
            case 0 | 1:
                paused = handle.pause()
                if not paused:
                    assert house.finish(task).status == "completed"
            case 2:
                handle.resume()
            case 3:
                house.kill()
                house.reopen()
    for _ in range(3):
        house.runtime.task(task).resume()
        rest(house, 200.0)
    assert house.runtime.task(task).status == "completed"
    lifted = house.of(names.ADMISSION, PauseLifted)
    assert len(lifted) <= len(house.of(names.ADMISSION, PauseAsked))
    sound(house)
