from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from perdure.supervision import Actor, Promise, SimulatedDispatcher, System

WORLD = """
from perdure.supervision import *

class Chatter(Actor):
    def __init__(self, names):
        super().__init__()
        self.names = names

    def started(self):
        self.after(1.0, "tick")

    def receive(self, message):
        if message == "tick":
            for name in self.names:
                self.system.address(name).tell(10)
        elif message:
            for name in self.names:
                if name != self.name:
                    self.system.address(name).tell(message // 2)
            self.system.dispatcher.start_job(self.name, lambda: None)

def world(seed):
    sim = SimulatedDispatcher(seed)
    system = System(sim, lambda event, **fields: None)
    names = ["a", "b", "c"]
    spec = SupervisorSpec(intensity=None, children=tuple(
        ChildSpec(name=n, factory=lambda: Chatter(names)) for n in names))
    system.spawn("sup", lambda: Supervisor(spec))
    sim.run_for(3.0)
    sim.crash("b")
    sim.run_for(20.0)
    return sim.trace
"""


def trace_of(seed: int) -> list[str]:
    names: dict[str, Any] = {}
    exec(WORLD, names)
    trace: list[str] = names["world"](seed)
    return trace


def test_the_same_seed_gives_the_same_trace() -> None:
    trace = trace_of(7)
    assert len(trace) > 100
    assert trace == trace_of(7)


def test_another_seed_gives_another_trace() -> None:
    assert trace_of(7) != trace_of(8)


def test_the_trace_does_not_depend_on_the_hash_seed() -> None:
    def run(hash_seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", WORLD + "print(world(7))"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        ).stdout

    assert run("1") == run("2")


class Keeper(Actor):
    def __init__(self, kept: list[Any]) -> None:
        super().__init__()
        self.kept = kept

    def receive(self, message: Any) -> None:
        self.kept.append(message)


class Talker(Actor):
    def receive(self, message: Any) -> None:
        for number in range(5):
            self.system.address("keeper").tell((self.name, number))


def heard_by_keeper(seed: int) -> list[tuple[str, int]]:
    sim = SimulatedDispatcher(seed)
    system = System(sim, lambda *_, **__: None)
    kept: list[tuple[str, int]] = []
    system.spawn("keeper", lambda: Keeper(kept))
    for name in ("x", "y"):
        system.spawn(name, Talker).tell("talk")
    sim.run()
    return kept


@pytest.mark.parametrize("seed", range(10))
def test_one_sender_is_heard_in_order(seed: int) -> None:
    kept = heard_by_keeper(seed)
    for sender in ("x", "y"):
        numbers = [number for name, number in kept if name == sender]
        assert numbers == [0, 1, 2, 3, 4]


def test_two_senders_are_heard_in_many_orders() -> None:
    orders = {tuple(name for name, _ in heard_by_keeper(seed)) for seed in range(20)}
    assert len(orders) > 10


def test_time_jumps_to_the_next_timer_when_nothing_can_run(
    sim: SimulatedDispatcher,
) -> None:
    times: list[float] = []
    for delay in (3600.0, 1.0):
        sim.call_later(delay, lambda: times.append(sim.clock.monotonic()))
    sim.run()
    assert times == [1.0, 3600.0]


def test_a_cancelled_timer_does_not_move_time(sim: SimulatedDispatcher) -> None:
    sim.call_later(3600.0, lambda: None).cancel()
    sim.run()
    assert sim.clock.monotonic() == 0.0


def test_crash_ends_an_actor_between_two_messages(
    sim: SimulatedDispatcher, system: System, log: Any
) -> None:
    kept: list[Any] = []
    keeper = system.spawn("keeper", lambda: Keeper(kept))
    keeper.tell("one")
    sim.run()
    keeper.tell("two")
    assert sim.crash("keeper") is True
    sim.run()
    assert (kept, sim.crash("keeper")) == (["one"], False)
    assert log.of("actor.crashed")[0]["error"] == "simulated crash"


def test_a_halted_process_does_nothing_more(
    sim: SimulatedDispatcher, system: System
) -> None:
    kept: list[Any] = []
    system.spawn("keeper", lambda: Keeper(kept)).tell("one")
    sim.call_later(1.0, lambda: kept.append("timer"))
    sim.start_job("job", lambda: kept.append("job"))
    sim.background("writer", lambda: bool(kept.append("round"))).wake()
    sim.halt()
    sim.run()
    assert kept == []


def test_the_next_process_goes_on_at_the_same_time(sim: SimulatedDispatcher) -> None:
    sim.run_for(12.0)
    assert SimulatedDispatcher(2, clock=sim.clock).clock.monotonic() == 12.0


def test_a_background_runs_until_its_step_is_done(sim: SimulatedDispatcher) -> None:
    left = [3, 2, 1]
    background = sim.background("writer", lambda: bool(left.pop()) and bool(left))
    sim.run()
    assert left == [3, 2, 1]
    background.wake()
    sim.run()
    assert left == []


def test_a_stopped_background_has_finished_and_stays_still(
    sim: SimulatedDispatcher,
) -> None:
    rounds: list[int] = []

    def step() -> bool:
        rounds.append(1)
        return len(rounds) < 3

    background = sim.background("writer", step)
    assert background.stop(1.0)
    background.wake()
    sim.run()
    assert len(rounds) == 3


def test_what_a_job_raises_is_logged(
    sim: SimulatedDispatcher, system: System, log: Any
) -> None:
    def job() -> None:
        raise SystemExit

    sim.start_job("export", job)
    sim.run()
    assert [event["name"] for event in log.of("job.failed")] == ["export"]


def test_a_step_cannot_wait_for_another(sim: SimulatedDispatcher) -> None:
    errors: list[BaseException] = []

    def job() -> None:
        try:
            Promise(sim).result(1.0)
        except RuntimeError as error:
            errors.append(error)

    sim.start_job("job", job)
    sim.run()
    assert "inside a step" in str(errors[0])


def test_a_run_that_does_not_end_is_reported_with_its_last_steps(
    sim: SimulatedDispatcher,
) -> None:
    def again() -> None:
        sim.call_later(1.0, again)

    again()
    with pytest.raises(RuntimeError, match=r"still running after 50 steps.*timer @"):
        sim.run(max_steps=50)
