"""A plan that is written and revised comes out the same, wherever it is cut off."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from perdure import Agent, Planner, Result
from perdure.actors.events import DecisionMade, PlanMade, PlanRevised, RequestBuilt
from perdure.actors.model import ModelReply, ModelRequest
from perdure.models import Scripted
from perdure.replay import render_again
from tests.actors.runs import actors_of, sound
from tests.actors.world import (
    House,
    World,
    comparable,
    declaration,
    follow,
    standing,
    tools_of,
)

FIRST = {
    "steps": [
        {"id": "a", "goal": "send it", "phase": "send"},
        {"id": "b", "goal": "check it"},
        {"id": "c", "goal": "file it"},
    ]
}
SECOND = {
    "steps": [{"id": "b", "goal": "check it twice"}, {"id": "d", "goal": "burn it"}],
    "drop": [{"id": "c", "why": "there is no shelf"}],
}
WORK = {"a": [[("send", {"text": "hello"})]], "b": [[("look", {"what": "it"})]]}


def reply(request: ModelRequest) -> ModelReply:
    """A pure function of the request: refused once, then a plan, then another."""
    data = standing(request)
    if data["kind"] == "recovery":
        return ModelReply(content=declaration(request))
    if data["kind"] != "plan":
        return follow(WORK)(request)
    text = request.messages[-1]["content"]
    said: Any = {"keep": True}
    if not data["plan"]:
        said = FIRST if "Refused before" in text else {"steps": []}
    elif all(one["id"] != "d" for one in data["plan"]):
        said = SECOND
    return ModelReply(content=json.dumps(said))


def agent(world: World) -> Agent:
    return Agent(
        name="agent",
        instructions="Work.",
        model=Scripted(reply),
        planner=Planner(),
        tools=tools_of(world),
    )


def house_of(world: World, seed: int = 0) -> tuple[House, str]:
    house = House(agent(world), seed=seed)
    return house, house.submit().id


def ended(house: House, world: World, task: str) -> Result:
    """Say yes where a person is asked; then all that must hold."""
    result = house.finish(task)
    while result.reason == "question":
        (question,) = house.runtime.questions()
        house.runtime.reply(task, question.question, "drop", "approver")
        result = house.finish(task)
    assert list(result.steps) == ["a", "b", "d"]
    assert set(result.steps.values()) == {"completed"}
    assert [text for _, text in world.sent] == ["hello"]
    assert len(house.of(f"task/{task}", PlanMade)) == 1
    (revised,) = house.of(f"task/{task}", PlanRevised)
    assert revised.consent == "approver"
    newest = {one.op: one for one in house.of(f"task/{task}", RequestBuilt)}
    for one in newest.values():
        again = house.runtime._reading.read(
            lambda reader, op=one.op: render_again(reader, task, op)
        )
        assert again.digest == one.digest
    sound(house)
    return result


@cache
def undisturbed() -> tuple[int, dict[str, Any]]:
    """How many steps the simulation takes, and what the run comes to."""
    world = World()
    house, task = house_of(world)
    taken = 0
    while not house.runtime.questions():
        house.sim.step()
        taken += 1
    return taken, comparable(ended(house, world, task))


@pytest.mark.parametrize("part", range(8))
def test_a_kill_at_any_step_goes_on_with_the_answer_that_is_recorded(part: int) -> None:
    # A84
    taken, expected = undisturbed()
    for steps in range(part, taken + 8, 8):
        world = World()
        house, task = house_of(world)
        for _ in range(steps):
            house.sim.step()
        house.kill()
        house.reopen()
        assert comparable(ended(house, world, task)) == expected


@pytest.mark.parametrize("which", range(5))
def test_a_crash_of_any_actor_of_the_task_is_survived(which: int) -> None:
    taken, expected = undisturbed()
    for steps in range(which, taken, 19):
        world = World()
        house, task = house_of(world)
        assert house.until(lambda h=house, t=task: h.kinds(f"task/{t}") != [])
        for _ in range(steps):
            house.sim.step()
        if house.runtime.questions():
            break
        house.sim.crash(actors_of(task)[which])
        assert comparable(ended(house, world, task)) == expected


def test_an_answer_that_is_on_disk_is_never_asked_for_again() -> None:
    world = World()
    house, task = house_of(world)
    assert house.until_hit("effect.recorded", op=2)
    assert house.of(f"task/{task}", PlanMade) == []
    house.kill()
    house.reopen()
    assert house.until(lambda: bool(house.of(f"task/{task}", PlanMade)))
    (made,) = house.of(f"task/{task}", PlanMade)
    assert made.op == 2
    asked = house.of(f"task/{task}", DecisionMade)
    assert [one.op for one in asked][:2] == [1, 2]
