"""A recovery that a person must pass: what is asked, who passed it, what waits."""

from __future__ import annotations

import json

import pytest

from perdure import Agent, Misuse
from perdure.actors.events import RecoveryDeclared, TaskPaused
from perdure.models import Scripted
from tests.actors.runs import EXPECTED, WIDE, sound, wide
from tests.actors.world import House, World, comparable, follow, job


def killed_behind(world: World, step: str, seed: int = 0) -> tuple[House, str]:
    house = House(wide(world, recovery="person"), seed=seed)
    task = house.submit().id
    house.until_hit("step.ended", step=step)
    house.kill()
    house.reopen()
    return house, task


def declared(house: House, task: str) -> list[RecoveryDeclared]:
    return house.of(f"task/{task}", RecoveryDeclared)


def test_a_person_is_shown_what_the_record_declares_and_passes_it() -> None:
    # B35 B80
    world = World()
    house, task = killed_behind(world, "find")
    result = house.finish(task)
    assert (result.status, result.reason) == ("paused", "recovery")
    said, _, uncertain = result.detail.rpartition("; uncertain: ")
    assert said == "done: find; next: write"
    assert result.ends_with == "resume, or cancel"
    assert [name for _, name in world.writes] == ["g"]  # nothing went on
    assert world.sent == [] and declared(house, task) == []
    house.runtime.task(task).resume(by="the shift")
    result = house.finish(task)
    assert result.status == "completed"
    assert comparable(result) == EXPECTED
    (one,) = declared(house, task)
    assert (one.accepted, one.by, one.who) == (True, "person", "the shift")
    assert json.loads(one.declaration) == {
        "done": ["find"],
        "next": "write",
        "uncertain": [one.partition(" ")[0] for one in uncertain.split(", ")],
    }
    sound(house)


def test_who_does_not_pass_it_cancels() -> None:
    world = World()
    house, task = killed_behind(world, "find")
    assert house.finish(task).reason == "recovery"
    result = house.runtime.task(task).cancel(by="the shift")
    assert (result.status, result.reason) == ("cancelled", "cancelled by the shift")
    assert world.sent == [] and declared(house, task) == []
    sound(house)


@pytest.mark.parametrize("steps", range(0, 60, 4))
def test_a_word_once_given_outlives_the_process(steps: int) -> None:
    world = World()
    house, task = killed_behind(world, "find")
    assert house.finish(task).reason == "recovery"
    house.runtime.task(task).resume(by="the shift")
    for _ in range(steps):
        house.sim.step()
    house.kill()
    house.reopen()
    while (result := house.finish(task)).status == "paused":
        # The first was passed already; this is of the second crash.
        assert [one.who for one in declared(house, task)] == ["the shift"]
        house.runtime.task(task).resume(by="the next shift")
    assert comparable(result) == EXPECTED
    assert declared(house, task)[0].who == "the shift"
    sound(house)


def test_it_is_asked_for_again_where_the_record_went_on_meanwhile() -> None:
    world = World()
    agent = job(world, recovery="person", model=Scripted(follow(WIDE)))
    agent.tools["send"].probe = None
    house = House(agent)
    task = house.submit().id
    assert house.until(lambda: len(world.sent) == 1)
    house.kill()  # before its outcome is on disk
    house.reopen()
    result = house.finish(task)
    assert result.reason == "recovery"
    assert "(send)" in result.detail.partition("uncertain: ")[2]
    (doubt,) = [one for one in house.runtime.unknown() if one.tool == "send"]
    house.runtime.resolve(doubt.id, happened=True, by="the shift")
    house.runtime.task(task).resume(by="the shift")
    again = house.finish(task)
    assert again.reason == "recovery" and again.detail != result.detail
    assert "(send)" not in again.detail.partition("uncertain: ")[2]
    house.runtime.task(task).resume(by="the shift")
    assert house.finish(task).status == "completed"
    shown = [
        one.detail
        for one in house.of(f"task/{task}", TaskPaused)
        if one.reason == "recovery"
    ]
    assert shown == [result.detail, again.detail]
    sound(house)


def test_another_word_is_refused() -> None:
    with pytest.raises(Misuse, match="'declare', 'rules' or 'person'"):
        Agent(
            name="a",
            instructions="",
            model=Scripted(follow({})),
            recovery="people",  # type: ignore[arg-type]
        )
