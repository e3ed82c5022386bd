"""What is asked after a crash renders again, whatever happened while it was asked."""

from __future__ import annotations

import json

import pytest

from perdure import Agent, tool
from perdure.actors.events import CallModel, DecisionMade, RequestBuilt
from perdure.actors.model import ModelReply, ModelRequest
from perdure.models import Scripted
from perdure.replay import render_again
from tests.actors.world import House, as_calls, declaration, standing

ROUNDS = 12


@tool(effect="read")
def look(page: int) -> str:
    """Look at a page."""
    return "x"


def reply(request: ModelRequest) -> ModelReply:
    data = standing(request)
    if data["kind"] == "recovery":
        return ModelReply(content=declaration(request))
    made = len(data["operations"])
    made += sum(one["role"] == "tool" for one in request.messages)
    if made >= ROUNDS:
        return ModelReply(content=json.dumps("done"))
    calls = as_calls([("look", {"page": made})])
    return ModelReply(content=f"{made}: {'so it is ' * 5}", tool_calls=calls)


def agent(**options: object) -> Agent:
    return Agent(
        name="agent",
        instructions="Read on.",
        tools=[look],
        model=Scripted(reply),
        **options,  # type: ignore[arg-type]
    )


def declared(house: House, task: str) -> list[DecisionMade]:
    return [
        one
        for one in house.of(f"task/{task}", DecisionMade)
        if isinstance(one.action, CallModel) and one.action.purpose == "declare"
    ]


def check(house: House, task: str) -> None:
    built = house.of(f"task/{task}", RequestBuilt)
    for op in {one.op for one in built}:
        read = house.runtime._reading.read
        read(lambda reader, op=op: render_again(reader, task, op))


def test_a_declaration_shows_all_that_was_found_in_a_window_of_tokens() -> None:
    # The findings of a recovery may take more than those of a request beside a reply.
    house = House(agent(measure="estimate", request_limit=5_000))
    task = house.submit().id
    stream = f"task/{task}"
    assert house.until(lambda: house.kinds(stream).count("RequestBuilt") == ROUNDS)
    house.kill()
    house.reopen()
    assert house.finish(task).status == "completed"
    assert len(declared(house, task)) == 1
    check(house, task)


@pytest.mark.parametrize("seed", range(3))
def test_all_renders_again_where_a_cancel_meets_a_request_being_built(
    seed: int,
) -> None:
    # It may come between a request that is being built and the answer.
    for steps in range(30, 110, 2):
        house = House(agent(), seed=seed)
        task = house.submit().id
        stream = f"task/{task}"
        assert house.until(
            lambda house=house, stream=stream: (
                house.kinds(stream).count("RequestBuilt") == 2
            )
        )
        house.kill()
        house.reopen()
        for _ in range(steps):
            house.sim.step()
        house.runtime.ask_cancel(task, "operator")
        assert house.finish(task).status == "cancelled"
        check(house, task)
