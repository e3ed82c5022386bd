"""Steps form a DAG: what cannot be put in an order is refused when built."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.actors.errors import Misuse
from perdure.actors.plan.graph import wrong_needs
from perdure.actors.plan.step import Plan, Step


def plan(**needs: tuple[str, ...] | None) -> Plan:
    return Plan(
        steps=tuple(Step(id=one, goal=one, needs=of) for one, of in needs.items())
    )


def test_a_step_needs_the_one_before_it_unless_it_says_otherwise() -> None:
    one = plan(a=None, b=None, c=(), d=("a", "c"))
    assert [one.needs(step) for step in one.steps] == [(), ("a",), (), ("a", "c")]


@pytest.mark.parametrize(
    ("needs", "named"),
    [
        ({"a": (), "b": ("x",)}, "step 'b': needs='x' is no step; there are 'a', 'b'"),
        ({"a": ("a",)}, "step 'a': needs='a' is itself"),
        ({"a": ("b",), "b": ("a",)}, "a -> b -> a"),
        ({"z": (), "a": ("z", "c"), "b": ("a",), "c": ("b",)}, "a -> c -> b -> a"),
        ({"a": ("c",), "b": None, "c": None}, "a -> c -> b -> a"),
    ],
    ids=str,
)
def test_needs_that_no_order_satisfies_are_refused_by_name(
    needs: dict[str, tuple[str, ...] | None], named: str
) -> None:
    with pytest.raises(Misuse) as caught:
        plan(**needs)
    assert named in str(caught.value)


@given(st.data())
def test_every_order_of_a_plan_that_has_one_is_accepted(data: st.DataObject) -> None:
    names = [f"s{n}" for n in range(data.draw(st.integers(1, 8)))]
    needs = {
        name: tuple(data.draw(st.sets(st.sampled_from(names[:place] or [name]))))
        for place, name in enumerate(names)
        if place
    }
    order = data.draw(st.permutations(names))
    assert wrong_needs({one: needs.get(one, ()) for one in order}) == ""


@given(st.data())
def test_a_ring_anywhere_in_a_plan_is_found_and_named_as_it_is(
    data: st.DataObject,
) -> None:
    names = [f"s{n}" for n in range(data.draw(st.integers(2, 7)))]
    ring = data.draw(st.permutations(names))[: data.draw(st.integers(2, len(names)))]
    needs = {one: set(data.draw(st.sets(st.sampled_from(names)))) for one in names}
    for place, one in enumerate(ring):
        needs[one].add(ring[(place + 1) % len(ring)])
    for one in names:
        needs[one].discard(one)
    said = wrong_needs({one: tuple(of) for one, of in needs.items()})
    path = said.removeprefix("steps wait for each other: ").partition(";")[0]
    around = path.split(" -> ")
    assert around[0] == around[-1]
    assert len(set(around)) == len(around) - 1 >= 2
    assert all(b in needs[a] for a, b in pairwise(around))
