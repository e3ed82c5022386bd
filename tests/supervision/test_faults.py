from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from perdure.supervision import Actor, SimulatedDispatcher, System, faults
from perdure.supervision.faults import (
    DELIVERY,
    Fault,
    FaultPlan,
    InjectedCrash,
    InjectedFault,
    hit,
    seeded_faults,
)


@pytest.fixture(autouse=True)
def no_plan_left() -> Iterator[None]:
    yield
    faults.uninstall()


def raising(nth: int = 1, point: str | None = "p", **options: str) -> Fault:
    return Fault(point=point, nth=nth, action="raise", **options)


def hits_until_fault(*points: tuple[str, str]) -> int | None:
    for number, (point, subject) in enumerate(points, start=1):
        try:
            hit(point, subject)
        except InjectedFault:
            return number
    return None


def test_without_a_plan_nothing_happens() -> None:
    hit("p", "anything")


def test_a_fault_fires_at_the_nth_hit_of_its_point() -> None:
    with faults.installed(FaultPlan([raising(nth=2)])):
        assert hits_until_fault(("p", ""), ("q", ""), ("p", "")) == 3


def test_a_fault_fires_once() -> None:
    with faults.installed(FaultPlan([raising()])):
        assert hits_until_fault(("p", "")) == 1
        assert hits_until_fault(("p", ""), ("p", "")) is None


def test_without_a_point_every_hit_counts() -> None:
    with faults.installed(FaultPlan([raising(nth=3, point=None)])):
        assert hits_until_fault(("a", ""), ("b", ""), ("c", "")) == 3


def test_a_subject_narrows_the_point() -> None:
    with faults.installed(FaultPlan([raising(subject="mail")])):
        assert hits_until_fault(("p", "read"), ("p", "mail")) == 2


def test_after_starts_the_count_behind_its_own_hit() -> None:
    with faults.installed(FaultPlan([raising(nth=2, point=None, after="start")])):
        steps = [("p", ""), ("p", ""), ("start", ""), ("p", ""), ("p", "")]
        assert hits_until_fault(*steps) == 5


def test_observe_sees_a_hit_before_its_fault_fires() -> None:
    seen: list[tuple[str, str]] = []
    plan = FaultPlan([raising()], observe=lambda *point: seen.append(point))
    with faults.installed(plan), pytest.raises(InjectedFault):
        hit("p", "mail")
    assert seen == [("p", "mail")]


def test_a_plan_ends_with_its_block() -> None:
    with faults.installed(FaultPlan([raising()])):
        pass
    hit("p")


def test_hits_are_counted_from_one() -> None:
    with pytest.raises(ValueError, match="counted from 1"):
        raising(nth=0)


CHILD = """
import sys, msgspec
from perdure.supervision import faults
plan = msgspec.json.decode(sys.argv[1], type=list[faults.Fault])
faults.install(faults.FaultPlan(plan))
faults.hit("p")
print("once", flush=True)
faults.hit("p")
print("twice", flush=True)
"""


def test_a_plan_given_as_json_kills_the_child_at_the_hit() -> None:
    plan = [Fault(point="p", nth=2, action="kill")]
    child = subprocess.run(
        [sys.executable, "-c", CHILD, msgspec.json.encode(plan).decode()],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (child.returncode, child.stdout) == (-signal.SIGKILL, "once\n")


# ── in a turn, and off it ────────────────────────────────────────────────────────


class Stubborn(Actor):
    """Passes a point, and swallows whatever that raises."""

    def __init__(self, kept: list[Any]) -> None:
        super().__init__()
        self.kept = kept

    def receive(self, message: Any) -> None:
        try:
            hit("p")
        except BaseException as error:
            self.kept.append(type(error))
        self.kept.append(message)


def test_a_crash_ends_the_actor_whatever_its_code_catches(
    system: System, sim: SimulatedDispatcher, log: Any
) -> None:
    kept: list[Any] = []
    address = system.spawn("a", lambda: Stubborn(kept))
    with faults.installed(FaultPlan([Fault(point="p", nth=2, action="crash")])):
        for number in range(4):
            address.tell(number)
        sim.run()
    assert kept == [0, InjectedCrash, 1]
    (crashed,) = log.of("actor.crashed")
    assert crashed["error"] == "InjectedCrash: injected at p"
    assert system.dead_letters == 2


def test_a_crash_counts_hits_in_turns_only(
    system: System, sim: SimulatedDispatcher
) -> None:
    kept: list[Any] = []
    address = system.spawn("a", lambda: Stubborn(kept))
    with faults.installed(FaultPlan([Fault(point="p", action="crash")])):
        hit("p")
        sim.start_job("job", lambda: hit("p"))
        sim.run()
        assert system.is_running("a")
        address.tell(1)
        sim.run()
    assert not system.is_running("a")


def test_a_delay_passes_time_where_the_hit_is(sim: SimulatedDispatcher) -> None:
    fault = Fault(point="p", action="delay", seconds=2.5)
    with faults.installed(FaultPlan([fault], sleep=sim.clock.advance)):
        sim.start_job("job", lambda: hit("p"))
        before = sim.clock.monotonic()
        sim.run()
    assert sim.clock.monotonic() >= before + 2.5


# ── messages ─────────────────────────────────────────────────────────────────────


class Talker(Actor):
    """Tells "b" what it is told."""

    def receive(self, message: Any) -> None:
        self.system.address("b").tell(message)


class Listener(Actor):
    """Keeps what it hears, and when."""

    def __init__(self, heard: list[tuple[Any, float]]) -> None:
        super().__init__()
        self.heard = heard

    def receive(self, message: Any) -> None:
        self.heard.append((message, self.system.clock.monotonic()))
        if message == "self":
            self.address.tell("from itself")


def heard(system: System, sim: SimulatedDispatcher, *plan: Fault) -> Any:
    """What "b" hears of 1, 2, 3 that "a" tells it one after the other."""
    kept: list[tuple[Any, float]] = []
    system.spawn("b", lambda: Listener(kept))
    talker = system.spawn("a", Talker)
    with faults.installed(FaultPlan(plan)):
        for number in (1, 2, 3):
            talker.tell(number)
        sim.run()
    return kept


def of_message(action: Any, nth: int = 2, **options: Any) -> Fault:
    return Fault(point=DELIVERY, nth=nth, action=action, **options)


def test_a_dropped_message_is_a_dead_letter(
    system: System, sim: SimulatedDispatcher
) -> None:
    assert heard(system, sim, of_message("drop")) == [(1, 0.0), (3, 0.0)]
    assert system.dead_letters == 1


def test_a_duplicated_message_comes_twice(
    system: System, sim: SimulatedDispatcher
) -> None:
    found = heard(system, sim, of_message("duplicate"))
    assert [message for message, _ in found] == [1, 2, 2, 3]


def test_a_reordered_message_comes_behind_the_next(
    system: System, sim: SimulatedDispatcher
) -> None:
    found = heard(system, sim, of_message("reorder"))
    assert [message for message, _ in found] == [1, 3, 2]


def test_a_reordered_message_without_a_next_one_comes_a_second_later(
    system: System, sim: SimulatedDispatcher
) -> None:
    found = heard(system, sim, of_message("reorder", nth=3))
    assert found == [(1, 0.0), (2, 0.0), (3, 1.0)]


def test_a_delayed_message_comes_later(
    system: System, sim: SimulatedDispatcher
) -> None:
    found = heard(system, sim, of_message("delay", seconds=7.0))
    assert found == [(1, 0.0), (3, 0.0), (2, 7.0)]


def test_a_delayed_message_does_not_reach_the_next_incarnation(
    system: System, sim: SimulatedDispatcher
) -> None:
    found = heard(system, sim, of_message("delay", nth=9, seconds=7.0))
    with faults.installed(FaultPlan([of_message("delay", nth=1, seconds=7.0)])):
        system.address("a").tell("late")
        sim.run_for(1.0)
        sim.crash("b")
        system.spawn("b", lambda: Listener(found))
        sim.run()
    assert [message for message, _ in found] == [1, 2, 3]
    assert system.dead_letters == 1


def test_only_what_an_actor_tells_another_is_lost(
    system: System, sim: SimulatedDispatcher
) -> None:
    kept: list[tuple[Any, float]] = []
    address = system.spawn("b", lambda: Listener(kept))
    with faults.installed(FaultPlan([of_message("drop", nth=1)])):
        address.tell("self")
        sim.call_later(1.0, lambda: address.tell("from a timer"))
        sim.run()
    told = [message for message, _ in kept]
    assert told == ["self", "from itself", "from a timer"]


def test_a_message_is_no_hit_of_a_point(
    system: System, sim: SimulatedDispatcher
) -> None:
    seen: list[tuple[str, str]] = []
    faults_ = [Fault(point=None, action="raise"), of_message("drop")]
    system.spawn("b", lambda: Listener([]))
    talker = system.spawn("a", Talker)
    with faults.installed(FaultPlan(faults_, lambda *point: seen.append(point))):
        talker.tell(1)
        sim.run()
    assert (seen, system.is_running("a")) == ([], True)


@pytest.mark.parametrize(
    ("point", "action", "seconds"),
    [
        ("p", "drop", 0.0),
        (None, "reorder", 0.0),
        (DELIVERY, "kill", 0.0),
        (DELIVERY, "crash", 0.0),
        ("p", "delay", 0.0),
        ("p", "raise", 1.0),
    ],
)
def test_what_makes_no_sense_is_refused(
    point: str | None, action: Any, seconds: float
) -> None:
    with pytest.raises(ValueError, match=r"Fault\.(action|seconds) = "):
        Fault(point=point, action=action, seconds=seconds)


# ── from a seed ──────────────────────────────────────────────────────────────────

HITS = {"p": 3, DELIVERY: 100, "never": 0}


def test_a_seed_is_a_plan_as_data() -> None:
    plans = [
        seeded_faults(seed, hits=HITS, count=4, actions=("crash", "delay", "drop"))
        for seed in (1, 1, 2)
    ]
    assert plans[0] == plans[1] != plans[2]
    text = msgspec.json.encode(plans[0])
    assert msgspec.json.decode(text, type=tuple[Fault, ...]) == plans[0]


def test_each_point_gets_what_fits_it_as_often_as_it_is_hit() -> None:
    plan = seeded_faults(1, hits=HITS, count=500, actions=("raise", "drop"))
    assert {(one.point, one.action) for one in plan} == {
        ("p", "raise"),
        (DELIVERY, "drop"),
    }
    assert 1 <= sum(one.point == "p" for one in plan) < 50
    assert {one.nth for one in plan if one.point == "p"} <= {1, 2, 3}


def test_a_plan_without_an_action_that_fits_is_refused() -> None:
    with pytest.raises(ValueError, match=r"actions=\['drop'\].*none fits p"):
        seeded_faults(1, hits={"p": 3}, count=1, actions=("drop",))
