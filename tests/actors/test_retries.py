"""A step that somebody has done again: its result does not count, what it did does."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest

from perdure import Agent, Misuse, Plan, Step, ask, delegate, tool
from perdure.actors import names
from perdure.actors.events import (
    ActionObserved,
    EffectRegistered,
    PlanStep,
    Reserved,
    RetryAsked,
    Settled,
    StepEnded,
    StepRetried,
    StepStarted,
    TaskSubmitted,
)
from perdure.actors.plan.needing import needing
from perdure.actors.task.parts import StepRecord
from perdure.actors.task.retried import chosen
from perdure.actors.task.state import TaskState
from perdure.models import Scripted
from tests.actors.runs import actors_of, not_reproduced, sound
from tests.actors.test_inbox import answered, send
from tests.actors.test_planning_crashes import house_of
from tests.actors.test_unknown import Mail
from tests.actors.world import (
    HAND,
    Calls,
    House,
    World,
    follow,
    job,
    quick,
    standing,
    tools_of,
    unbalanced,
)

SCRIPT: dict[str, Sequence[Calls]] = {
    "mail": [[("send", {"text": "hello"}), ("look", {"what": "a"})]],
    "note": [[("write", {"name": "n", "text": "1"})]],
    "check": [[("look", {"what": "b"})]],
}
HARD = quick(step_iterations=3, task_retries=0)


class Judge:
    """Accepts the last step once somebody has put right what was wrong."""

    def __init__(self) -> None:
        self.right = False

    def __call__(self, result: Any, view: Any) -> bool | str:
        return self.right or "not yet"


def worker(
    world: World,
    judge: Any,
    script: Mapping[str, Sequence[Calls]] = SCRIPT,
    tools: Sequence[Any] = (),
    **needs: tuple[str, ...],
) -> Agent:
    steps = [Step(id=name, goal=f"{name} it", needs=needs.get(name)) for name in script]
    steps[-1] = Step(
        id=steps[-1].id, goal="check", accept=judge, needs=needs.get(steps[-1].id)
    )
    return Agent(
        name="agent",
        instructions="Do it.",
        model=Scripted(follow(script)),
        plan=Plan(steps=tuple(steps)),
        tools=[*tools_of(world), *tools],
        recovery="rules",
    )


def stopped(house: House) -> str:
    """A task whose last step was not accepted; its id."""
    task = house.submit().id
    result = house.finish(task)
    assert (result.status, result.reason) == ("paused", "limited")
    return task


def mails(world: World) -> list[str]:
    return [text for _, text in world.sent]


# ── what goes with a step ────────────────────────────────────────────────────────


def test_a_step_takes_all_that_need_it_along_and_nothing_else() -> None:
    def step(name: str, *needs: str) -> PlanStep:
        return PlanStep(id=name, goal="g", done="", max_iterations=1, needs=needs)

    plan = (step("d", "b"), step("a"), step("b", "a"), step("c"), step("e", "c"))
    assert needing(plan, "a") == ("d", "a", "b")
    assert needing(plan, "c") == ("c", "e")
    assert needing(plan, "d") == ("d",)


def test_a_retry_puts_the_step_and_those_that_need_it_back_to_pending() -> None:
    # B72
    world, judge = World(), Judge()
    house = House(worker(world, judge), baseline=HARD)
    task = stopped(house)
    judge.right = True
    house.runtime.task(task).retry("note", by="approver")
    result = house.finish(task)
    assert (result.status, list(result.steps)) == ("completed", list(SCRIPT))
    (retried,) = house.of(f"task/{task}", StepRetried)
    assert (retried.steps, retried.by) == (("note", "check"), "approver")
    begun = [(one.step, one.attempt) for one in house.of(f"task/{task}", StepStarted)]
    assert begun == [
        ("mail", 1),
        ("note", 1),
        ("check", 1),
        ("note", 2),
        ("check", 2),
    ]
    sound(house)


def test_a_mail_is_not_sent_twice_by_a_retry_of_its_step() -> None:
    # P2: the ledger has gone on to two other steps since
    world, judge = World(), Judge()
    house = House(worker(world, judge), baseline=HARD)
    task = stopped(house)
    assert mails(world) == ["hello"]
    looks = world.looks
    judge.right = True
    house.runtime.task(task).retry("mail")
    assert house.finish(task).status == "completed"
    assert mails(world) == ["hello"]
    assert world.writes == [(world.writes[0][0], "n")]
    assert world.looks == looks + 2  # what is only read is read again
    sound(house)


def test_a_retry_after_a_crash_still_answers_from_the_record() -> None:
    world, judge = World(), Judge()
    house = House(worker(world, judge), baseline=HARD)
    task = stopped(house)
    judge.right = True
    house.runtime.task(task).retry("mail")
    house.kill()
    house.reopen()
    assert house.finish(task).status == "completed"
    assert mails(world) == ["hello"]
    assert len(house.of(f"task/{task}", StepRetried)) == 1
    sound(house)


def test_the_results_of_what_is_done_again_are_no_facts() -> None:
    # A33
    world, judge = World(), Judge()
    seen: list[tuple[str, set[str], str]] = []
    script = follow(SCRIPT)

    def model(request: Any) -> Any:
        data = standing(request)
        facts = {one["name"] for one in data["facts"]}
        last = request.messages[-1]["content"]
        seen.append((data["step"]["id"], facts, last))
        return script(request)

    agent = worker(world, judge)
    agent = Agent(
        name="agent",
        instructions="Do it.",
        model=Scripted(model),
        plan=agent.plan,
        tools=tools_of(world),
        recovery="rules",
    )
    house = House(agent, baseline=HARD)
    task = stopped(house)
    judge.right = True
    del seen[:]
    house.runtime.task(task).retry("note", by="approver")
    assert house.finish(task).status == "completed"
    step, facts, last = seen[0]
    assert (step, facts) == ("note", {"mail"})
    assert "step note is done again, as approver says" in last


def test_a_retry_gives_the_retries_back_and_counts_the_attempts_on() -> None:
    world, judge = World(), Judge()
    house = House(
        worker(world, judge), baseline=quick(step_iterations=3, task_retries=1)
    )
    task = stopped(house)
    for _ in range(2):
        before = len(house.of(f"task/{task}", StepEnded))
        house.runtime.task(task).retry("check")
        assert house.finish(task).reason == "limited"
        ended = house.of(f"task/{task}", StepEnded)[before:]
        assert [one.again for one in ended] == [True, False]
    starts = [one.attempt for one in house.of(f"task/{task}", StepStarted)[2:]]
    assert starts == [1, 2, 3]


def test_without_a_name_it_is_the_step_where_the_task_stopped() -> None:
    world, judge = World(), Judge()
    house = House(worker(world, judge), baseline=HARD)
    task = stopped(house)
    judge.right = True
    house.runtime.task(task).retry()
    assert house.finish(task).status == "completed"
    (asked,) = house.of(f"task/{task}", RetryAsked)
    assert asked.step == "check"


# ── what is refused ──────────────────────────────────────────────────────────────


def test_a_retry_that_cannot_be_says_why() -> None:
    world, judge = World(), Judge()
    house = House(worker(world, judge), baseline=HARD)
    running = house.submit()
    house.until_hit("step.started", step="note")
    with pytest.raises(Misuse, match="is running: pause it first"):
        running.retry("mail")
    assert house.finish(running.id).status == "paused"
    with pytest.raises(Misuse, match="no step 'x'; the steps are: mail, note, check"):
        running.retry("x")
    running.cancel()
    with pytest.raises(Misuse, match=r"has ended \(cancelled\): fork it"):
        running.retry("mail")


def test_a_step_that_has_not_begun_is_not_done_again() -> None:
    state = TaskState(
        submitted=TaskSubmitted(
            task="t",
            agent="a",
            agent_digest="",
            baseline="",
            goal="g",
            inputs={},
            constraints=(),
            budget={},
            group="",
            priority=0,
            key=None,
            deadline=None,
            steps=(),
        ),
        steps=(StepRecord(id="a", status="completed", attempt=1), StepRecord(id="b")),
        newest="a",
    )
    with pytest.raises(Misuse, match="'b' has not begun"):
        chosen(state, "b")
    assert chosen(state, "") == "a"


def test_a_queued_task_has_nothing_to_do_again() -> None:
    world = World()
    house = House(worker(world, Judge()), active=1, baseline=HARD)
    house.submit()
    second = house.submit()
    with pytest.raises(Misuse, match="is queued"):
        second.retry("mail")


# ── what is open when it comes ───────────────────────────────────────────────────


def test_an_approval_that_is_open_is_dropped_and_asked_for_anew() -> None:
    world = World()
    gone: list[str] = []

    @tool(effect="once", approval=True)
    def delete(path: str) -> str:
        """Delete something."""
        gone.append(path)
        return "gone"

    script = {**SCRIPT, "check": [[("delete", {"path": "x"})]]}
    house = House(worker(world, lambda *_: True, script, [delete]), baseline=HARD)
    task = house.submit()
    assert house.finish(task.id).reason == "approval"
    (first,) = house.runtime.approvals()
    task.retry("note")
    assert house.finish(task.id).reason == "approval"
    (second,) = house.runtime.approvals()
    assert first.approval != second.approval
    assert not task.approve(first.approval)
    task.approve(second.approval)
    assert house.finish(task.id).status == "completed"
    assert gone == ["x"]
    assert mails(world) == ["hello"]
    sound(house)


def test_an_effect_in_doubt_is_resolved_first() -> None:
    # P2
    mail = Mail()
    house = House(mail_worker(mail))
    mail.house = house
    task = house.submit()
    assert house.finish(task.id).reason == "unknown_effect"
    (doubt,) = house.runtime.unknown()
    with pytest.raises(Misuse, match=f"{task.id}:2 may have happened: resolve it"):
        task.retry()
    house.runtime.resolve(f"{task.id}:{doubt.op}", happened=True)
    assert house.finish(task.id).status == "completed"
    assert mail.calls == 1


def mail_worker(mail: Mail) -> Agent:
    @tool(effect="once")
    def post(text: str) -> str:
        """Post it; the line breaks behind it."""
        mail.calls += 1
        raise ConnectionResetError("the line broke")

    return Agent(
        name="agent",
        instructions="Do it.",
        model=Scripted(follow({"task": [[("post", {"text": "x"})]]})),
        tools=[post],
        recovery="rules",
    )


def test_a_sub_task_under_way_is_cancelled_before_its_step_is_done_again() -> None:
    world, small = World(), World()
    script = {"hand": [[("delegate", HAND)]]}
    wait = Step(id="hand", goal="hand on")
    boss = Agent(
        name="boss",
        instructions="Hand on.",
        model=Scripted(follow(script)),
        plan=Plan(steps=(wait,)),
        tools=[delegate],
        recovery="rules",
    )

    @tool(effect="once", approval=True)
    def delete(path: str) -> str:
        """Delete something."""
        world.sent.append(("", path))
        return "gone"

    part = Agent(
        name="agent",
        instructions="Do it.",
        model=Scripted(follow({"task": [[("delete", {"path": "x"})]]})),
        tools=[delete],
        recovery="rules",
    )
    house = House(boss, part)
    task = house.submit("boss")
    assert house.until(lambda: bool(house.runtime.approvals()))
    assert house.until(lambda: task.status == "waiting")
    task.retry("hand")
    first = f"{task.id}.2"
    assert house.until(lambda: house.runtime.task(first).status == "cancelled")
    assert house.until(lambda: bool(house.runtime.approvals()))
    (approval,) = house.runtime.approvals()
    house.runtime.task(approval.task).approve(approval.approval)
    assert house.finish(task.id).status == "completed"
    assert mails(world) == ["x"]
    assert small.sent == []
    sound(house)


# ── from outside, and over crashes ───────────────────────────────────────────────


def test_a_retry_from_outside_is_applied_once_over_a_kill() -> None:
    world, judge = World(), Judge()
    house = House(worker(world, judge), baseline=HARD)
    task = stopped(house)
    house.kill()
    send(house, "c1", "retry", task, step="mail")
    send(house, "c2", "retry", task, step="nothing")
    judge.right = True
    house.reopen()
    assert answered(house, "c1").said == "it goes on from step mail"
    assert not answered(house, "c2").done
    assert house.finish(task).status == "completed"
    assert len(house.of(f"task/{task}", StepRetried)) == 1
    assert mails(world) == ["hello"]


@pytest.mark.parametrize("seed", range(12))
def test_a_retry_over_any_sequence_of_crashes_repeats_no_effect(seed: int) -> None:
    # P2 P3 P5
    rng = random.Random(f"retry {seed}")
    world, judge = World(), Judge()
    house = House(worker(world, judge), baseline=HARD, seed=seed)
    task = stopped(house)
    judge.right = True
    house.runtime.task(task).retry(rng.choice([*SCRIPT, ""]))
    for _ in range(rng.randrange(1, 4)):
        steps = rng.randrange(1, 120)
        for _ in range(steps):
            house.sim.step()
        if rng.random() < 0.5:
            house.sim.crash(rng.choice([names.ADMISSION, *actors_of(task)]))
        else:
            house.kill()
            house.reopen()
    assert house.finish(task).status == "completed"
    assert mails(world) == ["hello"]
    assert len(house.of(f"task/{task}", StepRetried)) == 1
    sound(house)


def test_a_parked_task_is_done_again_from_a_step() -> None:
    world = World()
    house = House(job(world))
    task = house.submit()
    house.until_hit("step.started", step="send")
    house.kill()
    house.reopen(*[job(World(), name="other")])
    assert house.finish(task.id).status == "parked"
    house.runtime.close()
    house.reopen(job(world), resume=False)
    house.runtime.task(task.id).retry("write")
    assert house.finish(task.id).status == "completed"
    assert [one.steps for one in house.of(f"task/{task.id}", StepRetried)] == [
        ("write", "send")
    ]
    assert len(mails(world)) == 1
    assert not_reproduced(house.store) == []
    assert unbalanced(house.store) == []


def test_what_was_let_go_of_says_so_in_the_record() -> None:
    world = World()

    @tool(effect="once", approval=True)
    def delete(path: str) -> str:
        """Delete something."""
        return json.dumps(path)

    script = {**SCRIPT, "check": [[("delete", {"path": "x"})]]}
    house = House(worker(world, lambda *_: True, script, [delete]), baseline=HARD)
    task = house.submit()
    assert house.finish(task.id).reason == "approval"
    task.retry("check")
    assert house.finish(task.id).reason == "approval"
    dropped = [
        one
        for one in house.of(f"task/{task.id}", ActionObserved)
        if one.status == "failed"
    ]
    assert [one.reason for one in dropped] == [
        "dropped by a retry that operator asked for before it was started (not_started)"
    ]


def test_a_question_that_is_open_is_dropped_and_asked_anew() -> None:
    world = World()
    script = {**SCRIPT, "check": [[("ask", {"question": "red or blue?"})]]}
    house = House(worker(world, lambda *_: True, script, [ask]), baseline=HARD)
    task = house.submit()
    assert house.finish(task.id).reason == "question"
    (first,) = house.runtime.questions()
    task.retry("check")
    assert house.finish(task.id).reason == "question"
    (second,) = house.runtime.questions()
    assert first.question != second.question
    task.answer(second.question, "red")
    assert house.finish(task.id).status == "completed"
    sound(house)


@pytest.mark.parametrize("steps", [0, 3, 6, 9, 12])
def test_a_retry_that_an_answer_and_a_kill_follow_is_done_all_the_same(
    steps: int,
) -> None:
    # P1: it was acknowledged, whatever the task is woken for after it.
    script = {"task": [[("ask", {"question": "Which?"})]]}
    agent = worker(World(), None, script, tools=[ask])
    house = House(agent, seed=steps)
    task = house.submit()
    assert house.finish(task.id).reason == "question"
    (question,) = house.runtime.questions()
    task.retry("task", by="ann")
    with suppress(Misuse):
        task.answer(question.question, "this one", by="bob")
    for _ in range(steps):
        house.sim.step()
    house.kill()
    house.reopen()
    house.finish(task.id)
    (retried,) = house.of(f"task/{task.id}", StepRetried)
    assert retried.by == "ann"
    sound(house)


def test_money_set_aside_for_what_never_was_is_free_again() -> None:
    # P3
    for steps in range(5, 400, 3):
        house = House(worker(World(), lambda *_: True), baseline=HARD)
        task = house.submit()
        for _ in range(steps):
            house.sim.step()
        house.kill()
        aside = {(one.op, one.attempt) for one in reserved(house, task.id)}
        made = house.of(f"task/{task.id}/ledger", EffectRegistered)
        left = aside - {(one.op, one.attempt) for one in made}
        if left and house.of(f"task/{task.id}", StepEnded):
            break
    else:
        pytest.fail("no kill came between the two")
    house.reopen(worker(World(), lambda *_: True), resume=False)
    parked(house, task.id)
    house.runtime.task(task.id).retry("mail")
    assert house.finish(task.id).status == "completed"
    kinds = [
        (one.op, one.attempt, one.book)
        for one in house.of(f"task/{task.id}/account", Settled)
    ]
    (op, attempt) = left.pop()
    assert (op, attempt, "none") in kinds[:-1]
    assert unbalanced(house.store) == []


def reserved(house: House, task: str) -> list[Any]:
    return house.of(f"task/{task}/account", Reserved)


def parked(house: House, task: str) -> None:
    """Park a task that was cut off, as a crash loop does."""
    house.runtime.close()
    house.reopen(job(World(), name="other"), resume=True)
    assert house.finish(task).status == "parked"
    house.runtime.close()
    house.reopen(worker(World(), lambda *_: True), resume=False)


@pytest.mark.parametrize("part", range(6))
def test_a_retry_after_any_step_of_a_run_repeats_no_effect(part: int) -> None:
    # P2 P3 P5
    rng = random.Random(f"retry at {part}")
    for steps in range(30 + 7 * part, 400, 42):
        world = World()
        house = House(worker(world, lambda *_: True), baseline=HARD, seed=steps)
        task = house.submit().id
        for _ in range(steps):
            house.sim.step()
        house.runtime.task(task).pause()
        result = house.finish(task)
        if result.status == "completed":
            break
        begun = [one.step for one in house.of(f"task/{task}", StepStarted)]
        if not begun:
            continue
        house.runtime.task(task).retry(rng.choice(begun))
        for _ in range(rng.randrange(3)):
            for _ in range(rng.randrange(1, 60)):
                house.sim.step()
            if rng.random() < 0.5:
                house.sim.crash(rng.choice([names.ADMISSION, *actors_of(task)]))
            else:
                house.kill()
                house.reopen()
        assert house.finish(task).status == "completed"
        assert mails(world) == ["hello"]
        assert len({key for key, _ in world.writes}) == 1
        assert len(house.of(f"task/{task}", StepRetried)) == 1
        sound(house)


def test_a_step_of_a_plan_that_the_model_wrote_is_done_again() -> None:
    world = World()
    house, task = house_of(world)
    result = house.finish(task)
    assert result.reason == "question"
    house.runtime.task(task).retry("a")
    while (result := house.finish(task)).reason == "question":
        (question,) = house.runtime.questions()
        house.runtime.reply(task, question.question, "drop", "approver")
    assert result.status == "completed"
    assert mails(world) == ["hello"]
    (retried,) = house.of(f"task/{task}", StepRetried)
    assert retried.steps[0] == "a"
    sound(house)
