"""A state's JSON says the same of equal states, however they came about."""

from __future__ import annotations

import msgspec

from perdure.actors.context.blocks import Window
from perdure.actors.guard.ladder import GuardState
from perdure.actors.task.state import TaskState
from perdure.actors.upgrades import body_of


def test_a_part_that_is_as_it_began_is_left_out() -> None:
    begun = TaskState(version=3)
    again = TaskState(version=3, guard=GuardState(), window=Window(start=0))
    assert body_of(again) == body_of(begun) == b'{"version":3}'


def test_what_is_left_out_is_read_back() -> None:
    state = TaskState(version=3, guard=GuardState(), window=Window(start=7))
    assert msgspec.json.decode(body_of(state), type=TaskState) == state
