"""A call that failed twice by itself is not made a third time, until something did."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Agent, Baseline, Misuse, Plan, Step, tool
from perdure.actors.events import EffectRecorded, EffectRegistered
from perdure.actors.guard.seen import INFRA, OWN, REFUSED, WROTE, Seen
from perdure.actors.guard.tried import CALLS_KEPT, TIMES_KEPT, Tried, tried_after
from perdure.actors.model import ModelReply, ModelRequest
from perdure.models import Scripted
from perdure.turns import Turn
from tests.actors.world import (
    ROUND_AND_ROUND,
    Calls,
    House,
    as_calls,
    outcomes,
    quick,
    standing,
    taken,
)

Kind = Literal["query", "generate", "downstream"]
BUILD: tuple[str, dict[str, Any]] = ("build", {"target": "all"})
EDIT: tuple[str, dict[str, Any]] = ("edit", {"line": 1})


class Shop:
    """A build that fails until it is mended, and what is called besides."""

    def __init__(self, *script: Calls, steps: int = 1, **options: Any) -> None:
        self.built = 0
        self.error: Callable[[], Exception] = lambda: ValueError("line 7: no such name")
        self.mended = False
        options.setdefault("effect", "read")

        @tool(**options)
        def build(target: str, thought: str = "") -> str:
            """Build it."""
            self.built += 1
            if self.mended:
                return "built"
            raise self.error()

        @tool(effect="idempotent")
        def edit(line: int) -> str:
            """Change a line."""
            return f"changed {line}"

        @tool(effect="read")
        def look(what: str) -> str:
            """Look at something."""
            return f"saw {what}"

        def reply(request: ModelRequest) -> ModelReply:
            made = len(outcomes(request))
            calls = [call for group in script for call in group]
            if made < len(calls):
                return ModelReply(tool_calls=as_calls([calls[made]], made))
            return ModelReply(content=json.dumps(standing(request)["step"]["id"]))

        plan = [
            Step(id=f"s{n}", goal="it", max_iterations=30, accept=taken)
            for n in range(steps)
        ]
        self.agent = Agent(
            name="agent",
            instructions="Build.",
            model=Scripted(reply),
            tools=[build, edit, look],
            plan=Plan(steps=tuple(plan)),
            recovery="rules",
            recall=False,
        )

    def open(self, **rules: Any) -> House:
        return House(self.agent, baseline=quick(**ROUND_AND_ROUND, **rules))


def refused(house: House, task: str) -> list[str]:
    recorded = house.of(f"task/{task}/ledger", EffectRecorded)
    return [one.error for one in recorded if one.by == "door"]


def test_a_third_identical_failing_attempt_is_refused_before_it_runs() -> None:
    # A107
    shop = Shop([BUILD] * 4)
    house = shop.open()
    result = house.run()
    assert result.status == "completed"
    assert shop.built == 2
    assert result.spent["tool_calls"] == {"build": 2}  # nothing was reserved for it
    first, second = refused(house, result.task)
    assert first == second
    assert "failed 2 times (op2, op4), at last with: ValueError: line 7" in first
    assert "change its arguments, do something else first" in first


@pytest.mark.parametrize("repeat", [False, True])
def test_an_effect_in_between_gives_it_another_chance(repeat: bool) -> None:
    shop = Shop([BUILD] * 2, [EDIT], [BUILD] * 3, effect="idempotent", repeat=repeat)
    shop.agent.tools["build"].kind = "query"
    house = shop.open()
    assert house.run().status == "completed"
    assert shop.built == 2 + 2


def test_what_changes_nothing_gives_no_other_chance() -> None:
    look = ("look", {"what": "a"})
    # The second edit is answered from the record: nothing was done.
    shop = Shop([EDIT], [BUILD] * 2, [look], [EDIT], [BUILD] * 2)
    house = shop.open()
    assert house.run().status == "completed"
    assert shop.built == 2


def test_it_is_refused_in_later_steps_too() -> None:
    shop = Shop([BUILD] * 3, steps=3)
    house = shop.open()
    assert house.run().status == "completed"
    assert shop.built == 2


def test_arguments_that_say_nothing_make_no_other_call() -> None:
    calls = [("build", {"thought": str(n), "target": "all"}) for n in range(4)]
    shop = Shop(calls)
    house = shop.open()
    assert house.run().status == "completed"
    assert shop.built == 2


@pytest.mark.parametrize(
    ("options", "error", "built"),
    [
        ({}, ConnectionRefusedError("gone"), 4),  # its service: a query's retries
        ({"kind": "generate"}, ValueError("no"), 6),  # another one each time
        ({"poll": True}, ValueError("not yet"), 4),
    ],
)
def test_what_is_not_the_calls_own_failure_has_its_retries(
    options: dict[str, Any], error: Exception, built: int
) -> None:
    # B82
    shop = Shop([BUILD] * 9, **options)
    shop.error = lambda: error
    house = shop.open()
    assert house.run().status == "completed"
    assert shop.built == built


def test_a_call_that_nobody_let_out_has_not_failed() -> None:
    wrong = ("build", {"target": 7})
    shop = Shop([wrong] * 3, [BUILD] * 3)
    house = shop.open()
    task = house.submit().id
    assert house.finish(task).status == "completed"
    assert shop.built == 2
    assert sum("not made" in one for one in refused(house, task)) == 1


def test_what_a_person_rejects_has_not_failed() -> None:
    shop = Shop([BUILD] * 4, approval=lambda _: shop.built == 0)
    house = shop.open()
    handle = house.submit()
    assert house.finish(handle.id).reason == "approval"
    (asked,) = house.runtime.approvals()
    shop.built = 1  # from here on nobody need be asked
    handle.reject(asked.approval)
    assert house.finish(handle.id).status == "completed"
    assert shop.built == 1 + 0  # the step holds the rejected call as rejected


def test_nobody_is_asked_to_approve_what_would_be_refused() -> None:
    shop = Shop([BUILD] * 4, approval=True)
    house = shop.open()
    handle = house.submit()
    for _ in range(2):
        assert house.finish(handle.id).reason == "approval"
        (asked,) = house.runtime.approvals()
        handle.approve(asked.approval)
    assert house.finish(handle.id).status == "completed"
    assert shop.built == 2


def test_what_a_person_made_of_a_call_is_made() -> None:
    other = ("build", {"target": "one"})
    shop = Shop([BUILD] * 2, [other], approval=lambda call: call["target"] == "one")
    house = shop.open()
    handle = house.submit()
    assert house.finish(handle.id).reason == "approval"
    (asked,) = house.runtime.approvals()
    handle.approve(asked.approval, arguments={"target": "all"})
    assert house.finish(handle.id).status == "completed"
    assert shop.built == 3


def test_a_person_gives_it_back() -> None:
    shop = Shop([BUILD] * 5)
    house = shop.open()
    handle = house.submit()
    assert house.until(lambda: len(refused(house, handle.id)) == 1)
    handle.pause()
    assert house.finish(handle.id).reason == "operator"
    handle.resume()
    assert house.finish(handle.id).status == "completed"
    assert shop.built == 4


def test_a_note_of_a_person_gives_it_back() -> None:
    shop = Shop([BUILD] * 5)
    house = shop.open()
    handle = house.submit()
    assert house.until(lambda: len(refused(house, handle.id)) == 1)
    handle.steer("the name is there now", by="an operator")
    assert house.finish(handle.id).status == "completed"
    assert shop.built == 4
    story = handle.why().story
    notes = [one for one in story if isinstance(one, Turn) and one.by == "an operator"]
    assert [one.says for one in notes] == ["note 1: the name is there now"]


def test_the_count_outlives_the_process() -> None:
    shop = Shop([BUILD] * 4)
    house = shop.open()
    task = house.submit().id
    assert house.until(lambda: shop.built == 1)
    assert house.until_hit("action.observed", op=2)
    house.kill()
    house.reopen()
    assert house.finish(task).status == "completed"
    assert shop.built == 2
    assert len(refused(house, task)) == 2


def test_an_attempt_that_a_crash_cut_off_has_not_failed() -> None:
    shop = Shop([BUILD] * 4)
    house = shop.open()
    task = house.submit().id
    assert house.until(lambda: shop.built == 1)
    house.kill()  # before its outcome is on disk
    house.reopen()
    assert house.finish(task).status == "completed"
    registered = house.of(f"task/{task}/ledger", EffectRegistered)
    assert [one.attempt for one in registered if one.op == 2] == [1, 2]
    assert shop.built == 1 + 2


def test_who_calls_on_all_the_same_goes_round_in_circles() -> None:
    shop = Shop([BUILD] * 20)
    house = House(shop.agent)
    result = house.run()
    assert (result.status, result.reason) == ("paused", "loop")
    assert shop.built == 2


def test_how_often_is_a_rule_of_the_baseline() -> None:
    assert Baseline().failed_attempts == 2
    for most, built in ((1, 1), (3, 3), (0, 4)):
        shop = Shop([BUILD] * 5)
        assert shop.open(failed_attempts=most).run().status == "completed"
        assert shop.built == built
    with pytest.raises(Misuse, match="failed_attempts=17 must be at most 16"):
        Baseline(failed_attempts=17)


# ── the count ────────────────────────────────────────────────────────────────────


def seen(action: str, flags: int) -> Seen:
    return Seen(action=action, result="", flags=flags)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from([0, OWN, INFRA, REFUSED, WROTE]),
            st.sampled_from(["completed", "failed"]),
        ),
        max_size=60,
    )
)
def test_the_count_is_of_own_failures_since_something_changed(
    events: Sequence[tuple[str, int, Any]],
) -> None:
    tried: Tried = {}
    for op, (name, flags, status) in enumerate(events):
        tried = tried_after(tried, op, seen(name, flags), status)
    for name in "abc":
        expected: list[int] = []
        for op, (which, flags, status) in enumerate(events):
            if status == "completed" and (flags == WROTE or which == name):
                expected = []
            elif status == "failed" and which == name and flags == OWN:
                expected.append(op)
        assert tried.get(name, ()) == tuple(expected)[-TIMES_KEPT:]


def test_the_count_is_bounded() -> None:
    tried: Tried = {}
    for op in range(CALLS_KEPT + 9):
        tried = tried_after(tried, op, seen(str(op), OWN), "failed")
    assert list(tried) == [str(op) for op in range(9, CALLS_KEPT + 9)]
