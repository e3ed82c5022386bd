"""What each status of a step means for those that depend on it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.actors.events import PlanStep
from perdure.actors.plan.standing import (
    MEANS,
    needs_shown,
    output_step,
    standings,
    stuck_step,
)
from perdure.actors.task.parts import StepRecord

STORED = get_args(
    {one.name: one.type for one in msgspec.structs.fields(StepRecord)}["status"]
)


def step(name: str, *needs: str, required: bool = True) -> PlanStep:
    return PlanStep(
        id=name, goal=name, done="", max_iterations=5, needs=needs, required=required
    )


def shown(plan: list[PlanStep], **statuses: str) -> dict[str, str]:
    known = {one.id: statuses.get(one.id, "pending") for one in plan}
    return {
        name: "ready" if one.ready else one.status
        for name, one in standings(plan, known).items()
    }


def test_the_table_holds_every_status_that_a_step_can_have() -> None:
    assert {*STORED, "blocked", "skipped"} == {*MEANS}


@pytest.mark.parametrize(
    ("status", "required", "becomes"),
    [
        ("pending", True, "pending"),
        ("running", True, "pending"),
        ("completed", True, "ready"),
        ("completed", False, "ready"),
        ("failed", True, "blocked"),
        ("timed_out", True, "blocked"),
        ("limited", True, "blocked"),
        ("acceptance_error", True, "blocked"),
        ("failed", False, "skipped"),
        ("timed_out", False, "skipped"),
        ("limited", False, "skipped"),
        ("acceptance_error", False, "skipped"),
        ("cancelled", True, "pending"),
    ],
)
def test_a_step_stands_by_what_it_needs(
    status: str, required: bool, becomes: str
) -> None:
    # A36 A85: only acceptance lets a step begin; no other end looks like it
    plan = [step("a", required=required), step("b", "a")]
    assert shown(plan, a=status)["b"] == becomes


def test_what_is_blocked_or_skipped_passes_it_on_and_says_by_what() -> None:
    plan = [
        step("a"),
        step("b", required=False),
        step("c", "a"),
        step("d", "c"),
        step("e", "b"),
        step("f", "e", "d"),
    ]
    statuses = {one.id: "pending" for one in plan} | {"a": "limited", "b": "failed"}
    found = standings(plan, statuses)
    assert {name: one.status for name, one in found.items()} == {
        "a": "limited",
        "b": "failed",
        "c": "blocked",
        "d": "blocked",
        "e": "skipped",
        "f": "skipped",
    }
    assert found["c"].why == "needs a (limited)"
    assert found["d"].why == "needs c (blocked)"
    assert found["f"].why == "needs e (skipped)"


def test_a_plan_need_not_be_written_in_the_order_of_its_needs() -> None:
    plan = [step("report", "data"), step("data"), step("more", "data")]
    assert shown(plan) == {"report": "pending", "data": "ready", "more": "pending"}
    assert shown(plan, data="completed")["report"] == "ready"


def test_a_chain_may_be_long_and_stand_in_any_order() -> None:
    names = [f"s{n}" for n in range(3_000)]
    plan = [step(names[0]), *(step(b, a) for a, b in pairwise(names))][::-1]
    assert shown(plan, s0="failed")["s2999"] == "blocked"
    assert shown(plan)["s0"] == "ready"


@pytest.mark.parametrize(
    ("plan", "done", "output"),
    [
        ([step("a"), step("b", "a")], "ab", "b"),
        ([step("b", "a"), step("a")], "ab", "b"),  # not the last of the list
        ([step("a"), step("b"), step("c", "a")], "abc", "c"),
        ([step("a"), step("b", "a", required=False)], "ab", "a"),
        ([step("a", required=False), step("b", "a", required=False)], "a", "a"),
        ([step("a"), step("b", "a")], "", ""),
    ],
)
def test_the_output_is_of_the_last_required_step_that_no_other_needs(
    plan: list[PlanStep], done: str, output: str
) -> None:
    statuses = {one.id: "completed" if one.id in done else "failed" for one in plan}
    assert output_step(plan, statuses) == output


def test_a_step_that_the_task_does_without_holds_it_up_only_if_nothing_is_done() -> (
    None
):
    plan = [step("a", required=False), step("b")]
    assert stuck_step(plan, {"a": "failed", "b": "completed"}) == ""
    assert stuck_step(plan, {"a": "failed", "b": "limited"}) == "b"
    assert stuck_step(plan[:1], {"a": "failed"}) == "a"


def test_needs_are_told_only_where_they_are_not_the_step_before() -> None:
    plan = [step("a"), step("b", "a"), step("c"), step("d", "a", "c")]
    assert needs_shown(plan) == [None, None, (), ("a", "c")]


@given(st.data())
def test_whatever_becomes_of_steps_a_plan_comes_to_an_end(data: Any) -> None:
    # A85: each step that begins has all it needs; in the end none is left pending
    names = [f"s{n}" for n in range(data.draw(st.integers(1, 7)))]
    plan = [
        step(
            name,
            *data.draw(st.sets(st.sampled_from(names[:place]))) if place else (),
            required=data.draw(st.booleans()),
        )
        for place, name in enumerate(names)
    ]
    plan = data.draw(st.permutations(plan))
    needs = {one.id: one.needs for one in plan}
    statuses = dict.fromkeys(needs, "pending")
    while ready := [n for n, one in standings(plan, statuses).items() if one.ready]:
        first = ready[0]
        assert all(statuses[one] == "completed" for one in needs[first])
        statuses[first] = data.draw(st.sampled_from(["completed", "failed", "limited"]))
    left = {one.status for one in standings(plan, statuses).values()}
    assert "pending" not in left
    if not stuck_step(plan, statuses):
        assert output_step(plan, statuses)
        assert "blocked" not in left
