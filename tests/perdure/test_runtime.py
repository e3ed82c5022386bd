"""A task from its submission to its end, in simulated time."""

from __future__ import annotations

import json

import pytest

from perdure import (
    NotSent,
    Step,
    ToolContext,
    tool,
)
from perdure.actors.events import (
    EffectRecorded,
    EffectRegistered,
)
from perdure.actors.model import ModelReply, ModelRequest, ToolCall
from perdure.models import Scripted
from tests.actors.world import (
    House,
    World,
    follow,
    job,
    outcomes,
    standing,
    taken,
    tools_of,
    unbalanced,
)
from tests.perdure.agents import calling, done, echoing, one_step


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

    agent = one_step(("look", {}), model=echoing(), tools=[look], accept=taken)
    house = House(agent)
    assert house.run().output == ["error: ValueError: the shelf is empty"]


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
    house = House(one_step(model=model, tools=[look], accept=taken))
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
