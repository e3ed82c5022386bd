from __future__ import annotations

from typing import Any

import pytest

from perdure.supervision import (
    Actor,
    Address,
    Backoff,
    ChildFailed,
    ChildSpec,
    ChildStarted,
    Crash,
    Promise,
    StartChild,
    StartFailed,
    StopChild,
)

STEADY = Backoff(first=1.0, factor=1.0, jitter=0.0)


class Caller(Actor):
    def __init__(self, heard: list[Any]) -> None:
        super().__init__()
        self.heard = heard

    def receive(self, message: Any) -> None:
        self.heard.append(message)


class Deaf(Actor):
    """Does not stop when asked."""

    def receive(self, message: Any) -> None: ...

    def asked_to_stop(self, reason: Any) -> None: ...


class Slow(Caller):
    """Never comes up."""

    ready_when_started = False


@pytest.fixture
def sup(family: Any) -> Address:
    family.raise_up(strategy="dynamic", backoff=STEADY)
    address: Address = family.system.address("sup")
    return address


def start(sup: Address, spec: ChildSpec) -> Promise:
    return sup.send_ask(lambda promise: StartChild(spec=spec, reply_to=promise))


def test_a_child_is_started_and_the_caller_told(family: Any, sup: Address) -> None:
    assert start(sup, family.kid("a")).result(1.0).child == "a"
    assert family.take_diary() == ["start a"]


def test_an_address_as_caller_gets_a_message(family: Any, sup: Address) -> None:
    heard: list[Any] = []
    caller = family.system.spawn("caller", lambda: Caller(heard))
    family.moods["b"] = ["ill"]
    for name in "ab":
        sup.tell(StartChild(spec=family.kid(name), reply_to=caller))
        family.sim.run(until=family.settled)
    assert [type(message) for message in heard] == [ChildStarted, ChildFailed]
    assert heard[1] == ChildFailed(child="b", error="ValueError: ill at start")


def test_starting_a_child_twice_changes_nothing(family: Any, sup: Address) -> None:
    first = start(sup, family.kid("a"))
    second = start(sup, family.kid("a"))
    assert (
        first.result(1.0)
        == second.result(1.0)
        == start(sup, family.kid("a")).result(1.0)
    )
    assert family.take_diary() == ["start a"]


def test_a_failed_first_start_is_told_and_not_tried_again(
    family: Any, sup: Address
) -> None:
    family.moods["a"] = ["ill"]
    with pytest.raises(StartFailed, match="a: ValueError: ill at start"):
        start(sup, family.kid("a")).result(1.0)
    family.wait(60.0)
    assert (family.take_diary(), family.is_up("sup")) == (["ill a"], [True])


def test_a_name_taken_elsewhere_is_told_and_left_alone(
    family: Any, sup: Address
) -> None:
    family.system.spawn("a", lambda: Caller([]))
    with pytest.raises(StartFailed, match="a: spawn"):
        start(sup, family.kid("a")).result(1.0)
    assert family.is_up("a", "sup") == [True, True]


def test_a_crashed_child_comes_back_and_its_siblings_never_notice(
    family: Any, sup: Address
) -> None:
    for name in "ab":
        start(sup, family.kid(name)).result(1.0)
    family.take_diary()
    family.tell("a", "crash")
    family.wait(1.1)
    assert family.take_diary() == ["start a"]


def test_a_stopped_child_stays_down_and_can_be_started_anew(
    family: Any, sup: Address
) -> None:
    start(sup, family.kid("a")).result(1.0)
    sup.tell(StopChild(name="a"))
    family.wait(60.0)
    assert family.is_up("a") == [False]
    start(sup, family.kid("a")).result(1.0)
    assert family.take_diary() == ["start a", "stop a", "start a"]


def test_a_child_that_waits_for_its_restart_can_be_stopped(
    family: Any, sup: Address
) -> None:
    start(sup, family.kid("a")).result(1.0)
    family.tell("a", "crash")
    sup.tell(StopChild(name="a"))
    family.wait(60.0)
    assert family.take_diary() == ["start a"]


def test_a_start_while_the_child_stops_waits_for_its_end(
    family: Any, sup: Address
) -> None:
    start(sup, ChildSpec(name="a", factory=Deaf, shutdown=5.0)).result(1.0)
    sup.tell(StopChild(name="a"))
    family.sim.run(until=family.settled)
    again = start(sup, family.kid("a"))
    family.wait(4.9)
    assert family.take_diary() == []
    again.result(1.0)
    assert family.take_diary() == ["start a"]


def test_a_start_before_the_childs_end_is_heard_is_of_the_next_one(
    family: Any, sup: Address
) -> None:
    first = start(sup, family.kid("a", restart="temporary")).result(1.0)
    family.system.kill("a", Crash(error="killed"))
    second = start(sup, family.kid("a")).result(1.0)
    assert second.incarnation > first.incarnation
    assert family.is_up("a") == [True]


def test_a_child_that_ended_is_forgotten(family: Any, sup: Address) -> None:
    start(sup, family.kid("a", restart="transient")).result(1.0)
    family.tell("a", "normal")
    start(sup, family.kid("a")).result(1.0)
    assert family.take_diary() == ["start a", "stop a", "start a"]


def test_all_children_stop_with_it(family: Any, sup: Address) -> None:
    for name in "abc":
        start(sup, family.kid(name)).result(1.0)
    family.tell("b", "crash")
    family.system.stop("sup")
    family.sim.run(until=family.settled)
    assert family.is_up("a", "b", "c", "sup") == [False] * 4


def test_children_stop_side_by_side(family: Any, sup: Address) -> None:
    for name in "abc":
        start(sup, ChildSpec(name=name, factory=Deaf, shutdown=5.0)).result(1.0)
    family.system.stop("sup")
    family.wait(5.1)
    assert family.is_up("sup") == [False]


def test_those_who_wait_for_a_child_hear_that_its_supervisor_stops(
    family: Any, sup: Address
) -> None:
    start(sup, family.kid("due")).result(1.0)
    family.tell("due", "crash")
    waiting = [
        start(sup, family.kid("due")),
        start(sup, ChildSpec(name="slow", factory=lambda: Slow([]))),
    ]
    start(sup, ChildSpec(name="deaf", factory=Deaf)).result(1.0)
    family.sim.run(until=family.settled)
    family.system.stop("sup")
    family.sim.run(until=family.settled)
    waiting.append(start(sup, family.kid("late")))
    for promise in waiting:
        with pytest.raises(StartFailed, match="its supervisor is stopping"):
            promise.result(1.0)


def test_those_who_wait_for_a_child_hear_that_it_went_over_the_limit(
    family: Any,
) -> None:
    family.raise_up(strategy="dynamic", backoff=STEADY, intensity=1)
    sup = family.system.address("sup")
    start(sup, family.kid("a")).result(1.0)
    family.moods["a"] += ["ill"]
    family.tell("a", "crash")
    with pytest.raises(StartFailed, match="a: over 1 restarts in 60 s"):
        start(sup, family.kid("a")).result(10.0)
