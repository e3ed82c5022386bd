"""Commands from outside: applied once, answered beside their row, over every crash."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from perdure import Budget
from perdure.actors.admission.commands import CommandAnswer
from perdure.actors.events import CommandApplied, Granted, TaskResumed, TaskWoken
from perdure.storage.inbox import ANSWERS
from perdure.storage.records import Command
from tests.actors.runs import SERVICES, check, sound, wide
from tests.actors.test_approvals import deleted, deleter, paused
from tests.actors.world import House, World, job

QUEUE = "services/admission"


def send(house: House, name: str, kind: str, subject: str, **body: Any) -> None:
    """What another process writes."""
    text = json.dumps({"by": "approver", **body}).encode()
    command = Command(id=name, kind=kind, subject=subject, at=1.0, body=text)
    house.store.send(command)


def answer(house: House, name: str) -> CommandAnswer | None:
    import msgspec

    row = house.store.rows.get(ANSWERS, {}).get(name)
    return None if row is None else msgspec.json.decode(row, type=CommandAnswer)


def answered(house: House, name: str) -> CommandAnswer:
    assert house.until(lambda: answer(house, name) is not None, 60.0)
    found = answer(house, name)
    assert found is not None
    return found


def applied(house: House) -> list[tuple[str, bool]]:
    return [(one.command, one.done) for one in house.of(QUEUE, CommandApplied)]


def test_a_cancel_from_outside_ends_the_task() -> None:
    world = World()
    house = House(job(world), seed=4)  # its model is asked as the command comes
    task = house.submit()
    house.until_hit("step.ended", step="find")
    send(house, "c1", "cancel", task.id)
    runs = "it is to end, after what runs now: model; it may end before"
    assert answered(house, "c1") == CommandAnswer(done=True, said=runs)
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("cancelled", "cancelled by approver")
    assert applied(house) == [("c1", True)]
    sound(house)


@pytest.mark.parametrize("said", ["approve", "reject"])
def test_who_waits_hears_of_what_was_said_while_nobody_had_the_store(said: str) -> None:
    house = House(deleter(World(), [[("delete", {"path": "a"})]]))
    task = house.submit().id
    (approval,) = paused(house, task)
    house.runtime.close()
    send(house, "c1", said, approval)
    house.reopen()
    assert house.finish(task).status == "completed"


def test_a_refused_command_leaves_a_task_that_stands_still_where_it_is() -> None:
    house = House(deleter(World()))
    task = house.submit().id
    paused(house, task)
    house.runtime.close()
    send(house, "c1", "extend", task, amounts={"tokens": -1})
    house.reopen()
    assert house.finish(task).reason == "approval"
    assert answered(house, "c1").done is False


def test_a_command_to_a_store_that_nobody_owns_is_applied_at_the_next_opening() -> None:
    house = House(job(World()))
    task = house.submit()
    house.runtime.close()
    send(house, "c1", "cancel", task.id)
    assert answer(house, "c1") is None
    house.reopen()
    assert answered(house, "c1").done
    assert house.finish(task.id).status == "cancelled"


def test_a_resume_from_outside_lets_a_paused_task_go_on() -> None:
    house = House(job(World()))
    task = house.submit()
    house.until_hit("step.ended", step="find")
    task.pause()
    assert house.finish(task.id).reason == "operator"
    send(house, "r1", "resume", task.id)
    assert answered(house, "r1") == CommandAnswer(done=True, said="it goes on")
    assert house.finish(task.id).status == "completed"
    send(house, "r2", "resume", task.id)
    assert answered(house, "r2") == CommandAnswer(done=False, said="it was not waiting")
    (resumed,) = house.of(f"task/{task.id}", TaskResumed)
    assert resumed.by == "approver"
    sound(house)


def test_an_extension_from_outside_is_granted_once_and_wakes_the_task() -> None:
    house = House(job(World()))
    task = house.submit(budget=Budget(model_calls=2))
    assert house.finish(task.id).reason == "budget"
    send(house, "e1", "extend", task.id, amounts={"model_calls": 20})
    assert answered(house, "e1").done
    assert house.finish(task.id).status == "completed"
    grants = [one.grant for one in house.of("services/pool", Granted)]
    assert grants == [f"{task.id}/first", f"{task.id}/e1"]
    sound(house)


def test_an_extension_that_meets_the_task_about_to_pause_is_not_lost() -> None:
    for seed in range(40):
        house = House(job(World()), seed=seed)
        task = house.submit(budget=Budget(model_calls=2))
        house.until_hit("account.reserved", op=2)
        for _ in range(seed):
            house.sim.step()
        task.extend(Budget(model_calls=20))
        assert house.until(lambda task=task: task.status == "completed", 60.0)


@pytest.mark.parametrize(
    ("kind", "subject", "body", "said"),
    [
        ("cancel", "t-none", {}, "there is no task 't-none'"),
        ("approve", "a-none", {}, "there is no approval 'a-none'"),
        ("dance", "", {}, "this perdure knows no command 'dance'"),
        ("cancel", "", {"by": 3}, "the command cannot be read"),
        ("extend", "", {"amounts": {"tool_calls": 1}}, "does not limit tool_calls"),
        ("extend", "", {}, "extend by at least one amount above 0"),
        ("extend", "", {"amounts": {"model_calls": -1}}, "above 0"),
    ],
)
def test_a_command_that_cannot_be_applied_is_answered_so(
    kind: str, subject: str, body: dict[str, Any], said: str
) -> None:
    house = House(job(World()))
    task = house.submit(budget=Budget(model_calls=50))
    send(house, "c", kind, subject or task.id, **body)
    found = answered(house, "c")
    assert not found.done
    assert said in found.said
    assert house.finish(task.id).status == "completed"
    sound(house)


def test_approvals_are_answered_from_outside_too() -> None:
    # R21
    world = World()
    house = House(deleter(world))
    task = house.submit()
    q1, q2 = paused(house, task.id)
    for name, approval in (("a", q2), ("b", q2), ("c", "a-wrong")):
        send(house, name, "approve", approval)
    assert answered(house, "a") == CommandAnswer(done=True, said="approved")
    assert not answered(house, "b").done
    assert "no approval" in answered(house, "c").said
    house.until_hit("task.paused")
    assert paused(house, task.id) == [q1]
    send(house, "d", "reject", q1, why="keep it")
    assert answered(house, "d") == CommandAnswer(done=True, said="rejected")
    assert house.finish(task.id).status == "completed"
    assert deleted(world) == ["q2"]
    sound(house)


@pytest.mark.parametrize("seed", range(16))
def test_a_command_is_applied_once_whatever_crashes(seed: int) -> None:
    chance = random.Random(seed)
    world = World()
    house = House(wide(world), seed=seed)
    task = house.submit()
    for _ in range(chance.randint(30, 200)):
        house.sim.step()
    send(house, "e", "extend", task.id, amounts={"model_calls": 5})
    send(house, "r", "resume", task.id)
    for _ in range(3):
        for _ in range(chance.randint(25, 60)):  # not before the tree is up
            house.sim.step()
        if chance.random() < 0.5:
            house.kill()
            house.reopen()
        else:
            house.sim.crash(chance.choice(SERVICES))
    for name in ("e", "r"):
        answered(house, name)
    check(house, world, task.id)
    assert sorted(name for name, _ in applied(house)) == ["e", "r"]
    grants = [one.grant for one in house.of("services/pool", Granted)]
    assert grants.count(f"{task.id}/e") == 1


def test_a_resume_does_not_take_a_cancel_back() -> None:
    # R23
    for steps in range(0, 60, 3):
        house = House(job(World()))
        task = house.submit()
        house.until_hit("step.ended", step="find")
        task.pause()
        for _ in range(steps):
            house.sim.step()
        send(house, "c", "cancel", task.id)
        send(house, "r", "resume", task.id)
        assert house.until(lambda task=task: task.status == "cancelled", 60.0)
        orders = [one.order for one in house.of(QUEUE, TaskWoken)]
        assert orders[-1] == "cancel"


def test_a_closing_runtime_leaves_commands_to_the_next() -> None:
    house = House(job(World()))
    task = house.submit()
    for _ in range(60):
        house.sim.step()
    house.runtime.close()
    send(house, "c", "cancel", task.id)
    while house.sim.step():
        pass
    assert answer(house, "c") is None


def test_an_extension_wakes_a_task_that_was_left_alone() -> None:
    house = House(job(World()))
    task = house.submit(budget=Budget(model_calls=2))
    assert house.finish(task.id).reason == "budget"
    house.runtime.close()
    house.reopen(resume=False)
    house.runtime.task(task.id).extend(Budget(model_calls=20))
    assert house.finish(task.id).status == "completed"


@pytest.mark.parametrize("part", range(5))
def test_orders_at_random_moments_leave_no_task_stuck(part: int) -> None:
    # R23: the answer of a cancel agrees with the end, whatever came before it.
    for seed in range(part, 100, 5):
        chance = random.Random(seed)
        world = World()
        house = House(job(world), seed=seed)
        task = house.submit()
        for number in range(chance.randint(1, 5)):
            for _ in range(chance.randint(0, 60)):
                house.sim.step()
            match chance.choice(["pause", "resume", "kill", "inbox"]):
                case "pause":
                    task.pause()
                case "resume":
                    task.resume()
                case "inbox":
                    send(house, f"r{number}", "resume", task.id)
                case "kill":
                    house.kill()
                    house.reopen()
                    task = house.runtime.task(task.id)
        send(house, "c", "cancel", task.id)
        for _ in range(chance.randint(0, 40)):
            house.sim.step()
        result = task.cancel()
        assert result.status in ("cancelled", "completed")
        assert task.status == result.status
        answer = answered(house, "c")
        assert answer.done or result.status == "completed"
        assert task.cancel() == result
        assert house.log.crashes() == []
        house.runtime.close()
        assert house.store.owner is None
