"""The runtime from its front door, in simulated time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from perdure import (
    Agent,
    Baseline,
    Budget,
    Misuse,
    NotSent,
    Runtime,
    RuntimeClosed,
    RuntimeFailed,
    Step,
    StoreBusy,
    TaskNotFound,
    ToolContext,
    UseAsync,
    tool,
)
from perdure.actors.events import (
    ActionObserved,
    AnswerRefused,
    EffectRecorded,
    EffectRegistered,
    RecoveryBegan,
    Reserved,
    StepEnded,
    TaskPaused,
)
from perdure.actors.model import ModelReply, ModelRequest, ToolCall
from perdure.models import Scripted
from perdure.storage.errors import StoreFailed, StoreTrouble
from perdure.storage.memory import MemoryBackend, MemoryStore
from tests.actors.world import (
    House,
    World,
    as_calls,
    follow,
    job,
    outcomes,
    redone,
    standing,
    tools_of,
    unbalanced,
)


def calling(*calls: tuple[str, dict[str, Any]]) -> ModelReply:
    return ModelReply(tool_calls=as_calls(calls))


def done(text: str = '"done"') -> ModelReply:
    return ModelReply(content=text)


def one_step(*calls: tuple[str, dict[str, Any]], **options: Any) -> Agent:
    """An agent without a plan that makes these calls one by one, then answers."""
    options.setdefault("model", Scripted(follow({"task": [[one] for one in calls]})))
    return Agent(name="agent", instructions="Do it.", **options)


@pytest.fixture
def world() -> World:
    return World()


# ── a task ───────────────────────────────────────────────────────────────────────


def test_a_task_completes_with_its_output_and_what_it_spent(world: World) -> None:
    # B48
    house = House(job(world))
    result = house.run()
    assert result.status == "completed"
    assert result.output == {"step": "send", "ok": True}
    assert result.steps == dict.fromkeys(("find", "write", "send"), "completed")
    assert result.spent["model_calls"] == 7
    assert result.spent["tool_calls"] == {"look": 3, "write": 1, "send": 1}
    assert [text for _, text in world.sent] == ["hello"]
    assert unbalanced(house.store) == []
    assert house.log.strangers == []


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_a_schedule_changes_nothing_of_a_run(seed: int) -> None:
    worlds = World(), World()
    runs = [House(job(world), seed=seed * 2 + n) for n, world in enumerate(worlds)]
    first, second = (house.run() for house in runs)
    assert first.output == second.output
    assert first.spent["tool_calls"] == second.spent["tool_calls"]
    assert len(worlds[0].sent) == len(worlds[1].sent) == 1


def test_an_effect_is_registered_and_flushed_before_it_runs(world: World) -> None:
    # B39
    house = House()
    seen: list[list[str]] = []

    @tool(effect="once")
    def send(text: str) -> None:
        stream = next(s for s in house.store.streams if s.endswith("/ledger"))
        seen.append(house.kinds(stream))

    house = House(one_step(("send", {"text": "x"}), tools=[send]))
    house.run()
    assert [kinds[-1] for kinds in seen] == ["EffectRegistered"]


def test_a_tool_that_fails_comes_back_to_the_model(world: World) -> None:
    # B72
    @tool(effect="read")
    def look() -> str:
        raise ValueError("the shelf is empty")

    house = House(one_step(("look", {}), model=echoing(), tools=[look]))
    assert house.run().output == ["error: ValueError: the shelf is empty"]


def echoing(*calls: ToolCall) -> Scripted:
    """Makes one round of calls, then answers with what came of them."""

    def reply(request: ModelRequest) -> ModelReply:
        found = outcomes(request)
        if not found:
            return ModelReply(
                tool_calls=calls or (ToolCall(id="1", name="look", arguments="{}"),)
            )
        return ModelReply(content=json.dumps(found))

    return Scripted(reply)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (("fly", "{}"), "error: there is no tool 'fly'; tools: look"),
        (("look", '{"what": 1}'), "error: arguments of look: "),
        (("look", '{"height": 1}'), "error: arguments of look: "),
        (("look", "{"), "error: arguments of look are not JSON"),
        (("look", "[" * 5000), "error: arguments of look"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_call_that_cannot_be_made_comes_back_as_failed(
    call: tuple[str, str], error: str
) -> None:
    @tool(effect="once")
    def look(what: str) -> str:
        raise AssertionError("it ran")

    model = echoing(ToolCall(id="1", name=call[0], arguments=call[1]))
    house = House(one_step(model=model, tools=[look]))
    result = house.run()
    assert result.status == "completed"
    (told,) = result.output
    assert told.startswith(error)
    assert result.spent["tool_calls"] == {}, "a call that was not made costs nothing"


def test_parallel_calls_of_one_reply_each_get_their_own_result(world: World) -> None:
    calls = [
        ToolCall(id="same", name="look", arguments=f'{{"what": "{n}"}}')
        for n in range(5)
    ]
    house = House(one_step(model=echoing(*calls), tools=tools_of(world)), seed=9)
    assert house.run().output == [f"saw {n}" for n in range(5)]


def test_a_once_call_made_again_in_its_step_is_answered_from_the_record(
    world: World,
) -> None:
    # K40 B37
    twice = ("send", {"text": "x"}), ("send", {"text": "x"})
    house = House(one_step(*twice, tools=tools_of(world)))
    task = house.submit()
    result = house.finish(task.id)
    assert len(world.sent) == 1
    assert result.spent["tool_calls"] == {"send": 1}
    first, second = house.of(f"task/{task.id}/ledger", EffectRegistered)[1::2][:2]
    assert (second.reused, second.request_id) == (first.op, first.request_id)


def test_the_model_is_told_that_an_answer_is_from_the_record(world: World) -> None:
    def reply(request: ModelRequest) -> ModelReply:
        found = outcomes(request)
        if len(found) < 2:
            return calling(("send", {"text": "x"}))
        return done(json.dumps(found))

    house = House(one_step(model=Scripted(reply), tools=tools_of(world)))
    assert house.run().output == [
        "sent x",
        "(from the record: this call was made before)\nsent x",
    ]


def test_the_same_call_in_two_steps_is_two_effects(world: World) -> None:
    # K40
    script = {name: [[("send", {"text": "x"})]] for name in ("a", "b")}
    steps = [Step(id=name, goal=name) for name in script]
    house = House(job(world, plan=steps, model=Scripted(follow(script))))
    assert house.run().status == "completed"
    keys = [key for key, _ in world.sent]
    assert len(keys) == len(set(keys)) == 2


def test_a_read_runs_each_time(world: World) -> None:
    house = House(one_step(*[("look", {"what": "x"})] * 3, tools=tools_of(world)))
    house.run()
    assert world.looks == 3


def test_a_tool_whose_repetition_is_meant_runs_each_time() -> None:
    # K21
    builds: list[str] = []

    @tool(effect="once", repeat=True)
    def build(*, request_id: str) -> str:
        builds.append(request_id)
        return "built"

    house = House(one_step(("build", {}), ("build", {}), tools=[build]))
    house.run()
    assert len(builds) == len(set(builds)) == 2


def test_a_once_call_that_surely_failed_may_be_made_again(world: World) -> None:
    tried: list[str] = []

    @tool(effect="once")
    def send(text: str, *, request_id: str) -> str:
        tried.append(request_id)
        if len(tried) == 1:
            raise NotSent("refused")
        return "sent"

    house = House(one_step(*[("send", {"text": "x"})] * 2, tools=[send]))
    assert house.run().spent["tool_calls"] == {"send": 1}
    assert len(tried) == 2
    assert len(set(tried)) == 1, "a new attempt of the same effect has the same id"


def test_a_tool_learns_its_deadline_and_fence_and_keeps_anchors_visible() -> None:
    # B14
    seen: list[ToolContext] = []

    @tool(effect="once", timeout=7.0)
    def open_ticket(ctx: ToolContext) -> str:
        seen.append(ctx)
        ctx.log("opened", number=42)
        ctx.anchor("ticket", "E42")
        return "ok"

    def reply(request: ModelRequest) -> ModelReply:
        if not outcomes(request):
            return calling(("open_ticket", {}))
        facts = {one["name"]: one["value"] for one in standing(request)["facts"]}
        return done(json.dumps(facts))

    house = House(one_step(model=Scripted(reply), tools=[open_ticket]))
    task = house.submit()
    result = house.finish(task.id)
    assert result.output == {"ticket": "E42"}
    (context,) = seen
    assert context.deadline <= house.sim.clock.time() + 7.0
    assert context.fence == f"{task.id}:1:2"
    (line,) = house.log.of("tool.log")
    assert (line["message"], line["fields"]) == ("opened", {"number": 42})


def test_a_big_result_is_stored_once_beside_its_record() -> None:
    @tool(effect="read")
    def dump() -> str:
        return "z" * 50_000

    house = House(one_step(("dump", {}), ("dump", {}), tools=[dump]))
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    records = [
        one for one in house.of(f"task/{task.id}/ledger", EffectRecorded) if one.blob
    ]
    assert len({one.blob for one in records}) == 1
    assert house.store.blobs[records[0].blob] == b"z" * 50_000
    assert records[0].result.startswith("z" * 1000 + "\n(cut: ")


# ── acceptance ───────────────────────────────────────────────────────────────────


def test_a_refused_answer_goes_back_with_the_reason() -> None:
    # P7 B45
    def accept(result: Any, view: Any) -> bool | str:
        return True if result == "better" else "not good enough"

    def reply(request: ModelRequest) -> ModelReply:
        text = request.messages[-1]["content"]
        return done('"better"' if "not good enough" in text else '"first"')

    house = House(
        one_step(model=Scripted(reply), plan=[Step(id="s", goal="g", accept=accept)])
    )
    task = house.submit()
    assert house.finish(task.id).output == "better"
    assert [one.why for one in house.of(f"task/{task.id}", AnswerRefused)] == [
        "not good enough"
    ]


@pytest.mark.parametrize(
    ("verdict", "why"),
    [
        (False, "acceptance refused it without a reason"),
        (None, "acceptance answered NoneType, not True"),
        (1, "acceptance answered int, not True"),
    ],
)
def test_only_true_is_a_pass(verdict: Any, why: str) -> None:
    # K48
    step = Step(id="s", goal="g", accept=lambda result, view: verdict)
    house = House(one_step(model=Scripted(follow({})), plan=[step]))
    task = house.submit()
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "limited")
    assert house.of(f"task/{task.id}", AnswerRefused)[0].why == why


def test_acceptance_that_raises_is_no_pass() -> None:
    # K48
    def accept(result: Any, view: Any) -> bool:
        raise ValueError("broken")

    step = Step(id="s", goal="g", accept=accept)
    recovers = Scripted(follow({}))
    house = House(one_step(model=recovers, plan=[step]))
    result = house.run()
    assert (result.status, result.reason) == ("paused", "acceptance_error")
    assert "ValueError: broken" in result.detail
    assert result.steps == {"s": "acceptance_error"}


def test_a_sixth_iteration_makes_no_call_and_the_task_pauses_after_three_retries(
    world: World,
) -> None:
    # K28 B47 B55
    def reply(request: ModelRequest) -> ModelReply:
        if standing(request)["kind"] == "recovery":
            return follow({})(request)
        return calling(("look", {"what": "again"}))

    step = Step(id="s", goal="g")
    house = House(one_step(model=Scripted(reply), plan=[step], tools=tools_of(world)))
    task = house.submit()
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "limited")
    ends = house.of(f"task/{task.id}", StepEnded)
    assert [one.again for one in ends] == [True, True, True, False]
    assert world.looks == 4 * 5


def test_a_step_that_is_tried_again_has_its_whole_time_again() -> None:
    house = House()

    @tool(effect="read", timeout=100.0)
    def dawdle() -> str:
        house.sim.clock.advance(20.0)
        return "slept"

    def reply(request: ModelRequest) -> ModelReply:
        if standing(request)["kind"] == "recovery":
            return follow({})(request)
        if len(outcomes(request)) == 0:
            return calling(("dawdle", {}))
        return done()

    step = Step(id="s", goal="g", timeout=10.0)
    house = House(one_step(model=Scripted(reply), plan=[step], tools=[dawdle]))
    task = house.submit()
    result = house.finish(task.id)
    assert result.status == "completed"
    ends = house.of(f"task/{task.id}", StepEnded)
    assert [one.status for one in ends] == ["timed_out", "completed"]


class Report(msgspec.Struct):
    total: int


def test_the_output_is_validated_and_typed() -> None:
    agent = one_step(model=Scripted(lambda r: done('{"total": 3}')), output=Report)
    house = House(agent)
    assert house.run().output == Report(total=3)


def test_output_of_another_form_is_sent_back() -> None:
    def reply(request: ModelRequest) -> ModelReply:
        text = request.messages[-1]["content"]
        return done('{"total": 3}' if "Report" in text else '{"total": "three"}')

    house = House(one_step(model=Scripted(reply), output=Report))
    assert house.run().output == Report(total=3)


def test_the_whole_task_is_judged_with_the_facts_of_its_steps(world: World) -> None:
    views: list[Any] = []

    def accept(result: Any, view: Any) -> bool:
        views.append(view)
        return True

    house = House(job(world, accept=accept))
    house.run(inputs={"n": 1})
    (view,) = views
    assert sorted(view.facts) == ["find", "send", "write"]
    assert (view.step, view.goal, view.inputs) == ("", "do it", {"n": 1})


@pytest.mark.parametrize(
    "answer",
    ["[" * 5000 + "]" * 5000, '"\\ud800"', "1e999", "NaN", "\x00"],
    ids=lambda text: text[:8],
)
def test_no_answer_of_a_model_ends_more_than_its_own_step(answer: str) -> None:
    # R29
    house = House(one_step(model=Scripted(lambda r: done(answer))))
    assert house.run().status == "completed"
    assert house.log.crashes() == []


# ── the model ────────────────────────────────────────────────────────────────────


class Flaky:
    name = "flaky"

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.asked = 0

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked += 1
        if self.asked <= self.failures:
            raise ConnectionResetError("gone")
        return done()


def test_a_failed_model_call_is_made_again_after_growing_pauses() -> None:
    # B82
    model = Flaky(3)
    house = House(one_step(model=model))
    start = house.sim.clock.monotonic()
    result = house.run()
    assert (result.status, model.asked) == ("completed", 4)
    assert house.sim.clock.monotonic() - start >= 1 + 2 + 4


def test_a_service_that_stays_away_pauses_the_task() -> None:
    # K26
    model = Flaky(6)
    house = House(one_step(model=model))
    task = house.submit()
    result = house.finish(task.id)
    assert (result.status, result.reason, model.asked) == ("paused", "service", 6)
    assert "ConnectionResetError" in result.detail
    task.resume()
    assert house.finish(task.id).status == "completed"


def test_a_reply_without_figures_is_charged_by_estimate() -> None:
    # K32
    class Silent:
        name = "silent"

        async def complete(self, request: ModelRequest) -> ModelReply:
            return done("x" * 800)

    house = House(one_step(model=Silent()))
    task = house.submit()
    spent = house.finish(task.id).spent
    assert spent["output_tokens"] == 267
    (recorded,) = house.of(f"task/{task.id}/ledger", EffectRecorded)
    assert recorded.source == "estimated"


# ── pause, resume, cancel, extend ────────────────────────────────────────────────


def test_a_paused_task_waits_and_goes_on_from_where_it_was(world: World) -> None:
    house = House(job(world))
    task = house.submit()
    assert house.until_hit("step.ended", step="find")
    assert task.pause() is True
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "operator")
    assert task.status == "paused"
    calls = len(world.writes)
    house.sim.run_for(3600.0)
    assert len(world.writes) == calls
    assert task.resume() is True
    result = house.finish(task.id)
    assert result.status == "completed"
    assert redone(house.store) == []
    assert house.of(f"task/{task.id}/recovery", RecoveryBegan) == []
    assert result.spent["model_calls"] == 7


def test_a_task_that_does_not_wait_is_not_resumed(world: World) -> None:
    house = House(job(world))
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    assert house.until_hit("queue.left")
    assert task.resume() is False
    assert task.pause() is False


def test_the_time_of_a_step_does_not_run_while_the_task_is_paused() -> None:
    tools = [tool(effect="read", name="look")(lambda: "x")]
    step = Step(id="s", goal="g", timeout=10.0)
    script = follow({"s": [[("look", {})], [("look", {})]]})
    house = House(one_step(model=Scripted(script), plan=[step], tools=tools))
    task = house.submit()
    house.until_hit("effect.recorded", by="run")
    task.pause()
    assert house.finish(task.id).status == "paused"
    house.sim.run_for(3600.0)
    task.resume()
    assert house.finish(task.id).status == "completed"
    assert [one.status for one in house.of(f"task/{task.id}", StepEnded)] == [
        "completed"
    ]


def test_cancel_ends_a_task_after_the_operation_in_flight(world: World) -> None:
    house = House(job(world))
    task = house.submit()
    house.until_hit("effect.registered", name="look")
    result = task.cancel(by="me", timeout=3600.0)
    assert (result.status, result.reason) == ("cancelled", "cancelled by me")
    assert world.sent == []
    assert unbalanced(house.store) == []


def test_cancel_of_a_queued_a_paused_and_an_ended_task_tells_the_truth(
    world: World,
) -> None:
    house = House(job(world), active=1)
    first, second = house.submit(), house.submit()
    assert second.cancel(timeout=3600.0).status == "cancelled"
    first.pause()
    house.finish(first.id)
    assert first.cancel(timeout=3600.0).status == "cancelled"
    third = house.submit()
    assert house.finish(third.id).status == "completed"
    assert third.cancel(timeout=3600.0).status == "completed"


@pytest.mark.parametrize("seed", range(40))
def test_the_answer_of_cancel_is_how_the_task_ended(seed: int) -> None:
    # R23
    world = World()
    house = House(job(world), seed=seed)
    task = house.submit()
    for _ in range(80 + 5 * seed):
        house.sim.step()
    result = task.cancel(timeout=3600.0)
    assert result.status in ("completed", "cancelled")
    house.sim.run_for(600.0)
    assert house.runtime.result(task.id) == result
    assert (len(world.sent) == 1) >= (result.status == "completed")
    assert house.kinds("services/admission")[-1] == "TaskLeft"
    assert unbalanced(house.store) == []


def test_money_that_ends_pauses_and_extend_goes_on_from_there(world: World) -> None:
    # R16 K30 B64 B67
    house = House(job(world))
    task = house.submit(budget=Budget(model_calls=4))
    result = house.finish(task.id)
    assert (result.status, result.reason, result.ends_with) == (
        "paused",
        "budget",
        "extend",
    )
    assert "model_calls: 1 wanted, 0 left of 4" in result.detail
    task.extend(Budget(model_calls=10))
    result = house.finish(task.id)
    assert result.status == "completed"
    assert redone(house.store) == []
    assert result.spent["model_calls"] == 7
    assert len(world.sent) == 1
    assert unbalanced(house.store) == []


def test_the_task_is_snapshotted_when_it_pauses_for_money(world: World) -> None:
    # B62 B64
    house = House(job(world))
    task = house.submit(budget=Budget(model_calls=4))
    house.finish(task.id)
    house.sim.run_for(60.0)
    newest = house.store.snapshots[f"task/{task.id}"][0][0]
    assert newest.reason == "paused: budget"
    assert newest.version == len(house.store.streams[f"task/{task.id}"])


def test_a_dimension_is_alerted_once_and_the_task_goes_on(world: World) -> None:
    # R16 B81
    heard: list[str] = []
    house = House(job(world), on_event=lambda name, fields: heard.append(name))
    result = house.run(budget=Budget(tool_calls=6))
    house.sim.run_for(60.0)
    assert result.status == "completed"
    assert heard.count("account.alerted") == 1
    assert heard[-1] == "task.closed"


def test_tools_are_limited_by_name_and_a_refused_call_never_starts(
    world: World,
) -> None:
    # B60
    house = House(job(world))
    task = house.submit(budget=Budget(tools={"look": 1}))
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "budget")
    assert world.looks == 1
    registered = house.of(f"task/{task.id}/ledger", EffectRegistered)
    assert [one.name for one in registered].count("look") == 1


def test_tasks_share_what_the_pool_has(world: World) -> None:
    # R13 B61
    house = House(job(world), pool=Budget(model_calls=10))
    first = house.submit(budget=Budget(model_calls=7))
    second = house.submit(budget=Budget(model_calls=7))
    assert house.finish(first.id).status == "completed"
    result = house.finish(second.id)
    assert result.status == "paused"
    assert "the pool has" in result.detail


def test_what_is_not_limited_cannot_be_extended(world: World) -> None:
    house = House(job(world))
    task = house.submit(budget=Budget(tokens=10))
    house.finish(task.id)
    with pytest.raises(Misuse, match="model_calls"):
        task.extend(Budget(model_calls=1))
    with pytest.raises(Misuse, match="no Budget"):
        task.extend(500)  # type: ignore[arg-type]
    task.cancel(timeout=60.0)
    with pytest.raises(Misuse, match="has ended"):
        task.extend(Budget(tokens=1))


# ── the queue ────────────────────────────────────────────────────────────────────


def test_at_most_so_many_tasks_are_active_and_the_rest_follow_in_order(
    world: World,
) -> None:
    # K38 B65
    house = House(job(world), active=2)
    tasks = [house.submit(key=str(n)) for n in range(5)]
    most = 0
    while any(task.status != "completed" for task in tasks):
        assert house.sim.step()
        kinds = house.kinds("services/admission")
        most = max(most, kinds.count("TaskActivated") - kinds.count("TaskLeft"))
    assert most == 2
    started = [
        event.task  # type: ignore[attr-defined]
        for event in house.events("services/admission")
        if type(event).__name__ == "TaskActivated"
    ]
    assert started == [task.id for task in tasks]


def test_submitting_with_the_same_key_again_gives_the_same_task(world: World) -> None:
    # R5
    house = House(job(world))
    first = house.submit(key="mine")
    assert house.submit(key="mine").id == first.id
    house.finish(first.id)
    assert house.submit(key="mine").id == first.id, "also after its end"
    assert house.submit(key="other").id != first.id
    assert len(house.runtime.tasks()) == 2


# ── what is refused ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"agent": "nobody"}, "'nobody'"),
        ({"goal": ""}, "goal=''"),
        ({"goal": 7}, "goal=7"),
        ({"budget": 100}, "budget=100"),
        ({"budget": Budget(cost=1)}, "budget.cost"),
        ({"constraints": "be good"}, "constraints='be good'"),
        ({"constraints": [1]}, "constraints[0]"),
        ({"priority": 1.5}, "priority=1.5"),
        ({"priority": True}, "priority=True"),
        ({"deadline": "soon"}, "deadline"),
        ({"group": None}, "group"),
        ({"key": 7}, "key"),
        ({"inputs": {"x": float("nan")}}, "x"),
        ({"inputs": {"x": b"raw"}}, "x"),
        ({"inputs": {"x": print}}, "x"),
        ({"inputs": {"x": "y" * 20_000_000}}, "bytes"),
        ({"goal": "\ud800"}, "cannot be stored"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_malformed_submission_is_refused_by_field_and_changes_nothing(
    world: World, options: dict[str, Any], named: str
) -> None:
    # R29
    house = House(job(world))
    with pytest.raises(Misuse) as caught:
        house.submit(**options)
    assert named in str(caught.value)
    assert house.runtime.tasks() == []
    assert house.run().status == "completed"
    assert house.log.crashes() == []


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"agents": [print]}, "no Agent"),
        ({"agents": [job(World()), job(World())]}, "'agent'"),
        ({"pool": 100}, "pool=100"),
        ({"active": 0}, "active=0"),
        ({"active": True}, "active=True"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_malformed_runtime_is_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(Misuse) as caught:
        Runtime(MemoryBackend(), **options)
    assert named in str(caught.value)


def test_a_store_has_one_owner_at_a_time(world: World) -> None:
    # P9
    house = House(job(world))
    with pytest.raises(StoreBusy):
        Runtime(MemoryBackend(house.store), dispatcher=house.sim)
    house.runtime.close()
    house.reopen()
    assert house.run().status == "completed"


def test_an_unknown_task_is_named(world: World) -> None:
    house = House(job(world))
    with pytest.raises(TaskNotFound, match="t-none"):
        house.runtime.task("t-none")


def test_waiting_ends_with_the_time_given(world: World) -> None:
    house = House(job(world))
    task = house.submit()
    with pytest.raises(TimeoutError, match=task.id):
        task.wait(timeout=0.0)
    assert task.wait(timeout=3600.0).status == "completed"


def test_blocking_calls_refuse_an_event_loop_and_name_their_twin(world: World) -> None:
    house = House(job(world))
    task = house.submit()

    async def blocked() -> list[str]:
        told: list[str] = []
        for call in (
            house.submit,
            task.wait,
            task.pause,
            task.resume,
            task.cancel,
            lambda: task.extend(Budget()),
        ):
            with pytest.raises(UseAsync) as caught:
                call()
            told.append(str(caught.value))
        return told

    twins = ["asubmit", "await handle", "apause", "aresume", "acancel", "aextend"]
    told = asyncio.run(blocked())
    assert all(twin in text for twin, text in zip(twins, told, strict=True))


# ── closing and opening again ────────────────────────────────────────────────────


def test_closing_lets_the_operation_in_flight_end_and_the_next_opening_goes_on(
    world: World,
) -> None:
    house = House(job(world))
    task = house.submit()
    house.until_hit("step.ended", step="find")
    house.runtime.close()
    assert house.log.of("runtime.drain_incomplete") == []
    assert house.store.owner is None
    house.reopen()
    result = house.finish(task.id)
    assert result.status == "completed"
    assert house.of(f"task/{task.id}/recovery", RecoveryBegan) == [], "it ended well"
    assert result.spent["model_calls"] == 7
    assert redone(house.store) == []


@pytest.mark.parametrize("steps", range(0, 250, 10))
def test_a_close_at_any_time_loses_and_repeats_nothing(
    world: World, steps: int
) -> None:
    house = House(job(world), seed=steps)
    task = house.submit()
    for _ in range(steps):
        house.sim.step()
    house.runtime.close()
    assert house.store.owner is None
    assert house.log.of("runtime.drain_incomplete") == []
    house.reopen()
    result = house.finish(task.id)
    assert (result.status, result.spent["model_calls"]) == ("completed", 7)
    assert len(world.sent) == 1
    assert unbalanced(house.store) == []


def test_a_closed_runtime_takes_nothing_more(world: World) -> None:
    house = House(job(world))
    task = house.submit()
    house.runtime.close()
    house.runtime.close()
    assert house.runtime.health()["state"] == "closed"
    with pytest.raises(RuntimeClosed):
        house.submit()
    with pytest.raises(RuntimeClosed):
        task.wait(timeout=1.0)


def test_a_runtime_closed_before_it_was_up_starts_nothing_later(world: World) -> None:
    house = House(job(world))
    house.runtime.close()
    house.sim.run()
    assert house.store.owner is None
    assert house.log.of("actor.started") == []


def test_tasks_of_earlier_processes_wait_where_they_are_not_to_be_resumed(
    world: World,
) -> None:
    house = House(job(world))
    queued = [house.submit() for _ in range(2)]
    house.until_hit("step.ended", step="find")
    house.kill()
    house.reopen(resume=False)
    house.sim.run_for(3600.0)
    assert world.sent == []
    assert queued[0].id in [row.task for row in house.runtime.tasks()]
    assert house.runtime.resume(queued[0].id, "me") is True
    assert house.finish(queued[0].id).status == "completed"
    assert len(world.sent) == 1
    assert house.runtime.cancel(queued[1].id, "me", 3600.0).status == "cancelled"
    house.runtime.close()
    assert house.log.of("runtime.drain_incomplete") == []


def test_a_paused_task_of_an_earlier_process_is_resumed_by_hand(world: World) -> None:
    house = House(job(world))
    task = house.submit()
    house.until_hit("step.ended", step="find")
    task.pause()
    house.finish(task.id)
    house.runtime.close()
    house.reopen(resume=False)
    assert house.runtime.resume(task.id, "me") is True
    assert house.finish(task.id).status == "completed"


def test_a_runtime_that_leaves_tasks_alone_closes_at_once(world: World) -> None:
    house = House(job(world))
    house.submit()
    house.until_hit("step.ended", step="find")
    house.kill()
    house.reopen(resume=False)
    house.sim.run_for(60.0)
    house.runtime.close()
    assert house.log.of("runtime.drain_incomplete") == []


def test_a_task_without_its_agent_is_parked_and_goes_on_with_it(world: World) -> None:
    house = House(job(world), job(world, name="b"))
    task, other = house.submit(), house.submit("b")
    house.until_hit("step.ended", step="find")
    house.kill()
    house.reopen(job(world, name="b"))
    result = house.finish(task.id)
    assert (result.status, result.ends_with) == ("parked", "register the agent")
    assert house.finish(other.id).status == "completed"
    house.runtime.close()
    house.reopen(job(world), job(world, name="b"))
    assert house.runtime.resume(task.id, "me") is True
    assert house.finish(task.id).status == "completed"


def test_what_a_callback_raises_is_logged_and_harms_nothing(world: World) -> None:
    def on_event(name: str, fields: Any) -> None:
        raise ValueError("not my day")

    house = House(job(world), on_event=on_event)
    assert house.run().status == "completed"
    house.sim.run_for(10.0)
    assert "not my day" in house.log.of("callback.failed")[0]["error"]


def test_over_the_roots_limit_every_waiter_hears_of_it(world: World) -> None:
    house = House(job(world))
    task = house.submit()
    for _ in range(4):
        assert house.until(lambda: house.sim.crash("journal"))
    with pytest.raises(RuntimeFailed):
        task.wait(timeout=60.0)
    with pytest.raises(RuntimeFailed):
        house.submit()
    assert house.runtime.health()["state"] == "failed"
    assert world.sent == []
    house.kill()
    house.reopen()
    assert house.finish(task.id).status == "completed"


def test_money_is_set_aside_before_every_attempt(world: World) -> None:
    # B62
    house = House(job(world))
    task = house.submit()
    house.finish(task.id)
    order = [
        (record.type, msgspec.json.decode(record.body)["op"])
        for record in house.store.log
        if record.type in ("Reserved", "EffectRegistered", "EffectRecorded", "Settled")
    ]
    for op in {op for _, op in order}:
        mine = [kind for kind, number in order if number == op]
        assert mine == ["Reserved", "EffectRegistered", "EffectRecorded", "Settled"]
    assert len(house.of(f"task/{task.id}/account", Reserved)) == 12


def test_every_outcome_that_is_observed_stands_in_the_record_before(
    world: World,
) -> None:
    house = House(job(world))
    task = house.submit()
    house.finish(task.id)
    recorded: set[int] = set()
    for record in house.store.log:
        event = msgspec.json.decode(record.body)
        if record.type == "EffectRecorded":
            recorded.add(event["op"])
        if record.type == "ActionObserved":
            assert event["op"] in recorded
    assert len(house.of(f"task/{task.id}", ActionObserved)) == 12


def test_a_pause_says_why_and_what_would_end_it(world: World) -> None:
    house = House(job(world), baseline=Baseline(request_limit=500))
    task = house.submit()
    result = house.finish(task.id)
    assert (result.status, result.reason, result.ends_with) == (
        "paused",
        "context",
        "resume",
    )
    (paused,) = house.of(f"task/{task.id}", TaskPaused)
    assert "500 characters" in paused.detail


# ── trouble with the store ───────────────────────────────────────────────────────


class Ill(MemoryBackend):
    """A store whose next flushes raise what they are told to."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.errors: list[Exception] = []

    def flush(self) -> None:
        if self.errors:
            raise self.errors.pop(0)
        super().flush()


class IllHouse(House):
    def _open(self) -> Runtime:
        self.backend = Ill(self.store)
        return Runtime(
            self.backend, agents=self.agents, log=self.log, dispatcher=self.sim
        )


def test_a_full_disk_stops_effects_until_there_is_space_again(world: World) -> None:
    # R10
    house = IllHouse(job(world))
    task = house.submit()
    house.until_hit("step.ended", step="find")
    full = [StoreTrouble("in memory", "full", "no space left") for _ in range(20)]
    house.backend.errors = list(full)
    looks, writes = world.looks, list(world.writes)
    assert house.until(lambda: len(house.backend.errors) == 3)
    assert house.runtime.health()["journal"]["state"] == "trouble"
    assert (world.looks - looks, world.writes) == (0, writes)
    result = house.finish(task.id)
    assert (result.status, result.spent["model_calls"]) == ("completed", 7)
    assert house.of(f"task/{task.id}/recovery", RecoveryBegan) == []
    assert house.log.crashes() == []


@pytest.mark.parametrize("flushes", range(12))
def test_a_store_that_fails_is_opened_again_and_all_goes_on_from_disk(
    world: World, flushes: int
) -> None:
    # P1 P2: what a failed flush left behind is not known, and never acknowledged.
    house = IllHouse(job(world), seed=flushes)
    task = house.submit()
    for _ in range(flushes):
        assert house.until_hit("account.settled")
    house.backend.errors = [StoreFailed("in memory", "fsync: I/O error")]
    assert house.until_hit("actor.crashed", name="journal")
    result = house.finish(task.id)
    assert (result.status, result.spent["model_calls"]) == ("completed", 7)
    assert len(world.sent) == 1
    assert unbalanced(house.store) == []
    assert redone(house.store) == []
