"""Work handed to another agent: a task of its own, once, paid by its parent."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from perdure import Agent, Budget, delegate, tool
from perdure.actors import names
from perdure.actors.budget.account import Books
from perdure.actors.budget.share import charged
from perdure.actors.events import (
    EffectRecorded,
    Granted,
    QueueReopened,
    Reserved,
    Settled,
    SubtaskEnded,
    SubtaskStarted,
    TaskSubmitted,
)
from perdure.models import Scripted
from tests.actors.runs import SERVICES, actors_of, sound
from tests.actors.world import (
    HAND,
    Calls,
    House,
    World,
    follow,
    job,
    quick,
    taken,
    tools_of,
    unbalanced,
)

WORK: Sequence[Calls] = [
    [("delegate", HAND), ("look", {"what": "a"})],
    [("send", {"text": "all of it"})],
]


def boss(world: World, calls: Sequence[Calls] = WORK, **options: Any) -> Agent:
    options.setdefault("name", "boss")
    options.setdefault("accept", taken)
    return Agent(
        instructions="Hand on, then send.",
        model=Scripted(follow({"task": calls})),
        tools=[delegate, *tools_of(world)],
        recovery="rules",
        **options,
    )


def parts(house: House, task: str) -> list[str]:
    return [one.child for one in house.of(f"task/{task}", SubtaskStarted)]


def begun(house: House, task: str) -> str:
    """The sub-task, once it is in the queue."""
    rows = house.store.rows
    assert house.until(lambda: f"{task}.2" in rows.get(names.TASK_ROWS, {}))
    return f"{task}.2"


def handed_on(house: House, world: World, task: str) -> None:
    """All that must hold of a task that handed a job on, however often disturbed."""
    result = house.finish(task)
    assert result.status == "completed"
    (part,) = parts(house, task)
    assert house.finish(part).status == "completed"
    assert sorted(text for _, text in world.sent) == ["all of it", "hello"]
    assert world.files == {"f": "1"}
    assert len(house.of(f"task/{task}", SubtaskEnded)) == 1
    assert result.spent["tool_calls"] == {
        "delegate": 1,
        "look": 4,
        "send": 2,
        "write": 1,
    }
    assert result.spent["model_calls"] == 3 + 7
    sound(house)


def test_a_sub_task_is_a_task_and_its_result_one_observation() -> None:
    world = World()
    house = House(boss(world), job(world))
    task = house.submit("boss")
    handed_on(house, world, task.id)
    (recorded,) = [
        one
        for one in house.of(f"task/{task.id}/ledger", EffectRecorded)
        if one.by == "subtask"
    ]
    assert json.loads(recorded.result) == {"step": "send", "ok": True}


def test_a_parent_gives_its_slot_to_its_sub_task() -> None:
    world = World()
    house = House(boss(world), job(world), active=1)
    task = house.submit("boss")
    assert house.until(lambda: task.status == "waiting")
    system, family = house.runtime._system, names.family(task.id)
    assert house.until(lambda: not system.is_running(family))
    handed_on(house, world, task.id)


def test_a_sub_task_is_bound_to_what_its_parent_is_bound_to() -> None:
    world = World()
    house = House(boss(world), job(world))
    until = house.sim.clock.time() + 1e6
    task = house.submit(
        "boss", constraints=["never twice"], group="g", priority=3, deadline=until
    )
    assert house.finish(task.id).status == "completed"
    (part,) = parts(house, task.id)
    (submitted,) = house.of(f"task/{part}", TaskSubmitted)
    assert submitted.constraints == ("never twice",)
    assert (submitted.group, submitted.priority, submitted.deadline) == ("g", 3, until)
    assert (submitted.parent, submitted.depth) == (task.id, 1)


# -- money --------------------------------------------------------------------


def test_a_sub_task_gets_half_of_what_is_free_above_the_floor() -> None:
    world = World()
    house = House(boss(world), job(world))
    task = house.submit("boss", budget=Budget(model_calls=100, tokens=10**6))
    assert house.finish(task.id).status == "completed"
    (handed,) = house.of(f"task/{task.id}", SubtaskStarted)
    assert handed.amounts["model_calls"] == (100 - 1 - 10) // 2
    assert set(handed.amounts) == {"model_calls", "tokens"}


def test_a_sub_task_gets_what_the_call_says() -> None:
    world = World()
    hand = {**HAND, "budget": {"model_calls": 9, "tool_calls": 8}}
    house = House(boss(world, [[("delegate", hand)]]), job(world))
    task = house.submit("boss", budget=Budget(model_calls=100))
    assert house.finish(task.id).status == "completed"
    (handed,) = house.of(f"task/{task.id}", SubtaskStarted)
    assert handed.amounts == {"model_calls": 9, "tool_calls": 8}


def test_the_pool_gives_nothing_for_a_sub_task() -> None:
    world = World()
    house = House(boss(world), job(world), pool=Budget(model_calls=60))
    task = house.submit("boss", budget=Budget(model_calls=60))
    result = house.finish(task.id)
    assert result.status == "completed"
    house.runtime.close()
    first, second = house.of("services/pool", Granted)
    assert (first.task, first.parent) == (task.id, "")
    assert (second.task, second.parent) == (*parts(house, task.id), task.id)
    house.reopen()
    left = Budget(model_calls=60 - result.spent["model_calls"])
    assert house.run("agent", budget=left).status == "completed"


def test_a_call_that_asks_for_more_than_there_is_pauses_for_money() -> None:
    world = World()
    hand = {**HAND, "budget": {"model_calls": 50}}
    house = House(boss(world, [[("delegate", hand)]]), job(world))
    task = house.submit("boss", budget=Budget(model_calls=40))
    paused = house.finish(task.id)
    assert (paused.status, paused.reason.split(":")[0]) == ("paused", "budget")
    task.extend(Budget(model_calls=40))
    assert house.finish(task.id).status == "completed"
    assert len(parts(house, task.id)) == 1


def test_what_a_sub_task_does_not_use_is_its_parents_again() -> None:
    world = World()
    house = House(boss(world), job(world))
    task = house.submit("boss", budget=Budget(model_calls=100))
    assert house.finish(task.id).status == "completed"
    stream = f"task/{task.id}/account"
    (share,) = [
        one for one in house.of(stream, Reserved) if "tool:delegate" in one.amounts
    ]
    (used,) = [
        one
        for one in house.of(stream, Settled)
        if (one.op, one.attempt) == (share.op, 1)
    ]
    assert used.amounts["model_calls"] == 7
    assert share.amounts["model_calls"] == 44
    assert unbalanced(house.store) == []


def test_a_sub_task_that_was_extended_uses_that_last() -> None:
    world = World()
    hand = {**HAND, "budget": {"model_calls": 3}}
    house = House(
        boss(world, [[("delegate", hand)]]), job(world), pool=Budget(model_calls=100)
    )
    task = house.submit("boss", budget=Budget(model_calls=40))
    part = begun(house, task.id)
    assert house.finish(part).status == "paused"
    house.runtime.task(part).extend(Budget(model_calls=50))
    result = house.finish(task.id)
    assert result.status == "completed"
    assert house.finish(part).spent["model_calls"] == 7
    assert result.spent["model_calls"] == 2 + 3
    house.runtime.close()
    assert unbalanced(house.store) == []
    house.reopen()
    left = Budget(model_calls=100 - 2 - 7)
    assert house.run("agent", budget=left).status == "completed"


def test_a_parent_pays_up_to_its_grant_and_what_is_recorded_first() -> None:
    books = Books(
        spent={"model_calls": 5, "tokens": 10},
        unknown={"model_calls": 4},
        recovery={"model_calls": 3},
    )
    paid = charged(books, {"model_calls": 7})
    assert paid.spent == {"model_calls": 5, "tokens": 10}
    assert paid.unknown == {"model_calls": 2}
    assert paid.recovery == {"model_calls": 0}


# -- what does not work out ---------------------------------------------------


@pytest.mark.parametrize(
    ("hand", "said"),
    [
        ({"agent": "nobody", "goal": "x"}, "there is no agent 'nobody'"),
        ({"agent": "agent", "goal": " "}, "say in words what is wanted"),
        ({"agent": "agent"}, "goal"),
        ({**HAND, "budget": {"model_calls": -1}}, "model_calls"),
        ({**HAND, "budget": {"euros": 1}}, "euros"),
    ],
)
def test_a_call_that_makes_no_task_is_told_why(hand: Any, said: str) -> None:
    world = World()
    house = House(boss(world, [[("delegate", hand)]]), job(world))
    task = house.submit("boss")
    assert house.finish(task.id).status == "completed"
    (recorded,) = [
        one
        for one in house.of(f"task/{task.id}/ledger", EffectRecorded)
        if one.status == "failed"
    ]
    assert said in recorded.error
    assert parts(house, task.id) == []


def test_sub_tasks_of_sub_tasks_have_an_end() -> None:
    world = World()
    house = House(boss(world, [[("delegate", {"agent": "boss", "goal": "again"})]]))
    task = house.submit("boss")
    assert house.finish(task.id).status == "completed"
    depth = max(one.count(".") for one in house.store.rows[names.TASK_ROWS])
    assert depth == house.runtime.baseline.subtask_depth


def several(count: int) -> Calls:
    return [("delegate", {**HAND, "goal": f"part {n}"}) for n in range(count)]


def refused(house: House, task: str) -> list[str]:
    return [
        one.error
        for one in house.of(f"task/{task}/ledger", EffectRecorded)
        if one.status == "failed"
    ]


def test_sub_tasks_of_one_task_are_bounded_side_by_side() -> None:
    world = World()
    rules = quick(subtask_width=2)
    house = House(boss(world, [several(4)]), job(world), baseline=rules)
    task = house.submit("boss")
    assert house.finish(task.id).status == "completed"
    assert len(parts(house, task.id)) == 2
    said = "2 sub-tasks are open, and 2 may be at once"
    assert [one[: len(said)] for one in refused(house, task.id)] == [said] * 2
    rows = house.store.rows[names.TASK_ROWS]
    assert sum(name.startswith(f"{task.id}.") for name in rows) == 2
    sound(house)


def test_a_place_that_is_free_again_is_given_to_the_next_sub_task() -> None:
    world = World()
    rules = quick(subtask_width=1)
    groups = [several(1), several(1), several(1)]
    house = House(boss(world, groups), job(world), baseline=rules)
    task = house.submit("boss")
    assert house.finish(task.id).status == "completed"
    assert len(parts(house, task.id)) == 3
    assert refused(house, task.id) == []


@pytest.mark.parametrize("seed", range(6))
def test_sub_tasks_of_one_task_are_bounded_in_all_over_restarts(seed: int) -> None:
    chance = random.Random(f"total {seed}")
    world = World()
    rules = quick(subtask_total=3, subtask_width=2)
    groups = [several(2), several(2), several(1)]
    house = House(
        boss(world, groups), job(world, recovery="rules"), baseline=rules, seed=seed
    )
    task = house.submit("boss")
    for _ in range(3):
        for _ in range(chance.randrange(1, 200)):
            house.sim.step()
        house.kill()
        house.reopen()
    assert house.finish(task.id).status == "completed"
    assert len(parts(house, task.id)) == 3
    said = "this task has begun 3 sub-tasks, 3 are allowed in all"
    assert [one[: len(said)] for one in refused(house, task.id)] == [said] * 2
    sound(house)


def test_a_parent_is_told_of_a_sub_task_that_was_cancelled() -> None:
    world = World()
    house = House(boss(world), job(world))
    task = house.submit("boss")
    part = begun(house, task.id)
    house.runtime.task(part).cancel()
    assert house.finish(task.id).status == "completed"
    (recorded,) = [
        one
        for one in house.of(f"task/{task.id}/ledger", EffectRecorded)
        if one.by == "subtask"
    ]
    assert recorded.status == "failed"
    assert f"sub-task {part} ended as cancelled" in recorded.error


def test_cancelling_a_parent_ends_its_sub_tasks_first() -> None:
    world = World()
    three: Calls = [("delegate", {**HAND, "goal": f"part {n}"}) for n in range(3)]
    house = House(boss(world, [three]), job(world))
    task = house.submit("boss")
    assert house.until(lambda: len(parts(house, task.id)) == 3)
    result = task.cancel()
    assert result.status == "cancelled"
    for part in parts(house, task.id):
        assert house.runtime.task(part).status in ("cancelled", "completed")
    assert unbalanced(house.store) == []
    order = [record.stream for record in house.store.log if record.type == "TaskClosed"]
    assert order[-1] == f"task/{task.id}"


def test_a_sub_task_that_waits_for_a_person_ends_with_its_parent() -> None:
    @tool(effect="once", approval=True)
    def delete(path: str) -> str:
        """Delete something."""
        raise AssertionError(path)

    part = Agent(
        name="agent",
        instructions="Tidy up.",
        model=Scripted(follow({"task": [[("delete", {"path": "x"})]]})),
        tools=[delete],
        recovery="rules",
    )
    house = House(boss(World()), part)
    task = house.submit("boss")
    assert house.until(lambda: bool(house.runtime.approvals()))
    assert task.cancel().status == "cancelled"
    assert house.runtime.task(f"{task.id}.2").status == "cancelled"
    assert house.runtime.approvals() == []
    sound(house)


def test_a_parent_that_holds_still_lets_its_sub_task_go_on_when_resumed() -> None:
    world = World()
    house = House(boss(world), job(world))
    task = house.submit("boss")
    assert house.until(lambda: bool(parts(house, task.id)))
    house.kill()
    house.reopen(resume=False)
    assert house.runtime.task(task.id).resume()
    handed_on(house, world, task.id)


# -- disturbed ----------------------------------------------------------------


@pytest.mark.parametrize("part", range(4))
def test_a_process_cut_off_at_any_step_hands_on_once(part: int) -> None:
    # R3 P5
    steps = part + 1
    while True:
        world = World()
        house = House(boss(world), job(world, recovery="rules"), seed=part)
        task = house.submit("boss")
        for _ in range(steps):
            house.sim.step()
        ended = task.status == "completed"
        house.kill()
        house.reopen()
        handed_on(house, world, task.id)
        if ended:
            return
        steps += 12


@pytest.mark.parametrize("seed", range(24))
def test_any_sequence_of_crashes_and_kills_hands_on_once(seed: int) -> None:
    # R4
    chance = random.Random(seed)
    world = World()
    house = House(boss(world), job(world, recovery="rules"), seed=seed)
    task = house.submit("boss")
    for _ in range(chance.randint(1, 4)):
        for _ in range(chance.randint(30, 250)):
            house.sim.step()
        both = [*actors_of(task.id), *actors_of(f"{task.id}.2")]
        name = chance.choice([*both, *SERVICES, *["kill"] * 4])
        if name == "kill":
            house.kill()
            house.reopen()
        else:
            house.sim.crash(name)
    handed_on(house, world, task.id)


@pytest.mark.parametrize("seed", range(24))
def test_a_cancel_at_any_moment_ends_parent_and_sub_task(seed: int) -> None:
    chance = random.Random(seed)
    world = World()
    house = House(boss(world), job(world, recovery="rules"), seed=seed)
    task = house.submit("boss")
    for _ in range(chance.randint(1, 400)):
        house.sim.step()
    house.runtime.ask_cancel(task.id, "operator")
    for _ in range(chance.randint(0, 120)):
        house.sim.step()
    if chance.random() < 0.5:
        house.kill()
        house.reopen()
    result = house.finish(task.id)
    assert result.status in ("cancelled", "completed")
    rows = house.store.rows[names.TASK_ROWS].values()
    left = {json.loads(row)["status"] for row in rows}
    assert left <= {"cancelled", "completed"}
    assert unbalanced(house.store) == []
    books = json.loads(house.store.rows[names.TASK_ROWS][task.id])["books"]
    assert books.get("spent", {}).get("tool:send", 0) == len(world.sent)


@pytest.mark.parametrize("money", [{}, {"budget": {"model_calls": 3}}])
@pytest.mark.parametrize("seed", range(6))
def test_a_cancelled_parent_and_its_part_end_when_recovered_one_at_a_time(
    seed: int, money: Any
) -> None:
    # The part runs when the process dies, or is paused for money.
    world = World()
    hand = {**HAND, **money}
    boss_ = boss(world, [[("delegate", hand)]])
    house = House(boss_, job(world, recovery="rules"), seed=seed)
    task = house.submit("boss")
    part = begun(house, task.id)
    if money:
        assert house.finish(part).status == "paused"
    else:
        assert house.until_hit("actor.started", name=names.family(part))
    house.runtime.ask_cancel(task.id, "operator")
    for _ in range(2):
        assert house.until_hit("actor.started", name=names.task(task.id))
        house.kill()
        house.reopen()
    assert house.finish(task.id).status == "cancelled"
    assert house.finish(part).status in ("cancelled", "completed")
    assert unbalanced(house.store) == []
    assert any(one.alone for one in house.of(names.ADMISSION, QueueReopened))


def test_sub_tasks_that_race_for_one_account_never_get_more_than_it_has() -> None:
    # R13 B61
    world = World()
    each = {**HAND, "budget": {"tokens": 16_000}}
    five: Calls = [("delegate", {**each, "goal": f"part {n}"}) for n in range(5)]
    house = House(boss(world, [five]), job(world))
    task = house.submit("boss", budget=Budget(tokens=24_000))
    paused = house.finish(task.id)
    assert (paused.status, paused.reason) == ("paused", "budget")
    (part,) = parts(house, task.id)
    assert house.finish(part).spent["tokens"] <= 16_000
    assert unbalanced(house.store) == []
    task.extend(Budget(tokens=120_000))
    assert house.finish(task.id).status == "completed"
    assert len(parts(house, task.id)) == 5
    assert unbalanced(house.store) == []
