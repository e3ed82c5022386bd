from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import Agent, Effect, Misuse, Rule, delegate, tool
from perdure.actors.events import (
    ApprovalAsked,
    EffectRecorded,
    SubtaskStarted,
    TaskSubmitted,
)
from perdure.actors.model import ModelReply, ModelRequest, ToolCall
from perdure.models import Scripted
from perdure.replay import render_again
from perdure.testing import in_turn
from tests.actors.world import House, unbalanced

SAYS = "do not touch production"
RULE = Rule(says=SAYS, tools=("deploy",), argument="env", forbid=("prod*",))
WHY = f"the rule {SAYS!r} forbids this call: env has 'prod*'"


class Site:
    """What was deployed where, by a tool of a given approval."""

    def __init__(self, **options: Any) -> None:
        self.deployed: list[str] = []

        @tool(**options)
        def deploy(env: str) -> str:
            """Deploy to an environment."""
            self.deployed.append(env)
            return f"deployed to {env}"

        self.deploy = deploy

    def agent(self, *envs: str, name: str = "agent", **options: Any) -> Agent:
        calls = [("deploy", {"env": env}) for env in envs]
        options.setdefault("model", in_turn(*calls))
        tools = [self.deploy, *options.pop("tools", ())]
        return Agent(name=name, instructions="Deploy.", tools=tools, **options)


def recorded(house: House, task: str) -> list[EffectRecorded]:
    found = house.of(f"task/{task}/ledger", EffectRecorded)
    return [one for one in found if one.by != "run" or "tool_calls" in one.usage]


def test_a_call_that_breaks_a_rule_is_not_made_costs_nothing_and_is_told_why() -> None:
    # B7
    site = Site()
    house = House(site.agent("staging", "PROD-eu", "test", rules=[RULE]))
    task = house.submit(goal="Deploy")
    result = house.finish(task.id)
    assert result.status == "completed"
    assert site.deployed == ["staging", "test"]
    _, refused, _ = recorded(house, task.id)
    assert (refused.status, refused.by, refused.error) == ("failed", "door", WHY)
    assert refused.usage == {}
    assert result.spent["tool_calls"] == {"deploy": 2}
    assert unbalanced(house.store) == []


@pytest.mark.parametrize("place", ["agent", "submit"])
def test_the_model_reads_a_rule_among_the_constraints_and_what_broke_it(
    place: str,
) -> None:
    # B7 B8
    requests: list[ModelRequest] = []

    def reply(request: ModelRequest) -> ModelReply:
        requests.append(request)
        if len(requests) > 1:
            return ModelReply(content='"ok"')
        call = ToolCall(id="c", name="deploy", arguments='{"env": "prod"}')
        return ModelReply(tool_calls=(call,))

    rules = {place: [RULE]}
    agent = Site().agent(model=Scripted(reply), rules=rules.get("agent", ()))
    house = House(agent)
    house.run(constraints=["only today"], rules=rules.get("submit", ()))
    stable = requests[0].messages[1]["content"]
    assert f"## Constraints\n- only today\n- {SAYS}\n\n" in stable
    assert requests[1].messages[-2]["content"] == f"error: {WHY}"


def test_a_rule_outlives_the_process_and_an_agent_that_has_lost_it() -> None:
    site = Site(effect="read")
    house = House(site.agent("staging", "prod", rules=[RULE]))
    task = house.submit(goal="Deploy")
    assert house.until(lambda: site.deployed == ["staging"])
    house.kill()
    house.reopen(site.agent("staging", "prod"))
    assert house.finish(task.id).status == "completed"
    assert "prod" not in site.deployed
    (submitted,) = house.of(f"task/{task.id}", TaskSubmitted)
    assert submitted.rules == (RULE,)


def test_a_rule_that_an_agent_gets_later_binds_the_tasks_it_has() -> None:
    site = Site(effect="read")
    house = House(site.agent("staging", "prod"))
    task = house.submit(goal="Deploy")
    assert house.until(lambda: site.deployed == ["staging"])
    house.kill()
    house.reopen(site.agent("staging", "prod", rules=[RULE]))
    assert house.finish(task.id).status == "completed"
    assert "prod" not in site.deployed


def test_nobody_is_asked_to_approve_what_a_rule_forbids() -> None:
    site = Site(approval=True)
    house = House(site.agent("prod", rules=[RULE]))
    task = house.submit(goal="Deploy")
    assert house.finish(task.id).status == "completed"
    assert site.deployed == []
    assert house.of(f"task/{task.id}", ApprovalAsked) == []


def test_a_rule_holds_against_a_call_that_a_person_changed_and_approved() -> None:
    site = Site(approval=True)
    house = House(site.agent("staging", rules=[RULE]))
    task = house.submit(goal="Deploy")
    assert house.finish(task.id).reason == "approval"
    (waiting,) = house.runtime.approvals()
    task.approve(waiting.approval, by="operator", arguments={"env": "prod"})
    assert house.finish(task.id).status == "completed"
    assert site.deployed == []
    assert [one.error for one in recorded(house, task.id)] == [WHY]


def test_an_approval_does_not_lift_a_rule_that_came_after_it() -> None:
    site = Site(approval=True)
    house = House(site.agent("prod"))
    task = house.submit(goal="Deploy")
    assert house.finish(task.id).reason == "approval"
    (waiting,) = house.runtime.approvals()
    house.runtime.close()
    house.reopen(site.agent("prod", rules=[RULE]))
    house.runtime.task(task.id).approve(waiting.approval, by="operator")
    house.finish(task.id)
    assert site.deployed == []


def test_a_sub_task_is_bound_by_the_rules_of_its_parent_and_has_its_own() -> None:
    site, own = Site(), Rule(says="no tests", argument="env", forbid=("test",))
    clerk = site.agent("prod", "test", "staging", name="clerk", rules=[own])
    hand = {"agent": "clerk", "goal": "Deploy it"}
    boss = Agent(
        name="boss",
        instructions="",
        tools=[delegate],
        model=in_turn(("delegate", hand)),
    )
    house = House(boss, clerk)
    task = house.submit("boss", goal="Have it deployed", rules=[RULE])
    assert house.finish(task.id).status == "completed"
    assert site.deployed == ["staging"]
    (begun,) = house.of(f"task/{task.id}", SubtaskStarted)
    (child,) = house.of(f"task/{begun.child}", TaskSubmitted)
    assert set(child.rules) == {RULE, own}
    assert unbalanced(house.store) == []


def test_a_rule_on_delegating_itself_begins_no_sub_task() -> None:
    site = Site()
    only = Rule(
        says="only the tester",
        tools=("delegate",),
        argument="agent",
        allow=("tester",),
    )
    hand = {"agent": "clerk", "goal": "Deploy it"}
    boss = Agent(
        name="boss",
        instructions="",
        tools=[delegate],
        model=in_turn(("delegate", hand)),
        rules=[only],
    )
    house = House(boss, site.agent("staging", name="clerk"))
    task = house.submit("boss", goal="Have it deployed")
    assert house.finish(task.id).status == "completed"
    assert site.deployed == []
    assert house.of(f"task/{task.id}", SubtaskStarted) == []
    (refused,) = recorded(house, task.id)
    assert (refused.by, refused.usage) == ("door", {})
    assert "'only the tester'" in refused.error
    assert unbalanced(house.store) == []


def test_what_takes_an_effect_back_is_not_refused() -> None:
    taken: list[str] = []

    def take_back(effect: Effect) -> str:
        taken.append(effect.arguments["env"])
        return "gone"

    site = Site(undo=take_back)
    later = Rule(says="no staging", forbid=("staging",))
    house = House(site.agent("staging", model=stalling()))
    task = house.submit(goal="Deploy")
    assert house.until(lambda: site.deployed == ["staging"])
    house.runtime.close()
    house.reopen(site.agent(model=stalling(), rules=[later]))
    task = house.runtime.task(task.id)
    task.cancel(compensate=True)
    result = house.finish(task.id)
    assert result.status == "cancelled", result
    assert taken == ["staging"]


def stalling() -> Scripted:
    def reply(request: ModelRequest) -> ModelReply:
        if request.messages[-2]["role"] == "tool":
            raise ConnectionError("no model")
        call = ToolCall(id="c", name="deploy", arguments='{"env": "staging"}')
        return ModelReply(tool_calls=(call,))

    return Scripted(reply)


def test_requests_of_a_task_with_rules_are_rendered_again() -> None:
    house = House(Site().agent("staging", "prod", rules=[RULE]))
    task = house.submit(goal="Deploy")
    house.finish(task.id)
    for record in house.store.streams[f"task/{task.id}"]:
        if record.type == "RequestBuilt":
            built = json.loads(record.body)
            again = house.runtime._reading.read(
                lambda reader, op=built["op"]: render_again(reader, task.id, op)
            )
            assert again.digest == built["digest"]


def test_more_rules_than_a_task_may_have_are_refused_when_it_is_submitted() -> None:
    many = [Rule(says=f"no {n}", argument="env", forbid=(str(n),)) for n in range(32)]
    house = House(Site().agent(rules=[RULE]))
    with pytest.raises(Misuse, match="33 rules; a task may have 32"):
        house.submit(rules=many)
