"""What stands on disk before and after each contact with the outside."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from perdure import Budget, tool
from perdure.actors import names
from perdure.actors.durable import Durable
from perdure.actors.events import (
    EffectRegistered,
    Event,
    Granted,
    RequestBuilt,
    Reserved,
    TaskSubmitted,
)
from perdure.actors.model import ModelReply, ModelRequest
from perdure.models import Scripted
from perdure.storage.memory import MemoryBackend
from perdure.views_checkpoint import checkpoint
from tests.actors.world import House, World, follow, job, tools_of
from tests.perdure.agents import one_step

SUBMITTED = {"goal": "Find them.", "inputs": {"month": 5}, "constraints": ["be brief"]}


def test_a_task_is_set_up_before_its_model_is_asked_for_the_first_time() -> None:
    # B69
    stood: list[tuple[list[Event], list[Event], list[Event]]] = []
    asked: list[ModelRequest] = []

    def reply(request: ModelRequest) -> ModelReply:
        own = f"task/{task.id}"
        stood.append(
            (house.events(own), house.events(names.POOL), house.events(f"{own}/ledger"))
        )
        asked.append(request)
        return ModelReply(content='"done"')

    house = House(one_step(model=Scripted(reply), recovery="rules"))
    task = house.submit(budget=Budget(tokens=50_000), **SUBMITTED)
    assert house.finish(task.id).status == "completed"
    own, pool, ledger = stood[0]
    (submitted,) = [one for one in own if isinstance(one, TaskSubmitted)]
    assert (submitted.goal, submitted.inputs) == ("Find them.", {"month": 5})
    assert [one for one in own if isinstance(one, RequestBuilt)], "the context"
    (granted,) = [one for one in pool if isinstance(one, Granted)]
    assert (granted.task, granted.amounts["tokens"]) == (task.id, 50_000)
    assert [type(one) for one in ledger] == [EffectRegistered], "the register"
    shown = json.dumps(asked[0].messages)
    assert "Find them." in shown and "be brief" in shown


def test_an_operation_is_decided_and_paid_for_before_it_is_registered() -> None:
    # B70
    world = World()
    house = House(job(world))
    task = house.submit(budget=Budget(model_calls=3))
    assert house.finish(task.id).condition == "budget"
    order: dict[int, list[str]] = {}
    for record in house.store.log:
        if record.type in ("DecisionMade", "Reserved", "EffectRegistered"):
            body = msgspec.json.decode(record.body)
            order.setdefault(body["op"], []).append(record.type)
    made = [op for op, seen in order.items() if "EffectRegistered" in seen]
    assert len(made) >= 5
    for op in made:
        assert order[op] == ["DecisionMade", "Reserved", "EffectRegistered"], op
    reserved = house.of(f"task/{task.id}/account", Reserved)
    assert all(one.amounts for one in reserved), "by an estimate"
    model = [one.kind for one in house.of(f"task/{task.id}/ledger", EffectRegistered)]
    assert model.count("model") == 3, "the condition held before the fourth"


def test_state_is_kept_at_a_big_result_and_before_something_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # B71
    kept: list[tuple[str, int]] = []
    snapshot = Durable.snapshot

    def noted(self: Any, reason: str) -> None:
        if self.label == "ledger":
            kept.append((reason, self.last_seq))
        snapshot(self, reason)

    @tool(effect="read")
    def query(part: int) -> str:
        """Query a part."""
        return "x" * 20_000 if part == 0 else f"part {part}"

    monkeypatch.setattr(Durable, "snapshot", noted)
    world = World()
    calls = [[("query", {"part": part})] for part in range(4)]
    script = {"find": calls, "send": [[("send", {"text": "hello"})]]}
    tools = [query, *tools_of(world)[1:]]
    house = House(job(world, tools=tools, model=Scripted(follow(script))))
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    assert [why for why, _ in kept] == ["a big result arrived", "a once effect is next"]
    with MemoryBackend(house.store).reader(lambda *_: None) as reader:
        found = checkpoint(reader, task.id, kept[1][1])
    assert found.task_status.current_step == "send"
    assert found.completed[0].summary == '{"ok":true,"step":"find"}'
    assert found.resource_usage["tool_calls"] == 4
    assert found.side_effects == {}, "it is not sent yet"
