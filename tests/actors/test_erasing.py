"""Erasing a task: only an ended one, all of it, once, and nothing else is harmed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from perdure import Agent, Budget, Misuse, Runtime, TaskNotFound, tool
from perdure.actors.budget.pool import PoolState, apply_pool
from perdure.actors.events import CommandApplied, TaskErased
from perdure.models import Scripted
from perdure.storage.memory import MemoryStore
from tests.actors.runs import sound
from tests.actors.test_approvals import deleter, paused
from tests.actors.test_inbox import answer, answered, send
from tests.actors.world import (
    Calls,
    House,
    World,
    follow,
    handing_on,
    job,
    tools_of,
)

SECRET = "Orchard Lane 7"
QUEUE = "services/admission"


def secretive(world: World, **options: Any) -> Agent:
    """An agent whose every call and result holds the secret, a big value with it."""

    @tool(effect="once", key=lambda arguments: arguments["what"])
    def fetch(what: str) -> str:
        """Fetch a document."""
        return f"{what}: " + SECRET * 3_000

    calls: Calls = [("fetch", {"what": SECRET}), ("send", {"text": SECRET})]
    return Agent(
        name="agent",
        instructions="Write to them.",
        model=Scripted(follow({"task": [calls]})),
        tools=[fetch, *tools_of(world)],
        recovery="rules",
        **options,
    )


def leaks(store: MemoryStore, word: str = SECRET) -> list[str]:
    """Where the store holds the word."""
    needle = word.encode()
    found = [f"{one.stream} {one.type}" for one in store.log if needle in one.body]
    for space, rows in store.rows.items():
        found += [
            f"row {space}/{key}"
            for key, value in rows.items()
            if needle in key.encode() + value
        ]
    found += [f"blob {name}" for name, body in store.blobs.items() if needle in body]
    found += [
        f"snapshot {stream}"
        for kept in (store.snapshots, store.flushed_snapshots)
        for stream, snapshots in kept.items()
        for one, _ in snapshots
        if needle in one.body
    ]
    found += [f"command {one.id}" for one in store.inbox if needle in one.body]
    return found


def test_nothing_of_an_erased_task_is_left_but_that_it_was() -> None:
    house = House(secretive(World()))
    task = house.submit(goal=f"write to {SECRET}", key=SECRET, inputs={"a": SECRET})
    assert house.finish(task.id).status == "completed"
    assert len(leaks(house.store)) > 10
    assert house.runtime.erase(task=task.id, by="an operator") is True
    assert leaks(house.store) == []
    (left,) = house.events(f"task/{task.id}")
    told = TaskErased(task=task.id, by="an operator", erased_at=left.erased_at)
    assert left == told
    assert house.of(QUEUE, TaskErased) == [told]
    assert [name for name in house.store.streams if task.id in name] == [
        f"task/{task.id}"
    ]
    rows = {
        space
        for space, rows in house.store.rows.items()
        for key, value in rows.items()
        if task.id in key or task.id.encode() in value
    }
    assert rows == {"task", "returned"}
    sound(house)


def test_what_was_said_of_it_elsewhere_goes_with_it() -> None:
    house = House(deleter(World(), [[("delete", {"path": SECRET})]]))
    task = house.submit(key="k").id
    (approval,) = paused(house, task)
    send(house, "c0", "approve", approval, tool=SECRET, arguments='{"path": "b"}')
    assert SECRET in answered(house, "c0").said
    send(house, "c1", "approve", approval, why=SECRET)
    send(house, "c2", "extend", task, amounts={"tokens": 1}, why=SECRET)
    assert house.finish(task).status == "completed"
    answered(house, "c2")
    house.runtime.task(task).cancel()
    assert {"command c1", "command c2", f"row approval/{approval}"} <= {
        *leaks(house.store)
    }
    house.runtime.erase(task=task, by="an operator")
    assert leaks(house.store) == []
    assert leaks(house.store, approval) == []
    send(house, "c1b", "resume", task)
    assert answered(house, "c1b").said == "it was not waiting"
    sound(house)


def test_a_task_that_lives_is_not_erased() -> None:
    house = House(job(World()))
    task = house.submit().id
    house.until_hit("step.ended", step="find")
    with pytest.raises(Misuse, match=f"{task} is active: cancel it first"):
        house.runtime.erase(task=task, by="an operator")
    house.runtime.pause(task, "an operator")
    house.finish(task)
    with pytest.raises(Misuse, match="is paused: cancel it first"):
        house.runtime.erase(task=task, by="an operator")
    house.runtime.cancel(task, "an operator", None)
    assert house.runtime.erase(task=task, by="an operator")
    sound(house)


def test_a_task_is_erased_once_and_one_that_never_was_is_refused() -> None:
    house = House(job(World()))
    task = house.run().task
    assert house.runtime.erase(task=task, by="an operator") is True
    assert house.runtime.erase(task=task, by="somebody") is False
    with pytest.raises(Misuse, match="there is no task 't-none'"):
        house.runtime.erase(task="t-none", by="an operator")
    for by in ("", "x" * 201, None, "\ud800"):
        with pytest.raises(Misuse, match="must say who"):
            house.runtime.erase(task=task, by=by)  # type: ignore[arg-type]
    assert len(house.of(QUEUE, TaskErased)) == 1


def test_sub_tasks_go_with_their_parent_and_not_alone() -> None:
    world = World()
    house = House(handing_on(), secretive(world))
    task = house.run("boss").task
    child = f"{task}.2"
    assert house.runtime.status(child) == "completed"
    with pytest.raises(Misuse, match=f"erase {task}, it goes with it"):
        house.runtime.erase(task=child, by="an operator")
    house.runtime.erase(task=task, by="an operator")
    assert leaks(house.store) == []
    assert house.of(QUEUE, TaskErased)[0].subtasks == (child,)
    assert house.runtime.status(child) == "erased"
    sound(house)


def test_a_blob_that_another_task_needs_stays() -> None:
    house = House(secretive(World()))
    first, second = house.run().task, house.run().task
    digests = set(house.store.blobs)
    house.runtime.erase(task=first, by="an operator")
    assert set(house.store.blobs) == digests
    house.runtime.erase(task=second, by="an operator")
    assert house.store.blobs == {}


def test_two_that_are_erased_at_once_leave_no_blob_between_them() -> None:
    house = House(secretive(World()))
    tasks = [house.run().task for _ in range(2)]
    house.runtime.close()
    for number, task in enumerate(tasks):
        send(house, f"e{number}", "erase", task)
    house.reopen()
    assert answered(house, "e1").done
    assert house.store.blobs == {}


def test_its_key_is_free_and_its_id_is_not() -> None:
    house = House(job(World()))
    task = house.run(key="may").task
    house.runtime.erase(task=task, by="an operator")
    again = house.submit(key="may")
    assert again.id != task
    assert house.finish(again.id).status == "completed"
    sound(house)


def test_what_it_used_stays_in_the_books_of_the_pool() -> None:
    house = House(job(World()), pool=Budget(tokens=50_000_000))
    task = house.run()
    other = house.run().task

    def pool() -> dict[str, int]:
        state = PoolState()
        for event in house.events("services/pool"):
            state = apply_pool(state, event)
        return state.out

    before = pool()
    house.runtime.erase(task=task.task, by="an operator")
    assert pool() == before
    left = house.runtime.result(task.task)
    assert left is not None
    assert (left.status, left.output, left.steps) == ("erased", None, {})
    assert left.spent == task.spent
    assert house.runtime.status(other) == "completed"


def test_whoever_waits_for_it_hears_that_it_is_erased() -> None:
    house = House(job(World()))
    handle = house.submit()
    handle.wait()
    house.runtime.erase(task=handle.id, by="an operator")
    assert handle.wait().status == "erased"
    assert handle.resume() is False
    with pytest.raises(Misuse, match="has ended"):
        handle.extend(Budget(tokens=1))


def test_an_erasure_is_asked_for_from_outside_and_applied_once() -> None:
    house = House(secretive(World()))
    task = house.run(goal=SECRET).task
    house.runtime.close()
    send(house, "e1", "erase", task)
    assert answer(house, "e1") is None
    house.reopen()
    assert answered(house, "e1").said == "it is erased"
    assert leaks(house.store) == []
    send(house, "e2", "erase", task)
    assert answered(house, "e2").said == "it was erased before"
    send(house, "e3", "erase", "t-none")
    assert answered(house, "e3").done is False
    applied = [one for one in house.of(QUEUE, CommandApplied) if one.kind == "erase"]
    assert [(one.command, one.done) for one in applied] == [
        ("e1", True),
        ("e2", True),
        ("e3", False),
    ]
    sound(house)


@pytest.mark.parametrize("seed", range(12))
def test_over_every_crash_it_is_erased_or_all_there(seed: int) -> None:
    rng = random.Random(seed)
    house = House(secretive(World()), seed=seed)
    task = house.run(goal=SECRET, key="k").task
    other = house.run(goal="another").task
    records = len(house.store.log)
    send(house, "e1", "erase", task)
    house.sim.run(until=_after(rng.randint(1, 60)))
    if seed % 2:
        house.kill()
        gone = f"task/{task}/ledger" not in house.store.streams
        assert gone == (answer(house, "e1") is not None)
        assert gone or len(house.store.log) >= records
        house.reopen()
    else:
        house.sim.crash(QUEUE)
    assert answered(house, "e1").done
    assert len(house.of(QUEUE, TaskErased)) == 1
    assert [one for one in leaks(house.store) if task in one] == []
    assert house.runtime.status(other) == "completed"
    sound(house)


def _after(steps: int) -> Any:
    taken = iter(range(steps))
    return lambda: next(taken, None) is None


def test_a_command_that_was_kept_for_it_is_refused_afterwards() -> None:
    house = House(job(World()))
    task = house.run().task
    house.runtime.close()
    send(house, "e1", "erase", task)
    send(house, "c2", "cancel", task, why=SECRET)
    house.reopen()
    assert answered(house, "e1").done
    assert answered(house, "c2").done is False
    assert leaks(house.store) == []


def test_an_erasure_makes_no_index_where_nobody_has_searched(tmp_path: Path) -> None:
    with Runtime(tmp_path / "t.db", agents=[secretive(World())]) as runtime:
        task = runtime.submit("agent", SECRET)
        task.wait(30.0)
        runtime.erase(task=task.id, by="an operator")
        assert not (tmp_path / "t.db-recall").exists()


def test_an_export_of_it_says_that_it_is_erased() -> None:
    house = House(secretive(World()))
    task = house.run(goal=SECRET).task
    house.runtime.erase(task=task, by="an operator")
    lines = house.runtime.export(task=task)
    assert lines[0] == {"is": "task", "task": task, "status": "erased", "subtasks": []}
    assert SECRET not in str(lines)
    with pytest.raises(TaskNotFound):
        house.runtime.export(task="t-none")
