"""What a task's supervisor said of itself may come late: one end is one recovery."""

from __future__ import annotations

import pytest

from perdure.actors import names
from perdure.actors.admission.gate import Gate
from perdure.actors.events import RecoveryBegan, TaskActivated
from perdure.supervision.lifecycle import Crash
from perdure.supervision.protocol import MayRestart
from tests.actors.admission.test_gate import Admission
from tests.actors.admission.test_strikes import records
from tests.actors.world import House, World, job


@pytest.mark.parametrize("seed", range(60))
def test_one_crash_of_a_supervisor_is_one_strike_and_one_activation(seed: int) -> None:
    house = House(job(World(), recovery="rules"), seed=seed)
    task = house.submit().id
    family = names.family(task)
    assert house.until_hit("actor.started", name=family)
    for _ in range(seed % 4):
        house.sim.step()
    house.sim.crash(family)
    assert house.finish(task).status == "completed"
    assert len(house.of(f"task/{task}/recovery", RecoveryBegan)) == 1
    activated = house.of(names.ADMISSION, TaskActivated)
    assert [one.epoch for one in activated] == [1, 2]
    assert house.log.crashes() == []


@pytest.mark.parametrize(("asks", "written"), [(7, 1), (6, 0)])
def test_what_a_supervisor_asked_before_it_ended_is_no_strike(
    asks: int, written: int
) -> None:
    admission = Admission(over=6)
    message = MayRestart(
        supervisor="task/t", incarnation=asks, child="x", reason=Crash(error="late")
    )
    Gate(admission).may_restart(message)  # type: ignore[arg-type]
    assert admission.found is not None
    admission.found(records())
    assert admission.journal.appended == written
