"""Core facts stand whole in all requests of their scope's tasks, and in no other."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Agent, Baseline, Misuse
from perdure.actors import names
from perdure.actors.events import FactStated, KnowledgeTaken, RequestBuilt
from perdure.models import ModelReply, ModelRequest, Scripted
from perdure.replay import render_again
from perdure.storage.memory import MemoryBackend
from tests.actors.runs import SERVICES, check, sound, wide
from tests.actors.world import ROUND_AND_ROUND, House, World, job, quick

SMALL = Baseline(id="small", request_limit=4_000)  # 1,000 characters of core facts


def told(house: House, task: str, op: int) -> str:
    """The task's stable part in a request, as the log gives it again."""
    with MemoryBackend(house.store).reader(lambda *_: None) as reader:
        content = render_again(reader, task, op).messages[1]["content"]
    assert isinstance(content, str)
    return content


def requests(house: House, task: str) -> list[int]:
    return [one.op for one in house.of(f"task/{task}", RequestBuilt)]


def shown(house: House, task: str) -> list[str]:
    """The known facts of each request, as lines."""
    found = []
    for op in requests(house, task):
        _, _, known = told(house, task, op).partition("## Known\n")
        found.append(known.partition("\n\n")[0])
    return found


def taken(house: House, task: str) -> list[list[Any]]:
    events = house.of(f"task/{task}", KnowledgeTaken)
    return [[one.value for one in event.facts] for event in events]


def test_core_facts_stand_whole_in_every_request_and_render_again() -> None:
    # A100 A102 A29
    house = House(job(World()))
    house.runtime.memory.know("db", "PostgreSQL", core=True, evidence="an operator")
    house.runtime.memory.know("auth", "Bearer", core=True, subject="the API")
    house.runtime.memory.know("style", "short")
    result = house.run()
    assert result.status == "completed"
    (task,) = {one.task for one in house.runtime.tasks()}
    lines = "- db: PostgreSQL (an operator)\n- auth: Bearer (about the API; host)"
    found = shown(house, task)
    assert len(found) > 3
    assert set(found) == {lines}
    sound(house)


def test_knowledge_is_taken_before_anything_is_decided() -> None:
    # A92
    house = House(job(World()))
    house.runtime.memory.know("db", "PostgreSQL", core=True)
    task = house.submit().id
    house.finish(task)
    assert house.kinds(f"task/{task}")[:3] == [
        "TaskSubmitted",
        "KnowledgeTaken",
        "StepStarted",
    ]


def test_a_store_without_facts_writes_nothing_of_them() -> None:
    house = House(job(World()))
    task = house.submit().id
    house.finish(task)
    assert taken(house, task) == []
    assert house.kinds("services/memory") == []


def test_a_running_task_hears_of_a_change_and_older_requests_stay() -> None:
    # A92
    house = House(job(World()))
    house.runtime.memory.know("db", "MySQL", core=True)
    task = house.submit().id
    assert house.until_hit("step.ended", step="find")
    house.runtime.memory.know("db", "PostgreSQL")
    assert house.finish(task).status == "completed"
    found = shown(house, task)
    assert found[0] == "- db: MySQL (host)"
    assert found[-1] == "- db: PostgreSQL (host)"
    assert taken(house, task) == [['"MySQL"'], ['"PostgreSQL"']]
    sound(house)


@pytest.mark.parametrize("steps", range(0, 40, 2))
def test_every_request_renders_again_whenever_facts_change(steps: int) -> None:
    house = House(job(World()), seed=steps)
    house.runtime.memory.know("db", "MySQL", core=True)
    task = house.submit().id
    for number in range(4):
        house.until_hit("task.decided")
        for _ in range(steps):
            house.sim.step()
        house.runtime.memory.know("db", f"PostgreSQL {number}")
    assert house.finish(task).status == "completed"
    assert shown(house, task)


def test_a_dropped_fact_leaves_the_requests_of_a_running_task() -> None:
    house = House(job(World()))
    fact = house.runtime.memory.know("db", "MySQL", core=True)
    task = house.submit().id
    assert house.until_hit("step.ended", step="find")
    house.runtime.memory.drop(fact, by="an operator")
    house.finish(task)
    assert taken(house, task) == [['"MySQL"'], []]
    (ended,) = house.runtime.memory.history("db")
    assert (ended.how, ended.ended_by) == ("dropped", "an operator")


def test_a_fact_past_its_time_leaves_the_requests_of_a_running_task() -> None:
    agent = job(World(), model=Scripted(wordy), plan=None, max_rounds=5_000)
    house = House(agent, baseline=quick(**ROUND_AND_ROUND))
    until = house.sim.clock.time() + 5.0
    house.runtime.memory.know("db", "MySQL", core=True, until=until)
    task = house.submit().id
    assert house.until(lambda: len(taken(house, task)) > 1, 60.0)
    assert taken(house, task) == [['"MySQL"'], []]
    assert house.sim.clock.time() >= until
    assert house.runtime.memory.facts() == []


def test_no_task_sees_facts_of_another_group_or_of_another_task() -> None:
    house = House(job(World()))
    memory = house.runtime.memory
    memory.know("who", "everybody", core=True)
    memory.know("a", "of north", core=True, scope="group:north")
    memory.know("b", "of south", core=True, scope="group:south")
    memory.know("c", "of north/core", core=True, scope="group:north/core")
    house.runtime.close()
    house.reopen(active=1)
    first = house.submit(group="north").id
    other = house.submit(group="south").id
    alone = house.submit().id
    house.runtime.memory.know("d", "of it", core=True, scope=f"task:{other}")
    for task in (first, other, alone):
        house.finish(task)
    assert shown(house, first)[-1] == "- who: everybody (host)\n- a: of north (host)"
    assert shown(house, other)[-1] == (
        "- who: everybody (host)\n- b: of south (host)\n- d: of it (host)"
    )
    assert shown(house, alone)[-1] == "- who: everybody (host)"


def test_core_over_its_cap_is_refused_with_the_names_and_sizes() -> None:
    # A101
    house = House(job(World()), baseline=SMALL)
    memory = house.runtime.memory
    memory.know("layout", "x" * 600, core=True)
    with pytest.raises(
        Misuse, match=r"1000 characters together.*layout \(global\) 618"
    ):
        memory.know("style", "y" * 600, core=True)
    with pytest.raises(Misuse, match=r"style .group:a. 6"):
        memory.know("style", "y" * 600, core=True, scope="group:a")
    assert [one.key for one in memory.facts()] == ["layout"]
    memory.know("style", "y" * 600)
    assert len(memory.facts()) == 2


def test_scopes_that_are_too_much_together_pause_their_task() -> None:
    # A101
    house = House(job(World()), baseline=SMALL)
    memory = house.runtime.memory
    part = memory.know("style", "y" * 600, core=True, scope="group:a")
    memory.know("layout", "x" * 600, core=True)  # alone it is not too much
    task = house.submit(group="a")
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "context")
    detail = house.runtime.row(task.id).detail
    assert "layout (global) 618" in detail
    assert "style (group:a) 617" in detail
    assert requests(house, task.id) == []
    memory.drop(part)
    task.resume()
    assert house.finish(task.id).status == "completed"


def test_an_agent_of_shorter_requests_takes_less_and_names_what_is_too_much() -> None:
    # A101
    house = House(job(World(), request_limit=4_000))
    house.runtime.memory.know("layout", "x" * 900, core=True)
    house.runtime.memory.know("style", "y" * 200, core=True)
    result = house.run()
    assert (result.status, result.reason) == ("paused", "context")
    (task,) = house.runtime.tasks()
    assert "may have 1000 characters together" in task.detail
    assert "layout (global) 918" in task.detail


def test_a_core_fact_is_never_cut_from_a_request() -> None:
    # A100
    agent = job(World(), model=Scripted(wordy), plan=None)
    house = House(agent, baseline=quick(**ROUND_AND_ROUND))
    house.runtime.memory.know("db", "PostgreSQL", core=True)
    task = house.submit().id
    assert house.until(lambda: len(requests(house, task)) > 12, 600.0)
    built = house.of(f"task/{task}", RequestBuilt)
    assert built[-1].omitted > 0
    assert shown(house, task)[-1] == "- db: PostgreSQL (host)"


def wordy(request: ModelRequest) -> ModelReply:
    """A model whose answers are long and never pass."""
    from tests.actors.world import as_calls

    what = {"what": f"{len(request.messages)}" + "x" * 3_000}
    return ModelReply(tool_calls=as_calls([("look", what)]))


def test_a_recovery_asks_anew_and_shows_them() -> None:
    # A31
    house = House(job(World()))
    house.runtime.memory.know("db", "MySQL", core=True)
    task = house.submit().id
    assert house.until_hit("step.ended", step="find")
    house.kill()
    house.reopen(resume=False)
    house.runtime.memory.know("db", "PostgreSQL")
    house.runtime.task(task).resume()
    assert house.finish(task).status == "completed"
    assert taken(house, task)[-1] == ['"PostgreSQL"']
    declares = [one.op for one in house.of(f"task/{task}", RequestBuilt)]
    with MemoryBackend(house.store).reader(lambda *_: None) as reader:
        texts = [
            str(render_again(reader, task, op).messages[-1]["content"])
            for op in declares
        ]
    (recovery,) = [text for text in texts if text.startswith("## Task goal")]
    assert "Known:\n- db: PostgreSQL (host)" in recovery
    sound(house)


@pytest.mark.parametrize("steps", range(0, 120, 6))
def test_a_dead_memory_holds_a_task_only_until_it_is_back(steps: int) -> None:
    world = World()
    house = House(wide(world), seed=steps)
    house.runtime.memory.know("db", "PostgreSQL", core=True)
    task = house.submit().id
    for _ in range(steps):
        house.sim.step()
    house.sim.crash(names.MEMORY)
    check(house, world, task)
    assert taken(house, task) == [['"PostgreSQL"']]


def test_memory_that_began_anew_still_tells_running_tasks() -> None:
    agent = job(World(), model=Scripted(wordy), plan=None, max_rounds=5_000)
    house = House(agent, baseline=quick(**ROUND_AND_ROUND))
    house.runtime.memory.know("db", "MySQL", core=True)
    task = house.submit().id
    assert house.until_hit("task.decided")
    house.sim.crash(names.MEMORY)
    house.runtime.memory.know("db", "PostgreSQL")
    assert house.until(lambda: len(taken(house, task)) > 1, 60.0)
    assert taken(house, task)[-1] == ['"PostgreSQL"']


@pytest.mark.parametrize("seed", range(12))
def test_a_fact_is_kept_once_whatever_crashes_meanwhile(seed: int) -> None:
    house = House(job(World()), seed=seed)
    house.submit()
    for name in (*SERVICES, names.MEMORY):
        for _ in range(25 + seed * 3):
            house.sim.step()
        house.sim.crash(name)
        house.runtime.memory.know("by", name)
    stated = [one.value for one in house.of("services/memory", FactStated)]
    assert len(stated) == len(SERVICES) + 1
    assert len(house.runtime.memory.history("by")) == len(stated)


def test_other_knowledge_enters_a_request_only_when_it_is_looked_up() -> None:
    # A86
    house = House(Agent(name="agent", instructions="x", model=Scripted(plain)))
    house.runtime.memory.know("db", "PostgreSQL")
    task = house.submit().id
    assert house.finish(task).status == "completed"
    assert "## Known" not in told(house, task, 1)


def plain(request: ModelRequest) -> ModelReply:
    return ModelReply(content='"done"')
