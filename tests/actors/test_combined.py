"""What waits, ends and pays together: each of these broke once where two met."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure import Agent, Budget, Effect, Handle, RateLimit, tool
from perdure.actors import names
from perdure.models import Scripted
from tests.actors.desk import Desk
from tests.actors.desk import agent as clerk
from tests.actors.world import (
    Calls,
    House,
    World,
    follow,
    handing_on,
    job,
    unbalanced,
)

DAY = 24 * 3600.0


def idle(name: str) -> Agent:
    return Agent(
        name=name,
        instructions="Answer.",
        model=Scripted(follow({})),
        recovery="rules",
    )


def left(house: House) -> bool:
    return "TaskLeft" in house.kinds(names.ADMISSION)


def test_an_end_outlives_a_kill_before_the_task_could_leave() -> None:
    # P1: though its agent is away at the next start, and there again at the one after
    house = House(idle("agent"))
    task = house.submit()
    assert house.until(lambda: "TaskClosed" in house.kinds(f"task/{task.id}"))
    assert not left(house)
    house.kill()
    house.reopen(idle("other"))
    assert house.until(lambda: left(house), 60.0)
    assert house.finish(task.id).output == {"step": "task", "ok": True}
    house.kill()
    house.reopen(idle("agent"))
    assert house.finish(task.id).status == "completed"


def test_a_parent_hears_of_an_end_before_a_kill_whose_agent_is_away() -> None:
    boss = handing_on()
    house = House(boss, idle("agent"))
    task = house.submit("boss")
    assert house.until(lambda: "TaskClosed" in house.kinds(f"task/{task.id}.2"))
    house.kill()
    house.reopen(boss)
    assert house.finish(task.id).status == "completed"


@pytest.mark.parametrize("kills", [0, 2])
def test_a_parent_that_takes_effects_back_does_not_wait_for_a_slot_it_holds(
    kills: int,
) -> None:
    def unpost(effect: Effect) -> str:
        """Take it back."""
        return "gone"

    @tool(effect="once", undo=unpost)
    def post() -> str:
        """Post over a line that is cut."""
        raise ConnectionResetError("cut")

    boss = handing_on(post, also=[("post", {})])
    house = House(clerk(Desk(), approval=True), boss, active=1)
    task = house.submit("boss")
    part = f"{task.id}.2"
    assert house.until(
        lambda: (
            bool(house.runtime.approvals())
            and house.runtime.row(task.id).status in ("paused", "waiting")
        )
    )
    house.runtime.ask_cancel(task.id, "operator", compensate=True)
    assert house.until(lambda: "undo" in house.runtime.row(part).detail, 60.0)
    for _ in range(kills):
        house.kill()
        house.reopen()
        house.sim.run_for(1.0)
    house.sim.run_for(30.0)
    for effect in house.runtime.unknown():
        assert house.runtime.resolve(effect.id, happened=True)
    house.sim.run_for(30.0)
    for one in house.runtime.approvals():
        house.runtime.task(one.task).approve(one.approval)
    row = house.runtime.row
    assert house.until(lambda: row(task.id).status == "cancelled", DAY)
    assert row(part).status == "cancelled"
    assert unbalanced(house.store) == []


def _approve_late(house: House, task: Handle) -> None:
    house.sim.run_for(600.0)
    for one in house.runtime.approvals():
        task.approve(one.approval)


@pytest.mark.parametrize(
    ("calls", "later", "done"),
    [
        ([[("erase", {"what": "x"})]], _approve_late, 0),
        ([[("mail", {"what": "a"}), ("mail", {"what": "b"})]], lambda *_: None, 1),
    ],
)
def test_nothing_new_begins_once_the_deadline_has_passed(
    calls: list[Calls], later: Callable[[House, Handle], Any], done: int
) -> None:
    acts: list[str] = []

    @tool(effect="once", approval=True)
    def erase(what: str) -> str:
        """Erase something."""
        acts.append(what)
        return "erased"

    @tool(effect="once", service="smtp")
    def mail(what: str) -> str:
        """Mail something."""
        acts.append(what)
        return "mailed"

    agent = Agent(
        name="agent",
        instructions="Do it.",
        model=Scripted(follow({"task": calls})),
        tools=[erase, mail],
        recovery="rules",
    )
    house = House(agent, limits=[RateLimit("smtp", 1, per="10m")])
    task = house.submit(deadline=house.sim.clock.time() + 60.0)
    later(house, task)
    house.sim.run_for(3600.0)
    assert house.finish(task.id).reason == "deadline"
    assert len(acts) == done


def test_what_only_the_pool_limits_can_be_extended() -> None:
    house = House(job(World()), pool=Budget(model_calls=24), active=8)
    task = house.submit(budget=Budget(tool_calls=50))
    assert house.finish(task.id).reason == "budget"
    task.extend(Budget(model_calls=12))
    assert house.finish(task.id).status == "completed"


def test_tasks_that_are_held_leave_their_slots_to_others() -> None:
    house = House(job(World(), recovery="rules"), active=2)
    held = [house.submit(), house.submit()]
    for _ in range(60):
        house.sim.step()
    house.kill()
    house.reopen(resume=False)
    assert house.run(goal="new").status == "completed"
    assert [house.runtime.status(one.id) for one in held] == ["running"] * 2


def test_a_pause_that_was_promised_is_heard_by_a_task_that_takes_effects_back() -> None:
    for steps in range(0, 30, 2):
        boss = handing_on()
        house = House(clerk(Desk(), approval=True), boss, active=2)
        task = house.submit("boss").id
        runtime, part = house.runtime, f"{task}.2"
        assert house.until(
            lambda r=runtime, p=part: bool(r.approvals()) and r.row(p).reason != ""
        )
        house.sim.run_for(5.0)
        runtime.ask_cancel(task, "operator", compensate=True)
        for _ in range(steps):
            house.sim.step()
        if runtime.pause(task, "operator"):
            house.sim.run_for(600.0)
            assert runtime.row(task).status == "paused"
