"""Every place where a wait is written or ended: a crash there costs nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from perdure import Agent, DidNotHappen, Happened, sleep, tool
from perdure.actors.admission.commands import CommandAnswer
from perdure.actors.events import ApprovalAsked, ApprovalTaken, TimerFired, TimerSet
from perdure.actors.tool import Effect
from perdure.models import Scripted
from perdure.supervision.faults import Fault, FaultPlan, installed
from tests.actors.runs import not_reproduced
from tests.actors.test_inbox import answered, send
from tests.actors.world import Calls, House, World, follow, redone, unbalanced

POINTS = (
    "approval.asked",
    "approval.answered",
    "inbox.applied",
    "timer.set",
    "timer.fired",
)
CALLS: Sequence[Calls] = [
    [("sleep", {"seconds": 60.0}), ("delete", {"path": "q1"})],
    [("delete", {"path": "q2"})],
]


class Killed(Exception):
    """Stands for the end of the process at a fault point."""


def agent(world: World) -> Agent:
    def was_deleted(effect: Effect) -> Happened | DidNotHappen:
        found = [text for key, text in world.sent if key == effect.request_id]
        return Happened(f"deleted {found[0]}") if found else DidNotHappen()

    @tool(effect="once", approval=True, probe=was_deleted)
    def delete(path: str, *, request_id: str) -> str:
        """Delete something."""
        world.sent.append((request_id, path))
        return f"deleted {path}"

    return Agent(
        name="agent",
        instructions="Tidy up.",
        model=Scripted(follow({"task": CALLS})),
        tools=[sleep, delete],
        recovery="rules",
    )


def work(house: House, task: str) -> None:
    """Approve, from outside, whatever is asked for, to the end of the task."""
    sent = {one.subject for one in house.store.inbox}
    while True:
        result = house.finish(task)
        if result.status == "completed":
            return
        assert (result.status, result.reason) == ("paused", "approval")
        for one in house.runtime.approvals():
            if one.approval not in sent:
                sent.add(one.approval)
                send(house, f"c-{one.approval}", "approve", one.approval)
        for name in sent:
            found = answered(house, f"c-{name}")
            assert found == CommandAnswer(done=True, said="approved")
        for _ in range(20):
            house.sim.step()


def sound(house: House, world: World, task: str) -> None:
    assert [text for _, text in world.sent] == ["q1", "q2"]
    kinds = (ApprovalAsked, ApprovalTaken, TimerSet, TimerFired)
    counts = [len(house.of(f"task/{task}", kind)) for kind in kinds]
    assert counts == [2, 2, 1, 1]
    assert redone(house.store) == []
    assert unbalanced(house.store) == []
    assert house.log.strangers == []
    house.runtime.close()
    assert not_reproduced(house.store) == []


def test_every_point_is_passed() -> None:
    passed: set[str] = set()
    world = World()
    house = House(agent(world))
    task = house.submit()
    with installed(FaultPlan([], lambda point, _: passed.add(point))):
        work(house, task.id)
    assert set(POINTS) <= passed
    sound(house, world, task.id)


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("point", POINTS)
def test_an_actor_that_crashes_there_comes_back_to_the_same_end(
    point: str, nth: int
) -> None:
    world = World()
    house = House(agent(world))
    task = house.submit()
    with installed(FaultPlan([Fault(point=point, nth=nth, action="raise")])):
        work(house, task.id)
    sound(house, world, task.id)


@pytest.mark.parametrize("point", POINTS)
def test_a_process_that_dies_there_comes_back_to_the_same_end(point: str) -> None:
    world = World()
    house = House(agent(world))
    task = house.submit()
    killed: list[str] = []

    def observe(hit: str, subject: str) -> None:
        if hit == point and not killed:
            killed.append(hit)

    with installed(FaultPlan([], observe)):
        step = house.sim.step

        def dying() -> bool:
            if killed == [point]:
                killed.append("done")
                raise Killed
            return step()

        house.sim.step = dying  # type: ignore[method-assign]
        with pytest.raises(Killed):
            work(house, task.id)
        house.kill()
    house.reopen()
    work(house, task.id)
    sound(house, world, task.id)
