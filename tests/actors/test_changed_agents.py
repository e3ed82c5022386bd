"""An agent that is changed under its tasks: they go on, or say what is in the way."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from perdure import Agent, Baseline, Step, tool
from perdure.actors import names
from perdure.actors.admission.queue import ADOPT
from perdure.actors.events import AgentChanged, TaskActivated, TaskParked
from perdure.actors.task.rows import TaskRow
from perdure.result import Result
from perdure.storage.records import Record
from tests.actors.runs import sound
from tests.actors.test_inbox import answered, send
from tests.actors.world import House, World, job, quick, tools_of

QUEUE = names.ADMISSION
OTHER = [Step(id="find", goal="find it"), Step(id="write", goal="write it")]


@tool(effect="read")
def another(what: str) -> str:
    """Look elsewhere."""
    return what


def fewer(world: World) -> list[Any]:
    """The tools without `send`."""
    return tools_of(world)[:2]


def interrupted(world: World, **options: Any) -> tuple[House, str]:
    """A store whose process died under a task, in its step `write`."""
    house = House(job(world), baseline=quick(), **options)
    task = house.submit().id
    house.until_hit("step.ended", step="find")
    house.kill()
    return house, task


def own(house: House, task: str) -> dict[str, list[Record]]:
    return {
        name: list(records)
        for name, records in house.store.streams.items()
        if name.startswith(f"task/{task}")
    }


def held(house: House, task: str, agent: Agent) -> Result:
    """How the task stands once the store was opened with the agent."""
    house.reopen(agent)
    assert house.until_hit("queue.parked", task=task)
    return house.finish(task)


def changed(house: House) -> list[AgentChanged]:
    return house.of(QUEUE, AgentChanged)


# ── what goes on ─────────────────────────────────────────────────────────────────


def test_a_task_goes_on_over_a_compatible_change_and_the_record_says_so() -> None:
    # B5
    world = World()
    house, task = interrupted(world)
    before = house.agents[0].digest()
    new = job(world, tools=[*tools_of(world), another])
    house.reopen(new)
    assert house.finish(task).status == "completed"
    (event,) = changed(house)
    assert (event.before, event.digest, event.by) == (before, new.digest(), "")
    assert event.changes == ("tool 'another' added",)
    assert house.log.of("agent.changed")[0]["task"] == task
    sound(house)


def test_a_task_whose_agent_is_as_it_was_goes_on_and_nothing_is_written() -> None:
    world = World()
    house, task = interrupted(world)
    house.reopen(job(world))
    assert house.finish(task).status == "completed"
    assert changed(house) == []


def test_another_baseline_is_written_down_and_holds_nobody_back() -> None:  # B5
    world = World()
    house, task = interrupted(world)
    house.reopen(job(world), baseline=Baseline(id="mine"))
    assert house.finish(task).status == "completed"
    (event,) = changed(house)
    assert (event.baseline, event.changes) == ("mine", ())


# ── what is held back ────────────────────────────────────────────────────────────


def test_a_task_is_parked_with_what_differs_and_nothing_of_it_is_touched() -> None:
    world = World()
    house, task = interrupted(world)
    before = own(house, task)
    old = house.agents[0].digest()
    new = job(world, tools=fewer(world), plan=OTHER)
    result = held(house, task, new)
    assert (result.status, result.reason, result.ends_with) == (
        "parked", "parked", ADOPT,
    )  # fmt: skip
    assert result.detail == (
        f"its agent 'agent' has changed, from {old} to {new.digest()}: "
        "tool 'send' removed; step 'send' removed"
    )
    assert own(house, task) == before
    assert house.run().status == "completed"  # the others go on
    sound(house)


def test_a_task_that_waits_is_held_back_when_it_is_to_go_on() -> None:
    world = World()
    house = House(job(world))
    task = house.submit(not_before=house.sim.clock.time() + 60).id
    house.until(lambda: False, 1.0)
    house.kill()
    house.reopen(job(world, plan=OTHER))
    assert house.finish(task).ends_with == ADOPT
    assert house.kinds(f"task/{task}") == ["TaskSubmitted"]


def test_a_task_of_which_no_definition_is_kept_is_held_back() -> None:
    world = World()
    house, task = interrupted(world)
    house.store.rows[names.AGENTS].clear()
    result = held(house, task, job(world, tools=[*tools_of(world), another]))
    assert "is not in the store, so that nobody can say what changed" in result.detail


def test_a_resume_alone_does_not_adopt() -> None:
    world = World()
    house, task = interrupted(world)
    held(house, task, job(world, plan=OTHER))
    house.runtime.task(task).resume()
    assert house.until_hit("queue.parked", task=task)
    assert house.finish(task).ends_with == ADOPT


def test_a_held_task_goes_on_by_itself_with_its_agent_as_it_was() -> None:
    world = World()
    house, task = interrupted(world)
    held(house, task, job(world, tools=fewer(world)))
    house.kill()
    house.reopen(job(world))
    house.until_hit("queue.woken", task=task)
    assert house.finish(task).status == "completed"
    assert [text for _, text in world.sent] == ["hello"]


def test_a_held_task_can_be_cancelled() -> None:
    world = World()
    house, task = interrupted(world)
    held(house, task, job(world, tools=fewer(world)))
    house.runtime.task(task).cancel()
    house.until_hit("task.closed", task=task)
    assert house.finish(task).status == "cancelled"
    sound(house)


# ── adopted by the agent ─────────────────────────────────────────────────────────


@pytest.mark.parametrize("named", [True, False])
def test_an_agent_may_adopt_the_tasks_of_another_definition(named: bool) -> None:
    world = World()
    house, task = interrupted(world)
    old = house.agents[0].digest()
    adopt: Any = [old] if named else True
    new = job(world, tools=[tools_of(world)[0], *tools_of(world)[2:]], adopt=adopt)
    house.reopen(new)
    assert "there is no tool 'write'" in house.finish(task).detail
    (event,) = changed(house)
    assert (event.by, event.changes) == ("adopt", ("tool 'write' removed",))
    assert len(house.of(QUEUE, TaskActivated)) == 2


def test_an_open_effect_whose_tool_is_gone_is_decided_by_a_person() -> None:
    world = World()
    house = House(job(world), baseline=quick())
    task = house.submit().id
    house.until_hit("effect.registered", name="send")
    house.kill()
    house.reopen(job(world, tools=fewer(world), adopt=True))
    result = house.finish(task)
    assert (result.status, result.reason) == ("paused", "unknown_effect")
    assert world.sent == []


def test_an_agent_adopts_no_other_definition_than_it_names() -> None:
    world = World()
    house, task = interrupted(world)
    new = job(world, tools=fewer(world), adopt=["0123456789abcdef"])
    assert held(house, task, new).ends_with == ADOPT


# ── adopted by a person ──────────────────────────────────────────────────────────


def test_a_person_adopts_what_was_shown_and_it_stays_adopted() -> None:
    world = World()
    house, task = interrupted(world)
    new = job(world, plan=[*job(world).plan.steps, Step(id="more", goal="more")])  # type: ignore[union-attr]
    held(house, task, new)
    send(house, "c1", "adopt", task, text=new.digest())
    said = f"it goes on with agent agent as it is now, {new.digest()}"
    assert answered(house, "c1").said == said
    row = msgspec.json.decode(house.store.rows[names.TASK_ROWS][task], type=TaskRow)
    assert (row.status, row.offered) == ("queued", "")
    house.kill()
    house.reopen(new)
    assert house.finish(task).status == "completed"
    (event,) = changed(house)
    assert (event.by, event.changes) == ("approver", ("step 'more' added",))
    assert len(house.of(QUEUE, TaskParked)) == 1
    sound(house)


def test_an_adopted_definition_is_what_the_next_change_is_measured_by() -> None:
    world = World()
    house, task = interrupted(world)
    new = job(world, plan=[*job(world).plan.steps, Step(id="more", goal="more")])  # type: ignore[union-attr]
    held(house, task, new)
    send(house, "c1", "adopt", task, text=new.digest())
    answered(house, "c1")
    house.kill()
    assert "step 'more' removed" in held(house, task, job(world)).detail


def test_what_was_not_looked_at_is_not_adopted() -> None:
    world = World()
    house, task = interrupted(world)
    shown = job(world, plan=OTHER)
    held(house, task, shown)
    house.kill()
    now = job(world, tools=fewer(world))
    house.reopen(now)
    send(house, "c1", "adopt", task, text=shown.digest())
    answer = answered(house, "c1")
    assert not answer.done
    assert f"is {now.digest()} now" in answer.said
    assert changed(house) == []


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("running", "is not parked for a change of its agent"),
        ("ended", "has ended (completed)"),
        ("nobody", "there is no task 'nobody'"),
    ],
)
def test_there_is_nothing_to_adopt_of(task: str, why: str) -> None:
    house = House(job(World()))
    if task == "ended":
        task = house.submit().id
        assert house.finish(task).status == "completed"
    elif task == "running":
        task = house.submit().id
    send(house, "c1", "adopt", task, text=house.agents[0].digest())
    answer = answered(house, "c1")
    assert (answer.done, why in answer.said) == (False, True), answer.said


def test_a_retry_that_was_asked_for_is_not_forgotten_over_an_adoption() -> None:
    world = World()
    house = House(job(world), baseline=quick())
    task = house.submit()
    house.until_hit("step.ended", step="write")
    task.pause()
    assert house.finish(task.id).status == "paused"
    house.kill()
    new = job(world, plan=[*job(world).plan.steps, Step(id="more", goal="more")])  # type: ignore[union-attr]
    house.reopen(new)
    house.runtime.task(task.id).retry("find")
    assert house.until_hit("queue.parked", task=task.id)
    send(house, "c1", "adopt", task.id, text=new.digest())
    answered(house, "c1")
    assert house.finish(task.id).status == "completed"
    assert house.log.of("step.retried")[0]["step"] == "find"


# ── definitions ──────────────────────────────────────────────────────────────────


def test_a_definition_is_kept_once_and_named_by_each_task() -> None:
    house = House(job(World()))
    for _ in range(3):
        house.run()
    digest = house.agents[0].digest()
    assert list(house.store.rows[names.AGENTS]) == [digest]
    submitted = [
        event.agent_digest
        for stream in house.store.streams
        for event in house.events(stream)
        if type(event).__name__ == "TaskSubmitted"
    ]
    assert submitted == [digest] * 3


def test_a_definition_is_written_once_a_process() -> None:
    house = House(job(World()))
    house.run()
    house.store.rows[names.AGENTS].clear()
    house.run()
    assert house.store.rows[names.AGENTS] == {}
    house.kill()
    house.reopen()
    house.run()
    assert list(house.store.rows[names.AGENTS]) == [house.agents[0].digest()]
