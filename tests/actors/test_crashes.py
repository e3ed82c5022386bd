"""Any actor crashes at any step; the process is cut off at any step."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from perdure import Agent
from perdure.actors import names
from perdure.actors.admission.queue import QueueState
from perdure.actors.admission.queue import apply as apply_queue
from perdure.actors.budget.account import AccountState
from perdure.actors.budget.account import apply as apply_account
from perdure.actors.budget.pool import PoolState, apply_pool
from perdure.actors.events import (
    EffectsVerified,
    RecoveryBegan,
    RecoveryDeclared,
    RecoveryLoaded,
    StepEnded,
)
from perdure.actors.ledger.entry import LedgerState
from perdure.actors.ledger.entry import apply as apply_ledger
from perdure.actors.model import ModelReply
from perdure.actors.task.state import TaskState
from perdure.actors.task.state import apply as apply_task
from perdure.models import Scripted
from perdure.storage.memory import MemoryStore
from tests.actors.world import (
    JOB,
    Calls,
    House,
    World,
    comparable,
    decode,
    follow,
    job,
    quick,
    redone,
    standing,
    unbalanced,
)

WIDE: dict[str, Sequence[Calls]] = {
    "find": [
        [
            ("look", {"what": "a"}),
            ("look", {"what": "b"}),
            ("write", {"name": "g", "text": "2"}),
        ]
    ],
    "write": [
        [
            ("write", {"name": "f", "text": "1"}),
            ("send", {"text": "x"}),
            ("look", {"what": "c"}),
        ],
        [("send", {"text": "y"})],
    ],
    "send": [[("send", {"text": "hello"}), ("send", {"text": "there"})]],
}
MAILS = ["hello", "there", "x", "y"]
SERVICES = (names.JOURNAL, names.SERVICES, names.POOL, names.ADMISSION, names.TASKS)


def wide(world: World, **options: Any) -> Agent:
    """The job with parallel calls of every effect class."""
    return job(world, model=Scripted(follow(WIDE)), **options)


def undisturbed() -> dict[str, Any]:
    house = House(wide(World()))
    return comparable(house.run())


EXPECTED = undisturbed()


def actors_of(task: str) -> list[str]:
    own = (names.task, names.ledger, names.account, names.context, names.family)
    return [name(task) for name in own]


def check(house: House, world: World, task: str) -> None:
    """All that must hold of a run, however often it was disturbed."""
    result = house.finish(task)
    assert (result.status, result.reason) == (
        "completed",
        "every step and the task passed acceptance",
    )
    assert comparable(result) == EXPECTED  # P3
    assert sorted(text for _, text in world.sent) == MAILS  # P2
    assert redone(house.store) == []  # P6
    assert unbalanced(house.store) == []  # P3
    assert house.log.crashes() == []
    assert house.log.strangers == []
    house.runtime.close()
    assert house.store.owner is None
    assert house.log.of("runtime.drain_incomplete") == []
    assert not_reproduced(house.store) == []  # P5


# ── state = fold(events) = snapshot + tail ───────────────────────────────────────

FOLDS: dict[str, tuple[type[Any], Any]] = {
    "/ledger": (LedgerState, apply_ledger),
    "/account": (AccountState, apply_account),
    "services/pool": (PoolState, apply_pool),
    "services/admission": (QueueState, apply_queue),
}


def fold_of(stream: str) -> tuple[type[Any], Any] | None:
    if stream.endswith("/recovery"):
        return None
    for end, found in FOLDS.items():
        if stream.endswith(end):
            return found
    return TaskState, apply_task


def not_reproduced(store: MemoryStore) -> list[str]:
    """Snapshots that differ from the fold of the events that they cover."""
    wrong: list[str] = []
    for stream, records in store.streams.items():
        if (found := fold_of(stream)) is None:
            continue
        kind, fold = found
        bodies = {0: msgspec.json.encode(kind())}
        state = kind()
        for record in records:
            state = fold(state, decode(record))
            bodies[record.version] = msgspec.json.encode(state)
        for snapshot, _ in store.snapshots.get(stream, []):
            state = msgspec.json.decode(snapshot.body, type=kind)
            for record in records[snapshot.version :]:
                state = fold(state, decode(record))
            if bodies[snapshot.version] != snapshot.body:
                wrong.append(f"{stream} snapshot {snapshot.version}")
            if msgspec.json.encode(state) != bodies[len(records)]:
                wrong.append(f"{stream} tail after {snapshot.version}")
    return wrong


def test_a_state_is_the_fold_of_its_events_and_of_snapshot_and_tail() -> None:
    # P5: with a snapshot at nearly every event of every stream.
    house = House(wide(World()), baseline=quick(snapshot_events=2))
    tasks = [house.submit() for _ in range(2)]
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


# ── crashes of one actor ─────────────────────────────────────────────────────────


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
    for _ in range(chance.randint(1, 4)):
        for _ in range(chance.randint(30, 150)):
            house.sim.step()
        name = chance.choice([*actors_of(task.id), *SERVICES, *["kill"] * 4])
        if name == "kill":
            house.kill()
            house.reopen()
        else:
            house.sim.crash(name)
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


# ── the process ──────────────────────────────────────────────────────────────────


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


# ── recovery ─────────────────────────────────────────────────────────────────────


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


def test_an_agent_may_be_declared_for_by_the_record() -> None:
    world = World()
    house = House(wide(world, recovery="rules"))
    task = house.submit()
    house.until_hit("step.ended", step="find")
    house.kill()
    house.reopen()
    check(house, world, task.id)
    (declared,) = house.of(f"task/{task.id}", RecoveryDeclared)
    assert declared.by == "rules"
    assert house.runtime.row(task.id).books.recovery == {}


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


# ── crash loops ──────────────────────────────────────────────────────────────────


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
    size = len(house.store.log)
    house.sim.run_for(3600.0)
    assert len(house.store.log) == size, "a parked task does nothing"


def test_a_parked_task_goes_on_once_its_code_is_repaired(poison: Poison) -> None:
    world = World()
    house = House(job(world, name="bad"))
    task = house.submit("bad")
    assert house.finish(task.id).status == "parked"
    poison.armed = False
    assert task.resume() is True
    assert house.finish(task.id).status == "completed"
    assert len(world.sent) == 1


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
