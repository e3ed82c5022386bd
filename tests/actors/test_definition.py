"""What of an agent a task rests on: what its digest tells, and what two differ in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import pytest

from perdure import Agent, Planner, Rule, Step, accept, tool
from perdure.actors.definition import Definition, changes, define, held_by, in_words
from perdure.errors import Misuse
from perdure.models import Scripted

MODEL = Scripted([])


def passes(result: Any, view: Any) -> bool:
    """Accept everything."""
    return True


def strict(result: Any, view: Any) -> bool:
    """Accept nothing."""
    return False


@tool(effect="read")
def look(what: str, deep: bool = False) -> str:
    """Look at something."""
    return what


@tool(effect="idempotent")
def write(name: str) -> str:
    """Write a file."""
    return name


def undo(effect: Any) -> None:
    """Take it back."""


PLAN = (Step(id="a", goal="Do a.", accept=passes), Step(id="b", goal="Do b."))


def agent(**options: Any) -> Agent:
    options = {
        "name": "agent",
        "instructions": "Do it.",
        "model": MODEL,
        "tools": [look, write],
        "plan": PLAN,
        **options,
    }
    return Agent(**options)


def declared(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Tool `write`, declared otherwise."""
    options = {"effect": "idempotent", "name": "write", **options}
    return tool(**options)(function or write.function)


def told(new: Agent, old: Agent | None = None) -> dict[str, bool]:
    """The changes in words, and whether a task goes on over each."""
    found = changes(define(old or agent()), define(new))
    return {in_words([one]): one.compatible for one in found}


class Report(msgspec.Struct):
    """What it ends with."""

    text: str


# ── what goes on, and what does not ──────────────────────────────────────────────


def described(what: Annotated[str, msgspec.Meta(description="a thing")]) -> str:
    """Look at a thing, of any kind."""
    return what


def plain(what: str) -> str:
    """Look at something."""
    return what


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (agent(instructions="Do it well."), "instructions changed"),
        (agent(tools=[look, write, declared(name="more")]), "tool 'more' added"),
        (
            agent(plan=(PLAN[0], Step(id="b", goal="Do b well."))),
            "step 'b' text changed",
        ),
        (
            agent(tools=[look, declared(undo=undo)]),
            "tool 'write' undo idempotent added",
        ),
    ],
)
def test_a_task_goes_on_over_texts_and_over_what_is_added(
    new: Agent, words: str
) -> None:
    assert told(new) == {words: True}


def test_texts_of_a_tool_are_texts_its_parameters_among_them() -> None:
    one, other = (
        agent(tools=[tool(effect="read", name="look")(function)])
        for function in (plain, described)
    )
    assert told(other, one) == {"tool 'look' description changed": True}
    assert one.digest() != other.digest()


def test_a_parameter_may_be_called_like_a_text_of_a_schema() -> None:
    def first(title: str, description: str) -> str:
        """Look."""
        return title

    def second(title: str) -> str:
        """Look."""
        return title

    one, other = (
        agent(tools=[tool(effect="read", name="look")(function)])
        for function in (first, second)
    )
    assert told(other, one) == {"tool 'look' parameters 'description' removed": False}


def more(name: str, mode: str = "w") -> str:
    """Write a file."""
    return name


def number(name: int) -> str:
    """Write a file."""
    return str(name)


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (agent(tools=[look]), "tool 'write' removed"),
        (
            agent(tools=[look, declared(effect="once")]),
            "tool 'write' effect was idempotent, is once",
        ),
        (
            agent(tools=[look, declared(more)]),
            "tool 'write' parameters 'mode' added",
        ),
        (
            agent(tools=[look, declared(number)]),
            "tool 'write' parameters 'name' changed",
        ),
        (
            agent(tools=[look, declared(repeat=True)]),
            "tool 'write' repeat was False, is True",
        ),
        (
            agent(tools=[look, declared(key=lambda given: "k")]),
            "tool 'write' key added",
        ),
        (agent(plan=PLAN[:1]), "step 'b' removed"),
        (agent(plan=(*PLAN, Step(id="c", goal="Do c."))), "step 'c' added"),
        (
            agent(plan=(PLAN[0], Step(id="b", goal="Do b.", needs=()))),
            "step 'b' needs were ['a'], are []",
        ),
        (
            agent(plan=(PLAN[0], Step(id="b", goal="Do b.", required=False))),
            "step 'b' required was True, is False",
        ),
        (
            agent(plan=(Step(id="a", goal="Do a."), PLAN[1])),
            "step 'a' accept passes removed",
        ),
        (
            agent(plan=(Step(id="a", goal="Do a.", accept=strict), PLAN[1])),
            "step 'a' accept was passes, is strict",
        ),
        (agent(plan=None), "plan removed"),
        (agent(planner=Planner()), "planner added"),
        (agent(accept=passes), "accept passes added"),
        (
            agent(accept=accept.all_of(passes, strict)),
            "accept all_of(passes, strict) added",
        ),
        (agent(output=Report), "output has another schema"),
    ],
)
def test_a_task_does_not_go_on_by_itself_over(new: Agent, words: str) -> None:
    assert told(new) == {words: False}


def test_rules_may_change_and_bind_the_tasks_there_are() -> None:
    assert told(agent(rules=[Rule(says="no x", forbid=("x",))])) == {
        "rules changed; a task keeps those it was given, and new ones bind it too": True
    }


def test_an_undo_that_is_gone_is_held_and_so_is_another_class_of_it() -> None:
    with_undo = agent(tools=[look, declared(undo=undo)])
    once = tool(effect="once", name="back")(undo)
    other = agent(tools=[look, declared(undo=once)])
    assert told(agent(tools=[look, declared()]), with_undo) == {
        "tool 'write' undo idempotent removed": False
    }
    assert told(other, with_undo) == {
        "tool 'write' undo was idempotent, is once": False
    }


def test_the_checks_of_a_planner_may_be_added_to() -> None:
    one = agent(plan=None, planner=Planner(checks={"p": passes}))
    other = agent(
        plan=None, planner=Planner(max_steps=5, checks={"p": strict, "q": passes})
    )
    assert told(other, one) == {
        "planner max_steps was 12, is 5": True,
        "planner check 'p' was passes, is strict": False,
        "planner check 'q' passes added": True,
    }


def test_a_policy_in_place_of_a_model_is_held() -> None:
    def policy(view: Any) -> Any:
        return view

    by_policy = Agent(name="agent", policy=policy, tools=[look, write], plan=PLAN)
    assert told(by_policy)["what decides was a model, is a policy"] is False


# ── digests, and what is stored ──────────────────────────────────────────────────


def test_an_equal_agent_has_an_equal_digest_and_nothing_differs() -> None:
    assert agent().digest() == agent().digest()
    assert told(agent()) == {}


def test_the_order_of_tools_and_of_parameters_is_no_change() -> None:
    def turned(deep: bool = False, *, what: str) -> str:
        """Look at something."""
        return what

    def straight(*, what: str, deep: bool = False) -> str:
        """Look at something."""
        return what

    one, other = (
        agent(tools=[tool(effect="read", name="look")(function), write])
        for function in (turned, straight)
    )
    assert changes(define(one), define(other)) == []
    assert not held_by(changes(define(agent()), define(agent(tools=[write, look]))))


def test_a_definition_is_stored_without_any_text_of_the_host() -> None:
    kept = msgspec.json.encode(agent(instructions="Top secret.").definition)
    assert (
        msgspec.json.decode(kept, type=Definition)
        == agent(instructions="Top secret.").definition
    )
    assert b"secret" not in kept
    assert b"Do a." not in kept


@pytest.mark.parametrize("adopt", ["digest", 1, [1], None])
def test_what_is_no_adoption_is_refused(adopt: Any) -> None:
    with pytest.raises(Misuse, match="adopt="):
        agent(adopt=adopt)


def test_an_agent_adopts_the_definitions_that_it_names_or_all() -> None:
    assert not agent().adopts("1234")
    assert agent(adopt=True).adopts("1234")
    assert agent(adopt=["1234"]).adopts("1234")
    assert not agent(adopt=["1234"]).adopts("5678")
    assert agent(adopt=True).digest() == agent().digest()
