from __future__ import annotations

from typing import Any

import msgspec
import pytest

from perdure import Agent, Misuse, Plan, Step, tool
from perdure.actors.model import ModelReply
from perdure.models import Scripted

MODEL = Scripted(lambda request: ModelReply(content="x"))


@tool(effect="read")
def look(what: str) -> str:
    """Look."""
    return what


@tool(effect="once", name="look")
def other(what: str) -> str:
    return what


class Output(msgspec.Struct):
    n: int


def agent(**options: Any) -> Agent:
    return Agent(**{"name": "a", "instructions": "", "model": MODEL, **options})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"name": ""}, "''"),
        ({"name": "a b"}, "'a b'"),
        ({"name": "../a"}, "'../a'"),
        ({"name": 7}, "7"),
        ({"model": "gpt"}, "model='gpt'"),
        ({"tools": [len]}, "no tool"),
        ({"tools": [look, other]}, "'look'"),
        ({"plan": ["step"]}, "'step'"),
        ({"recovery": "guess"}, "recovery='guess'"),
        ({"output": dict}, "output="),
        ({"output": Output(n=1)}, "output="),
        ({"max_rounds": 0}, "max_rounds=0"),
        ({"max_rounds": True}, "max_rounds=True"),
        ({"max_rounds": 2.0}, "max_rounds=2.0"),
    ],
    ids=str,
)
def test_a_malformed_agent_is_refused_by_field_and_value(
    options: dict[str, Any], named: str
) -> None:
    with pytest.raises(Misuse) as caught:
        agent(**options)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"id": "a b"}, "'a b'"),
        ({"id": ""}, "''"),
        ({"goal": "  "}, "goal"),
        ({"max_iterations": 0}, "max_iterations=0"),
        ({"max_iterations": True}, "max_iterations=True"),
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"timeout": "5"}, "timeout='5'"),
        ({"needs": "one"}, "needs='one'"),
        ({"needs": (1,)}, "needs=(1,)"),
        ({"required": 1}, "required=1"),
        ({"phase": 3}, "phase=3"),
        ({"phase": "p" * 65}, "phase="),
        ({"kind": "write"}, "kind='write'"),
        ({"max_calls": 0}, "max_calls=0"),
        ({"checkpoint": "never"}, "checkpoint='never'"),
    ],
    ids=str,
)
def test_a_malformed_step_is_refused_by_field_and_value(
    options: dict[str, Any], named: str
) -> None:
    with pytest.raises(Misuse) as caught:
        Step(**{"id": "s", "goal": "g", **options})
    assert named in str(caught.value)


def test_a_plan_has_steps_with_ids_of_their_own() -> None:
    with pytest.raises(Misuse, match="without steps"):
        Plan(steps=())
    with pytest.raises(Misuse, match="'s'"):
        Plan(steps=(Step(id="s", goal="1"), Step(id="s", goal="2")))
    assert agent(plan=[Step(id="s", goal="1")]).plan == Plan(
        steps=(Step(id="s", goal="1"),)
    )


def test_the_digest_covers_what_an_agent_is() -> None:
    base = agent(tools=[look]).digest()
    assert agent(tools=[look]).digest() == base
    assert (
        len(
            {
                base,
                agent(tools=[other]).digest(),
                agent(tools=[]).digest(),
                agent(tools=[look], instructions="be good").digest(),
                agent(tools=[look], name="b").digest(),
                agent(tools=[look], plan=[Step(id="s", goal="1")]).digest(),
                agent(tools=[look], plan=[Step(id="s", goal="2")]).digest(),
            }
        )
        == 7
    )


def test_schemas_come_in_the_order_of_the_tools() -> None:
    @tool(effect="read")
    def a(x: int) -> None: ...

    names = [one["function"]["name"] for one in agent(tools=[look, a]).schemas()]
    assert names == ["look", "a", "read_evidence", "recall"]
    bare = agent(tools=[look, a], recall=False)
    assert list(bare.tools) == ["look", "a"]
    assert list(agent(tools=[]).tools) == []
