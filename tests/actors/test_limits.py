"""Limits of steps and tasks: rounds, calls, tries and time, over kills as without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure import Agent, Plan, RateLimit, Step, sleep, tool
from perdure.actors.durable import Durable
from perdure.actors.events import (
    ActionObserved,
    CallModel,
    DecisionMade,
    EffectRecorded,
    EffectRegistered,
    LoopFound,
    StepEnded,
    TaskPaused,
)
from perdure.actors.model import ModelReply, ModelRequest
from perdure.models import Scripted
from tests.actors.world import (
    House,
    Stuck,
    World,
    as_calls,
    follow,
    outcomes,
    standing,
    tools_of,
)

HOUR = 3600.0


class Heard(Scripted):
    """A scripted model that keeps what it was asked."""

    def __init__(self, reply: Callable[[ModelRequest], ModelReply]) -> None:
        self.requests: list[ModelRequest] = []

        def heard(request: ModelRequest) -> ModelReply:
            self.requests.append(request)
            return reply(request)

        super().__init__(heard)


def calling(*calls: tuple[str, dict[str, Any]]) -> ModelReply:
    return ModelReply(tool_calls=as_calls(calls))


def ever(group: int = 1) -> Heard:
    """A model that looks at something new in each round, and never answers."""

    def reply(request: ModelRequest) -> ModelReply:
        if standing(request)["kind"] == "recovery":
            return follow({})(request)
        seen = len(outcomes(request))
        return calling(*(("look", {"what": f"{seen} {n}"}) for n in range(group)))

    return Heard(reply)


def agent(world: World, model: Any, *steps: Step, **options: Any) -> Agent:
    options.setdefault("tools", tools_of(world))
    options.setdefault("recall", False)
    return Agent(
        name="agent",
        instructions="Do it.",
        model=model,
        plan=Plan(steps=steps) if steps else None,
        **options,
    )


def tries(house: House, task: str) -> list[int]:
    """The model's replies in each try of the step."""
    found, work = [0], set()
    for event in house.events(f"task/{task}"):
        match event:
            case DecisionMade(op=op, action=CallModel(purpose="work")):
                work.add(op)
            case ActionObserved(op=op, again=False) if op in work:
                found[-1] += 1
            case StepEnded():
                found.append(0)
    return found[:-1]


# ── rounds and tries ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize("every", [0, 13, 17, 23])
def test_five_rounds_and_three_tries_are_not_more_for_being_killed(every: int) -> None:
    # K28 B47 B55
    world = World()
    house = House(agent(world, ever(), Step(id="s", goal="g")))
    task = house.submit()
    stream = f"task/{task.id}"

    def has(count: int) -> Callable[[], bool]:
        return lambda: len(house.kinds(stream)) >= count

    while every and house.until(has(len(house.kinds(stream)) + every), 60.0):
        if "TaskPaused" in house.kinds(stream):
            break
        house.kill()
        house.reopen()
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "limited")
    assert result.condition == "max_iterations"
    ends = house.of(stream, StepEnded)
    assert [one.again for one in ends] == [True, True, True, False]
    assert {one.condition for one in ends} == {"max_iterations"}
    assert tries(house, task.id) == [5, 5, 5, 5]
    (paused,) = house.of(stream, TaskPaused)
    assert paused.condition == "max_iterations"
    assert house.log.of("task.paused")[0]["condition"] == "max_iterations"


def test_a_task_that_is_refused_is_verified_four_times_and_then_pauses() -> None:
    # K28 B45 B47
    verified: list[Any] = []

    def whole(result: Any, view: Any) -> str:
        verified.append(result)
        return "not all of it"

    model = Scripted(follow({}))
    house = House(agent(World(), model, Step(id="s", goal="g"), accept=whole))
    result = house.run()
    assert (result.status, result.reason) == ("paused", "acceptance")
    assert len(verified) == 4


@pytest.mark.parametrize(
    ("kind", "times"), [("downstream", 2), ("query", 4), (None, 4)]
)
def test_a_step_is_tried_again_as_often_as_its_kind_says(kind: Any, times: int) -> None:
    # B82 B83: a task's own retries are three
    world = World()
    step = Step(id="s", goal="g", kind=kind, max_iterations=1)
    house = House(agent(world, ever(), step))
    result = house.run()
    assert (result.reason, world.looks) == ("limited", times)


# ── calls ────────────────────────────────────────────────────────────────────────


def bounded(most: int, answers: Callable[[list[str]], bool]) -> Heard:
    def reply(request: ModelRequest) -> ModelReply:
        if standing(request)["kind"] == "recovery":
            return follow({})(request)
        seen = outcomes(request)
        if answers(seen):
            return ModelReply(content='"done"')
        first = len(seen)
        return calling(*(("look", {"what": str(first + n)}) for n in range(most)))

    return Heard(reply)


def test_calls_beyond_the_limit_of_their_step_are_answered_with_it() -> None:
    # A82 K36: the first of the reply run, pairs stay whole, the count is exact
    world = World()
    model = bounded(4, lambda seen: len(seen) >= 8)
    house = House(agent(world, model, Step(id="s", goal="g", max_calls=6)))
    result = house.run()
    assert result.status == "completed"
    assert world.looks == 6
    asked = [
        one
        for one in house.of(f"task/{result.task}/ledger", EffectRegistered)
        if one.kind == "tool"
    ]
    assert len(asked) == 8
    messages = model.requests[-1].messages
    said = [one["content"] for one in messages if one["role"] == "tool"]
    assert len(said) == 8
    limit = "error: limit: step s has made its 6 tool calls (max_calls)"
    assert said[6:] == [limit, limit]


def test_calls_that_a_limit_answers_are_no_errors_in_a_row() -> None:
    model = bounded(8, lambda seen: len(seen) >= 8)
    house = House(agent(World(), model, Step(id="s", goal="g", max_calls=3)))
    result = house.run()
    assert result.status == "completed"
    assert house.of(f"task/{result.task}", LoopFound) == []


@pytest.mark.parametrize("kill_at", [0, 12, 18, 23])
def test_a_step_that_asks_only_for_more_calls_than_it_may_make_is_limited(
    kill_at: int,
) -> None:
    # A36 A82: at once, since its tries share them
    world = World()
    house = House(agent(world, ever(2), Step(id="s", goal="g", max_calls=3)))
    task = house.submit()
    stream = f"task/{task.id}"
    if kill_at:
        assert house.until(lambda: len(house.kinds(stream)) >= kill_at)
        house.kill()
        house.reopen()
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "limited")
    assert result.condition == "max_calls"
    (end,) = house.of(stream, StepEnded)
    assert (end.condition, end.again) == ("max_calls", False)
    done = {
        one.op
        for one in house.of(f"{stream}/ledger", EffectRecorded)
        if one.by == "run" and one.status == "completed"
    }
    made = house.of(f"{stream}/ledger", EffectRegistered)
    assert len({one.op for one in made if one.kind == "tool"} & done) == 3


def test_a_limited_step_that_is_resumed_may_call_as_often_again() -> None:
    world = World()
    house = House(agent(world, ever(2), Step(id="s", goal="g", max_calls=2)))
    task = house.submit()
    assert house.finish(task.id).condition == "max_calls"
    task.resume()
    assert house.finish(task.id).condition == "max_calls"
    assert world.looks == 4


# ── time ─────────────────────────────────────────────────────────────────────────


def test_a_steps_time_goes_on_while_its_process_is_dead() -> None:
    # A82
    house = House(agent(World(), ever(), Step(id="s", goal="g", timeout=60.0)))
    task = house.submit()
    assert house.until_hit("step.started")
    house.kill()
    house.sim.clock.advance(61.0)
    house.reopen()
    assert house.until_hit("step.ended")
    (end,) = house.of(f"task/{task.id}", StepEnded)
    assert (end.status, end.condition) == ("timed_out", "step_timeout")


def test_what_a_step_waits_for_is_not_of_its_time_and_gives_none_back() -> None:
    # A82: two waits of an hour, thirty seconds of work before each
    house = House()

    @tool(effect="read", timeout=100.0)
    def work(part: str) -> str:
        """Work for half a minute."""
        house.sim.clock.advance(30.0)
        return part

    calls = [
        [("work", {"part": "a"})],
        [("sleep", {"seconds": HOUR})],
        [("work", {"part": "b"})],
        [("sleep", {"seconds": 2 * HOUR})],
    ]
    step = Step(id="task", goal="g", timeout=50.0, max_iterations=9)
    model = Scripted(follow({"task": calls}))
    house = House(agent(World(), model, step, tools=[work, sleep], recovery="rules"))
    task = house.submit()
    assert house.until(lambda: "StepEnded" in house.kinds(f"task/{task.id}"), 9000.0)
    (end,) = house.of(f"task/{task.id}", StepEnded)
    assert end.status == "timed_out"
    waits = house.of(f"task/{task.id}", TaskPaused)
    assert [round(one.left) for one in waits] == [20]


def hanging(what: str, stuck: Stuck) -> Agent:
    """An agent whose tool, model or acceptance takes longer than anybody waits."""

    @tool(effect="read", timeout=HOUR)
    def look() -> str:
        """Look."""
        if what == "look":
            stuck.hang()
        return "seen"

    def reply(request: ModelRequest) -> ModelReply:
        if what == "model":
            stuck.hang()
        return follow({"task": [[("look", {})]]})(request)

    def accept(result: Any, view: Any) -> bool:
        if what == "accept":
            stuck.hang()
        return True

    step = Step(id="task", goal="g", accept=accept)
    return agent(World(), Scripted(reply), step, tools=[look], recovery="rules")


@pytest.mark.parametrize("what", ["look", "model", "accept"])
def test_nothing_runs_beyond_the_deadline_of_its_task(what: str) -> None:
    # A82 A111: what is under way then is over then, and is not made again
    stuck = Stuck(what)
    house = House(hanging(what, stuck), dispatcher=stuck)
    until = house.sim.clock.time() + 5.0
    task = house.submit(deadline=until)
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "deadline")
    assert (result.condition, result.steps) == ("deadline", {"task": "running"})
    assert house.of(f"task/{task.id}", StepEnded) == []
    assert until <= house.sim.clock.time() < until + 0.1
    ended = house.of(f"task/{task.id}/ledger", EffectRegistered)
    assert all(one.not_after <= until for one in ended)
    assert {one.attempt for one in ended} == {1}
    stuck.let_go()


def test_an_effect_that_the_deadline_cut_off_is_asked_about() -> None:
    # A105: it may have happened, and says so
    stuck = Stuck("act")

    @tool(effect="once", timeout=HOUR)
    def act() -> str:
        """Act."""
        stuck.hang()
        return "done"

    model = Scripted(follow({"task": [[("act", {})]]}))
    house = House(
        agent(World(), model, tools=[act], recovery="rules"), dispatcher=stuck
    )
    task = house.submit(deadline=house.sim.clock.time() + 5.0)
    assert house.finish(task.id).reason == "unknown_effect"
    stuck.let_go()


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("what", ["sleep", "look", "approve"])
def test_a_task_that_only_waits_is_stopped_at_its_deadline(
    what: str, kill: bool
) -> None:
    # A82: whatever it waits for, and though it is no actor meanwhile
    @tool(effect="read", approval=what == "approve", service="s")
    def look() -> str:
        """Look."""
        return "seen"

    calls: Any = [[("look", {})], [("look", {})]]
    if what == "sleep":
        calls = [[("sleep", {"seconds": 2 * HOUR})]]
    one = agent(
        World(),
        Scripted(follow({"task": calls})),
        tools=[look, sleep],
        recovery="rules",
    )
    house = House(one, limits=[RateLimit("s", 1, per="2h")])
    until = house.sim.clock.time() + HOUR
    task = house.submit(deadline=until)
    assert house.until(lambda: "TaskPaused" in house.kinds(f"task/{task.id}"))
    assert house.sim.clock.time() < until
    if kill:
        house.kill()
        house.reopen()
    assert house.until(lambda: task_reason(house, task.id) == "deadline", 2 * HOUR)
    assert until <= house.sim.clock.time() < until + 1.0
    assert not house.store.rows.get("timer", {}).get(f"{task.id}/0")
    assert house.runtime.task(task.id).cancel().status == "cancelled"


def task_reason(house: House, task: str) -> str:
    found = house.runtime.result(task)
    return "" if found is None else found.reason


def test_a_task_that_crashed_past_its_deadline_asks_no_model_before_it_says_so() -> (
    None
):
    # A82 B52
    model = ever()
    house = House(agent(World(), model))
    task = house.submit(deadline=house.sim.clock.time() + 60.0)
    assert house.until_hit("action.observed")
    house.kill()
    asked = len(model.requests)
    house.sim.clock.advance(61.0)
    house.reopen()
    assert house.finish(task.id).reason == "deadline"
    assert len(model.requests) == asked
    decided = house.of(f"task/{task.id}", DecisionMade)
    assert all(one.action != CallModel(purpose="declare") for one in decided)


# ── checkpoints ──────────────────────────────────────────────────────────────────


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Why snapshots of the task and its ledger were taken."""
    reasons: list[str] = []
    snapshot = Durable.snapshot

    def noted(self: Any, reason: str) -> None:
        reasons.append(f"{self.label}: {reason}")
        snapshot(self, reason)

    monkeypatch.setattr(Durable, "snapshot", noted)
    return reasons


@pytest.mark.parametrize(
    ("checkpoint", "expected"),
    [
        ("every", {"task: step_observed": 5, "ledger: step_observed": 5}),
        ("nodes", {"ledger: a big result arrived": 1}),
        ("log", {}),
    ],
)
def test_a_step_says_when_its_state_is_kept(
    kept: list[str], checkpoint: Any, expected: dict[str, int]
) -> None:
    # B84
    @tool(effect="read")
    def read(part: int) -> str:
        """Read a part."""
        return "x" * 20_000 if part else "short"

    calls = [[("read", {"part": 0})], [("read", {"part": 1})]]
    steps = (Step(id="s", goal="g", checkpoint=checkpoint),)
    model = Scripted(follow({"s": calls}))
    house = House(agent(World(), model, *steps, tools=[read], recovery="rules"))
    assert house.run().status == "completed"
    if checkpoint != "log":
        expected = {**expected, "task: step_ended": 1}
    mine = [one for one in kept if one.split(":")[0] in ("task", "ledger")]
    assert {one: mine.count(one) for one in mine} == expected
