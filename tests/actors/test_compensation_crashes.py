"""Effects are taken back once each, whoever crashes or is killed at whatever step."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure.actors import names
from tests.actors.desk import Desk, taken_back, waiting
from tests.actors.world import House


def cancelling() -> tuple[House, Desk, str]:
    desk = Desk()
    house, task = waiting(desk)
    house.runtime.ask_cancel(task, "operator", compensate=True)
    return house, desk, task


def step(house: House, steps: int) -> bool:
    """Take so many steps; False where there are not so many."""
    return all(house.sim.step() for _ in range(steps))


def ended(house: House, task: str) -> bool:
    return f"task/{task}" in house.store.streams and any(
        kind == "TaskClosed" for kind in house.kinds(f"task/{task}")
    )


def test_a_kill_at_any_step_takes_nothing_back_twice() -> None:
    house, _, task = cancelling()
    steps = 0
    while not ended(house, task):
        step(house, 1)
        steps += 1
    assert steps > 50
    for at in range(0, steps, 3):
        house, desk, task = cancelling()
        step(house, at)
        house.kill()
        house.reopen()
        taken_back(house, desk, task)


def test_two_kills_in_a_row_take_nothing_back_twice() -> None:
    for at in range(3, 60, 6):
        house, desk, task = cancelling()
        for steps in (at, 2 * at):
            step(house, steps)
            house.kill()
            house.reopen()
        taken_back(house, desk, task)


@pytest.mark.parametrize("victim", [names.task, names.ledger, names.account])
def test_a_crash_of_its_actors_takes_nothing_back_twice(
    victim: Callable[[str], str],
) -> None:
    for at in range(0, 150, 7):
        house, desk, task = cancelling()
        step(house, at)
        house.sim.crash(victim(task))
        taken_back(house, desk, task)


def test_what_comes_in_between_does_not_have_a_compensation_forgotten() -> None:
    for at in range(0, 60, 4):
        house, desk, task = cancelling()
        step(house, at)
        for one in house.runtime.approvals():
            house.runtime.task(task).reject(one.approval)
        house.runtime.resume(task, "somebody")
        house.sim.crash(names.ADMISSION)
        step(house, at)
        house.kill()
        house.reopen()
        taken_back(house, desk, task)
