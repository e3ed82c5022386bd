"""A planner that cannot work is refused when it is built."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Agent, Misuse, Planner, Step
from perdure.models import ModelReply, Scripted


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"max_steps": 0}, "max_steps=0"),
        ({"max_steps": 65}, "max_steps=65"),
        ({"max_steps": True}, "max_steps=True"),
        ({"revisions": -1}, "revisions=-1"),
        ({"revisions": 1.5}, "revisions=1.5"),
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": float("inf")}, "timeout=inf"),
        ({"timeout": None}, "timeout=None"),
        ({"triggers": ("halb",)}, "triggers=('halb',)"),
        ({"triggers": ["half"]}, "triggers=['half']"),
        ({"triggers": ("start",)}, "triggers=('start',)"),
        ({"phrases": "hm"}, "phrases='hm'"),
        ({"phrases": (" ",)}, "phrases holds ' '"),
        ({"phrases": ("x" * 101,)}, "phrases holds"),
        ({"phrases": ("\ud800",)}, "phrases holds"),
        ({"accept": "yes"}, "accept='yes'"),
        ({"checks": {"a b": print}}, "checks['a b']"),
        ({"checks": {"a": None}}, "checks['a']=None"),
        ({"checks": [print]}, "checks=["),
    ],
    ids=str,
)
def test_a_malformed_planner_is_refused_by_field_and_value(
    fields: dict[str, Any], named: str
) -> None:
    with pytest.raises(Misuse) as caught:
        Planner(**fields)
    assert named in str(caught.value)


def test_an_agent_takes_a_planner_and_nothing_like_one() -> None:
    model = Scripted(lambda _: ModelReply(content="1"))
    with pytest.raises(Misuse, match="planner=True"):
        Agent(name="a", instructions="", model=model, planner=True)  # type: ignore[arg-type]


def test_a_planner_has_room_for_the_hosts_own_plan() -> None:
    model = Scripted(lambda _: ModelReply(content="1"))
    plan = [Step(id=name, goal=name) for name in ("a", "b", "c")]
    with pytest.raises(Misuse, match="3 steps, and its planner allows max_steps=2"):
        Agent(
            name="a",
            instructions="",
            model=model,
            plan=plan,
            planner=Planner(max_steps=2),
        )


def test_a_planner_that_is_never_asked_again_is_none_of_these() -> None:
    assert Planner(triggers=(), revisions=0).timeout == 300.0


def test_an_agent_with_another_planner_is_another_agent() -> None:
    model = Scripted(lambda _: ModelReply(content="1"))

    def digest(planner: Planner | None) -> str:
        return Agent(name="a", instructions="", model=model, planner=planner).digest()

    checked = Planner(checks={"rows": lambda _result, _view: True})
    assert len({digest(None), digest(Planner()), digest(checked)}) == 3
