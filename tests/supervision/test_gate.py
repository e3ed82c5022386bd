from __future__ import annotations

from typing import Any

import pytest

from perdure.supervision import (
    Actor,
    Backoff,
    ChildSpec,
    Down,
    Exited,
    GiveUp,
    MayRestart,
    Restart,
    Shutdown,
    Started,
    Supervisor,
    SupervisorSpec,
)

STEADY = Backoff(first=1.0, factor=1.0, jitter=0.0)


class Gate(Actor):
    def __init__(self, asked: list[MayRestart], answers: list[Any]) -> None:
        super().__init__()
        self.asked = asked
        self.answers = answers

    def receive(self, message: Any) -> None:
        self.asked.append(message)
        if self.answers:
            self.system.address(message.supervisor).tell(self.answers.pop(0))


class Watcher(Actor):
    def __init__(self, heard: list[Any]) -> None:
        super().__init__()
        self.heard = heard

    def started(self) -> None:
        self.monitor(self.system.address("sup"))

    def receive(self, message: Any) -> None:
        self.heard.append(message)


@pytest.fixture
def asked() -> list[MayRestart]:
    return []


@pytest.fixture
def answers() -> list[Any]:
    return []


@pytest.fixture
def gated(family: Any, asked: list[MayRestart], answers: list[Any]) -> Any:
    family.gate = lambda: Gate(asked, answers)
    family.system.spawn("gate", family.gate)
    family.raise_up(
        *(family.kid(name) for name in "abc"),
        strategy="rest_for_one",
        gate="gate",
        backoff=STEADY,
    )
    return family


def test_the_first_start_asks_nobody(gated: Any, asked: list[MayRestart]) -> None:
    assert (gated.take_diary(), asked) == (["start a", "start b", "start c"], [])


def test_a_restart_waits_for_permission(gated: Any, asked: list[MayRestart]) -> None:
    gated.take_diary()
    gated.tell("b", "crash")
    gated.wait(1.1)
    assert [(ask.supervisor, ask.child) for ask in asked] == [("sup", "b")]
    assert gated.take_diary() == ["stop c"]
    gated.tell("sup", Restart(child="b"))
    assert gated.take_diary() == ["start b", "start c"]


def test_it_is_asked_when_the_restart_is_due_and_not_before(
    gated: Any, asked: list[MayRestart]
) -> None:
    gated.tell("b", "crash")
    gated.wait(0.9)
    assert asked == []


def test_giving_up_stops_the_children_and_is_no_crash(
    gated: Any, answers: list[Any]
) -> None:
    heard: list[Any] = []
    gated.system.spawn("watcher", lambda: Watcher(heard))
    gated.take_diary()
    answers.append(GiveUp(child="c", reason="parked"))
    gated.tell("c", "crash")
    gated.wait(1.1)
    assert gated.take_diary() == ["stop b", "stop a"]
    assert isinstance(heard[-1], Down)
    assert heard[-1].reason == Shutdown(detail="parked")


def test_the_question_is_sent_again_when_the_gate_comes_up(
    gated: Any, asked: list[MayRestart], answers: list[Any]
) -> None:
    gated.system.stop("gate")
    gated.tell("b", "crash")
    gated.wait(1.1)
    assert asked == []
    answers.append(Restart(child="b"))
    gated.system.spawn("gate", gated.gate)
    gated.sim.run(until=gated.settled)
    assert gated.is_up("b", "c") == [True, True]


def test_the_question_is_sent_again_when_no_answer_comes(
    gated: Any, asked: list[MayRestart]
) -> None:
    gated.tell("b", "crash")
    gated.wait(1.0 + 2 * 5.0 + 0.1)
    assert len(asked) == 3


def test_an_answer_nobody_waits_for_changes_nothing(
    gated: Any, asked: list[MayRestart]
) -> None:
    gated.tell("sup", GiveUp(child="b", reason="parked"))
    gated.tell("sup", Restart(child="b"))
    gated.tell("sup", Restart(child="stranger"))
    assert gated.is_up("a", "b", "c", "sup") == [True] * 4


def test_a_second_permission_starts_nobody_twice(
    gated: Any, answers: list[Any]
) -> None:
    gated.tell("c", "crash")
    gated.wait(1.1)
    gated.take_diary()
    gated.tell("sup", Restart(child="c"))
    gated.tell("sup", Restart(child="c"))
    assert gated.take_diary() == ["start c"]


def test_giving_up_before_all_are_up_is_no_failed_start(
    gated: Any, answers: list[Any]
) -> None:
    class Slow(Watcher):
        ready_when_started = False

        def started(self) -> None: ...

    class Parent(Watcher):
        def started(self) -> None:
            self.system.spawn("other", lambda: Supervisor(spec), self.address)

    heard: list[Any] = []
    spec = SupervisorSpec(
        children=(
            gated.kid("x"),
            ChildSpec(name="slow", factory=lambda: Slow([])),
        ),
        gate="gate",
        backoff=STEADY,
    )
    gated.system.spawn("parent", lambda: Parent(heard))
    gated.sim.run(until=gated.settled)
    answers.append(GiveUp(child="x", reason="parked"))
    gated.tell("x", "crash")
    gated.wait(1.1)
    assert [type(message) for message in heard] == [Started, Exited]
    assert heard[1].reason == Shutdown(detail="parked")
