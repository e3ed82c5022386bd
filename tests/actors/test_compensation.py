"""A cancelled task takes its effects back, newest first, each once, or says why not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from perdure import (
    Budget,
    Effect,
    Misuse,
    NotSent,
    tool,
)
from perdure.actors import names
from perdure.actors.ledger.entry import LedgerState
from perdure.actors.ledger.entry import apply as apply_ledger
from perdure.actors.task.state import TaskState
from perdure.actors.task.state import apply as apply_task
from tests.actors.desk import Desk, agent, taken_back, waiting
from tests.actors.world import Calls, House, handing_on


def test_effects_are_taken_back_newest_first() -> None:
    desk = Desk()
    house, task = waiting(desk)
    result = house.runtime.cancel(task, "operator", 3600.0, compensate=True)
    assert result.status == "cancelled"
    taken_back(house, desk, task)


def test_an_undo_is_told_of_the_effect_and_its_result() -> None:
    desk = Desk()
    house, task = waiting(desk)
    house.runtime.cancel(task, "operator", 3600.0, compensate=True)
    effect, result = desk.told[-1]
    key, what = desk.done[0]
    assert (effect.task, effect.tool, effect.request_id) == (task, "book", key)
    assert effect.arguments == {"what": what}
    assert result == "flight is booked"
    assert desk.undone[-1][0] != key  # an effect of its own


def test_a_plain_cancel_takes_nothing_back() -> None:
    desk = Desk()
    house, task = waiting(desk)
    assert house.runtime.cancel(task, "operator", 3600.0).status == "cancelled"
    assert desk.undone == []


def test_an_undo_is_an_effect_of_its_own_in_the_books() -> None:
    desk = Desk()
    house, task = waiting(desk)
    result = house.runtime.cancel(task, "operator", 3600.0, compensate=True)
    assert result.spent["tool_calls"] == {
        "book": 2,
        "book.undo": 2,
        "look": 1,
        "pay": 1,
        "pay.undo": 1,
    }


def test_undos_do_not_pile_up_in_the_state_of_task_and_ledger() -> None:
    desk = Desk()
    calls: Sequence[Calls] = [
        *([("book", {"what": f"seat {n}"})] for n in range(6)),
        [("wait", {})],
    ]
    house, task = waiting(desk, calls=calls)
    house.runtime.cancel(task, "operator", 3600.0, compensate=True)
    assert len(desk.undone) == 6
    ledger, state = LedgerState(), TaskState()
    for event in house.events(names.ledger(task)):
        ledger = apply_ledger(ledger, event)
    for event in house.events(f"task/{task}"):
        state = apply_task(state, event)
    undos = [one.name for one in ledger.entries.values() if one.undoes is not None]
    assert undos == ["book.undo"]
    assert len(state.ops) == 1


@pytest.mark.parametrize("crashes", [False, True])
def test_a_task_at_work_stops_and_takes_its_effects_back(crashes: bool) -> None:
    desk = Desk()
    calls: Sequence[Calls] = [[("book", {"what": f"seat {n}"})] for n in range(6)]
    house = House(agent(desk, calls=calls))
    task = house.submit("agent").id
    assert house.until(lambda: len(desk.done) == 2)
    if crashes:  # it hears of it once it is up again
        house.sim.crash(names.task(task))
    house.runtime.ask_cancel(task, "operator", compensate=True)
    result = house.runtime.wait(task, 3600.0, until="ended")
    assert result.status == "cancelled"
    assert len(desk.done) < 6
    assert sorted(what for _, what in desk.undone) == [what for _, what in desk.done]


def test_a_failed_undo_pauses_and_resume_tries_it_again() -> None:
    desk = Desk()
    house, task = waiting(desk)

    def fail(what: str) -> None:
        if what == "hotel":
            raise NotSent("the desk is closed")

    desk.trouble = fail
    stopped = house.runtime.cancel(task, "operator", 3600.0, compensate=True)
    assert (stopped.status, stopped.reason) == ("paused", "undo")
    assert "book.undo: " in stopped.detail
    assert "the desk is closed" in stopped.detail
    assert stopped.ends_with == "resume, or cancel"
    assert house.runtime.cancel(task, "x", 3600.0, compensate=True).reason == "undo"
    assert house.runtime.resume(task, "operator")
    assert house.finish(task).reason == "undo"
    desk.trouble = lambda what: None
    assert house.runtime.resume(task, "operator")
    taken_back(house, desk, task)


def test_a_cancel_without_compensation_ends_a_failed_one() -> None:
    desk = Desk()
    house, task = waiting(desk)

    def fail(what: str) -> None:
        if what == "hotel":
            raise NotSent("the desk is closed")

    desk.trouble = fail
    stopped = house.runtime.cancel(task, "operator", 3600.0, compensate=True)
    assert (stopped.status, stopped.reason) == ("paused", "undo")
    result = house.runtime.cancel(task, "somebody else", 3600.0)
    assert (result.status, result.reason) == (
        "cancelled",
        "cancelled by somebody else",
    )
    assert [what for _, what in desk.undone] == ["both"]


@pytest.mark.parametrize("happened", [True, False])
def test_an_unknown_undo_waits_for_a_person(happened: bool) -> None:
    desk = Desk()
    house, task = waiting(desk, probe=None)

    def cut(what: str) -> None:
        if what == "refund":
            raise ConnectionResetError("cut")

    desk.trouble = cut
    stopped = house.runtime.cancel(task, "operator", 3600.0, compensate=True)
    assert (stopped.status, stopped.reason) == ("paused", "unknown_effect")
    (line,) = house.runtime.unknown()
    assert (line.tool, stopped.ends_with) == ("pay.undo", f"resolve {line.id}")
    assert line.undoes != ""
    assert len(desk.undone) == 1
    if not happened:
        desk.undone.clear()
        desk.trouble = lambda what: None
    assert house.runtime.resolve(line.id, happened=happened)
    if not happened:
        stopped = house.finish(task)
        assert (stopped.status, stopped.reason) == ("paused", "undo")
        assert house.runtime.resume(task, "operator")
    taken_back(house, desk, task)


def test_an_undo_with_an_approval_waits_for_it() -> None:
    desk = Desk()
    house, task = waiting(desk, approval=True)
    stopped = house.runtime.cancel(task, "operator", 3600.0, compensate=True)
    assert (stopped.status, stopped.reason) == ("paused", "approval")
    (asked,) = house.runtime.approvals()
    assert asked.tool == "pay.undo"
    assert desk.undone == []
    waiting_task = house.runtime.task(task)
    with pytest.raises(Misuse, match="approved or rejected as it is"):
        waiting_task.approve(asked.approval, arguments={"what": "x"}, tool="book")
    waiting_task.approve(asked.approval)
    taken_back(house, desk, task)


def test_a_rejected_undo_pauses_and_is_asked_for_anew() -> None:
    desk = Desk()
    house, task = waiting(desk, approval=True)
    house.runtime.cancel(task, "operator", 3600.0, compensate=True)
    (asked,) = house.runtime.approvals()
    handle = house.runtime.task(task)
    handle.reject(asked.approval)
    assert house.until(lambda: house.runtime.row(task).reason == "undo")
    assert handle.resume()
    assert house.until(lambda: bool(house.runtime.approvals()))
    (again,) = house.runtime.approvals()
    handle.approve(again.approval)
    taken_back(house, desk, task)


def test_an_effect_in_doubt_is_found_out_before_any_is_taken_back() -> None:
    desk = Desk()
    calls: Sequence[Calls] = [[("book", {"what": "flight"})], [("post", {})]]
    base = agent(desk, calls=calls)
    taken: list[str] = []

    def unpost(effect: Effect) -> str:
        """Take it back."""
        taken.append(effect.tool)
        return "gone"

    @tool(effect="once", undo=unpost)
    def post() -> str:
        """Post something over a line that is cut."""
        raise ConnectionResetError("cut")

    base.tools["post"] = post
    house = House(base)
    task = house.submit("agent").id
    assert house.finish(task).reason == "unknown_effect"
    stopped = house.runtime.cancel(task, "operator", 3600.0, compensate=True)
    assert (stopped.status, stopped.reason) == ("paused", "unknown_effect")
    assert desk.undone == []
    house.runtime.resolve(stopped.ends_with.removeprefix("resolve "), happened=True)
    result = house.runtime.wait(task, 3600.0, until="ended")
    assert result.reason == "cancelled by operator; effects taken back: 2"
    assert (taken, len(desk.undone)) == (["post"], 1)


def test_a_cancel_that_was_asked_for_before_stays_without_compensation() -> None:
    desk = Desk()
    house, task = waiting(desk)
    runtime = house.runtime
    runtime.ask_cancel(task, "first")
    assert runtime.ask_cancel(task, "second", compensate=True) is False
    assert runtime.wait(task, 3600.0, until="ended").reason == "cancelled by first"
    assert desk.undone == []


def test_an_undo_beyond_a_limit_waits_until_that_is_extended() -> None:
    desk = Desk()
    house = House(agent(desk))
    task = house.submit("agent", budget=Budget(tool_calls=4, tokens=50_000)).id
    house.runtime.wait(task, 3600.0)
    stopped = house.runtime.cancel(task, "operator", 3600.0, compensate=True)
    assert (stopped.status, stopped.reason) == ("paused", "budget")
    assert stopped.ends_with == "extend, or cancel"
    house.runtime.extend(task, Budget(tool_calls=3))
    taken_back(house, desk, task)


def test_a_sub_task_that_runs_takes_its_effects_back_too() -> None:
    desk = Desk()
    house = House(agent(desk), handing_on(), active=1)
    task = house.submit("boss").id
    part = f"{task}.2"
    assert house.until(lambda: (house.runtime.approvals() or [None])[0] is not None)
    result = house.runtime.cancel(task, "operator", 3600.0, compensate=True)
    assert result.reason == "cancelled by operator; effects taken back: 0"
    assert house.runtime.result(part).reason == (  # type: ignore[union-attr]
        f"cancelled by its parent {task}; effects taken back: 3"
    )
    assert [what for _, what in desk.undone] == ["both", "hotel", "flight"]


def test_a_resumed_sub_task_finds_a_slot_while_its_parent_waits_for_its_end() -> None:
    desk = Desk()
    house = House(agent(desk), handing_on(), active=1)
    task = house.submit("boss").id
    part = f"{task}.2"
    assert house.until(lambda: (house.runtime.approvals() or [None])[0] is not None)

    def fail(what: str) -> None:
        if what == "hotel":
            raise NotSent("the desk is closed")

    desk.trouble = fail
    house.runtime.ask_cancel(task, "operator", compensate=True)
    assert house.runtime.wait(part, 3600.0, until="compensated").reason == "undo"
    desk.trouble = lambda what: None
    assert house.runtime.resume(part, "operator")
    assert house.runtime.wait(task, 3600.0, until="ended").status == "cancelled"
    assert len(desk.undone) == 3


# -- declarations -----------------------------------------------------------------


def takes_effect(effect: Effect) -> str:
    """Take it back."""
    return ""


def takes_more(effect: Effect, amount: int) -> str:
    """Take it back."""
    return ""


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"effect": "read", "undo": takes_effect}, "drop undo= or declare another effect"),
    ({"undo": "unbook"}, "undo='unbook' is no function"),
    ({"undo": takes_more}, "undo=takes_more takes effect, amount"),
    ({"undo": lambda: None}, "takes nothing"),
    ({"undo": tool(effect="read")(takes_effect)}, "is a read, which changes nothing"),
    ({"undo": tool(undo=takes_effect)(takes_effect)}, "has an undo= itself"),
    ({"undo": tool(repeat=True)(takes_effect)}, "drop its repeat= or key="),
]


@pytest.mark.parametrize(("options", "said"), WRONG)
def test_an_undo_that_cannot_be_one_is_refused(
    options: dict[str, Any], said: str
) -> None:
    def book(what: str) -> str:
        """Book it."""
        return what

    with pytest.raises(Misuse, match=re.escape(said)):
        tool(**options)(book)


def test_a_model_cannot_call_an_undo() -> None:
    desk = Desk()
    effect = {
        "task": "t",
        "op": 3,
        "attempt": 1,
        "tool": "book",
        "arguments": {"what": "flight"},
        "request_id": "r",
    }
    call = ("book.undo", {"effect": effect, "result": "flight is booked"})
    house = House(agent(desk, calls=[[("book", {"what": "flight"})], [call]]))
    task = house.submit("agent").id
    assert house.finish(task).status == "completed"
    assert desk.undone == []


def test_an_effect_that_was_asked_for_twice_is_taken_back_once() -> None:
    desk = Desk()
    again = ("book", {"what": "flight"})
    house, task = waiting(desk, calls=[[again], [again], [("wait", {})]])
    result = house.runtime.cancel(task, "operator", 3600.0, compensate=True)
    assert result.reason == "cancelled by operator; effects taken back: 1"
    assert len(desk.undone) == 1
