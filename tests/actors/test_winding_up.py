"""Whatever a task is cut off in, it ends, and what it did not use is given back."""

from __future__ import annotations

from perdure import Budget
from perdure.actors import names
from perdure.actors.budget.pool import PoolState, apply_pool
from perdure.actors.events import EffectRegistered, GrantReturned
from perdure.actors.protocol import Enlarge
from tests.actors.runs import wide
from tests.actors.world import House, World, job

POOL = Budget(model_calls=100, tool_calls=100)
MINE = Budget(model_calls=20, tool_calls=20)


def out(house: House) -> dict[str, int]:
    """What the pool has given and not got back."""
    state = PoolState()
    for event in house.events(names.POOL):
        state = apply_pool(state, event)
    return {name: amount for name, amount in state.out.items() if amount}


def test_a_task_that_is_cancelled_at_any_step_ends_and_gives_all_back() -> None:
    # R23: before its account has taken the grant, too, and with parallel calls of
    # which some have begun.
    for steps in range(8, 200, 3):
        house = House(wide(World()), seed=steps, pool=POOL)
        task = house.submit(budget=MINE)
        for _ in range(steps):
            house.sim.step()
        result = task.cancel(timeout=60.0)
        assert house.until(lambda h=house: "TaskLeft" in h.kinds(names.ADMISSION))
        assert house.log.crashes() == []
        spent = sum(result.spent["tool_calls"].values())
        assert out(house).get("tool_calls", 0) == spent


def test_a_task_that_had_only_to_leave_is_not_granted_anew() -> None:
    house = House(job(World()), pool=POOL)
    task = house.submit(budget=MINE)
    house.until(lambda: house.of(names.POOL, GrantReturned) != [])
    before = out(house)
    house.kill()
    house.reopen()
    assert house.finish(task.id).status == "completed"
    assert house.until(lambda: "TaskLeft" in house.kinds(names.ADMISSION))
    assert out(house) == before


def test_a_grant_to_a_task_that_has_given_all_back_is_refused() -> None:
    house = House(job(World()), pool=POOL)
    task = house.submit(budget=MINE)
    task.wait()
    before = out(house)
    refusal = house.runtime._ask(
        lambda promise: Enlarge(
            task=task.id,
            grant=f"{task.id}/late",
            amounts={"model_calls": 5},
            promise=promise,
        ),
        to=names.POOL,
    )
    assert refusal == "it has ended"
    assert out(house) == before


def test_a_task_that_restarts_while_the_runtime_closes_begins_nothing() -> None:
    for steps in range(60, 160, 10):
        house = House(job(World()), seed=steps)
        task = house.submit()
        for _ in range(steps):
            house.sim.step()
        house.sim.crash(names.ledger(task.id))
        house.runtime.close()
        tried = house.of(names.ledger(task.id), EffectRegistered)
        assert len(tried) < 20
