"""Calls that wait for a person: asked once, answered once, over every restart."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from perdure import Agent, Budget, DidNotHappen, Happened, Misuse, tool
from perdure.actors import names
from perdure.actors.admission.queue import QueueState
from perdure.actors.admission.queue import apply as apply_queue
from perdure.actors.events import (
    ApprovalAsked,
    ApprovalTaken,
    EffectRecorded,
    EffectRegistered,
    TaskPassivated,
    TaskPaused,
)
from perdure.actors.ledger.entry import approval_id
from perdure.actors.tool import Effect
from perdure.models import Scripted
from tests.actors.runs import SERVICES, actors_of, sound
from tests.actors.world import (
    PLENTY,
    Calls,
    House,
    World,
    decode,
    follow,
    outcomes,
    taken,
)

BOTH: Sequence[Calls] = [[("delete", {"path": "q1"}), ("delete", {"path": "q2"})]]


def deleter(
    world: World,
    calls: Sequence[Calls] = BOTH,
    approval: bool | Callable[[dict[str, Any]], bool] = True,
    expires: float | None = None,
    **options: Any,
) -> Agent:
    def was_deleted(effect: Effect) -> Happened | DidNotHappen:
        found = [text for key, text in world.sent if key == effect.request_id]
        return Happened(f"deleted {found[0]}") if found else DidNotHappen()

    @tool(effect="once", approval=approval, expires=expires, probe=was_deleted)
    def delete(path: str, *, request_id: str) -> str:
        """Delete something."""
        world.sent.append((request_id, path))
        return f"deleted {path}"

    options.setdefault("model", Scripted(follow({"task": calls})))
    return Agent(
        name="agent", instructions="Tidy up.", tools=[delete], recovery="rules",
        **options,
    )  # fmt: skip


def paused(house: House, task: str) -> list[str]:
    """Run to the pause for approvals; their ids in order."""
    result = house.finish(task)
    assert (result.status, result.reason) == ("paused", "approval")
    return [one.approval for one in house.runtime.approvals()]


def deleted(world: World) -> list[str]:
    return sorted(text for _, text in world.sent)


def test_a_call_waits_as_a_row_and_runs_once_it_is_approved() -> None:
    world = World()
    house = House(deleter(world, [[("delete", {"path": "x"})]]))
    task = house.submit()
    (approval,) = paused(house, task.id)
    result = house.finish(task.id)
    assert result.ends_with == f"approve {approval}"
    assert deleted(world) == []
    assert house.of(f"task/{task.id}/ledger", EffectRegistered)[1:] == []
    running = house.runtime._system.is_running
    assert house.until(lambda: not running(names.family(task.id)), 10.0)
    (listed,) = house.runtime.approvals()
    assert (listed.task, listed.tool, listed.arguments) == (
        task.id, "delete", {"path": "x"},
    )  # fmt: skip
    assert task.approve(approval, by="approver")
    assert house.finish(task.id).status == "completed"
    assert deleted(world) == ["x"]
    assert house.runtime.approvals() == []
    call = house.of(f"task/{task.id}/ledger", EffectRegistered)[1]
    assert call.approval == approval
    sound(house)


def test_two_approvals_are_independent_and_survive_a_restart() -> None:
    # R21
    world = World()
    house = House(deleter(world))
    task = house.submit()
    q1, q2 = paused(house, task.id)
    house.kill()
    house.reopen()
    handle = house.runtime.task(task.id)
    with pytest.raises(Misuse, match="no approval 'a-wrong'"):
        handle.approve("a-wrong")
    assert handle.approve(q2) is True
    assert handle.approve(q2) is False
    assert paused(house, task.id) == [q1]
    assert deleted(world) == ["q2"]
    house.runtime.close()
    house.reopen()
    assert [one.approval for one in house.runtime.approvals()] == [q1]
    handle = house.runtime.task(task.id)
    assert handle.approve(q2) is False
    assert handle.approve(q1) is True
    assert house.finish(task.id).status == "completed"
    assert deleted(world) == ["q1", "q2"]
    sound(house)


def test_an_approval_of_another_task_is_refused() -> None:
    world = World()
    house = House(deleter(world))
    first, second = house.submit(), house.submit()
    paused(house, first.id)
    paused(house, second.id)
    other = next(one for one in house.runtime.approvals() if one.task == second.id)
    with pytest.raises(Misuse, match="no approval"):
        first.approve(other.approval)
    assert len(house.runtime.approvals()) == 4


def test_a_rejected_call_comes_back_to_the_model_with_who_and_why() -> None:
    world = World()
    heard: list[str] = []

    def model(request: Any) -> Any:
        heard.extend(outcomes(request))
        return follow({"task": [[("delete", {"path": "x"})]]})(request)

    house = House(deleter(world, model=Scripted(model)))
    task = house.submit()
    (approval,) = paused(house, task.id)
    assert task.reject(approval, by="approver", why="that is the backup")
    assert house.finish(task.id).status == "completed"
    assert heard == ["error: approver rejected it: that is the backup"]
    assert deleted(world) == []
    recorded = house.of(f"task/{task.id}/ledger", EffectRecorded)[1]
    assert (recorded.status, recorded.by) == ("failed", "person")
    sound(house)


def test_a_function_of_the_arguments_decides_what_must_be_approved() -> None:
    world = World()
    agent = deleter(world, approval=lambda arguments: arguments["path"] == "q2")
    house = House(agent)
    task = house.submit()
    (q2,) = paused(house, task.id)
    assert deleted(world) == ["q1"]
    task.approve(q2)
    assert house.finish(task.id).status == "completed"
    assert deleted(world) == ["q1", "q2"]
    sound(house)


@pytest.mark.parametrize(
    "gate", [lambda _: 1 // 0, lambda _: None, lambda _: 0, lambda _: sys.exit()]
)
def test_a_function_that_raises_or_says_anything_else_opens_nothing(gate: Any) -> None:
    world = World()
    house = House(deleter(world, approval=gate))
    task = house.submit()
    assert len(paused(house, task.id)) == 2
    assert deleted(world) == []


def test_a_call_with_wrong_arguments_is_asked_of_nobody() -> None:
    world = World()
    calls = [[("delete", {"paths": "x"})]]
    house = House(deleter(world, calls, accept=taken))
    assert house.run().status == "completed"
    assert house.store.rows.get(names.APPROVALS) is None


def test_an_approval_is_of_exact_arguments() -> None:
    # K45
    ids = {
        approval_id("t", 2, "delete", '{"path":"data/x"}'),
        approval_id("t", 2, "shell", '{"path":"data/x"}'),
        approval_id("t", 2, "delete", '{"path":"data/y"}'),
        approval_id("t", 3, "delete", '{"path":"data/x"}'),
        approval_id("u", 2, "delete", '{"path":"data/x"}'),
    }
    assert len(ids) == 5


def test_the_door_lets_no_call_out_under_the_approval_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # K45: whatever the task believes.
    from perdure.actors.task import operations

    perform = operations.attempt_of

    def forged(task: Any, op: Any, request: Any) -> Any:
        import msgspec

        wanted = perform(task, op, request)
        if wanted.approval:
            return msgspec.structs.replace(wanted, arguments='{"path":"other"}')
        return wanted

    monkeypatch.setattr(operations, "attempt_of", forged)
    world = World()
    house = House(deleter(world, [[("delete", {"path": "x"})]]))
    task = house.submit()
    task.approve(*paused(house, task.id))
    house.finish(task.id)
    assert deleted(world) == []
    recorded = house.of(f"task/{task.id}/ledger", EffectRecorded)[1]
    assert recorded.error == "nobody approved this call with these arguments"


def test_a_cancelled_task_asks_for_nothing_any_more() -> None:
    world = World()
    house = House(deleter(world))
    task = house.submit()
    q1, _ = paused(house, task.id)
    assert task.cancel().status == "cancelled"
    assert house.runtime.approvals() == []
    assert task.approve(q1) is False
    assert deleted(world) == []
    sound(house)


def test_an_answer_does_not_end_a_pause_for_another_reason() -> None:
    world = World()
    house = House(deleter(world))
    task = house.submit()
    q1, _ = paused(house, task.id)
    task.resume()
    task.pause()
    result = house.finish(task.id)
    if result.reason == "operator":
        task.approve(q1)
        assert house.finish(task.id).reason == "operator"
        task.resume()
    paused(house, task.id)


def test_an_answer_does_not_give_retries_back() -> None:
    world = World()
    house = House(deleter(world, BOTH))
    task = house.submit(budget=Budget(tool_calls=9))
    q1, _ = paused(house, task.id)
    task.approve(q1)
    paused(house, task.id)
    resumed = [one for one in house.events(f"task/{task.id}") if hasattr(one, "anew")]
    assert [one.anew for one in resumed] == [False]


def test_a_wrong_declaration_is_refused() -> None:
    with pytest.raises(Misuse, match="approval="):
        tool(name="a", approval="yes")(lambda: None)  # type: ignore[call-overload]


# ── disturbed ──────────────────────────────────────────────────────────────────


def answered_run(house: House, task: str, world: World) -> None:
    """Answer whatever is asked, to the end: q1 is approved, q2 rejected."""
    for _ in range(12):
        result = house.finish(task)
        if result.status == "completed":
            break
        assert (result.status, result.reason) == ("paused", "approval")
        handle = house.runtime.task(task)
        for one in house.runtime.approvals():
            if one.arguments["path"] == "q1":
                handle.approve(one.approval)
            else:
                handle.reject(one.approval)
        for _ in range(20):  # it may be just about to look again
            house.sim.step()
    assert result.status == "completed"
    assert deleted(world) == ["q1"]
    asked = house.of(f"task/{task}", ApprovalAsked)
    taken = house.of(f"task/{task}", ApprovalTaken)
    assert len(asked) == len(taken) == 2
    sound(house)


def answering(house: House, task: str) -> Callable[[], None]:
    """Answers what is asked at once, without waiting for anything."""
    from perdure.actors.protocol import Answer

    sent: set[str] = set()

    def step() -> None:
        for key, value in house.store.rows.get(names.APPROVALS, {}).items():
            row = json.loads(value)
            if key not in sent and row.get("status", "open") == "open":
                sent.add(key)
                message = Answer(
                    approval=key,
                    task=task,
                    approved=row["arguments"] == '{"path": "q1"}',
                    by="me",
                )
                house.runtime._system.address(names.ADMISSION).tell(message)

    return step


def test_a_task_that_is_woken_as_it_stops_is_shown_as_queued() -> None:
    # Whoever waits for it after the answer must not be told of the pause again.
    seen = 0
    for seed in range(40):
        house = House(deleter(World()), seed=seed)
        task = house.submit()
        house.until_hit("approval.asked", op=3)
        for _ in range(seed):
            house.sim.step()
        answering(house, task.id)()
        state, read = QueueState(), 0
        while task.status != "completed":
            house.sim.step()
            records = house.store.streams[names.ADMISSION]
            for record in records[read:]:
                state = apply_queue(state, decode(record))
                stopped = isinstance(decode(record), TaskPassivated)
                place = state.tasks.get(task.id)
                if stopped and place is not None and place.woken:
                    row = json.loads(house.store.rows[names.TASK_ROWS][task.id])
                    assert row["status"] == "queued"
                    seen += 1
            read = len(records)
    assert seen > 0


@pytest.mark.parametrize("seed", range(12))
def test_an_answer_at_any_moment_of_the_pause_is_not_lost(seed: int) -> None:
    # The wake that meets a task which is just about to wait.
    world = World()
    house = House(deleter(world), seed=seed)
    task = house.submit()
    answer = answering(house, task.id)
    chance = random.Random(seed)
    while house.sim.step():
        if chance.random() < 0.2:
            answer()
        if task.status == "completed":
            break
    answered_run(house, task.id, world)


@pytest.mark.parametrize("part", range(8))
def test_a_process_cut_off_at_any_step_asks_and_answers_once(part: int) -> None:
    # R3 R21 P5
    steps = part + 1
    while True:
        world = World()
        house = House(deleter(world), seed=part)
        task = house.submit()
        answer = answering(house, task.id)
        for _ in range(steps):
            house.sim.step()
            answer()
        ended = task.status == "completed"
        house.kill()
        house.reopen()
        answered_run(house, task.id, world)
        if ended:
            return
        steps += 8


@pytest.mark.parametrize("seed", range(20))
def test_any_sequence_of_crashes_and_kills_asks_and_answers_once(seed: int) -> None:
    # R4 R21
    chance = random.Random(seed)
    world = World()
    house = House(deleter(world), seed=seed)
    task = house.submit()
    for _ in range(chance.randint(1, 4)):
        answer = answering(house, task.id)
        for _ in range(chance.randint(20, 120)):
            house.sim.step()
            if chance.random() < 0.3:
                answer()
        name = chance.choice([*actors_of(task.id), *SERVICES, *["kill"] * 4])
        if name == "kill":
            house.kill()
            house.reopen()
        else:
            house.sim.crash(name)
    answered_run(house, task.id, world)


def test_pauses_for_approval_are_told() -> None:
    world = World()
    house = House(deleter(world))
    task = house.submit(budget=PLENTY)
    q1, q2 = paused(house, task.id)
    (pause,) = house.of(f"task/{task.id}", TaskPaused)
    assert pause.ends_with == f"approve {q1}, {q2}"
    assert "delete (operation 2)" in pause.detail
