"""Context, checkpoints, recovery, loops and resources are one closed loop, for all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import Agent, Baseline, Budget, Finish, Plan, Step
from perdure.actors.durable import Durable
from perdure.actors.events import EffectRegistered, StepEnded, TaskSubmitted
from perdure.actors.policy import Call
from perdure.models import Scripted
from tests.actors.runs import sound
from tests.actors.test_policies import mail, sending
from tests.actors.world import (
    JOB,
    ROUND_AND_ROUND,
    House,
    World,
    follow,
    handing_on,
    job,
    quick,
    tools_of,
)


def test_what_money_stops_is_kept_recovered_verified_and_gone_on_with() -> None:
    # B4
    asked: list[str] = []

    def reply(request: Any) -> Any:
        asked.append("\n".join(str(one["content"]) for one in request.messages))
        return follow(JOB)(request)

    world = World()
    house = House(job(world, model=Scripted(reply)))
    task = house.submit(goal="Send the report", budget=Budget(model_calls=5))
    stopped = house.finish(task.id)
    assert (stopped.status, stopped.reason) == ("paused", "budget")  # resources
    kept = [one.reason for one, _ in house.store.snapshots[f"task/{task.id}"]]
    assert "budget_exhausted" in kept  # checkpoints: nothing is lost by the stop
    done = [one.step for one in house.of(f"task/{task.id}", StepEnded)]
    assert done and "send" not in done
    house.kill()
    house.reopen()
    before = len(asked)
    task = house.runtime.task(task.id)
    task.extend(Budget(model_calls=20))
    result = house.finish(task.id)
    assert result.status == "completed"  # recovery: from the same point
    ends = [(one.step, one.status) for one in house.of(f"task/{task.id}", StepEnded)]
    assert ends == [(name, "completed") for name in JOB]  # loops: each step verified
    assert len(world.sent) == 1
    assert all("Send the report" in one for one in asked[before:])  # context
    sound(house)


def test_a_task_says_which_baseline_it_was_given_under() -> None:
    # B5
    house = House(job(World()), handing_on(), baseline=quick())
    old = house.submit(not_before=house.sim.clock.time() + 1_000.0).id
    house.runtime.close()
    house.reopen(baseline=Baseline(id="next"))
    new = house.submit("boss").id
    assert house.finish(new).status == "completed"
    assert house.finish(old).status == "completed"
    said = {
        task: house.of(f"task/{task}", TaskSubmitted)[0].baseline
        for task in (old, new, f"{new}.2")
    }
    assert said == {old: "test", new: "next", f"{new}.2": "next"}
    logged = {one["task"]: one["baseline"] for one in house.log.of("task.submitted")}
    assert logged == said


def test_all_kinds_of_agents_have_one_record_and_one_account() -> None:
    # B6
    calls: dict[str, Any] = {"task": [[("send", {"text": "0"})]]}
    kinds: dict[str, set[str]] = {}
    spent: dict[str, dict[str, int]] = {}
    for name in ("model", "plan", "policy"):
        house = one_of(name, calls)
        task = house.submit()
        result = house.finish(task.id)
        assert result.status == "completed"
        (sent,) = [
            one
            for one in house.of(f"task/{task.id}/ledger", EffectRegistered)
            if one.name == "send"
        ]
        kinds[name] = of_operation(house, task.id, sent.op)
        spent[name] = result.spent["tool_calls"]
        assert house.log.strangers == []
        sound(house)
    assert kinds["model"] == kinds["plan"] == kinds["policy"] == OPERATION
    assert spent == {name: {"send": 1} for name in kinds}


OPERATION = {
    "DecisionMade",
    "Reserved",
    "EffectRegistered",
    "EffectRecorded",
    "Settled",
    "ActionObserved",
}


def one_of(name: str, calls: dict[str, Any]) -> House:
    """A store with an agent that sends one mail: by a model, a plan, or a policy."""
    world = World()
    if name == "policy":
        return sending(world, lambda v: Finish(0) if v.count else mail(0))
    model = Scripted(follow(calls))
    tools = tools_of(world)
    plan = Plan(steps=(Step(id="task", goal="Send."),)) if name == "plan" else None
    return House(
        Agent(name="agent", instructions="Send.", model=model, tools=tools, plan=plan)
    )


def look(n: int) -> Call:
    return Call("look", {"what": str(n)})


def of_operation(house: House, task: str, op: int) -> set[str]:
    return {
        record.type
        for stream in ("", "/ledger", "/account")
        for record in house.store.streams[f"task/{task}{stream}"]
        if json.loads(record.body).get("op") == op and record.type != "StepEnded"
    }


def test_the_state_is_kept_each_so_many_events_and_not_each_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # B75
    kept: list[str] = []
    snapshot = Durable.snapshot

    def noted(self: Any, reason: str) -> None:
        kept.append(f"{self.label}: {reason}")
        snapshot(self, reason)

    monkeypatch.setattr(Durable, "snapshot", noted)
    many = 150
    house = sending(
        World(),
        lambda v: Finish(0) if v.count == many else look(v.count),
        baseline=quick(**ROUND_AND_ROUND),
    )
    task = house.submit().id
    assert house.finish(task).status == "completed"
    events = len(house.store.streams[f"task/{task}"])
    assert events > 2 * many
    assert kept.count("task: events") == events // 64
    assert len([one for one in kept if one.startswith("task: ")]) < many / 10
