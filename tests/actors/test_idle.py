"""Tasks that wait for a person cost rows, and nothing while they wait."""

from __future__ import annotations

import pytest

from tests.actors.world import House, World, tools_of
from tests.perdure.agents import one_step

HOUR = 3600.0  # virtual seconds


def resting(count: int) -> House:
    """A house in which so many tasks wait for an approval."""
    send = tools_of(World())[-1]
    send.approval = True
    house = House(one_step(("send", {"text": "x"}), tools=[send]))
    for task in [house.submit() for _ in range(count)]:
        assert house.finish(task.id).reason == "approval"
    house.sim.run_for(HOUR)
    return house


@pytest.fixture
def house() -> House:
    return resting(40)


def test_a_task_that_waits_holds_no_actor_and_no_worker(house: House) -> None:
    # R26: and so no thread.
    cells = house.runtime._system._cells
    assert not [name for name in cells if name.startswith("task/")]
    assert house.runtime.health()["running"] == 0
    assert len(house.runtime.approvals()) == 40


def test_forty_tasks_that_wait_take_as_many_turns_as_none(house: House) -> None:
    # R26: the cost of rest does not follow the tasks.
    turns: list[int] = []
    for one in (resting(0), house):
        before = len(one.sim.trace)
        one.sim.run_for(HOUR)
        turns.append(len(one.sim.trace) - before)
    assert turns[1] == turns[0]
    assert turns[0] < 10
