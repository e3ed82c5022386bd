"""Any actor crashes at any step; the process is cut off at any step."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from perdure import RateLimit
from perdure.actors import names
from perdure.actors.events import (
    RecoveryLoaded,
)
from perdure.actors.task.state import TaskState
from perdure.actors.task.state import apply as apply_task
from tests.actors.runs import (
    FOLDS,
    SERVICES,
    actors_of,
    check,
    disturb,
    fold_of,
    not_reproduced,
    wide,
)
from tests.actors.world import (
    House,
    World,
    job,
    quick,
    redone,
)


def test_a_state_is_the_fold_of_its_events_and_of_snapshot_and_tail() -> None:
    # P5: with a snapshot at nearly every event of every stream.
    agent, limits = wide(World()), [RateLimit("shelf", 100, per="1m")]
    agent.tools["look"].service = "shelf"
    house = House(agent, baseline=quick(snapshot_events=2), limits=limits)
    tasks = [house.submit() for _ in range(2)]
    for place in "abc":
        house.runtime.memory.know(place, "known")
    checked: set[Any] = set()
    while any(task.status != "completed" for task in tasks):
        for _ in range(10):
            assert house.sim.step()
        assert not_reproduced(house.store) == []
        checked |= set(map(fold_of, house.store.snapshots))
    assert checked == {(TaskState, apply_task), *FOLDS.values()}


def test_a_recovery_from_a_snapshot_replays_only_what_came_after() -> None:
    # B26 B32
    world = World()
    house = House(wide(world))
    task = house.submit()
    house.until_hit("step.ended", step="write")
    house.until_hit("effect.recorded")
    house.kill()
    house.reopen()
    check(house, world, task.id)
    (loaded,) = house.of(f"task/{task.id}", RecoveryLoaded)
    assert loaded.snapshot > 20
    assert 0 < loaded.replayed < 12


# ── crashes of one actor ───────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "place", range(5), ids=["task", "ledger", "account", "context", "family"]
)
def test_a_crash_of_a_tasks_actor_costs_nothing(place: int, seed: int) -> None:
    # P6 B25
    for steps in range(1 + seed, 310, 31):
        world = World()
        house = House(wide(world), seed=seed)
        task = house.submit()
        for _ in range(steps):
            house.sim.step()
        house.sim.crash(actors_of(task.id)[place])
        check(house, world, task.id)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", SERVICES)
def test_a_crash_of_a_service_costs_nothing(name: str, seed: int) -> None:
    for steps in range(25 + seed, 310, 37):  # not before the tree is up
        world = World()
        house = House(wide(world), seed=seed)
        task = house.submit()
        for _ in range(steps):
            house.sim.step()
        house.sim.crash(name)
        check(house, world, task.id)


@pytest.mark.parametrize("seed", range(40))
def test_any_sequence_of_crashes_and_kills_costs_nothing(seed: int) -> None:
    # R4: crashes fall into recoveries, too.
    chance = random.Random(seed)
    world = World()
    recovery = chance.choice(["declare", "rules"])
    house = House(wide(world, recovery=recovery), seed=seed)
    task = house.submit()
    disturb(house, task.id, chance, 30, 150)
    check(house, world, task.id)


def test_a_sibling_does_not_notice_a_crash() -> None:
    # P8
    world, other = World(), World()
    house = House(wide(world), wide(other, name="other"))
    task, sibling = house.submit(), house.submit("other")
    house.until_hit("step.ended", task=task.id, step="find")
    house.sim.crash(names.task(task.id))
    check(house, world, task.id)
    assert house.events(f"task/{sibling.id}/recovery") == []


# ── the process ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("part", range(10))
def test_a_process_cut_off_at_any_step_converges_to_the_same_end(part: int) -> None:
    # R3 R14 B40 B68
    steps = part + 1
    while True:
        world = World()
        house = House(wide(world), seed=part)
        task = house.submit()
        for _ in range(steps):
            house.sim.step()
        ended = task.status == "completed"
        house.kill()
        house.reopen()
        check(house, world, task.id)
        if ended:
            return
        steps += 10


@pytest.mark.parametrize("part", range(5))
def test_a_process_cut_off_within_the_recovery_converges_too(part: int) -> None:
    # R4
    for again in range(part + 1, 160, 10):
        world = World()
        house = House(wide(world), seed=again)
        task = house.submit()
        house.until_hit("step.ended", step="find")
        for _ in range(40):
            house.sim.step()
        house.kill()
        house.reopen()
        for _ in range(again):
            house.sim.step()
        house.kill()
        house.reopen()
        check(house, world, task.id)


@pytest.mark.parametrize("steps", range(0, 40, 2))
def test_a_task_whose_id_was_returned_is_found_after_a_kill(steps: int) -> None:
    # R5 P1
    world = World()
    house = House(job(world), seed=steps)
    tasks = [house.submit(key=str(n)).id for n in range(3)]
    for _ in range(steps):
        house.sim.step()
    house.kill()
    house.reopen()
    assert sorted(row.task for row in house.runtime.tasks()) == sorted(tasks)
    assert [house.submit(key=str(n)).id for n in range(3)] == tasks
    assert {house.finish(task).status for task in tasks} == {"completed"}
    assert len(world.sent) == 3


def test_waiting_tasks_keep_their_order_over_a_kill() -> None:
    # K38 B66
    world = World()
    house = House(job(world), active=2)
    tasks = [house.submit().id for _ in range(5)]
    house.until_hit("step.ended", step="find")
    house.kill()
    house.reopen()
    for task in tasks:
        assert house.finish(task).status == "completed"
    first_activations: dict[str, None] = {}
    for record in house.store.streams["services/admission"]:
        if record.type == "TaskActivated":
            first_activations[msgspec.json.decode(record.body)["task"]] = None
    assert list(first_activations) == tasks
    assert redone(house.store) == []
