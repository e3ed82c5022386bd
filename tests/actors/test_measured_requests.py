"""Requests measured in tokens: fitted, calibrated, and rendered again."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Agent, Baseline, Misuse, tool
from perdure.actors.budget.estimates import THOUSAND
from perdure.actors.context.measures import named
from perdure.actors.events import ActionObserved, RequestBuilt, Reserved
from perdure.actors.model import Message, ModelReply, ModelRequest, ToolSchema, Usage
from perdure.context import request_characters
from perdure.replay import render_again
from tests.actors.world import House
from tests.perdure.agents import calling, done

WINDOW = 4_000  # tokens
REPLY = 500  # tokens
ROUNDS = 9
RULES = Baseline(id="measured", output_tokens=REPLY, closing_tokens=100)
TEXT = "区域 sales, 2023年5月: the report of the day. " * 14


def size(name: str, messages: list[Message], tools: list[ToolSchema]) -> int:
    measure = named(name)
    parts = sum(map(measure.part, messages))
    return measure.total(len(messages), parts, measure.part(tools))


class Reader:
    """Looks around, then answers; its provider counts `share` of the estimate."""

    name = "reader"

    def __init__(self, share: float | None = None) -> None:
        self.share = share
        self.requests: list[ModelRequest] = []
        self.counted: list[int] = []

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        usage = None
        if self.share is not None:
            found = size("estimate", request.messages, request.tools)
            self.counted.append(int(found * self.share))
            usage = Usage(input_tokens=self.counted[-1], output_tokens=9)
        if len(self.requests) > ROUNDS:
            return ModelReply(content=done().content, usage=usage)
        calls = calling(("look", {"place": len(self.requests)})).tool_calls
        return ModelReply(tool_calls=calls, usage=usage)


@tool(effect="read")
def look(place: int) -> str:
    return f"{place}: {TEXT}"


def house_of(model: Reader, measure: str = "estimate", **options: Any) -> House:
    options.setdefault("request_limit", WINDOW)
    agent = Agent(
        name="agent",
        instructions="Look.",
        model=model,
        tools=[look],
        recovery="rules",
        measure=measure,
        **options,
    )
    return House(agent, baseline=RULES)


def run(house: House) -> tuple[str, list[RequestBuilt]]:
    task = house.submit().id
    assert house.finish(task).status == "completed"
    return task, house.of(f"task/{task}", RequestBuilt)


@pytest.mark.parametrize("measure", ["estimate", "tokens", "tokens:cl100k_base"])
def test_requests_and_the_reply_fit_into_the_window_of_tokens(measure: str) -> None:
    # A14, A15, A89
    model = Reader()
    _, built = run(house_of(model, measure, request_limit=3_000))
    assert len(built) == ROUNDS + 1
    assert built[-1].omitted > 0
    for one, request in zip(built, model.requests, strict=True):
        assert one.measure == measure
        assert one.size == size(measure, request.messages, request.tools) <= one.limit
        assert one.limit + one.room == 3_000
        assert one.room == request.max_output_tokens == REPLY
        assert one.characters == request_characters(request.messages, request.tools)


def test_characters_leave_the_reply_no_room_of_their_own() -> None:  # A46
    model = Reader()
    _, built = run(house_of(model, "characters", request_limit=6_000))
    assert built[-1].omitted > 0
    for one in built:
        assert (one.measure, one.limit, one.room) == ("characters", 6_000, 0)
        assert one.size == one.characters <= 6_000


def test_the_baselines_characters_hold_where_an_agent_says_nothing() -> None:
    _, built = run(house_of(Reader(), "characters", request_limit=None))
    assert {one.limit for one in built} == {RULES.request_limit}


def test_a_provider_that_counts_twice_as_much_gets_half() -> None:
    fair, greedy = Reader(share=1.0), Reader(share=2.0)
    _, plain = run(house_of(fair))
    _, built = run(house_of(greedy))
    assert {one.scale for one in plain} == {THOUSAND}
    assert [one.scale for one in built] == [THOUSAND] + [2 * THOUSAND] * ROUNDS
    for one, counted in zip(built[1:], greedy.counted[1:], strict=True):
        assert counted <= one.size <= WINDOW - REPLY
    assert max(fair.counted) > WINDOW - REPLY - 1_500
    assert max(one.characters for one in built) < 0.7 * max(
        one.characters for one in plain
    )


def test_a_provider_that_counts_less_gets_more_once_three_calls_said_so() -> None:
    _, built = run(house_of(Reader(share=0.5)))
    scales = [one.scale for one in built]
    assert scales[:3] == [THOUSAND] * 3
    assert all(500 < scale < 600 for scale in scales[3:])
    _, plain = run(house_of(Reader(share=1.0)))
    assert built[-1].characters > 1.3 * plain[-1].characters


@pytest.mark.parametrize("measure", ["characters", "tokens"])
def test_what_is_exact_is_not_calibrated(measure: str) -> None:
    _, built = run(house_of(Reader(share=2.0), measure))
    assert {one.scale for one in built} == {THOUSAND}


def test_estimated_usage_teaches_nothing() -> None:
    house = house_of(Reader(share=None))
    task, built = run(house)
    assert {one.scale for one in built} == {THOUSAND}
    seen = house.of(f"task/{task}", ActionObserved)
    assert {one.input_tokens for one in seen} == {0}


def test_what_was_seen_survives_a_kill() -> None:
    model = Reader(share=1.5)
    house = house_of(model)
    task = house.submit().id
    assert house.until(lambda: len(model.requests) == 4)
    house.kill()
    house.reopen()
    assert house.finish(task).status == "completed"
    built = house.of(f"task/{task}", RequestBuilt)
    assert len(built) > 5
    assert {one.scale for one in built[1:]} <= {1_500, 1_501, 1_502}


@pytest.mark.parametrize("measure", ["characters", "estimate", "tokens"])
def test_each_request_renders_again_under_its_own_measure(measure: str) -> None:
    model = Reader(share=2.0)
    house = house_of(model, measure)
    task, built = run(house)
    for one in built:
        again = house.runtime._reading.read(
            lambda reader, op=one.op: render_again(reader, task, op)
        )
        assert (again.digest, again.size, again.measure, again.characters) == (
            one.digest,
            one.size,
            one.measure,
            one.characters,
        )


def test_reservations_hold_what_the_script_of_a_request_may_take() -> None:
    model = Reader()
    house = house_of(model, "tokens")
    task, built = run(house)
    aside = {one.op: one.amounts for one in house.of(f"task/{task}/account", Reserved)}
    for one in built:
        assert one.size < aside[one.op]["input_tokens"] < 2 * one.size


def test_what_cannot_fit_says_in_which_measure() -> None:
    house = house_of(Reader(), request_limit=REPLY + 60)
    task = house.submit()
    stop = house.finish(task.id)
    assert (stop.status, stop.reason) == ("paused", "context")
    assert "a request may have 60 estimated tokens and needs" in stop.detail


def test_a_window_that_a_reply_fills_alone_is_refused() -> None:
    with pytest.raises(Misuse, match="500 tokens leave no room beside a reply of 500"):
        house_of(Reader(), request_limit=REPLY)
