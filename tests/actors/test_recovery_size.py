"""A recovered task is told three modules, however long its history was."""

from __future__ import annotations

import json
import re

import pytest

from perdure import Agent, tool
from perdure.actors.context.facts import room_for
from perdure.actors.model import ModelReply, ModelRequest
from perdure.context import request_characters
from perdure.models import Scripted
from tests.actors.world import House, as_calls, declaration, quick, standing

GOAL = "Read every page of the report and say what it comes to."


class Recovered:
    """A task that is killed behind so many rounds: the first requests after that."""

    def __init__(self, rounds: int, limit: int | None = None) -> None:
        self.seen: list[ModelRequest] = []
        self.killed = False
        page = 0

        @tool(effect="read")
        def look() -> str:
            """Look at the next page."""
            nonlocal page
            page += 1
            return f"page {page:04d}: sum={page * 101:06d} ".ljust(1_500, "x")

        agent = Agent(
            name="agent",
            instructions="Read on.",
            tools=[look],
            model=Scripted(self.reply),
            max_rounds=2_000,
            request_limit=limit,
        )
        house = House(agent, baseline=quick(snapshot_events=512))
        task = house.submit(goal=GOAL).id
        assert house.until(lambda: page >= rounds)
        house.kill()
        self.killed = True
        house.reopen()
        assert house.finish(task).status == "completed"
        self.declares, self.works = self.seen[0], self.seen[1]

    def reply(self, request: ModelRequest) -> ModelReply:
        if not self.killed:
            said = "Page by page, since the pages build on each other."
            return ModelReply(content=said, tool_calls=as_calls([("look", {})]))
        self.seen.append(request)
        if standing(request)["kind"] == "recovery":
            return ModelReply(content=declaration(request))
        return ModelReply(content=json.dumps("done"))


@pytest.fixture(scope="module")
def short() -> Recovered:
    return Recovered(10)


@pytest.fixture(scope="module")
def long() -> Recovered:
    return Recovered(1_000)


def size(request: ModelRequest) -> int:
    return request_characters(request.messages, request.tools)


@pytest.mark.timeout(180)
def test_a_recovered_request_is_three_modules_and_no_history(long: Recovered) -> None:
    # B33, B41: the rules, and one message; the task's goal word for word.
    rules, last = long.declares.messages
    assert (rules["role"], last["role"]) == ("system", "user")
    assert re.findall(r"^## (.*)$", last["content"], re.MULTILINE) == [
        "Task goal",
        "Confirmed facts",
        "Next action",
    ]
    assert GOAL in last["content"]


@pytest.mark.timeout(180)
def test_a_request_after_a_recovery_is_as_long_after_1000_rounds_as_after_10(
    short: Recovered, long: Recovered
) -> None:  # B76
    found = room_for(16_000)  # what was found before may take this much, and no more
    assert size(short.declares) < size(long.declares) < size(short.declares) + found
    assert size(short.works) < size(long.works) < size(short.works) + found
    roles = [one["role"] for one in long.works.messages]
    assert roles == ["system", "user", "assistant", "tool", "user"]  # what was open


@pytest.mark.timeout(180)
def test_what_was_found_lately_is_told_with_its_evidence(long: Recovered) -> None:
    done = standing(long.declares)["operations"]
    assert "sum=100899" in done[-1]["result"]
    assert done[-1]["evidence"] == "op1998"


def test_what_the_facts_have_no_room_for_is_told_in_short(short: Recovered) -> None:
    # A22, A93: ten results do not fit among the facts; reasons stand in no result.
    text = short.declares.messages[-1]["content"]
    told = {one["evidence"] for one in standing(short.declares)["operations"]}
    assert 1 < len(told) < 9
    for page in range(1, 10):
        if f"op{2 * page}" not in told:
            assert f"- op{2 * page} look: " in text
        assert f"sum={page * 101:06d}" in text
        assert f"- op{2 * page - 1}: Page by page, since" in text


@pytest.mark.parametrize("limit", [5_000, 7_000])
def test_a_task_with_a_smaller_limit_recovers_within_it(limit: int) -> None:
    # What it did takes half of its requests at most, or a crash would be its end.
    recovered = Recovered(12, limit)
    assert size(recovered.declares) <= limit
    assert standing(recovered.declares)["operations"]
