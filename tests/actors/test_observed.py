"""The state of a task follows its tools: after success, failure and cancellation."""

from __future__ import annotations

from typing import Any

from perdure import tool
from perdure.actors.events import ActionObserved, CallTool
from perdure.actors.model import ModelReply, ModelRequest
from perdure.actors.task.state import Op, TaskState, apply
from perdure.models import Scripted
from perdure.views_spend import spend
from tests.actors.world import House, World, as_calls, job, tools_of


def ops(house: House, task: str) -> dict[str, Op]:
    """The tool calls of the running exchange, by tool, as the task's state has them."""
    state = TaskState()
    for event in house.events(f"task/{task}"):
        state = apply(state, event)
    return {
        op.action.tool: op
        for op in state.ops.values()
        if isinstance(op.action, CallTool)
    }


def test_every_call_reaches_the_state_however_it_ends() -> None:
    # A105
    @tool(effect="read")
    def fail() -> str:
        """Fail."""
        raise ValueError("nothing there")

    @tool(effect="once", approval=True)
    def erase() -> str:
        """Erase something."""
        return "erased"

    def reply(request: ModelRequest) -> ModelReply:
        calls = as_calls([("look", {"what": "a"}), ("fail", {}), ("erase", {})])
        return ModelReply(tool_calls=calls)

    tools = [*tools_of(World()), fail, erase]
    house = House(job(World(), tools=tools, model=Scripted(reply), plan=None))
    task = house.submit()
    assert house.finish(task.id).reason == "approval"
    waiting = ops(house, task.id)
    assert {name: op.status for name, op in waiting.items()} == {
        "look": "completed",
        "fail": "failed",
        "erase": "open",
    }
    assert task.cancel().status == "cancelled"
    ended = ops(house, task.id)
    assert ended["erase"].status == "failed"
    observed = house.of(f"task/{task.id}", ActionObserved)
    final = [one.op for one in observed if not one.again]
    assert sorted(final) == sorted({*final}), "each is observed once"
    assert {op.op for op in ended.values()} <= {*final}
    reasons = {one.op: one.reason for one in observed}
    assert "nothing there" in reasons[ended["fail"].op]
    assert "not_started" in reasons[ended["erase"].op]


def test_every_step_leaves_its_tokens_tool_calls_and_time_in_the_log() -> None:
    # B74
    @tool(effect="read")
    def look(what: str) -> str:
        """Look at something, for two seconds."""
        house.sim.clock.advance(2.0)
        return f"saw {what}"

    world = World()
    house = House(job(world, tools=[look, *tools_of(world)[1:]]))
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    house.sim.run_for(60.0)
    lines = house.runtime._reading.read(lambda reader: spend(reader, task.id, "step"))
    tools = {line.name: line.used for line in lines.lines if line.book == "reported"}
    model = {line.name: line.used for line in lines.lines if line.book == "estimated"}
    assert {name: used["tool_calls"] for name, used in tools.items()} == {
        "find": {"look": 2},
        "write": {"write": 1, "look": 1},
        "send": {"send": 1},
    }
    assert {name: used["seconds"] for name, used in tools.items()} == {
        "find": 4.0,
        "write": 2.0,
        "send": 0.0,
    }
    logged: dict[str, dict[str, int]] = {}
    steps = {one["op"]: one["step"] for one in house.log.of("effect.registered")}
    for line in house.log.of("account.settled"):
        sums = logged.setdefault(steps[line["op"]], {})
        amounts: dict[str, Any] = line["amounts"]
        for name, amount in amounts.items():
            sums[name] = sums.get(name, 0) + amount
    assert {name: sums["tokens"] for name, sums in logged.items()} == {
        name: used["tokens"] for name, used in model.items()
    }
    assert all(used["tokens"] > 0 for used in model.values())
