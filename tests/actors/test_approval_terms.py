"""How long an approval is good for: until its time is over, or it is taken back."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Agent, Misuse, delegate, tool
from perdure.actors import names
from perdure.actors.events import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalExpired,
    ApprovalTaken,
    EffectRecorded,
    EffectRegistered,
    SubtaskStarted,
    TaskPaused,
)
from perdure.actors.protocol import Answer
from perdure.models import Scripted
from perdure.supervision.faults import Fault, FaultPlan, installed
from tests.actors.runs import sound
from tests.actors.test_approvals import BOTH, deleted, deleter, paused
from tests.actors.test_clock_jumps import jump
from tests.actors.world import Calls, House, Stuck, World, follow, outcomes

ONE: list[Calls] = [[("delete", {"path": "x"})]]
MINUTE = 60.0  # seconds


def stopped(house: House, task: str, reason: str) -> None:
    """Run until the task waits for this reason."""

    def waits() -> bool:
        result = house.runtime.result(task)
        return result is not None and result.reason == reason

    assert house.until(waits)


def completes(house: House, task: str) -> bool:
    """Run to the end; it may be just about to wait for what has come."""
    return house.until(lambda: house.runtime.task(task).status == "completed")


def calls(house: House, task: str) -> list[EffectRegistered]:
    """What was registered of the tool."""
    found = house.of(f"task/{task}/ledger", EffectRegistered)
    return [one for one in found if one.name == "delete"]


def answer(
    house: House, approval: str, *, approved: bool, by: str = "approver"
) -> None:
    """Answer without waiting for anything."""
    message = Answer(approval=approval, task="", approved=approved, by=by)
    house.runtime._system.address(names.ADMISSION).tell(message)


# ── its time ───────────────────────────────────────────────────────────────────────


def test_an_approval_that_nobody_answers_in_time_is_no_refusal() -> None:
    world, heard = World(), list[str]()

    def model(request: Any) -> Any:
        heard.extend(outcomes(request))
        return follow({"task": ONE})(request)

    house = House(deleter(world, model=Scripted(model), expires=MINUTE))
    task = house.submit()
    (first,) = paused(house, task.id)
    (listed,) = house.runtime.approvals()
    assert listed.expires == listed.at + MINUTE
    stopped(house, task.id, "approval_expired")
    assert house.sim.clock.monotonic() == pytest.approx(MINUTE, abs=10.0)
    assert house.finish(task.id).ends_with == "resume"
    assert house.runtime.approvals() == []
    assert task.approve(first) is False
    assert (heard, deleted(world)) == ([], [])
    task.resume()
    (second,) = paused(house, task.id)
    assert second != first
    assert task.approve(second)
    assert completes(house, task.id)
    assert heard == ["deleted x"]
    assert deleted(world) == ["x"]
    sound(house)


def test_a_time_that_was_over_while_nothing_ran_is_over() -> None:
    world = World()
    house = House(deleter(world, ONE, expires=MINUTE))
    task = house.submit()
    (first,) = paused(house, task.id)
    house.kill()
    jump(house, 2 * MINUTE)
    house.reopen()
    assert house.runtime.task(task.id).approve(first) is False
    stopped(house, task.id, "approval_expired")
    assert deleted(world) == []
    sound(house)


def test_an_answer_in_time_leaves_nothing_to_expire() -> None:
    world = World()
    house = House(deleter(world, expires=MINUTE))
    task = house.submit()
    q1, q2 = paused(house, task.id)
    task.approve(q1)
    house.sim.run_for(MINUTE / 2)
    task.reject(q2)
    assert completes(house, task.id)
    house.sim.run_for(10 * MINUTE)
    assert house.of(f"task/{task.id}", ApprovalExpired) == []
    assert house.store.rows.get(names.TIMER_ROWS, {}) == {}
    assert deleted(world) == ["q1"]
    sound(house)


def test_one_that_expires_does_not_take_the_others_along() -> None:
    world = World()
    house = House(deleter(world, expires=MINUTE))
    task = house.submit()
    q1, q2 = paused(house, task.id)
    task.approve(q2)
    stopped(house, task.id, "approval_expired")
    assert deleted(world) == ["q2"]
    (expired,) = house.of(f"task/{task.id}", ApprovalExpired)
    assert expired.approval == q1


def test_a_call_that_was_approved_too_long_ago_is_asked_for_anew() -> None:
    world = World()
    house = House(deleter(world, ONE, expires=MINUTE))
    task = house.submit()
    (first,) = paused(house, task.id)
    house.runtime.close()
    house.reopen(resume=False)
    handle = house.runtime.task(task.id)
    assert handle.approve(first, by="approver")
    house.runtime.close()
    jump(house, 2 * MINUTE)
    house.reopen(resume=True)
    (second,) = paused(house, task.id)
    assert second != first
    assert deleted(world) == []
    assert house.runtime.task(task.id).approve(second, by="approver")
    assert completes(house, task.id)
    (call,) = calls(house, task.id)
    assert call.approval == second
    sound(house)


def test_a_crash_as_an_approval_expires_changes_nothing() -> None:
    world = World()
    house = House(deleter(world, ONE, expires=MINUTE))
    task = house.submit()
    (first,) = paused(house, task.id)
    fault = Fault(point="approval.expired", nth=1, action="raise")
    with installed(FaultPlan([fault])):
        stopped(house, task.id, "approval_expired")
    task.resume()
    (second,) = asked_anew(house, task.id, first)
    assert task.approve(second)
    assert completes(house, task.id)
    assert deleted(world) == ["x"]
    assert len(house.of(f"task/{task.id}", ApprovalExpired)) == 1


def reasons(house: House, task: str) -> list[str]:
    return [one.reason for one in house.of(f"task/{task}", TaskPaused)]


def begun(house: House, task: str) -> None:
    """Run until the call is registered on disk, and not begun."""
    assert house.until(lambda: bool(calls(house, task)))


@pytest.mark.parametrize("seed", range(6))
def test_the_executor_looks_once_more_at_the_time(seed: int) -> None:
    world = World()
    house = House(deleter(world, ONE, expires=20.0), seed=seed)
    task = house.submit()
    (first,) = paused(house, task.id)
    answer(house, first, approved=True)
    begun(house, task.id)
    assert deleted(world) == []
    jump(house, 21.0)  # its timeout is a minute
    (second,) = asked_anew(house, task.id, first)
    assert deleted(world) == []
    refused = house.of(f"task/{task.id}/ledger", EffectRecorded)[-1]
    assert refused.error == "its approval expired before it was started"
    assert house.runtime.task(task.id).approve(second)
    assert completes(house, task.id)
    assert deleted(world) == ["x"]
    assert [one.attempt for one in calls(house, task.id)] == [1, 2]
    sound(house)


def asked_anew(house: House, task: str, before: str) -> list[str]:
    def asked() -> list[str]:
        found = house.of(f"task/{task}", ApprovalAsked)
        return [one.approval for one in found if one.approval != before]

    assert house.until(lambda: bool(asked()))
    stopped(house, task, "approval")
    return asked()


def test_a_time_without_an_approval_is_refused() -> None:
    for wrong in (0, -1, float("inf"), True, "soon"):
        with pytest.raises(Misuse, match="expires="):
            tool(name="a", approval=True, expires=wrong)(lambda: None)  # type: ignore[call-overload]
    with pytest.raises(Misuse, match="no approval to end"):
        tool(name="a", expires=1.0)(lambda: None)


# ── taken back ─────────────────────────────────────────────────────────────────────


def test_an_approval_is_taken_back_until_its_call_is_made() -> None:
    world = World()
    house = House(deleter(world, ONE))
    task = house.submit()
    (one,) = paused(house, task.id)
    house.runtime.close()
    house.reopen(resume=False)
    handle = house.runtime.task(task.id)
    assert handle.approve(one, by="approver") is True
    assert handle.approve(one, by="boss") is False
    assert handle.reject(one, by="boss", why="not today") is True
    assert handle.reject(one, by="approver") is False
    assert handle.approve(one, by="approver") is False  # a no stands
    handle.resume()
    assert completes(house, task.id)
    assert deleted(world) == []
    recorded = house.of(f"task/{task.id}/ledger", EffectRecorded)[1]
    assert recorded.error == "boss rejected it: not today"
    sound(house)


def test_a_call_that_was_made_is_not_taken_back() -> None:
    world = World()
    house = House(deleter(world, ONE))
    task = house.submit()
    (one,) = paused(house, task.id)
    task.approve(one)
    assert completes(house, task.id)
    assert task.reject(one) is False


@pytest.mark.parametrize("seed", [0, 1, 3, 5])
def test_one_taken_back_at_any_moment_is_honoured_until_the_call_begins(
    seed: int,
) -> None:
    # Whatever was taken back before the call began is not made; an attempt that has
    # begun is not touched.
    late = 0
    for steps in range(0, 120, 4):
        world = World()
        house = House(deleter(world, ONE), seed=seed)
        task = house.submit()
        (one,) = paused(house, task.id)
        answer(house, one, approved=True)
        for _ in range(steps):
            house.sim.step()
        answer(house, one, approved=False, by="boss")
        back = house.until(
            lambda h=house: len(h.of(names.ADMISSION, ApprovalAnswered)) == 2, 1.0
        )
        began = deleted(world)
        assert completes(house, task.id)
        assert deleted(world) == (began if back else ["x"])
        if back and not began:
            taken = house.of(f"task/{task.id}", ApprovalTaken)[-1]
            assert (taken.approved, taken.by) == (False, "boss")
            late += taken_late(house, task.id)
        sound(house)
    assert late > 0


def taken_late(house: House, task: str) -> bool:
    """Whether the executor was the one that heard of it."""
    found = house.of(f"task/{task}/ledger", EffectRecorded)
    error = "its approval was taken back before it was started"
    return any(one.error == error for one in found)


def test_a_further_attempt_needs_an_approval_that_still_stands() -> None:
    world = World()
    house = House(deleter(world, ONE))
    task = house.submit()
    (one,) = paused(house, task.id)
    answer(house, one, approved=True)
    begun(house, task.id)
    house.kill()  # its probe will say that it did not happen
    assert deleted(world) == []
    house.reopen(resume=False)
    handle = house.runtime.task(task.id)
    assert handle.reject(one, by="boss") is True
    handle.resume()
    assert completes(house, task.id)
    assert deleted(world) == []
    last = house.of(f"task/{task.id}/ledger", EffectRecorded)[-2]
    assert (last.attempt, last.by, last.error) == (2, "person", "boss rejected it")
    sound(house)


def test_a_further_attempt_of_one_that_expired_is_asked_for_anew() -> None:
    world = World()
    house = House(deleter(world, ONE, expires=MINUTE))
    task = house.submit()
    (one,) = paused(house, task.id)
    answer(house, one, approved=True)
    begun(house, task.id)
    house.kill()
    jump(house, 2 * MINUTE)
    house.reopen()
    (second,) = asked_anew(house, task.id, one)
    assert deleted(world) == []
    assert house.runtime.task(task.id).approve(second)
    assert completes(house, task.id)
    assert deleted(world) == ["x"]
    assert [one.attempt for one in calls(house, task.id)] == [1, 2]
    sound(house)


def test_the_time_of_an_attempt_that_may_have_run_is_not_asked_about() -> None:
    # It is found out about: to ask anew would be of no use to it.
    stuck, world = Stuck("delete"), World()

    @tool(effect="once", approval=True, expires=MINUTE / 2)
    def delete(path: str) -> str:
        """Delete something, and hang."""
        world.sent.append(("", path))
        stuck.hang()
        return f"deleted {path}"

    agent = Agent(
        name="agent",
        instructions="Tidy.",
        model=Scripted(follow({"task": ONE})),
        tools=[delete],
        recovery="rules",
    )
    house = House(agent, dispatcher=stuck)
    task = house.submit()
    (one,) = paused(house, task.id)
    answer(house, one, approved=True)
    stopped(house, task.id, "unknown_effect")
    task.resume()
    assert house.until(lambda: len(reasons(house, task.id)) == 3)
    assert reasons(house, task.id) == ["approval", *["unknown_effect"] * 2]
    assert house.runtime.approvals() == []
    stuck.let_go()
    (effect,) = house.runtime.unknown()
    house.runtime.resolve(effect.id, happened=True, result="deleted x")
    assert completes(house, task.id)
    assert deleted(world) == ["x"]
    assert len(house.of(f"task/{task.id}", ApprovalAsked)) == 1


# ── with the others ────────────────────────────────────────────────────────────────


def handing(approval: bool) -> list[Agent]:
    made = tool(effect="once", repeat=True, approval=approval, name="hand")(
        delegate.function
    )
    made.delegates = True
    hand = [[("hand", {"agent": "part", "goal": "the part"})]]
    boss = Agent(
        name="boss",
        instructions="Hand on.",
        model=Scripted(follow({"task": hand})),
        tools=[made],
        recovery="rules",
    )
    part = Agent(name="part", instructions="Do it.", model=Scripted(follow({})))
    return [boss, part]


def test_a_sub_task_that_must_be_approved_is_begun_once_it_is() -> None:
    house = House(*handing(approval=True))
    task = house.submit("boss")
    (one,) = paused(house, task.id)
    assert house.of(f"task/{task.id}", SubtaskStarted) == []
    task.approve(one)
    assert completes(house, task.id)
    assert len(house.of(f"task/{task.id}", SubtaskStarted)) == 1
    (call,) = house.of(f"task/{task.id}/ledger", EffectRegistered)[1:2]
    assert call.approval == one
    sound(house)


def test_a_sub_task_that_is_rejected_is_not_begun() -> None:
    house = House(*handing(approval=True))
    task = house.submit("boss")
    (one,) = paused(house, task.id)
    task.reject(one)
    assert completes(house, task.id)
    assert house.of(f"task/{task.id}", SubtaskStarted) == []
    sound(house)


def test_a_row_says_who_answered_and_until_when_it_is_good() -> None:
    from perdure.views_approvals import approvals_of

    world = World()
    house = House(deleter(world, BOTH, expires=MINUTE))
    task = house.submit()
    q1, q2 = paused(house, task.id)
    task.approve(q1, by="approver")
    paused(house, task.id)
    task.reject(q2, by="boss")
    assert completes(house, task.id)
    first, second = house.runtime._reading.read(lambda r: approvals_of(r, task.id))
    assert [(one.approval, one.status, one.by) for one in (first, second)] == [
        (q1, "used", "approver"),
        (q2, "rejected", "boss"),
    ]
    assert first.expires == first.at + MINUTE
    assert first.answered is not None
    assert first.at <= first.answered < first.expires
