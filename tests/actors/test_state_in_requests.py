"""A complete log is not enough: requests hold the goal and what was verified."""

from __future__ import annotations

import json
from typing import Any

from perdure import Agent, Plan, Step, tool
from perdure.actors.context.fit import fit_context
from perdure.actors.events import EffectRecorded
from perdure.actors.model import ModelReply, ModelRequest
from perdure.models import Scripted
from tests.actors.world import House, as_calls, outcomes, quick, standing

GOAL = "Find the three numbers, and say which of them is the largest."
PAGE = "x" * 900


def test_each_request_holds_the_goal_and_what_was_verified_whatever_left_it() -> None:
    # A10 A11 A25 A90 A104
    asked: list[ModelRequest] = []

    @tool(effect="read")
    def look(page: int) -> str:
        """Look at a page."""
        return f"page {page}: {PAGE}"

    def reply(request: ModelRequest) -> ModelReply:
        asked.append(request)
        step = standing(request)["step"]["id"]
        made = len(pages[step])
        if made < 9:
            pages[step].append(made)
            return ModelReply(tool_calls=as_calls([("look", {"page": made})], made))
        return ModelReply(content=json.dumps({"number": 41 + len(step)}))

    pages: dict[str, list[int]] = {"find": [], "compare": []}
    names = ("find", "compare")
    agent = Agent(
        name="agent",
        instructions="Look.",
        model=Scripted(reply),
        tools=[look],
        plan=Plan(steps=tuple(Step(id=n, goal=n, max_iterations=20) for n in names)),
        request_limit=6_000,
        recovery="rules",
    )
    house = House(agent, baseline=quick())
    task = house.submit(goal=GOAL).id
    house.until_hit("step.started", step="compare")
    house.kill()
    house.reopen()
    assert house.finish(task).status == "completed"
    recorded = house.of(f"task/{task}/ledger", EffectRecorded)
    results = [one for one in recorded if one.result.startswith("page")]
    assert len(results) >= 18  # the log is complete
    shown = [len(outcomes(request)) for request in asked]
    assert max(shown) < 9  # and no request is
    for request in asked:
        # Whole exchanges only, within the limit: nothing is left to cut.
        again = fit_context(request.messages, request.tools, max_characters=6_000)
        assert again.report.dropped_messages == 0
        text = "\n".join(str(one["content"]) for one in request.messages)
        assert GOAL in text
    verified = [
        _facts(one) for one in asked if standing(one)["step"]["id"] == "compare"
    ]
    assert verified and all(one == [("find", {"number": 45})] for one in verified)


def _facts(request: ModelRequest) -> list[tuple[str, Any]]:
    return [(one["name"], one["value"]) for one in standing(request)["facts"]]
