"""Acceptance, retries, and a model that fails."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from perdure import (
    Step,
    tool,
)
from perdure.actors.events import (
    AnswerRefused,
    EffectRecorded,
    StepEnded,
)
from perdure.actors.model import ModelReply, ModelRequest
from perdure.models import Scripted
from tests.actors.world import (
    ROUND_AND_ROUND,
    House,
    World,
    follow,
    job,
    outcomes,
    quick,
    standing,
    tools_of,
)
from tests.perdure.agents import calling, done, one_step

# ── acceptance ─────────────────────────────────────────────────────────────────


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
    agent = one_step(model=Scripted(reply), plan=[step], tools=tools_of(world))
    house = House(agent, baseline=quick(**ROUND_AND_ROUND))
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


# ── the model ──────────────────────────────────────────────────────────────────


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
            return done("the boats are out at sea " * 32)  # 192 words

    house = House(one_step(model=Silent()))
    task = house.submit()
    spent = house.finish(task.id).spent
    assert 192 < spent["output_tokens"] < 1.5 * 192
    (recorded,) = house.of(f"task/{task.id}/ledger", EffectRecorded)
    assert recorded.source == "estimated"
