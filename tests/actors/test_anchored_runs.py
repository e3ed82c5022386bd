from __future__ import annotations

import json
import re
from typing import Any

import pytest

from perdure import Agent, Baseline, DidNotHappen, Happened, Step, anchor, tool
from perdure.actors.events import ActionObserved, AnchorsRefused, RequestBuilt
from perdure.actors.model import ModelReply, ModelRequest, ToolCall
from perdure.models import Scripted
from perdure.replay import render_again
from tests.actors.world import House, declaration, standing

ROUNDS = 5


def calling(name: str, /, **arguments: Any) -> ModelReply:
    call = ToolCall(id="c", name=name, arguments=json.dumps(arguments))
    return ModelReply(tool_calls=(call,))


def kept(request: ModelRequest) -> dict[str, Any]:
    return {one["name"]: one["value"] for one in standing(request)["facts"]}


def rounds(request: ModelRequest) -> int:
    """How many rounds were made, by the last of the numbers in the request."""
    text = json.dumps(request.messages, ensure_ascii=False)
    return max(map(int, re.findall(r"page (\d+) of", text)), default=0)


class Pages:
    """A table that is opened once, then read page by page, each page a long text."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.requests: list[ModelRequest] = []

    def tools(self) -> list[Any]:
        @tool(effect="idempotent", anchors=["table_id"])
        def open_table(name: str, *, request_id: str) -> dict[str, str]:
            return {"table_id": f"T-{len(name)}", "about": "x" * 300}

        @tool(effect="read")
        def page(table: str, number: int) -> str:
            self.asked.append(table)
            return f"page {number} of many: " + "y" * 300

        return [open_table, page]

    def reply(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        if standing(request)["kind"] == "recovery":
            return ModelReply(content=declaration(request))
        if "table_id" not in kept(request):
            return calling("open_table", name="sales")
        made = rounds(request)
        if made < ROUNDS + 2:
            table = kept(request)["table_id"]
            return calling("page", table=table, number=made + 1)
        return ModelReply(content=json.dumps(kept(request)["table_id"]))

    def house(self, limit: int = 16_000) -> House:
        agent = Agent(
            name="agent",
            instructions="Read.",
            model=Scripted(self.reply),
            tools=self.tools(),
            recall=False,
        )
        rules = Baseline(request_limit=limit, low_water=0.99, snapshot_events=5)
        return House(agent, baseline=rules)


def test_a_value_of_round_one_is_in_view_when_all_its_history_slid_out() -> None:
    # B14
    pages = Pages()
    house = pages.house(4_000)  # five rounds of 500 characters, and no more
    task = house.submit(goal="Read the sales table")
    assert house.finish(task.id).output == "T-5"
    assert pages.asked == ["T-5"] * (ROUNDS + 2)
    last = pages.requests[-1]
    history = [one for one in last.messages[:-1] if one["role"] == "tool"]
    assert 0 < len(history) <= ROUNDS
    assert not any("table_id" in one["content"] for one in history), "it slid out"
    (fact,) = standing(last)["facts"]
    assert (fact["evidence"], fact["by"]) == ("op2", "schema of open_table")


def test_goal_and_findings_stand_at_the_ends_of_a_request_and_results_between() -> None:
    # A16 B8
    pages = Pages()
    house = pages.house(4_000)
    goal, rule = "Read the sales table", "only this month"
    task = house.submit(goal=goal, constraints=[rule])
    assert house.finish(task.id).status == "completed"
    first = pages.requests[0]
    for request in pages.requests[1:]:
        system, stable, *between, last = request.messages
        assert (system, stable) == tuple(first.messages[:2])
        assert request.tools == first.tools
        assert goal in stable["content"] and rule in stable["content"]
        assert "table_id" in kept(request), "in the last message"
        assert last["role"] == "user"
        shown = {one["role"] for one in between if "omitted" not in str(one)}
        assert shown == {"assistant", "tool"}


@pytest.mark.parametrize("place", [3, 6, 9])
def test_anchors_outlive_a_kill_and_the_same_request_is_rendered_again(
    place: int,
) -> None:
    # B14
    pages = Pages()
    house = pages.house()
    task = house.submit(goal="Read the sales table")
    stream = f"task/{task.id}"
    assert house.until(lambda: house.kinds(stream).count("RequestBuilt") >= place)
    house.kill()
    house.reopen()
    assert house.finish(task.id).output == "T-5"
    assert set(pages.asked) == {"T-5"}
    sent = {one.op: one.digest for one in house.of(stream, RequestBuilt)}
    for op, digest in sent.items():
        again = house.runtime._reading.read(
            lambda reader, op=op: render_again(reader, task.id, op)
        )
        assert again.digest == digest


def test_anchors_of_one_step_are_in_view_in_the_next_and_after_a_restart() -> None:
    seen: list[dict[str, Any]] = []

    @tool(effect="idempotent", anchors=["id"])
    def create(*, request_id: str) -> dict[str, str]:
        return {"id": "E42"}

    def reply(request: ModelRequest) -> ModelReply:
        if standing(request)["kind"] == "recovery":
            return ModelReply(content=declaration(request))
        if standing(request)["step"]["id"] == "make" and "id" not in kept(request):
            return calling("create")
        seen.append(kept(request))
        return ModelReply(content='"ok"')

    plan = [Step(id="make", goal="make it"), Step(id="use", goal="use it")]
    agent = Agent(
        name="agent",
        instructions="",
        model=Scripted(reply),
        tools=[create],
        plan=plan,
    )
    house = House(agent)
    task = house.submit()
    assert house.until_hit("step.ended", step="make")
    house.kill()
    house.reopen()
    assert house.finish(task.id).status == "completed"
    assert seen[-1]["id"] == "E42"


def test_a_claim_of_the_models_is_in_view_and_no_fact() -> None:
    # B14
    requests: list[ModelRequest] = []

    def reply(request: ModelRequest) -> ModelReply:
        requests.append(request)
        if len(requests) == 1:
            return calling("anchor", name="owner", value="the sales team")
        return ModelReply(content='"ok"')

    agent = Agent(name="agent", instructions="", model=Scripted(reply), tools=[anchor])
    house = House(agent)
    assert house.run().status == "completed"
    text = requests[-1].messages[-1]["content"]
    assert 'confirmed by nobody\n- "owner": "the sales team" (op2)' in text
    assert kept(requests[-1]) == {}


@pytest.mark.parametrize(
    ("name", "value"), [("", "v"), ("n" * 65, "v"), ("n", "v" * 1_001)]
)
def test_a_claim_that_is_too_long_is_answered_with_the_bound(
    name: str, value: str
) -> None:
    with pytest.raises(ValueError, match="length"):
        anchor.parse(json.dumps({"name": name, "value": value}))


def test_an_anchor_without_room_is_told_to_the_model_and_logged() -> None:
    requests: list[ModelRequest] = []

    @tool(effect="read")
    def many(ctx: Any) -> str:
        for number in range(3):
            ctx.anchor(f"n{number}", str(number))
        return "ok"

    def reply(request: ModelRequest) -> ModelReply:
        requests.append(request)
        return calling("many") if len(requests) == 1 else ModelReply(content='"ok"')

    agent = Agent(name="agent", instructions="", model=Scripted(reply), tools=[many])
    house = House(agent, baseline=Baseline(anchor_names=2))
    task = house.submit()
    house.finish(task.id)
    assert kept(requests[-1]) == {"n0": "0", "n1": "1"}
    note = "- not kept in view: n2 (the task keeps 2 names at most)"
    assert note in requests[-1].messages[-1]["content"]
    (refused,) = house.of(f"task/{task.id}", AnchorsRefused)
    (line,) = house.log.of("anchors.refused")
    assert (
        line["refused"] == refused.refused == {"n2": "the task keeps 2 names at most"}
    )
    assert house.log.strangers == []


def test_an_answer_from_the_record_keeps_the_anchors_of_its_effect() -> None:
    made: list[str] = []

    @tool(effect="once", anchors=["id"])
    def create() -> dict[str, str]:
        made.append("x")
        return {"id": "E42"}

    requests: list[ModelRequest] = []

    def reply(request: ModelRequest) -> ModelReply:
        requests.append(request)
        return calling("create") if len(requests) < 3 else ModelReply(content='"ok"')

    agent = Agent(name="agent", instructions="", model=Scripted(reply), tools=[create])
    house = House(agent)
    task = house.submit()
    house.finish(task.id)
    first, again = house.of(f"task/{task.id}", ActionObserved)[1::2][:2]
    assert made == ["x"]
    assert first.anchors == again.anchors != {}
    assert again.anchors["id"].evidence == first.op, "the record that it rests on"


def test_what_a_probe_found_has_the_declared_anchors_too() -> None:
    out: list[str] = []

    def look(effect: Any) -> Any:
        return Happened({"id": "E42"}) if out else DidNotHappen()

    @tool(effect="once", probe=look, anchors=["id"])
    def create() -> dict[str, str]:
        out.append("x")
        raise RuntimeError("the line went dead")

    requests: list[ModelRequest] = []

    def reply(request: ModelRequest) -> ModelReply:
        requests.append(request)
        return calling("create") if len(requests) == 1 else ModelReply(content='"ok"')

    agent = Agent(name="agent", instructions="", model=Scripted(reply), tools=[create])
    house = House(agent)
    assert house.run().status == "completed"
    assert kept(requests[-1]) == {"id": "E42"}
