from __future__ import annotations

from typing import Any

import pytest

from perdure.supervision import Actor, ChildSpec, SupervisorSpec


class Idle(Actor):
    def receive(self, message: object) -> None: ...


def child(**options: Any) -> ChildSpec:
    return ChildSpec(**{"name": "a", "factory": Idle, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": ""}, "name = '': give the actor's name"),
        ({"factory": 3}, "factory = 3: give a function that makes it"),
        ({"restart": "always"}, "restart = 'always': give one of permanent, transient"),
        ({"shutdown": -1}, "shutdown = -1: give a number at least 0"),
        ({"shutdown": "5"}, "shutdown = '5': give a number"),
        ({"start_timeout": 0}, "start_timeout = 0: give a number over 0"),
        ({"start_timeout": float("nan")}, "start_timeout = nan: give a number over 0"),
        ({"significant": True}, "significant = True: make the child transient"),
    ],
)
def test_a_bad_child_is_refused_with_field_value_and_fix(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        child(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "all"}, "strategy = 'all': give one of one_for_one"),
        ({"intensity": -1}, "intensity = -1: give a number at least 0"),
        ({"intensity": True}, "intensity = True: give a number"),
        ({"period": 0}, "period = 0: give a number over 0"),
        ({"period": None}, "period = None: give seconds"),
        ({"gate": ""}, "gate = '': give an actor's name, or None"),
        ({"auto_shutdown": "yes"}, "auto_shutdown = 'yes': give one of never"),
        ({"children": (child(), child())}, "children = 'a': give each child a name"),
        (
            {"strategy": "dynamic", "children": (child(),)},
            r"children = \['a'\]: leave it empty and send StartChild",
        ),
        (
            {"strategy": "dynamic", "auto_shutdown": "any_significant"},
            "auto_shutdown = 'any_significant': give never",
        ),
        (
            {"children": (child(restart="transient", significant=True),)},
            "auto_shutdown = 'never': set auto_shutdown, or make a not significant",
        ),
    ],
)
def test_a_bad_supervisor_is_refused_with_field_value_and_fix(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        SupervisorSpec(**options)


def test_no_limit_is_a_valid_intensity() -> None:
    assert SupervisorSpec(intensity=None, children=(child(),)).intensity is None
