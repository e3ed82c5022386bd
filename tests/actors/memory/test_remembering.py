"""What a model says is a hypothesis, unless the record of its task bears it out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perdure import Agent, tool
from perdure.actors.builtin import anchor, remember
from perdure.actors.events import FactEnded, FactStated
from perdure.actors.model import ModelReply, ModelRequest
from perdure.models import Scripted
from tests.actors.runs import sound
from tests.actors.world import House, as_calls, declaration, outcomes, standing

MEMORY = "services/memory"
Script = list[tuple[str, dict[str, Any]]]


def scholar(script: Script, found: list[str], **options: Any) -> Agent:
    """One call a round, as the script has it; then the texts of all, as the answer."""

    @tool(effect="read")
    def look(what: str) -> Any:
        """Look at something."""
        return {"db": "PostgreSQL", "region": "华东区", "rows": 15, "note": 'a "b"\n c'}

    @tool(effect="read")
    def echo(what: str) -> str:
        """Say it again."""
        return what

    @tool(effect="read")
    def big(what: str) -> str:
        """Give more than a record holds."""
        return "x" * 20_000 + " needle"

    @tool(effect="read")
    def broken(what: str) -> str:
        """Fail."""
        raise ValueError("no PostgreSQL here")

    def reply(request: ModelRequest) -> ModelReply:
        if standing(request)["kind"] == "recovery":
            return ModelReply(content=declaration(request))
        made = outcomes(request)
        if len(made) < len(script):
            return ModelReply(tool_calls=as_calls([script[len(made)]]))
        found[:] = made
        return ModelReply(content=json.dumps(made[-1]))

    options.setdefault("name", "agent")
    return Agent(
        instructions="Look, then remember.",
        model=Scripted(reply),
        tools=[look, echo, big, broken, anchor, remember],
        recall=False,
        **options,
    )


def kept(key: str, value: str, evidence: str = "") -> tuple[str, dict[str, Any]]:
    return "remember", {"key": key, "value": value, "evidence": evidence}


LOOK = ("look", {"what": "all"})


def run(*script: Any) -> tuple[House, str, list[str]]:
    found: list[str] = []
    house = House(scholar(list(script), found))
    result = house.run()
    assert result.status == "completed"
    (task,) = {one.task for one in house.runtime.tasks()}
    return house, task, found


@pytest.mark.parametrize(
    ("value", "evidence"),
    [
        ("PostgreSQL", "op2"),
        ("PostgreSQL", "2"),
        ("PostgreSQL", "op2#1"),
        ("PostgreSQL", "1.0"),  # the call's id in the request
        ("15", "op2"),
        ("华东", "op2"),
        ('a "b" c', "op2"),  # JSON escapes are none of the value's
    ],
)
def test_a_value_that_a_result_holds_becomes_a_fact(value: str, evidence: str) -> None:
    house, task, found = run(LOOK, kept("it", value, evidence))
    (fact,) = house.runtime.memory.facts()
    assert (fact.status, fact.value, fact.scope) == ("fact", value, f"task:{task}")
    assert fact.evidence == f"operation {evidence}"
    assert found[1] == f"kept as {fact.id}, a fact of this task"
    assert not fact.core
    sound(house)


@pytest.mark.parametrize(
    ("first", "value", "evidence", "why"),
    [
        (LOOK, "PostgreSQL", "", "no evidence is given"),
        (LOOK, "MySQL", "op2", "does not hold the value"),
        (LOOK, "Post", "op2", "does not hold the value"),
        (LOOK, "5", "op2", "does not hold the value"),
        (LOOK, "PostgreSQL", "op9", "is no operation of this task"),
        (LOOK, "PostgreSQL", "the wiki", "is no operation of this task"),
        (LOOK, "PostgreSQL", "op1", "only holds what a model said"),
        (LOOK, "PostgreSQL", "op4", "is no operation of this task"),  # itself
        (LOOK, "all", "op2", "stands in the arguments"),
        (("echo", {"what": "db is MySQL"}), "MySQL", "op2", "stands in the arguments"),
        (("broken", {"what": "x"}), "PostgreSQL", "op2", "did not complete"),
        (kept("db", "MySQL"), "MySQL", "op2", "only holds what a model said"),
        (("anchor", {"name": "db", "value": "x"}), "db", "op2", "only holds what"),
    ],
)
def test_what_nothing_bears_out_is_a_hypothesis_and_the_answer_says_so(
    first: Any, value: str, evidence: str, why: str
) -> None:
    house, _, found = run(first, kept("it", value, evidence))
    fact = house.runtime.memory.facts()[-1]
    assert (fact.status, fact.value) == ("hypothesis", value)
    assert "a hypothesis, not a fact" in found[1]
    assert why in found[1]
    sound(house)


def test_a_result_that_went_to_a_blob_is_searched_whole() -> None:
    house, _, _ = run(("big", {"what": "x"}), kept("it", "needle", "op2"))
    assert house.runtime.memory.facts()[0].status == "fact"


def test_a_hypothesis_said_again_with_evidence_becomes_a_fact() -> None:
    house, _, _ = run(kept("db", "PostgreSQL"), LOOK, kept("db", "PostgreSQL", "op4"))
    assert [one.status for one in house.runtime.memory.facts()] == ["fact"]
    said = house.runtime.memory.history("db")
    assert [(one.status, one.how) for one in said] == [
        ("hypothesis", "confirmed"),
        ("fact", ""),
    ]


def test_saying_it_often_makes_it_no_fact() -> None:
    house, _, found = run(*[kept("db", "MySQL")] * 4)
    (only,) = house.runtime.memory.facts()
    assert only.status == "hypothesis"
    assert found[1:] == [f"known already as {only.id}"] * 3
    assert len(house.of(MEMORY, FactStated)) == 1


def test_a_person_makes_a_fact_of_a_hypothesis() -> None:
    house, _, _ = run(kept("db", "MySQL"))
    (guess,) = house.runtime.memory.facts()
    made = house.runtime.memory.confirm(guess.id, by="an operator")
    (fact,) = house.runtime.memory.facts()
    assert (fact.id, fact.status, fact.value) == (made, "fact", "MySQL")
    assert fact.evidence.startswith("confirmed by an operator; said by the model")


def test_what_is_too_long_is_refused_and_named() -> None:
    house, _, found = run(kept("k" * 200, "x"))
    assert found[0] == "error: key has 200 characters; give at most 100"
    assert house.runtime.memory.facts() == []


@pytest.mark.parametrize("steps", range(0, 60, 2))
def test_a_kill_anywhere_leaves_a_remembered_fact_once(steps: int) -> None:
    script = [LOOK, kept("db", "PostgreSQL", "op2"), kept("db", "MySQL")]
    found: list[str] = []
    house = House(scholar(script, found), seed=steps)
    task = house.submit().id
    assert house.until_hit("effect.registered", name="remember")
    for _ in range(steps):
        house.sim.step()
    house.kill()
    house.reopen()
    assert house.finish(task).status == "completed"
    stated = [(one.value, one.status) for one in house.of(MEMORY, FactStated)]
    assert stated == [('"PostgreSQL"', "fact"), ('"MySQL"', "hypothesis")]
    assert house.of(MEMORY, FactEnded) == []
    assert found[1].startswith("kept as f1,")
    sound(house)


@pytest.mark.parametrize("steps", range(0, 40, 2))
@pytest.mark.parametrize("name", ["services/memory", "ledger", "services"])
def test_a_crash_of_who_answers_or_asks_leaves_it_once(name: str, steps: int) -> None:
    script = [LOOK, kept("db", "PostgreSQL", "op2"), kept("db", "MySQL")]
    house = House(scholar(script, []), seed=steps)
    task = house.submit().id
    assert house.until_hit("effect.registered", name="remember")
    for _ in range(steps):
        house.sim.step()
    house.sim.crash(f"task/{task}/ledger" if name == "ledger" else name)
    assert house.finish(task).status == "completed"
    stated = [(one.value, one.status) for one in house.of(MEMORY, FactStated)]
    assert stated == [('"PostgreSQL"', "fact"), ('"MySQL"', "hypothesis")]
    sound(house)
