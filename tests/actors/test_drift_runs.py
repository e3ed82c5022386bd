from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import Agent, Baseline, Misuse, Step, tool
from perdure.actors.events import DriftFound, DriftOver, RequestBuilt
from perdure.actors.model import ModelReply, ModelRequest, ToolCall
from perdure.models import Scripted
from perdure.replay import render_again
from tests.actors.world import ROUND_AND_ROUND, House, declaration, standing

GOAL = "导出2023年5月销售数据\uff0c并按区域生成汇总表"
ONLY = "only the month of May"
COFFEE = {"query": "best espresso machine"}


@tool(effect="read")
def web_search(query: str) -> str:
    """Search the web."""
    return f"many results for {query}"


@tool(effect="read")
def query_sales_data(month: str, region: str) -> str:
    """Query the sales of a region."""
    return "ok"


class Wanderer:
    """Looks for coffee `off` times, then works `on` times, then answers."""

    def __init__(self, off: int, on: int) -> None:
        self.script = [("web_search", COFFEE)] * off
        sales = {"month": "2023-05", "region": "east"}
        self.script += [("query_sales_data", sales)] * on
        self.requests: list[ModelRequest] = []
        self.made = 0

    def reply(self, request: ModelRequest) -> ModelReply:
        if standing(request)["kind"] == "recovery":
            return ModelReply(content=declaration(request))
        self.requests.append(request)
        made = len(standing(request)["operations"])
        made += sum(one["role"] == "tool" for one in request.messages)
        if made >= len(self.script):
            return ModelReply(content='"done"')
        name, arguments = self.script[made]
        call = ToolCall(id="c", name=name, arguments=json.dumps(arguments))
        return ModelReply(tool_calls=(call,))

    def house(self, **rules: Any) -> House:
        agent = Agent(
            name="agent",
            instructions="Work.",
            model=Scripted(self.reply),
            tools=[web_search, query_sales_data],
        )
        rules = {"request_limit": 60_000, **ROUND_AND_ROUND, **rules}
        return House(agent, baseline=Baseline(**rules))


def head(request: ModelRequest) -> str:
    text: str = request.messages[-1]["content"]
    return text


def test_six_actions_off_the_goal_put_it_on_top_until_they_serve_it_again() -> None:
    # K55 B15 A21
    model = Wanderer(off=7, on=4)
    house = model.house()
    task = house.submit(goal=GOAL, constraints=[ONLY])
    assert house.finish(task.id).status == "completed"
    on_top = [head(one).startswith("## Back to the goal") for one in model.requests]
    assert on_top == [False] * 6 + [True] * 3 + [False] * 3
    first, now = model.requests[0], model.requests[6]
    assert GOAL not in head(first), "once, in the stable part"
    assert f"\n{GOAL}\nConstraints:\n- {ONLY}\n" in head(now)
    before = [one.messages[0:2] for one in model.requests]
    assert all(one == before[0] for one in before), "the prefix keeps its bytes"


def test_each_crossing_is_an_event_that_says_why_and_a_log_line() -> None:
    # B15 K55
    model = Wanderer(off=8, on=4)
    house = model.house()
    task = house.submit(goal=GOAL)
    house.finish(task.id)
    (found,) = house.of(f"task/{task.id}", DriftFound)
    (over,) = house.of(f"task/{task.id}", DriftOver)
    assert found.score == 1.0
    assert over.score <= 0.8
    assert "were about best, espresso, machine, web_search" in found.why
    assert "导出" in found.why
    (line,) = house.log.of("drift.found")
    assert (line["score"], line["why"]) == (found.score, found.why)
    assert len(house.log.of("drift.over")) == 1
    assert house.log.strangers == []


def test_six_actions_that_serve_the_goal_raise_no_alarm() -> None:
    # K55
    model = Wanderer(off=0, on=8)
    house = model.house()
    task = house.submit(goal=GOAL)
    assert house.finish(task.id).status == "completed"
    assert house.of(f"task/{task.id}", DriftFound) == []


@pytest.mark.parametrize(
    "rules", [{"drift_actions": 0}, {"drift_threshold": 1.0}, {"drift_actions": 12}]
)
def test_drift_is_judged_by_the_rules_of_the_host(rules: dict[str, Any]) -> None:
    model = Wanderer(off=8, on=0)
    house = model.house(**rules)
    task = house.submit(goal=GOAL)
    assert house.finish(task.id).status == "completed"
    assert house.of(f"task/{task.id}", DriftFound) == []


@pytest.mark.parametrize(
    "rules", [{"drift_actions": 13}, {"drift_threshold": 1.1}, {"drift_threshold": -1}]
)
def test_rules_that_no_task_could_follow_are_refused(rules: dict[str, Any]) -> None:
    with pytest.raises(Misuse, match=next(iter(rules))):
        Baseline(**rules)


@pytest.mark.parametrize("place", [4, 7, 9])
def test_a_kill_changes_nothing_and_every_request_renders_again(place: int) -> None:
    model = Wanderer(off=7, on=4)
    house = model.house()
    task = house.submit(goal=GOAL)
    stream = f"task/{task.id}"
    assert house.until(lambda: house.kinds(stream).count("RequestBuilt") >= place)
    house.kill()
    house.reopen()
    assert house.finish(task.id).status == "completed"
    assert len(house.of(stream, DriftFound)) == 1
    assert len(house.of(stream, DriftOver)) == 1
    sent = {one.op: one.digest for one in house.of(stream, RequestBuilt)}
    for op, digest in sent.items():
        again = house.runtime._reading.read(
            lambda reader, op=op: render_again(reader, task.id, op)
        )
        assert again.digest == digest


def test_names_found_before_a_kill_are_on_topic_after_it() -> None:
    ids = [f"A-{number}" for number in range(1001, 1013)]

    @tool(effect="read")
    def list_orders() -> list[str]:
        return ids

    @tool(effect="read")
    def fetch(id: str) -> str:  # noqa: A002 - the model's word
        return "ok"

    def reply(request: ModelRequest) -> ModelReply:
        if standing(request)["kind"] == "recovery":
            return ModelReply(content=declaration(request))
        made = len(standing(request)["operations"])
        made += sum(one["role"] == "tool" for one in request.messages)
        if made > len(ids):
            return ModelReply(content='"done"')
        call = ToolCall(id="c", name="list_orders", arguments="{}")
        if made:
            arguments = json.dumps({"id": ids[made - 1]})
            call = ToolCall(id="c", name="fetch", arguments=arguments)
        return ModelReply(tool_calls=(call,))

    agent = Agent(
        name="agent",
        instructions="",
        model=Scripted(reply),
        tools=[list_orders, fetch],
    )
    house = House(agent, baseline=Baseline(request_limit=60_000))
    task = house.submit(goal="Refund all orders that were delivered late")
    stream = f"task/{task.id}"
    assert house.until(lambda: house.kinds(stream).count("RequestBuilt") >= 3)
    house.kill()
    house.reopen()
    assert house.finish(task.id).status == "completed"
    assert house.of(stream, DriftFound) == []


def test_the_goal_stands_verbatim_in_every_request_and_once_while_it_is_served() -> (
    None
):
    # K9
    model = Wanderer(off=0, on=40)

    @tool(effect="read")
    def query_sales_data(month: str, region: str) -> str:
        return "r" * 700

    seen: list[ModelRequest] = []

    def reply(request: ModelRequest) -> ModelReply:
        seen.append(request)
        if len(seen) > 40:
            return ModelReply(content='"done"')
        call = ToolCall(id="c", name="query_sales_data", arguments=arguments)
        return ModelReply(tool_calls=(call,))

    arguments = json.dumps(model.script[0][1])
    agent = Agent(
        name="agent", instructions="", model=Scripted(reply), tools=[query_sales_data]
    )
    house = House(agent, baseline=Baseline(**ROUND_AND_ROUND))
    assert house.run(goal=GOAL).status == "completed"
    assert len(seen) == 41
    omitted = [one for one in seen if len(one.messages) < len(seen[-2].messages)]
    assert omitted, "history slid out"
    for request in seen:
        texts = [str(one["content"]) for one in request.messages]
        assert sum(text.count(GOAL) for text in texts) == 1


def test_every_round_says_in_a_few_words_which_step_it_is_of() -> None:
    # B16 A37
    seen: list[str] = []

    def reply(request: ModelRequest) -> ModelReply:
        seen.append(head(request))
        made = sum(one["role"] == "tool" for one in request.messages)
        if made == 2:
            return ModelReply(content='"ok"')
        call = ToolCall(id="c", name="web_search", arguments=json.dumps(COFFEE))
        return ModelReply(tool_calls=(call,))

    plan = [
        Step(id="collect", goal="collect the sales", done="a table"),
        Step(id="report", goal="write the report"),
    ]
    agent = Agent(
        name="agent",
        instructions="",
        model=Scripted(reply),
        tools=[web_search],
        plan=plan,
    )
    house = House(agent)
    assert house.run(goal=GOAL).status == "completed"
    said = [text.partition("\n\n")[0] for text in seen]
    collect = (
        "## Where the task stands\nSteps: collect: running, report: pending.\n"
        "Current step collect: collect the sales Done when: a table"
    )
    report = (
        "## Where the task stands\nSteps: collect: completed, report: running.\n"
        "Current step report: write the report"
    )
    assert said == [collect] * 3 + [report] * 3


def test_a_reminder_that_does_not_fit_is_left_out_and_the_task_goes_on() -> None:
    # A38: the goal itself is in the stable part, whole.
    goal = f"{GOAL} {'x' * 2_000}"

    def run(limit: int, **rules: Any) -> tuple[House, str, Wanderer]:
        model = Wanderer(off=8, on=0)
        agent = Agent(
            name="agent",
            instructions="Work.",
            model=Scripted(once_each(model)),
            tools=[web_search, query_sales_data],
        )
        rules = {"request_limit": limit, **ROUND_AND_ROUND, **rules}
        house = House(agent, baseline=Baseline(**rules))
        task = house.submit(goal=goal)
        assert house.finish(task.id).status == "completed"
        return house, task.id, model

    house, task, _ = run(60_000, drift_actions=0)
    first, second = house.of(f"task/{task}", RequestBuilt)[:2]
    exchange = second.characters - first.characters
    house, task, model = run(first.characters + exchange + 600)
    assert len(house.of(f"task/{task}", DriftFound)) == 1
    assert not any(head(one).startswith("## Back") for one in model.requests)
    for op, digest in {
        one.op: one.digest for one in house.of(f"task/{task}", RequestBuilt)
    }.items():
        again = house.runtime._reading.read(
            lambda reader, op=op: render_again(reader, task, op)
        )
        assert again.digest == digest


def once_each(model: Wanderer) -> Any:
    """Its script by the number of requests, for when history slides out."""

    def reply(request: ModelRequest) -> ModelReply:
        model.requests.append(request)
        made = len(model.requests) - 1
        if made >= len(model.script):
            return ModelReply(content='"done"')
        name, arguments = model.script[made]
        call = ToolCall(id="c", name=name, arguments=json.dumps(arguments))
        return ModelReply(tool_calls=(call,))

    return reply
