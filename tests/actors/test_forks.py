"""A task that begins where another stood: with all it knew, and nothing it may do."""

from __future__ import annotations

import random
from typing import Any

import pytest

from perdure import Agent, Budget, Misuse, Plan, Step, views
from perdure.actors import names
from perdure.actors.events import (
    CommandApplied,
    EffectRecorded,
    EffectRegistered,
    RequestBuilt,
    StepStarted,
    SubtaskStarted,
    TaskErased,
    TaskForked,
    TaskSubmitted,
)
from perdure.actors.memory.evidence import opened
from perdure.actors.protocol import Fork
from perdure.actors.rules import Rule
from perdure.actors.task.forked import CARRIED, LEFT
from perdure.actors.task.state import TaskState
from perdure.models import Scripted
from perdure.replay import render_again
from perdure.storage.memory import MemoryStore
from perdure.views_text import sheet_text
from tests.actors.runs import actors_of, sound
from tests.actors.test_inbox import answered, send
from tests.actors.test_planning_crashes import ended, house_of
from tests.actors.world import (
    JOB,
    PLENTY,
    House,
    World,
    follow,
    handing_on,
    job,
    quick,
    standing,
    tools_of,
    unbalanced,
)


def mails(world: World) -> list[str]:
    return sorted(text for _, text in world.sent)


def begun(house: House, task: str) -> list[str]:
    return [one.step for one in house.of(f"task/{task}", StepStarted)]


def seqs(store: MemoryStore, task: str, kind: str) -> list[int]:
    stream = f"task/{task}"
    return [r.seq for r in store.log if r.stream == stream and r.type == kind]


def watching(world: World, seen: list[Any]) -> Agent:
    """The job's agent, that keeps what it is shown."""
    script = follow(JOB)

    def model(request: Any) -> Any:
        seen.append(request)
        return script(request)

    return job(world, model=Scripted(model), recovery="rules")


# ── what it begins with ──────────────────────────────────────────────────────────


def test_every_part_of_a_tasks_state_is_carried_into_a_fork_or_left_behind() -> None:
    assert set(TaskState.__struct_fields__) == CARRIED | LEFT
    assert not CARRIED & LEFT


def test_a_fork_of_a_task_that_ended_goes_on_from_where_it_was_at() -> None:
    world = World()
    house = House(job(world))
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    (written,) = [
        r.seq
        for r in house.store.log
        if r.stream == f"task/{task.id}"
        and r.type == "StepEnded"
        and b'"write"' in r.body
    ]
    fork = task.fork(at=written, by="operator")
    result = house.finish(fork.id)
    assert (result.status, result.output) == ("completed", {"step": "send", "ok": True})
    assert begun(house, fork.id) == ["send"]
    assert list(result.steps) == ["find", "write", "send"]
    assert mails(world) == ["hello", "hello"]  # another effect, of another task
    (submitted,) = house.of(f"task/{fork.id}", TaskSubmitted)
    assert submitted.forked.task == task.id
    assert submitted.forked.seq == written
    sound(house)


def test_a_fork_knows_the_results_and_opens_their_evidence() -> None:
    world = World()
    seen: list[Any] = []
    house = House(watching(world, seen))
    task = house.submit(inputs={"n": 1}, constraints=["never twice"])
    assert house.finish(task.id).status == "completed"
    at = seqs(house.store, task.id, "StepEnded")[1]
    facts = {one["name"]: one for one in standing(seen[-1])["facts"]}
    del seen[:]
    fork = task.fork(at=at)
    assert house.finish(fork.id).status == "completed"
    request = seen[0]
    assert {one["name"]: one for one in standing(request)["facts"]} == facts
    text = "\n".join(one["content"] for one in request.messages)
    assert "never twice" in text
    evidence = facts["find"]["evidence"]
    own = read(house, fork.id, f"{fork.id}:{max(newest(house, fork.id))}")
    assert read(house, fork.id, evidence) == read(
        house, task.id, f"{task.id}:{evidence.removeprefix('op')}"
    )
    assert own != read(house, fork.id, evidence)
    # What the source did after the fork is not the fork's to see.
    with pytest.raises(Misuse, match="no recorded result"):
        read(house, fork.id, f"{task.id}:{max(newest(house, task.id))}")


def read(house: House, task: str, name: str) -> str:
    """What `read_evidence` gives a task."""
    runtime = house.runtime
    return runtime._reading.read(
        lambda reader: opened(reader, runtime._house.event_of, task, {"id": name})
    )


def newest(house: House, task: str) -> list[int]:
    return [one.op for one in house.of(names.ledger(task), EffectRecorded)]


def test_the_step_that_ran_begins_anew_and_the_model_is_told_what_it_did() -> None:
    world = World()
    seen: list[Any] = []
    house = House(watching(world, seen))
    task = house.submit()
    house.until_hit("step.started", step="send")
    assert house.until(lambda: bool(world.sent))
    house.until_hit("action.observed", status="completed")
    del seen[:]
    fork = task.fork(at=seqs(house.store, task.id, "ActionObserved")[-1])
    assert house.until(lambda: fork.id in str(begun_tasks(house)))
    assert house.finish(fork.id).status == "completed"
    told = [
        one
        for one in (request.messages[-1]["content"] for request in seen)
        if f"task {task.id}, which this one was forked from, has done this" in one
    ]
    assert told
    assert 'send {"text":"hello"} gave "sent hello"' in told[0]


def begun_tasks(house: House) -> list[str]:
    return [r.stream for r in house.store.log if r.type == "StepStarted"]


def test_a_fork_stands_on_its_own_stream_after_its_source_was_erased() -> None:
    # P5
    world = World()
    house = House(job(world))
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    fork = task.fork(at=seqs(house.store, task.id, "StepEnded")[0])
    assert house.finish(fork.id).status == "completed"
    other = fork.fork(at=seqs(house.store, fork.id, "TaskForked")[0])
    house.kill()
    house.reopen()
    assert house.runtime.erase(task=task.id, by="operator")
    assert house.finish(other.id).status == "completed"
    assert begun(house, other.id) == ["write", "send"]
    with pytest.raises(Misuse, match="was erased"):
        house.runtime.fork(task.id)
    sound(house)


def test_a_fork_has_a_budget_of_its_own_or_the_one_its_source_had() -> None:
    # P3
    world = World()
    house = House(job(world))
    task = house.submit(budget=Budget(model_calls=20))
    assert house.finish(task.id).status == "completed"
    at = seqs(house.store, task.id, "TaskSubmitted")[0]
    assert house.finish(task.fork(at=at).id).status == "completed"
    small = task.fork(at=at, budget=Budget(model_calls=3))
    assert house.finish(small.id).reason == "budget"
    budgets = [house.of(f"task/{one}", TaskSubmitted)[0].budget for one in (small.id,)]
    assert budgets == [{"model_calls": 3}]
    house.runtime.close()
    assert unbalanced(house.store) == []


def test_a_fork_may_have_another_goal_and_keeps_the_rules() -> None:
    world = World()
    house = House(job(world))
    rule = Rule(says="quiet", tools=("send",), forbid=("secret",))
    task = house.submit(rules=[rule])
    house.finish(task.id)
    fork = task.fork(goal="do it better")
    (submitted,) = house.of(f"task/{fork.id}", TaskSubmitted)
    assert submitted.goal == "do it better"
    assert rule in submitted.rules


def test_a_task_without_a_plan_is_forked_with_its_goal_as_the_step() -> None:
    world = World()
    agent = Agent(
        name="agent",
        instructions="Do it.",
        model=Scripted(follow({"task": [[("look", {"what": "a"})]]})),
        tools=tools_of(world),
    )
    house = House(agent)
    task = house.submit()
    house.finish(task.id)
    at = seqs(house.store, task.id, "StepStarted")[0]
    fork = task.fork(goal="another", at=at)
    (submitted,) = house.of(f"task/{fork.id}", TaskSubmitted)
    assert [one.goal for one in submitted.steps] == ["another"]
    assert house.finish(fork.id).status == "completed"
    assert world.looks == 2


# ── its source's effects are its source's ────────────────────────────────────────


def test_a_fork_can_neither_resolve_nor_take_back_what_its_source_did() -> None:
    world = World()
    house = House(job(world))
    task = house.submit()
    house.finish(task.id)
    at = seqs(house.store, task.id, "StepEnded")[1]
    fork = task.fork(at=at)
    assert house.finish(fork.id).status == "completed"
    keys = [key for key, _ in world.sent]
    assert len(set(keys)) == 2
    with pytest.raises(Misuse):
        house.runtime.resolve(f"{fork.id}:2", happened=True)


# ── asked for once, and refused ──────────────────────────────────────────────────


def test_a_fork_from_outside_is_made_once_over_a_kill() -> None:
    world = World()
    house = House(job(world))
    task = house.submit()
    house.finish(task.id)
    house.runtime.close()
    send(house, "c1", "fork", task.id, at=1)
    send(house, "c2", "fork", task.id, amounts={"model_calls": 9})
    house.reopen()
    assert not answered(house, "c1").done  # nothing of it was there
    said = answered(house, "c2").said
    house.kill()
    house.reopen()
    assert house.finish(said).status == "completed"
    forks = [
        one
        for stream in house.store.streams
        if stream.count("/") == 1 and stream.startswith("task/")
        for one in house.of(stream, TaskForked)
    ]
    assert len(forks) == 1
    applied = house.of(names.ADMISSION, CommandApplied)
    assert [one.command for one in applied] == ["c1", "c2"]


def test_the_same_key_gives_the_same_fork() -> None:
    house = House(job(World()))
    task = house.submit()
    house.finish(task.id)
    first = task.fork(key="again")
    assert task.fork(key="again").id == first.id
    house.finish(first.id)
    assert task.fork(key="again").id == first.id


def test_the_key_of_its_source_is_no_key_of_a_fork() -> None:
    house = House(job(World()))
    task = house.submit(key="mine")
    house.finish(task.id)
    with pytest.raises(Misuse, match="key='mine' is the one that"):
        task.fork(key="mine")


def test_a_fork_that_is_asked_for_again_is_the_same_one() -> None:
    house = House(job(World()))
    task = house.submit()
    house.finish(task.id)

    def ask() -> Any:
        runtime = house.runtime
        return runtime._ask(
            lambda p: Fork(task=task.id, new="t-new", by="operator", promise=p)
        )

    assert ask() == "t-new"
    assert ask() == "t-new"  # it is queued, or runs
    assert house.finish("t-new").status == "completed"
    assert ask() == "t-new"
    assert len(house.of("task/t-new", TaskForked)) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"at": 0}, "at=0"),
        ({"at": 10**9}, "the log ends at seq"),
        ({"at": 1}, "begins at seq"),
        ({"goal": " "}, "goal=' '"),
        ({"budget": 3}, "is no Budget"),
        ({"key": ""}, "key=''"),
    ],
)
def test_a_fork_that_cannot_be_says_why(options: dict[str, Any], said: str) -> None:
    house = House(job(World()))
    task = house.submit()
    house.finish(task.id)
    with pytest.raises(Misuse, match=said):
        task.fork(**options)


def test_a_fork_needs_the_agent_of_its_source() -> None:
    house = House(job(World()))
    task = house.submit()
    house.finish(task.id)
    house.runtime.close()
    house.reopen(job(World(), name="other"))
    with pytest.raises(Misuse, match="no agent 'agent' is registered"):
        house.runtime.fork(task.id)


def test_a_fork_of_a_cancelled_or_a_running_task_goes_on() -> None:
    world = World()
    house = House(job(world))
    task = house.submit()
    house.until_hit("step.started", step="write")
    live = task.fork()
    assert task.cancel().status == "cancelled"
    dead = task.fork()
    for fork in (live, dead):
        assert house.finish(fork.id).status == "completed"
        assert begun(house, fork.id)[0] == "write"
    sound(house)


# ── anywhere, over crashes ───────────────────────────────────────────────────────


@pytest.mark.parametrize("part", range(4))
def test_a_fork_from_every_event_completes_and_leaves_its_source_alone(
    part: int,
) -> None:
    # P2 P3 P5
    rng = random.Random(f"fork {part}")
    world = World()
    house = House(job(world, recovery="rules"), seed=part, active=2)
    task = house.submit(budget=PLENTY)
    assert house.finish(task.id).status == "completed"
    places = seqs_of(house, task.id)[part::4]
    own = [r for r in house.store.log if r.stream.startswith(f"task/{task.id}")]
    for at in places:
        before = len(world.sent)
        fork = house.runtime.fork(task.id, at=at)
        for _ in range(rng.randrange(3)):
            for _ in range(rng.randrange(1, 90)):
                house.sim.step()
            if rng.random() < 0.5:
                house.sim.crash(rng.choice([names.ADMISSION, *actors_of(fork.id)]))
            else:
                house.kill()
                house.reopen()
        result = house.finish(fork.id)
        assert (result.status, result.output) == (
            "completed",
            {"step": "send", "ok": True},
        )
        sent = begun(house, fork.id)
        assert len(world.sent) - before == ("send" in sent)
    assert own == [r for r in house.store.log if r.stream.startswith(f"task/{task.id}")]
    sound(house)


def seqs_of(house: House, task: str) -> list[int]:
    return [r.seq for r in house.store.log if r.stream.startswith(f"task/{task}")]


def test_a_plan_with_steps_that_need_no_other_is_forked_as_it_stood() -> None:
    world = World()
    steps = [
        Step(id="find", goal="find it"),
        Step(id="write", goal="write it", needs=()),
        Step(id="send", goal="send it", needs=("find", "write")),
    ]
    house = House(job(world, plan=Plan(steps=tuple(steps))))
    task = house.submit()
    house.finish(task.id)
    fork = task.fork(at=seqs(house.store, task.id, "StepEnded")[0])
    assert house.finish(fork.id).status == "completed"
    assert begun(house, fork.id) == ["write", "send"]


def test_an_erasure_names_the_forks_that_keep_what_they_took_over() -> None:
    house = House(job(World()))
    task = house.submit()
    house.finish(task.id)
    first = task.fork()
    house.finish(first.id)
    second = first.fork()
    house.finish(second.id)
    send(house, "c1", "erase", task.id)
    said = answered(house, "c1").said
    assert said == (
        f"it is erased; its forks keep what they took over: {first.id}, {second.id}"
    )
    (erased,) = house.of(names.ADMISSION, TaskErased)
    assert erased.forks == (first.id, second.id)
    assert house.runtime.erase(task=first.id, by="operator")
    assert house.runtime.erase(task=second.id, by="operator")
    left = b"".join(r.body for r in house.store.log)
    assert b'"do it"' not in left


def test_what_a_source_did_is_not_opened_once_it_is_erased() -> None:
    house = House(job(World()))
    task = house.submit()
    house.finish(task.id)
    fork = task.fork()
    house.finish(fork.id)
    assert read(house, fork.id, "op3")
    house.runtime.erase(task=task.id, by="operator")
    with pytest.raises(Misuse, match=f"op3 was of task {task.id}, which was erased"):
        read(house, fork.id, "op3")


# ── plans that a model wrote, and requests rendered again ────────────────────────


def test_a_fork_from_any_event_of_a_planned_task_has_the_plan_in_force() -> None:
    # A83
    world = World()
    house, task = house_of(world)
    ended(house, world, task)
    house.reopen()
    stream = [r for r in house.store.log if r.stream == f"task/{task}"]
    for at in stream[::4]:
        before = len(world.sent)
        fork = house.runtime.fork(task, at=at.seq).id
        result = house.finish(fork)
        while result.reason == "question":
            (question,) = house.runtime.questions()
            house.runtime.reply(fork, question.question, "drop", "operator")
            result = house.finish(fork)
        assert result.status == "completed"
        # What its source had completed is no reason to look at the plan once more.
        assert list(result.steps) in (["a", "b", "c"], ["a", "b", "d"])
        assert len(world.sent) - before == ("a" in begun(house, fork))
        rendered(house, fork)
    sound(house)


def rendered(house: House, task: str) -> None:
    """Every request of a task renders again as it was sent."""
    newest = {one.op: one for one in house.of(f"task/{task}", RequestBuilt)}
    for one in newest.values():
        again = house.runtime._reading.read(
            lambda reader, op=one.op: render_again(reader, task, op)
        )
        assert again.digest == one.digest


def test_the_requests_of_a_fork_render_again_without_its_source() -> None:
    # A6 P5
    world = World()
    house = House(job(world))
    task = house.submit()
    house.finish(task.id)
    at = seqs(house.store, task.id, "ActionObserved")[-2]
    fork = task.fork(at=at)
    assert house.finish(fork.id).status == "completed"
    house.runtime.erase(task=task.id, by="operator")
    assert house.of(f"task/{fork.id}", RequestBuilt)
    rendered(house, fork.id)


def test_a_fork_finds_what_its_source_did_and_nothing_that_came_after() -> None:
    world = World()
    script = {
        "look": [[("look", {"what": "herring"})]],
        "find": [[("recall", {"query": "herring mackerel"})]],
        "after": [[("look", {"what": "mackerel"})]],
    }
    agent = Agent(
        name="agent",
        instructions="Look.",
        model=Scripted(follow(script)),
        plan=Plan(steps=tuple(Step(id=name, goal=name) for name in script)),
        tools=tools_of(world),
        recall=True,
        recovery="rules",
    )
    house = House(agent)
    task = house.submit()
    house.finish(task.id)
    at = seqs(house.store, task.id, "StepEnded")[0]
    fork = task.fork(at=at)
    assert house.finish(fork.id).status == "completed"
    stream = names.ledger(fork.id)
    made = house.of(stream, EffectRegistered)
    (op,) = [one.op for one in made if one.name == "recall"]
    (found,) = [one for one in house.of(stream, EffectRecorded) if one.op == op]
    assert "op2, look" in found.result
    assert "mackerel" not in found.result.partition("herring")[2]
    assert "saw herring" in read(house, fork.id, "op2")


def test_show_says_what_a_task_was_forked_from() -> None:
    house = House(job(World()))
    task = house.submit()
    house.finish(task.id)
    at = seqs(house.store, task.id, "StepEnded")[0]
    fork = task.fork(at=at)
    sheet = house.runtime._reading.read(lambda reader: views.sheet(reader, fork.id))
    assert sheet.forked == f"{task.id} as of seq {at}"
    (line,) = [one for one in sheet_text(sheet) if one.startswith("forked from ")]
    assert line.endswith(sheet.forked)


def test_a_fork_of_now_is_one_of_the_last_place_in_the_log() -> None:
    world = World()
    house = House(job(world), baseline=quick(snapshot_events=7))
    task = house.submit()
    house.until_hit("effect.recorded", task=task.id, op=2)
    for _ in range(12):
        for _ in range(9):
            house.sim.step()
        task.pause()
        house.finish(task.id)
        place = house.store.log[-1].seq
        first, second = task.fork(), task.fork(at=place)
        seeds = [house.of(f"task/{one.id}", TaskForked) for one in (first, second)]
        assert seeds[0] == seeds[1]
        task.resume()


def test_a_call_that_was_handed_on_is_handed_on_anew_by_a_fork() -> None:
    world = World()
    house = House(handing_on(*tools_of(world)), job(world))
    task = house.submit("boss")
    assert house.until(lambda: task.status == "waiting")
    fork = task.fork()
    results = [house.finish(one.id) for one in (task, fork)]
    assert [one.status for one in results] == ["completed", "completed"]
    children = [
        [one.child for one in house.of(f"task/{name}", SubtaskStarted)]
        for name in (task.id, fork.id)
    ]
    assert [len(one) for one in children] == [1, 1]
    assert children[1][0].startswith(f"{fork.id}.")
    assert mails(world) == ["hello", "hello"]
    sound(house)


@pytest.mark.parametrize("seed", range(40))
def test_a_fork_that_is_made_during_an_erasure_is_named_by_it(seed: int) -> None:
    rng = random.Random(f"erased {seed}")
    house = House(job(World()), seed=seed)
    task = house.submit()
    house.finish(task.id)
    send(house, "c1", "erase", task.id)
    for _ in range(rng.randrange(8, 40)):
        house.sim.step()
    send(house, "c2", "fork", task.id)
    made, gone = answered(house, "c2"), answered(house, "c1")
    assert gone.done
    (erased,) = house.of(names.ADMISSION, TaskErased)
    assert erased.forks == ((made.said,) if made.done else ())


def test_a_fork_keeps_the_notes_of_people_and_numbers_its_own_behind_them() -> None:
    world = World()
    seen: list[Any] = []
    house = House(watching(world, seen))
    task = house.submit()
    house.until_hit("step.started", step="write")
    task.steer("mind the gap", by="operator")
    house.finish(task.id)
    del seen[:]
    fork = task.fork(at=seqs(house.store, task.id, "StepEnded")[-2])
    assert fork.steer("and the step", by="operator") == 2
    assert house.finish(fork.id).status == "completed"
    text = seen[-1].messages[-1]["content"]
    assert "mind the gap" in text
    assert "and the step" in text
    rendered(house, fork.id)
    sound(house)
