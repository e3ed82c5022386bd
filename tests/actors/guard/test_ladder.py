"""What is done about a circle, step by step. Pure."""

from __future__ import annotations

import msgspec

from perdure.actors.guard.detect import LONGEST, LoopRules
from perdure.actors.guard.ladder import (
    GuardState,
    blocked,
    evidence,
    look,
    observed,
    taken,
    told,
)
from perdure.actors.guard.seen import Seen
from tests.actors.guard.traces import Call, c, seen

READ = c("read", "a page of text that says nothing new", path="x")
OTHER = [c("read", f"page {n} of the text, with more in it", path=n) for n in "abcdefg"]


def climb(*calls: Call, group: int = 1) -> tuple[list[str], GuardState]:
    """What was done at each call; `group` calls are decided at once."""
    state = GuardState()
    stages: list[str] = []
    for place, one in enumerate(seen(calls)):
        found = look(state, one, LoopRules())
        state = observed(state, one)
        if found is not None:
            until = one.op + group - place % group
            state = taken(state, *found, until=until)
        stages.append("" if found is None else found[0])
    return stages, state


def test_a_circle_is_told_then_blocked_then_stops_the_task() -> None:
    # R20 A20
    stages, state = climb(*[READ] * 5)
    assert stages == ["", "", "nudge", "block", "stop"]
    assert evidence(state) == (
        "repeat: read did the same 3 times over; read was called once more, though "
        "blocked (operations 2, 3, 4, 5)"
    )


def test_other_work_between_does_not_bring_a_circle_back_to_its_first_step() -> None:
    stages, _ = climb(*[READ] * 3, *OTHER[:2], *[READ] * 3, OTHER[2], READ)
    assert stages[2] == "nudge"
    assert stages[7] == "block"
    assert stages[9] == "stop"


def test_five_actions_outside_every_circle_end_it() -> None:
    assert len(OTHER) > LONGEST
    stages, state = climb(*[READ] * 3, *OTHER[:LONGEST])
    assert state.stage is None
    stages, _ = climb(*[READ] * 3, *OTHER[:LONGEST], *[READ] * 3)
    assert stages[-1] == "nudge"


def test_another_circle_begins_at_the_first_step() -> None:
    stages, state = climb(*[READ] * 3, *[OTHER[0]] * 3)
    assert stages == ["", "", "nudge", "", "", "nudge"]
    assert "operations 4, 5, 6" in evidence(state)


def test_only_the_calls_of_the_circle_are_blocked_and_only_later_ones() -> None:
    _, state = climb(*[READ] * 4)
    read, other = seen([READ, OTHER[0]])
    assert blocked(state, 5, read.action).startswith("blocked: read did the same 3")
    assert blocked(state, 5, other.action) == ""
    assert blocked(state, 4, read.action) == "", "it was decided before"
    _, nudged = climb(*[READ] * 3)
    assert blocked(nudged, 5, read.action) == ""


def test_calls_that_were_decided_together_take_one_step_up_together() -> None:
    # Six at once are no more stubborn than three: the model has been told nothing yet.
    stages, _ = climb(*[READ] * 12, group=6)
    assert stages == [*["", "", "nudge", "", "", ""], *["block", "", "", "", "", ""]]


def test_a_poll_is_remembered_from_its_first_answer_on() -> None:
    stages, _ = climb(*[c("wait_build", "queued", id=4)] * 123)
    assert stages[:120] == [""] * 120
    assert stages[120:] == ["nudge", "block", "stop"]


def test_what_is_kept_is_bounded() -> None:
    _, state = climb(*[c("read", f"{n}", page=n) for n in range(500)])
    assert len(msgspec.json.encode(state)) < 2_000


def test_the_model_is_told_of_each_step_but_the_last() -> None:
    assert told("nudge", "it").startswith("you go round in circles: it.")
    assert "refused now" in told("block", "it")
    assert told("stop", "it") == ""


def test_an_event_without_a_shape_is_read() -> None:
    assert msgspec.json.decode(b'{"a":"x","r":"y"}', type=Seen).status == "completed"
