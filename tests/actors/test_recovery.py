"""What a recovery does, step by step; and when it does no more."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.actors import names
from perdure.actors.events import (
    EffectsVerified,
    RecoveryBegan,
    RecoveryDeclared,
    StepEnded,
)
from perdure.actors.model import ModelReply
from perdure.models import Scripted
from tests.actors.runs import (
    EXPECTED,
    WIDE,
    check,
    wide,
)
from tests.actors.world import (
    JOB,
    House,
    World,
    comparable,
    follow,
    job,
    standing,
)

# ── recovery ───────────────────────────────────────────────────────────────────


def test_recovery_is_four_recorded_steps_in_order() -> None:
    # B36
    world = World()
    house = House(job(world))
    task = house.submit()
    house.until_hit("step.ended", step="find")
    house.kill()
    house.reopen()
    house.finish(task.id)
    kinds = house.kinds(f"task/{task.id}")
    pipeline = [
        kind
        for kind in kinds
        if kind
        in ("RecoveryLoaded", "ContextRebuilt", "EffectsVerified", "RecoveryDeclared")
    ]
    assert pipeline == [
        "RecoveryLoaded",
        "ContextRebuilt",
        "EffectsVerified",
        "RecoveryDeclared",
    ]
    (declared,) = house.of(f"task/{task.id}", RecoveryDeclared)
    assert (declared.accepted, declared.by) == (True, "model")


def test_the_recovery_is_written_down_before_the_task_is_read() -> None:
    world = World()
    house = House(job(world))
    task = house.submit()
    house.until_hit("step.ended", step="find")
    house.kill()
    house.reopen()
    house.finish(task.id)
    order = [
        record.type
        for record in house.store.log
        if record.type in ("RecoveryBegan", "RecoveryLoaded")
    ]
    assert order == ["RecoveryBegan", "RecoveryLoaded"]


@pytest.mark.parametrize("seed", range(12))
def test_a_verdict_of_before_the_crash_does_not_disturb_the_recovery(seed: int) -> None:
    # B36
    world = World()
    house = House(wide(world), seed=seed)
    task = house.submit()
    assert house.until_hit("action.observed", calls=0, op=5)
    house.sim.crash(names.family(task.id))
    check(house, world, task.id)


def test_an_agent_may_be_declared_for_by_the_record() -> None:
    world = World()
    house = House(wide(world, recovery="rules"))
    task = house.submit()
    house.until_hit("step.ended", step="find")
    house.kill()
    house.reopen()
    result = check(house, world, task.id)
    (declared,) = house.of(f"task/{task.id}", RecoveryDeclared)
    assert declared.by == "rules"
    assert result.spent_recovery == {"tool_calls": {}}


def test_a_declaration_is_booked_apart() -> None:
    # design 5: `spent` agrees with a run without kills.
    world = World()
    house = House(wide(world))
    task = house.submit()
    house.until_hit("step.ended", step="find")
    house.kill()
    house.reopen()
    result = house.finish(task.id)
    assert result.spent_recovery["model_calls"] == 1
    assert comparable(result) == EXPECTED


def test_a_declaration_that_contradicts_the_record_pauses_in_the_end() -> None:
    # B80
    honest = follow(JOB)
    lying = [True]

    def reply(request: Any) -> ModelReply:
        if standing(request)["kind"] == "recovery" and lying[0]:
            return ModelReply(content='{"done": ["find", "write"], "next": "send"}')
        return honest(request)

    world = World()
    house = House(job(world, model=Scripted(reply)))
    task = house.submit()
    house.until_hit("step.ended", step="find")
    house.kill()
    house.reopen()
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "recovery_mismatch")
    assert "not complete by the record: write" in result.detail
    declared = house.of(f"task/{task.id}", RecoveryDeclared)
    assert [one.accepted for one in declared] == [False] * 4
    assert world.writes == [], "nothing goes on before a declaration passed"
    lying[0] = False
    task = house.runtime.task(task.id)
    task.resume()
    assert house.finish(task.id).status == "completed"
    assert len(world.sent) == 1


def test_an_exchange_that_a_crash_broke_keeps_its_results_in_place() -> None:
    # Results belong to their calls, whichever of them a crash left open.
    asked: list[list[str]] = []
    honest = follow(WIDE)

    def reply(request: Any) -> Any:
        for message in request.messages:
            if message["role"] == "assistant" and message.get("tool_calls"):
                asked.append([c["function"]["name"] for c in message["tool_calls"]])
            if message["role"] == "tool":
                asked[-1].append(message["content"])
        return honest(request)

    pairs = {"look": "saw", "write": "wrote", "send": "sent"}
    for steps in range(95, 200, 5):
        world = World()
        house = House(job(world, model=Scripted(reply)), seed=1)
        task = house.submit()
        for _ in range(steps):
            house.sim.step()
        house.kill()
        house.reopen()
        assert house.finish(task.id).status == "completed"
    assert len(asked) > 50
    for exchange in asked:
        half = len(exchange) // 2
        calls, results = exchange[:half], exchange[half:]
        assert [pairs[call] for call in calls] == [one.split()[0] for one in results]


# ── crash loops ────────────────────────────────────────────────────────────────


class Poison:
    """A model reply that crashes whoever folds it, told by `armed`."""

    def __init__(self) -> None:
        self.armed = True


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> Poison:
    from perdure.actors.task import actor

    switch = Poison()
    fold = actor.Task.fold

    def fold_or_crash(self: Any, state: Any, event: Any) -> Any:
        bad = isinstance(event, StepEnded) and state.task.agent == "bad"
        if switch.armed and bad:
            raise SystemExit("poison")
        return fold(self, state, event)

    monkeypatch.setattr(actor.Task, "fold", fold_or_crash)
    return switch


def test_a_task_that_always_crashes_is_parked_and_its_sibling_completes(
    poison: Poison,
) -> None:
    # R24 P8
    world, other = World(), World()
    house = House(job(world, name="bad"), job(other))
    bad, good = house.submit("bad"), house.submit()
    result = house.finish(bad.id)
    assert result.status == "parked"
    assert "5 recoveries without progress" in result.reason or (
        "5 recoveries without progress" in result.detail
    )
    assert "poison" in result.detail
    assert len(house.of(f"task/{bad.id}/recovery", RecoveryBegan)) == 5
    assert house.finish(good.id).status == "completed"
    delays = [
        line["delay"]
        for line in house.log.of("supervisor.restarting")
        if line["name"] == names.family(bad.id)
    ]
    assert delays == sorted(delays)
    assert delays[0] < 1.3
    assert delays[4] > 12
    house.sim.run_for(60.0)
    size = len(house.store.log)
    house.sim.run_for(3600.0)
    assert len(house.store.log) == size, "a parked task does nothing"
    assert world.looks == 2, "no effect was repeated by a restart"


def test_a_parked_task_goes_on_once_its_code_is_repaired(poison: Poison) -> None:
    world = World()
    house = House(job(world, name="bad"))
    task = house.submit("bad")
    assert house.finish(task.id).status == "parked"
    poison.armed = False
    assert task.resume() is True
    assert house.finish(task.id).status == "completed"
    assert len(world.sent) == 1


def test_a_parked_task_that_is_resumed_in_vain_gets_as_many_tries_again(
    poison: Poison,
) -> None:
    house = House(job(World(), name="bad"))
    task = house.submit("bad")
    for tries in (5, 10):
        assert house.finish(task.id).status == "parked"
        began = house.of(f"task/{task.id}/recovery", RecoveryBegan)
        assert len(began) == tries
        task.resume()


def test_a_parked_task_can_be_cancelled_once_its_code_is_repaired(
    poison: Poison,
) -> None:
    world = World()
    house = House(job(world, name="bad"))
    task = house.submit("bad")
    house.finish(task.id)
    poison.armed = False
    assert task.cancel(timeout=3600.0).status == "cancelled"


def test_a_parked_task_stays_parked_over_a_restart(poison: Poison) -> None:
    world = World()
    house = House(job(world, name="bad"))
    task = house.submit("bad")
    house.finish(task.id)
    house.runtime.close()
    house.reopen()
    house.sim.run_for(3600.0)
    assert house.runtime.row(task.id).status == "parked"
    assert len(house.of(f"task/{task.id}/recovery", RecoveryBegan)) == 5


def test_actors_that_do_not_start_are_a_crash_loop_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from perdure.actors.budget import actor

    def broken(self: Any) -> None:
        raise RuntimeError("no account today")

    monkeypatch.setattr(actor.Account, "started", broken)
    house = House(job(World()))
    result = house.run()
    assert result.status == "parked"
    assert "no account today" in result.detail


def test_a_recovery_that_gets_further_gives_the_count_back() -> None:
    # R24: only recoveries in vain are counted.
    world = World()
    house = House(wide(world))
    task = house.submit()
    for _ in range(12):
        if not house.until_hit("account.settled", book="spent"):
            break
        house.sim.crash(names.task(task.id))
    check(house, world, task.id)
    assert len(house.of(f"task/{task.id}/recovery", RecoveryBegan)) > 6
    assert house.of(f"task/{task.id}", EffectsVerified) != []
