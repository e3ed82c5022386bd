"""Pause, resume, cancel, extend; the queue; what callers get wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import (
    Budget,
    Misuse,
    Runtime,
    Step,
    StoreBusy,
    TaskNotFound,
    UseAsync,
    tool,
)
from perdure.actors.events import (
    EffectRegistered,
    RecoveryBegan,
    StepEnded,
)
from perdure.models import Scripted
from perdure.storage.memory import MemoryBackend
from tests.actors.world import (
    House,
    World,
    follow,
    job,
    redone,
    unbalanced,
)
from tests.perdure.agents import one_step

# ── pause, resume, cancel, extend ──────────────────────────────────────────────


def test_a_paused_task_waits_and_goes_on_from_where_it_was(world: World) -> None:
    house = House(job(world))
    task = house.submit()
    assert house.until_hit("step.ended", step="find")
    assert task.pause() is True
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "operator")
    assert task.status == "paused"
    calls = len(world.writes)
    house.sim.run_for(3600.0)
    assert len(world.writes) == calls
    assert task.resume() is True
    result = house.finish(task.id)
    assert result.status == "completed"
    assert redone(house.store) == []
    assert house.of(f"task/{task.id}/recovery", RecoveryBegan) == []
    assert result.spent["model_calls"] == 7


def test_a_task_that_does_not_wait_is_not_resumed(world: World) -> None:
    house = House(job(world))
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    assert house.until_hit("queue.left")
    assert task.resume() is False
    assert task.pause() is False


def test_the_time_of_a_step_does_not_run_while_the_task_is_paused() -> None:
    tools = [tool(effect="read", name="look")(lambda: "x")]
    step = Step(id="s", goal="g", timeout=10.0)
    script = follow({"s": [[("look", {})], [("look", {})]]})
    house = House(one_step(model=Scripted(script), plan=[step], tools=tools))
    task = house.submit()
    house.until_hit("effect.recorded", by="run")
    task.pause()
    assert house.finish(task.id).status == "paused"
    house.sim.run_for(3600.0)
    task.resume()
    assert house.finish(task.id).status == "completed"
    assert [one.status for one in house.of(f"task/{task.id}", StepEnded)] == [
        "completed"
    ]


def test_cancel_ends_a_task_after_the_operation_in_flight(world: World) -> None:
    house = House(job(world))
    task = house.submit()
    house.until_hit("effect.registered", name="look")
    result = task.cancel(by="me", timeout=3600.0)
    assert (result.status, result.reason) == ("cancelled", "cancelled by me")
    assert world.sent == []
    assert unbalanced(house.store) == []


def test_cancel_of_a_queued_a_paused_and_an_ended_task_tells_the_truth(
    world: World,
) -> None:
    house = House(job(world), active=1)
    first, second = house.submit(), house.submit()
    assert second.cancel(timeout=3600.0).status == "cancelled"
    first.pause()
    house.finish(first.id)
    assert first.cancel(timeout=3600.0).status == "cancelled"
    third = house.submit()
    assert house.finish(third.id).status == "completed"
    assert third.cancel(timeout=3600.0).status == "completed"


@pytest.mark.parametrize("seed", range(40))
def test_the_answer_of_cancel_is_how_the_task_ended(seed: int) -> None:
    # R23
    world = World()
    house = House(job(world), seed=seed)
    task = house.submit()
    for _ in range(80 + 5 * seed):
        house.sim.step()
    result = task.cancel(timeout=3600.0)
    assert result.status in ("completed", "cancelled")
    house.sim.run_for(600.0)
    assert house.runtime.result(task.id) == result
    assert (len(world.sent) == 1) >= (result.status == "completed")
    assert house.kinds("services/admission")[-1] == "TaskLeft"
    assert unbalanced(house.store) == []


def test_money_that_ends_pauses_and_extend_goes_on_from_there(world: World) -> None:
    # R16 K30 B64 B67
    house = House(job(world))
    task = house.submit(budget=Budget(model_calls=4))
    result = house.finish(task.id)
    assert (result.status, result.reason, result.ends_with) == (
        "paused",
        "budget",
        "extend",
    )
    assert "model_calls: 1 wanted, 0 left of 4" in result.detail
    task.extend(Budget(model_calls=10))
    result = house.finish(task.id)
    assert result.status == "completed"
    assert redone(house.store) == []
    assert result.spent["model_calls"] == 7
    assert len(world.sent) == 1
    assert unbalanced(house.store) == []


def test_the_task_is_snapshotted_when_it_pauses_for_money(world: World) -> None:
    # B62 B64
    house = House(job(world))
    task = house.submit(budget=Budget(model_calls=4))
    house.finish(task.id)
    house.sim.run_for(60.0)
    newest = house.store.snapshots[f"task/{task.id}"][0][0]
    assert newest.reason == "budget_exhausted"
    assert newest.version == len(house.store.streams[f"task/{task.id}"])


def test_a_dimension_is_alerted_once_and_the_task_goes_on(world: World) -> None:
    # R16 B81
    heard: list[str] = []
    house = House(job(world), on_event=lambda name, fields: heard.append(name))
    result = house.run(budget=Budget(tool_calls=6))
    house.sim.run_for(60.0)
    assert result.status == "completed"
    assert heard.count("account.alerted") == 1
    assert heard[-1] == "task.closed"


def test_tools_are_limited_by_name_and_a_refused_call_never_starts(
    world: World,
) -> None:
    # B60
    house = House(job(world))
    task = house.submit(budget=Budget(tools={"look": 1}))
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "budget")
    assert world.looks == 1
    registered = house.of(f"task/{task.id}/ledger", EffectRegistered)
    assert [one.name for one in registered].count("look") == 1


def test_tasks_share_what_the_pool_has(world: World) -> None:
    # R13 B61
    house = House(job(world), pool=Budget(model_calls=10))
    first = house.submit(budget=Budget(model_calls=7))
    second = house.submit(budget=Budget(model_calls=7))
    assert house.finish(first.id).status == "completed"
    result = house.finish(second.id)
    assert result.status == "paused"
    assert "the pool has" in result.detail


def test_a_task_that_the_pool_has_nothing_for_can_be_cancelled(world: World) -> None:
    house = House(job(world), pool=Budget(model_calls=10))
    task = house.submit(budget=Budget(model_calls=11))
    assert house.finish(task.id).status == "paused"
    assert task.cancel().status == "cancelled"
    assert house.run(budget=Budget(model_calls=10)).status == "completed"


def test_what_is_not_limited_cannot_be_extended(world: World) -> None:
    house = House(job(world))
    task = house.submit(budget=Budget(tokens=10))
    house.finish(task.id)
    with pytest.raises(Misuse, match="model_calls"):
        task.extend(Budget(model_calls=1))
    with pytest.raises(Misuse, match="no Budget"):
        task.extend(500)  # type: ignore[arg-type]
    task.cancel(timeout=60.0)
    with pytest.raises(Misuse, match="has ended"):
        task.extend(Budget(tokens=1))


# ── the queue ──────────────────────────────────────────────────────────────────


def test_at_most_so_many_tasks_are_active_and_the_rest_follow_in_order(
    world: World,
) -> None:
    # K38 B65
    house = House(job(world), active=2)
    tasks = [house.submit(key=str(n)) for n in range(5)]
    most = 0
    while any(task.status != "completed" for task in tasks):
        assert house.sim.step()
        kinds = house.kinds("services/admission")
        most = max(most, kinds.count("TaskActivated") - kinds.count("TaskLeft"))
    assert most == 2
    started = [
        event.task  # type: ignore[attr-defined]
        for event in house.events("services/admission")
        if type(event).__name__ == "TaskActivated"
    ]
    assert started == [task.id for task in tasks]


def test_submitting_with_the_same_key_again_gives_the_same_task(world: World) -> None:
    # R5
    house = House(job(world))
    first = house.submit(key="mine")
    assert house.submit(key="mine").id == first.id
    house.finish(first.id)
    assert house.submit(key="mine").id == first.id, "also after its end"
    assert house.submit(key="other").id != first.id
    assert len(house.runtime.tasks()) == 2


# ── what is refused ────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"agent": "nobody"}, "'nobody'"),
        ({"goal": ""}, "goal=''"),
        ({"goal": 7}, "goal=7"),
        ({"budget": 100}, "budget=100"),
        ({"budget": Budget(cost=1)}, "budget.cost"),
        ({"constraints": "be good"}, "constraints='be good'"),
        ({"constraints": [1]}, "constraints[0]"),
        ({"priority": 1.5}, "priority=1.5"),
        ({"priority": True}, "priority=True"),
        ({"deadline": "soon"}, "deadline"),
        ({"group": None}, "group"),
        ({"key": 7}, "key"),
        ({"inputs": {"x": float("nan")}}, "x"),
        ({"inputs": {"x": b"raw"}}, "x"),
        ({"inputs": {"x": print}}, "x"),
        ({"inputs": {"x": "y" * 20_000_000}}, "bytes"),
        ({"goal": "\ud800"}, "cannot be stored"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_malformed_submission_is_refused_by_field_and_changes_nothing(
    world: World, options: dict[str, Any], named: str
) -> None:
    # R29
    house = House(job(world))
    with pytest.raises(Misuse) as caught:
        house.submit(**options)
    assert named in str(caught.value)
    assert house.runtime.tasks() == []
    assert house.run().status == "completed"
    assert house.log.crashes() == []


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"agents": [print]}, "no Agent"),
        ({"agents": [job(World()), job(World())]}, "'agent'"),
        ({"pool": 100}, "pool=100"),
        ({"active": 0}, "active=0"),
        ({"active": True}, "active=True"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_malformed_runtime_is_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(Misuse) as caught:
        Runtime(MemoryBackend(), **options)
    assert named in str(caught.value)


def test_a_store_has_one_owner_at_a_time(world: World) -> None:
    # P9
    house = House(job(world))
    with pytest.raises(StoreBusy):
        Runtime(MemoryBackend(house.store), dispatcher=house.sim)
    house.runtime.close()
    house.reopen()
    assert house.run().status == "completed"


def test_an_unknown_task_is_named(world: World) -> None:
    house = House(job(world))
    with pytest.raises(TaskNotFound, match="t-none"):
        house.runtime.task("t-none")


def test_waiting_ends_with_the_time_given(world: World) -> None:
    house = House(job(world))
    task = house.submit()
    with pytest.raises(TimeoutError, match=task.id):
        task.wait(timeout=0.0)
    assert task.wait(timeout=3600.0).status == "completed"


def test_blocking_calls_refuse_an_event_loop_and_name_their_twin(world: World) -> None:
    house = House(job(world))
    task = house.submit()

    async def blocked() -> list[str]:
        told: list[str] = []
        for call in (
            house.submit,
            task.wait,
            task.pause,
            task.resume,
            task.cancel,
            lambda: task.extend(Budget()),
        ):
            with pytest.raises(UseAsync) as caught:
                call()
            told.append(str(caught.value))
        return told

    twins = ["asubmit", "await handle", "apause", "aresume", "acancel", "aextend"]
    told = asyncio.run(blocked())
    assert all(twin in text for twin, text in zip(twins, told, strict=True))
