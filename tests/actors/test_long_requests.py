"""A long step's requests: old results by reference, and each renders again."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from perdure import Agent, Misuse, tool
from perdure.actors.context.render import moving_data
from perdure.actors.events import RequestBuilt, TaskPaused
from perdure.actors.model import ModelReply, ModelRequest
from perdure.context import request_characters
from perdure.models import Scripted
from perdure.replay import Rendered, render_again
from tests.actors.world import House, as_calls, quick, standing

PAGE = 1_500  # characters of a result


class Reader:
    """A model that looks at page after page; it keeps the requests it got."""

    def __init__(self, pages: int) -> None:
        self.pages = pages
        self.seen: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> ModelReply:
        self.seen.append(request)
        number = len(self.seen)
        if number > self.pages:
            return ModelReply(content=json.dumps("done"))
        return ModelReply(tool_calls=as_calls([("look", {"page": number})]))


def reading(model: Reader, size: int = PAGE, **options: Any) -> Agent:
    @tool(effect="read")
    def look(page: int) -> str:
        """Look at a page."""
        return f"page {page}: sum={page * 101} ".ljust(size, "x")

    return Agent(
        name="agent",
        instructions="Read on.",
        tools=[look],
        model=Scripted(model),
        max_rounds=1_000,
        recovery="rules",
        **options,
    )


def rendered(house: House, task: str) -> dict[int, Rendered]:
    """Every request of a task, rendered again; each has the digest that was sent."""
    found = {}
    for one in house.of(f"task/{task}", RequestBuilt):
        again = house.runtime._reading.read(
            lambda reader, op=one.op: render_again(reader, task, op)
        )
        assert again.digest == one.digest
        found[one.op] = again
    return found


def test_every_request_of_a_long_step_renders_again_with_its_references() -> None:
    model = Reader(60)
    house = House(reading(model))
    task = house.submit().id
    assert house.finish(task).status == "completed"
    again = list(rendered(house, task).values())
    assert [one.messages for one in again] == [one.messages for one in model.seen]
    fates = [{fate.fate for fate in one.fates} for one in again]
    assert {"kept", "shrunk", "dropped"} in fates
    built = house.of(f"task/{task}", RequestBuilt)
    assert built[-1].shrunk > built[-1].window > 0
    dropped = [
        [fate.block for fate in one.fates if fate.fate == "dropped"] for one in again
    ]
    # What was dropped stays so, and is still told of.
    assert all(after[: len(before)] == before for before, after in pairwise(dropped))
    assert len(dropped[-1]) == built[-1].omitted // 2


def test_a_step_of_more_exchanges_than_the_ledger_folds_renders_again() -> None:
    model = Reader(160)
    house = House(reading(model, size=20), baseline=quick(request_limit=200_000))
    task = house.submit().id
    house.finish(task)
    again = rendered(house, task)
    assert len(list(again.values())[-1].messages) > 320


def test_schemas_that_alone_are_too_long_pause_the_task_once() -> None:  # K14
    model = Reader(1)
    agent = reading(model)
    agent.fixed.tools[0]["function"]["description"] = "y" * 17_000
    house = House(agent)
    task = house.submit().id
    result = house.finish(task)
    assert (result.status, result.reason) == ("paused", "context")
    (paused,) = house.of(f"task/{task}", TaskPaused)
    assert "schemas of the tools do not fit" in paused.detail
    assert model.seen == []


def test_strict_refuses_a_newest_exchange_that_alone_is_too_much() -> None:
    model = Reader(1)
    house = House(reading(model, size=16_200), baseline=quick(newest="strict"))
    result = house.finish(house.submit().id)
    assert (result.status, result.reason) == ("paused", "context")
    assert len(model.seen) == 1


def test_a_mode_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Misuse, match="newest='some' must be 'reference' or 'strict'"):
        quick(newest="some")


def test_by_default_such_an_exchange_is_a_reference() -> None:
    model = Reader(1)
    house = House(reading(model, size=16_200))
    task = house.submit().id
    assert house.finish(task).status == "completed"
    (text,) = [
        one["content"] for one in model.seen[1].messages if one["role"] == "tool"
    ]
    assert "16200 characters" in text
    assert 'read_evidence(id="op2")' in text
    assert standing(model.seen[1])["kind"] == "progress"
    assert [one.fate for one in rendered(house, task)[3].fates][2] == "referenced"


def test_numbers_of_what_is_cut_stay_in_view_with_their_evidence() -> None:
    # A13, A93: the model sees them in the very request that cuts.
    model = Reader(40)
    house = House(reading(model))
    task = house.submit().id
    house.finish(task)
    again = list(rendered(house, task).values())
    for request, one in zip(model.seen, again, strict=True):
        text = request.messages[-1]["content"]
        lost = [fate.block for fate in one.fates if fate.fate in ("dropped", "shrunk")]
        whole = [fate.block for fate in one.fates if fate.fate == "kept"]
        if lost:
            page = max(lost) // 2 + 1
            assert f"- op{max(lost) + 1} look(page={page}): " in text
            assert f"sum={page * 101}" in text
        assert all(f"op{block + 1} look(" not in text for block in whole if block)


def test_findings_stay_bounded_however_long_the_step_is() -> None:
    model = Reader(120)
    house = House(reading(model, size=1_000))
    task = house.submit().id
    house.finish(task)
    sizes = [
        sum(
            len(one) + 1
            for one in request.messages[-1]["content"].splitlines()
            if one.startswith("- op")
        )
        for request in model.seen
    ]
    assert 1_500 < sizes[-1] <= max(sizes) <= 1_600


def test_findings_never_cost_the_newest_exchange_nor_the_request() -> None:
    # The newest result leaves no room for them: the request goes without.
    sizes: list[int] = []

    @tool(effect="read")
    def look(page: int) -> str:
        """Look at a page."""
        first = model.seen[0]
        room = 16_000 - request_characters(first.messages, first.tools)
        sizes.append({13: room - 400}.get(page, 1_500 if page < 13 else 100))
        return f"page {page}: sum={page * 101} ".ljust(sizes[-1], "x")

    model = Reader(15)
    agent = Agent(
        name="agent",
        instructions="Read on.",
        tools=[look],
        model=Scripted(model),
        recovery="rules",
    )
    house = House(agent)
    task = house.submit().id
    assert house.finish(task).status == "completed"
    rendered(house, task)
    bare = [one.bare for one in house.of(f"task/{task}", RequestBuilt)]
    assert bare == [False] * 13 + [True] + [False] * 2
    assert "Found before" not in model.seen[13].messages[-1]["content"]
    assert len(model.seen[13].messages[-2]["content"]) == sizes[12]
    assert "sum=1313" in model.seen[14].messages[-1]["content"]


@pytest.mark.parametrize("killed", [False, True])
def test_results_stand_with_their_calls_where_one_waited_for_approval(
    killed: bool,
) -> None:
    # Its entry is registered behind those of the calls that were made after it.
    @tool(effect="once", approval=lambda arguments: arguments["what"] == "a")
    def send(what: str) -> str:
        """Send it."""
        return f"sent {what}"

    def model(request: ModelRequest) -> ModelReply:
        told = [one for one in request.messages if one["role"] == "tool"]
        if told or standing(request)["operations"]:
            return ModelReply(content='"done"')
        return ModelReply(
            tool_calls=as_calls([("send", {"what": one}) for one in "abc"])
        )

    agent = Agent(
        name="agent",
        instructions="Send.",
        tools=[send],
        model=Scripted(model),
        recovery="rules",
    )
    house = House(agent)
    task = house.submit()
    assert house.finish(task.id).reason == "approval"
    (asked,) = house.runtime.approvals()
    task.approve(asked.approval)
    if killed:
        stream = f"task/{task.id}"
        assert house.until(lambda: house.kinds(stream).count("RequestBuilt") == 2)
        house.kill()
        house.reopen()
    assert house.finish(task.id).status == "completed"
    last = house.runtime._reading.read(lambda reader: render_again(reader, task.id, 5))
    told = [one["content"] for one in last.messages if one["role"] == "tool"]
    facts = moving_data(last.messages[-1]["content"])["operations"]
    said = [one["result"] for one in facts] if killed else told
    assert said == ["sent a", "sent b", "sent c"]
