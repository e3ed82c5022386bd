"""Limits that change while a task runs: raised by `extend`, lowered by `limit`."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Budget, Misuse
from perdure.actors import names
from perdure.actors.admission.commands import CommandAnswer
from perdure.actors.budget.pool import PoolState, apply_pool
from perdure.actors.events import (
    Alerted,
    EffectRegistered,
    Granted,
    TaskPaused,
)
from perdure.actors.protocol import ReturnGrant
from tests.actors.test_inbox import answered, send
from tests.actors.world import House, World, job, redone, unbalanced

POOL = Budget(model_calls=100, tool_calls=100)
MINE = Budget(model_calls=50, tool_calls=20)


def out(house: House) -> dict[str, int]:
    """What the pool has given and not got back."""
    state = PoolState()
    for event in house.events(names.POOL):
        state = apply_pool(state, event)
    return state.out


def at_work(house: House, budget: Budget = MINE) -> Any:
    """A task whose first step is done: three model calls, two looks."""
    task = house.submit(budget=budget)
    house.until_hit("step.ended", step="find")
    return task


def model_calls(house: House, task: str) -> list[EffectRegistered]:
    found = house.of(f"task/{task}/ledger", EffectRegistered)
    return [one for one in found if one.kind == "model"]


# ── raised while it runs ─────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(10))
def test_a_task_that_is_extended_while_it_runs_does_not_pause(seed: int) -> None:
    # R16 B67
    house = House(job(World()), seed=seed)
    task = at_work(house, Budget(model_calls=4))
    task.extend(Budget(model_calls=10))
    assert house.finish(task.id).status == "completed"
    assert house.of(f"task/{task.id}", TaskPaused) == []
    assert unbalanced(house.store) == []


# ── lowered ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(10))
def test_a_limit_below_what_is_used_pauses_before_the_next_operation(seed: int) -> None:
    # R16 B67
    world = World()
    house = House(job(world), seed=seed, pool=POOL)
    task = at_work(house)
    task.limit(Budget(model_calls=2))
    mark = len(model_calls(house, task.id))
    result = house.finish(task.id)
    assert (result.status, result.reason, result.ends_with) == (
        "paused",
        "budget",
        "extend",
    )
    assert "left of 2" in result.detail
    late = model_calls(house, task.id)[mark:]
    assert len(late) <= 1, "what was on its way only"
    assert unbalanced(house.store) == []
    task.extend(Budget(model_calls=40))
    assert house.finish(task.id).status == "completed"
    assert redone(house.store) == []
    assert len(world.sent) == 1
    assert unbalanced(house.store) == []


def test_a_limit_that_still_has_room_lets_the_task_go_on_to_it() -> None:
    house = House(job(World()))
    task = at_work(house)
    task.limit(Budget(model_calls=5))
    result = house.finish(task.id)
    assert "model_calls: 1 wanted, 0 left of 5" in result.detail
    assert result.spent["model_calls"] == 5


def test_a_lowered_limit_that_is_nearly_reached_is_alerted() -> None:
    # B81
    house = House(job(World()))
    task = at_work(house)
    task.pause()
    house.finish(task.id)
    task.limit(Budget(model_calls=1))
    task.resume()
    assert house.finish(task.id).reason == "budget"
    rung = [one.dimension for one in house.of(f"task/{task.id}/account", Alerted)]
    assert rung == ["model_calls"], "though nothing was settled since"


def test_the_pool_has_all_back_at_the_end() -> None:
    house = House(job(World()), pool=POOL)
    task = at_work(house)
    task.limit(Budget(model_calls=20))
    assert out(house)["model_calls"] == 50, "not before its end"
    result = house.finish(task.id)
    assert house.until(lambda: "TaskLeft" in house.kinds(names.ADMISSION))
    assert out(house) == {
        "model_calls": result.spent["model_calls"],
        "tool_calls": sum(result.spent["tool_calls"].values()),
    }
    assert unbalanced(house.store) == []


def test_a_lowering_that_its_account_never_took_takes_nothing_from_the_pool() -> None:
    house = House(job(World()), pool=POOL)
    task = at_work(house)
    task.limit(Budget(model_calls=20))
    house.kill()
    house.reopen(resume=False)
    house.sim.run_for(1.0)
    back = ReturnGrant(
        task=task.id,
        amounts={"model_calls": 40},
        taken=(f"{task.id}/first",),
        reply_to=house.runtime._system.address(names.ADMISSION),
    )
    house.runtime._system.address(names.POOL).tell(back)
    house.sim.run_for(1.0)
    assert out(house)["model_calls"] == 10


@pytest.mark.parametrize("seed", range(20))
def test_a_limit_is_lowered_once_over_every_kill(seed: int) -> None:
    house = House(job(World(), recovery="rules"), seed=seed, pool=POOL)
    task = at_work(house).id
    send(house, "l1", "limit", task, amounts={"model_calls": 20})
    for _ in range(seed):
        house.sim.step()
    house.kill()
    house.reopen()
    if seed % 2:
        house.sim.run_for(0.5)
        house.kill()
        house.reopen()
    result = house.finish(task)
    assert result.status == "completed"
    done = CommandAnswer(done=True, said="its limits are lowered")
    assert answered(house, "l1") == done
    lowered = [one for one in house.of(names.POOL, Granted) if "/l1" in one.grant]
    assert [one.amounts for one in lowered] == [{"model_calls": -30}]
    assert house.until(lambda: "TaskLeft" in house.kinds(names.ADMISSION))
    used = sum(
        book.get("model_calls", 0)
        for book in (result.spent, result.spent_unknown, result.spent_recovery)
    )
    assert out(house)["model_calls"] == used
    assert unbalanced(house.store) == []


def test_a_limit_may_be_lowered_while_the_task_waits() -> None:
    house = House(job(World()))
    task = at_work(house)
    task.pause()
    assert house.finish(task.id).reason == "operator"
    task.limit(Budget(model_calls=1))
    task.resume()
    assert house.finish(task.id).reason == "budget"
    assert unbalanced(house.store) == []


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (Budget(model_calls=50), "its limit of model_calls is 50: `extend` raises it"),
        (Budget(tokens=1), "it does not limit tokens"),
    ],
)
def test_a_limit_is_lowered_or_the_call_refused(budget: Budget, said: str) -> None:
    house = House(job(World()))
    task = at_work(house)
    with pytest.raises(Misuse, match=said):
        task.limit(budget)
    assert len(house.of(names.POOL, Granted)) == 1
    with pytest.raises(Misuse, match="no Budget"):
        task.limit(5)
    house.finish(task.id)
    with pytest.raises(Misuse, match="has ended"):
        task.limit(Budget(model_calls=1))


def test_a_command_that_lowers_nothing_is_answered_so() -> None:
    house = House(job(World()))
    task = at_work(house)
    send(house, "l0", "limit", task.id)
    send(house, "l1", "limit", task.id, amounts={"model_calls": 60})
    said = "limit to at least one amount"
    assert answered(house, "l0") == CommandAnswer(done=False, said=said)
    said = answered(house, "l1").said
    assert said.startswith("its limits cannot be lowered: its limit of model_calls is")
