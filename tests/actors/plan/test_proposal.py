"""A plan that a model wrote is believed only where every rule holds."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.actors.events import DroppedStep, PlanStep
from perdure.actors.plan.graph import wrong_needs
from perdure.actors.plan.proposal import (
    FIXED,
    Accepted,
    Bounds,
    Proposal,
    digest_of,
    judged,
    read,
)

GOAL = "export the sales of May"
BOUNDS = Bounds(max_steps=6, checks=("rows",), iterations=5, characters=16_000)


def step(name: str, **fields: Any) -> PlanStep:
    made = {"id": name, "goal": f"do {name}", "done": "", "max_iterations": 5}
    return PlanStep(**{"by": "model", **made, **fields})


OLD = (
    step("one"),
    step("two", needs=("one",)),
    step("three", needs=("two",)),
    step("four", needs=("three",), required=False),
)
STATUS = {
    "one": "completed",
    "two": "running",
    "three": "pending",
    "four": "pending",
}


def said(*steps: dict[str, Any], **fields: Any) -> Accepted | str:
    """What becomes of a proposal over the plan above."""
    found = read(json.dumps({"steps": list(steps), **fields}))
    if isinstance(found, str):
        return found
    return judged(found, goal=GOAL, plan=OLD, status=STATUS, bounds=BOUNDS)


def first(*steps: dict[str, Any], **fields: Any) -> Accepted | str:
    found = read(json.dumps({"steps": list(steps), **fields}))
    if isinstance(found, str):
        return found
    return judged(found, goal=GOAL, plan=(), status={}, bounds=BOUNDS)


THREE = {"id": "three"}
FOUR = {"id": "four"}
BOTH = [{"id": "a", "goal": "x"}, {"id": "b", "goal": "y"}]


def test_a_first_plan_has_defaults_and_each_step_waits_for_the_one_before() -> None:
    made = first({"id": "a", "goal": "x"}, {"id": "b", "goal": "y", "needs": []})
    assert isinstance(made, Accepted)
    assert made.steps == (
        PlanStep(id="a", goal="x", done="", max_iterations=5, by="model"),
        PlanStep(id="b", goal="y", done="", max_iterations=5, by="model"),
    )
    made = first(*BOTH)
    assert isinstance(made, Accepted)
    assert made.steps[1].needs == ("a",)


def test_what_a_step_needs_is_named_once() -> None:
    made = first(*BOTH, {"id": "c", "goal": "z", "needs": ["a", "b", "a"]})
    assert isinstance(made, Accepted)
    assert made.steps[2].needs == ("a", "b")


def test_pending_steps_are_replaced_and_the_others_stay_as_they_are() -> None:
    # A83
    new = {"id": "new", "goal": "do new", "accept": "rows", "phase": "end"}
    made = said({"id": "three", "goal": "do it otherwise"}, new)
    assert isinstance(made, Accepted)
    assert digest_of(made.steps[:2]) == digest_of(OLD[:2])
    assert [one.id for one in made.steps] == ["one", "two", "three", "new"]
    assert made.steps[2].goal == "do it otherwise"
    assert made.steps[3].needs == ("three",)
    assert made.dropped == (
        DroppedStep(id="four", why="it was left out", required=False),
    )
    assert made.needs_consent == ()


def test_what_stays_may_be_repeated_as_it_is() -> None:
    made = said({"id": "one", "goal": "do one"}, {"id": "two"}, THREE, FOUR, goal=GOAL)
    assert isinstance(made, Accepted)
    assert made.steps == OLD


REFUSED = {
    "form": (lambda: first({"goal": "x"}), "not of the form"),
    "no json": (lambda: read("I would rather not"), "no JSON object"),
    "goal": (lambda: said(THREE, goal="export the sales of june"), "goal was changed"),
    "done": (
        lambda: said({"id": "one", "goal": "skip"}, THREE),
        "'one' is completed",
    ),
    "running": (lambda: said({"id": "two", "done": "x"}, THREE), "'two' is running"),
    "reused": (
        lambda: said({"id": "one", "goal": "send a mail", "phase": "new"}, THREE),
        "use another id",
    ),
    "left out": (lambda: said(FOUR), "'three' is required, unfinished and left out"),
    "unknown needs": (lambda: said({**THREE, "needs": ["x"]}), "needs='x' is no step"),
    "itself": (lambda: said({**THREE, "needs": ["three"]}), "is itself"),
    "ring": (
        lambda: said({**THREE, "needs": ["four"]}, {**FOUR, "needs": ["three"]}),
        "wait for each other",
    ),
    "too many": (
        lambda: said(THREE, *({"id": f"n{n}", "goal": "x"} for n in range(4))),
        "7 steps with those that are fixed; 6 are allowed",
    ),
    "check": (lambda: said({**THREE, "accept": "cols"}), "no check 'cols'"),
    "no such drop": (
        lambda: said(THREE, drop=[{"id": "x", "why": "y"}]),
        "no step of the plan",
    ),
    "done dropped": (
        lambda: said(THREE, drop=[{"id": "one", "why": "y"}]),
        "'one', which is completed: it stays",
    ),
    "running dropped": (
        lambda: said(THREE, drop=[{"id": "two", "why": "y"}]),
        "'two', which is running: it stays",
    ),
    "both": (lambda: said(THREE, drop=[{"id": "three", "why": "y"}]), "both among"),
    "no why": (lambda: said(drop=[{"id": "three", "why": " "}]), "says no why"),
    "optional": (lambda: said({**THREE, "required": False}), "not be made optional"),
    "twice": (lambda: said(THREE, THREE), "two steps are called 'three'"),
    "id": (lambda: said(THREE, {"id": "a b", "goal": "x"}), "use 1-64 letters"),
    "no goal": (lambda: said(THREE, {"id": "a"}), "it says no goal"),
    "empty goal": (lambda: said({**THREE, "goal": " "}), "its goal is empty"),
    "long goal": (lambda: said({**THREE, "goal": "x" * 1_001}), "1001 characters"),
    "long phase": (lambda: said({**THREE, "phase": "x" * 65}), "65 characters"),
    "iterations": (lambda: said({**THREE, "max_iterations": 21}), "from 1 to 20"),
    "calls": (lambda: said({**THREE, "max_calls": 0}), "from 1 to 1000"),
    "kind": (lambda: said({**THREE, "kind": "magic"}), "not of the form"),
    "number": (lambda: said({**THREE, "max_iterations": 2.5}), "not of the form"),
    "empty": (first, "it holds no steps"),
    "texts": (
        lambda: first(*({"id": f"n{n}", "goal": "x" * 999} for n in range(6))),
        "5333 are allowed",
    ),
    "surrogate": (lambda: read('{"why": "\\ud800"}'), "not of the form"),
    "long": (lambda: read("{" + " " * 100_000 + "}"), "100000 are read"),
    "many": (
        lambda: read(json.dumps({"drop": [{"id": "x", "why": "y"}] * 201})),
        "more than 200",
    ),
    "deep": (lambda: read('{"why": ' + "[" * 90_000 + "}"), "not of the form"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_plan_against_the_rules_is_refused_with_its_one_reason(case: str) -> None:
    # A83, K49
    judge, why = REFUSED[case]
    found = judge()
    assert isinstance(found, str)
    assert why in found


def test_dropping_a_required_step_by_name_is_for_a_person_to_agree_to() -> None:
    made = said(FOUR | {"needs": ["two"]}, drop=[{"id": "three", "why": "no need"}])
    assert isinstance(made, Accepted)
    assert made.needs_consent == (DroppedStep(id="three", why="no need"),)


def test_what_judges_a_step_of_the_hosts_is_not_the_models_to_name() -> None:
    plan = [step("a", by="host")]
    found = read('{"steps": [{"id": "a", "accept": "rows"}]}')
    assert isinstance(found, Proposal)
    made = judged(found, goal=GOAL, plan=plan, status={"a": "pending"}, bounds=BOUNDS)
    assert isinstance(made, str)
    assert "is the host's" in made


def test_a_written_step_keeps_its_check_where_a_revision_says_none() -> None:
    plan = [step("a", accept="rows")]
    found = read('{"steps": [{"id": "a", "goal": "else", "accept": ""}]}')
    assert isinstance(found, Proposal)
    made = judged(found, goal=GOAL, plan=plan, status={"a": "pending"}, bounds=BOUNDS)
    assert isinstance(made, Accepted)
    assert made.steps[0].accept == "rows"


def test_a_plan_of_the_hosts_that_is_long_may_stay_as_long_and_grow_no_longer() -> None:
    plan = [step("a", by="host", goal="x" * 9_000), step("b", by="host")]
    status = {"a": "pending", "b": "pending"}

    def made(*steps: dict[str, Any]) -> Accepted | str:
        found = read(json.dumps({"steps": steps}))
        assert isinstance(found, Proposal)
        return judged(found, goal=GOAL, plan=plan, status=status, bounds=BOUNDS)

    assert isinstance(made({"id": "a"}, {"id": "b", "goal": "y"}), Accepted)
    assert "5333 are allowed" in str(made({"id": "a"}, {"id": "b", "goal": "y" * 99}))


NAMES = st.sampled_from(["one", "two", "three", "four", "five", "six"])
TEXTS = st.sampled_from(["do one", "do two", "else", ""])
STEPS = st.fixed_dictionaries(
    {"id": NAMES},
    optional={
        "goal": TEXTS,
        "done": TEXTS,
        "needs": st.lists(NAMES, max_size=2),
        "accept": st.sampled_from(["rows", "cols"]),
        "required": st.booleans(),
        "max_iterations": st.integers(-1, 30),
    },
)
DROPS = st.fixed_dictionaries({"id": NAMES, "why": TEXTS})


@given(
    steps=st.lists(STEPS, max_size=5),
    drop=st.lists(DROPS, max_size=3),
    status=st.fixed_dictionaries(
        {
            one.id: st.sampled_from(["pending", "running", "completed", "failed"])
            for one in OLD
        }
    ),
)
def test_whatever_a_model_writes_what_is_done_stays_and_nothing_vanishes_unnamed(
    steps: list[dict[str, Any]], drop: list[dict[str, Any]], status: dict[str, str]
) -> None:
    # A83, A84
    found = read(json.dumps({"steps": steps, "drop": drop}))
    assert isinstance(found, Proposal)
    made = judged(found, goal=GOAL, plan=OLD, status=status, bounds=BOUNDS)
    if isinstance(made, str):
        return
    after = {one.id: one for one in made.steps}
    named = {one.id for one in found.drop}
    for one in OLD:
        if status[one.id] in FIXED:
            assert msgspec.json.encode(after[one.id]) == msgspec.json.encode(one)
        elif one.id not in after:
            assert one.id in {gone.id for gone in made.dropped}
            assert one.id in named or not one.required
    assert wrong_needs({one.id: one.needs for one in made.steps}) == ""
    assert 1 <= len(made.steps) <= BOUNDS.max_steps


@given(st.text(max_size=200))
def test_no_text_breaks_the_reading(text: str) -> None:
    assert isinstance(read(text), Proposal | str)
