"""Working, episodic and semantic memory: each in its place, together in a request."""

from __future__ import annotations

import json

from perdure import Agent, tool
from perdure.actors.events import RequestBuilt
from perdure.actors.model import ModelReply, ModelRequest
from perdure.models import Scripted
from perdure.replay import Rendered, render_again
from perdure.storage.memory import MemoryBackend
from tests.actors.world import House, as_calls, declaration, outcomes, standing


def analyst(looked: list[str]) -> Agent:
    """Looks at two tables, one in each call, and answers."""

    @tool(effect="read")
    def count(table: str) -> str:
        """Count the rows of a table."""
        looked.append(table)
        return f"{table} has {len(table) * 7} rows"

    def reply(request: ModelRequest) -> ModelReply:
        if standing(request)["kind"] == "recovery":
            return ModelReply(content=declaration(request))
        made = len(outcomes(request))
        if made == 2:
            return ModelReply(content=json.dumps(outcomes(request)))
        calls = as_calls([("count", {"table": ["orders", "people"][made]})])
        return ModelReply(content="Let me see.", tool_calls=calls)

    return Agent(
        name="agent",
        instructions="Count.",
        model=Scripted(reply),
        tools=[count],
        recall=False,
    )


def rendered(house: House, task: str) -> list[Rendered]:
    ops = [one.op for one in house.of(f"task/{task}", RequestBuilt)]
    with MemoryBackend(house.store).reader(lambda *_: None) as reader:
        return [render_again(reader, task, op) for op in ops]


def test_a_recovered_request_is_made_of_record_knowledge_and_progress() -> None:
    # A8 A9 A12 A30 A31 B13
    looked: list[str] = []
    house = House(analyst(looked), seed=1)
    house.runtime.memory.know("region", "north", core=True, evidence="the contract")
    task = house.submit(goal="Count the orders").id
    assert house.until_hit("action.observed", op=2)
    house.kill()
    house.reopen()
    result = house.finish(task)
    assert result.output == ["orders has 42 rows", "people has 42 rows"]
    assert looked == ["orders", "people"]
    first, declares, after, last = rendered(house, task)
    assert [len(one.messages) for one in (first, declares, after, last)] == [3, 2, 3, 5]
    for one in (declares, after):
        whole = json.dumps([one.messages])
        assert "Count the orders" in whole
        assert "- region: north (the contract)" in whole  # semantic
        assert "orders has 42 rows" in whole  # episodic: the record, with its evidence
        assert '\\"evidence\\":\\"op2\\"' in whole
        # Conclusions, not the dialogue that led to them.
        assert {message["role"] for message in one.messages} == {"system", "user"}
    dialogue = [one["role"] for one in last.messages]
    assert dialogue == ["system", "user", "assistant", "tool", "user"]  # working
