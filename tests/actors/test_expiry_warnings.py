"""Whoever is to answer hears in time that an answer will soon be of no use."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import ask_within
from perdure.actors import names
from perdure.actors.events import ExpiryNear
from perdure.actors.protocol import Warn
from tests.actors.runs import sound
from tests.actors.test_approvals import deleter
from tests.actors.test_questions import asker
from tests.actors.world import House, World

HOUR = 3600.0  # seconds


def waiting(house: House, task: str) -> None:
    """Run until nothing of the task is up: it rests as a row."""
    running = house.runtime._system.is_running
    house.finish(task)
    assert house.until(lambda: not running(names.family(task)), 10.0)


def warned(house: House) -> list[ExpiryNear]:
    return house.of(names.ADMISSION, ExpiryNear)


@pytest.mark.parametrize("what", ["question", "approval"])
def test_a_warning_goes_out_when_a_fifth_of_the_time_is_left(what: str) -> None:
    told: list[tuple[str, Any]] = []
    agent = (
        asker(tools=[ask_within(HOUR)])
        if what == "question"
        else deleter(World(), [[("delete", {"path": "x"})]], expires=HOUR)
    )
    house = House(agent, on_event=lambda name, fields: told.append((name, fields)))
    task = house.submit()
    waiting(house, task.id)
    begun = house.sim.clock.monotonic()
    activated = house.kinds(names.ADMISSION).count("TaskActivated")
    assert house.until(lambda: bool(warned(house)))
    assert house.sim.clock.monotonic() - begun == pytest.approx(0.8 * HOUR, abs=2)
    (one,) = warned(house)
    open_ones: Any = (
        house.runtime.questions() if what == "question" else house.runtime.approvals()
    )
    (asked,) = open_ones
    assert (one.what, one.task, one.expires) == (what, task.id, asked.expires)
    # The task slept all the while.
    assert house.kinds(names.ADMISSION).count("TaskActivated") == activated
    house.until(lambda: False, 10.0)
    assert [fields["subject"] for name, fields in told if name == "expiry.near"] == [
        one.subject
    ]
    house.until(lambda: house.runtime.result(task.id) is None, HOUR)
    house.until(lambda: False, HOUR)
    assert len(warned(house)) == 1
    sound(house)


def test_a_warning_is_given_once_over_restarts_and_when_it_is_told_again() -> None:
    house = House(asker(tools=[ask_within(HOUR)]))
    task = house.submit()
    waiting(house, task.id)
    house.kill()
    house.sim.clock.advance(0.9 * HOUR)
    house.reopen()
    assert house.until(lambda: bool(warned(house)))
    (one,) = warned(house)
    for _ in range(2):
        house.runtime._system.address(names.ADMISSION).tell(Warn(subject=one.subject))
    house.until(lambda: False, 5.0)
    house.kill()
    house.reopen()
    house.until(lambda: False, 5.0)
    assert len(warned(house)) == 1


def test_two_words_of_the_timer_at_once_are_one_warning() -> None:
    house = House(asker(tools=[ask_within(HOUR)]))
    task = house.submit()
    waiting(house, task.id)
    (question,) = house.runtime.questions()
    for _ in range(2):
        message = Warn(subject=question.question)
        house.runtime._system.address(names.ADMISSION).tell(message)
    house.until(lambda: False, 5.0)
    assert len(warned(house)) == 1


def test_nobody_is_warned_of_what_was_answered() -> None:
    house = House(asker(tools=[ask_within(HOUR)]))
    task = house.submit()
    waiting(house, task.id)
    (question,) = house.runtime.questions()
    task.answer(question.question, "red")
    house.until(lambda: False, HOUR)
    assert warned(house) == []
    assert not house.store.rows.get(names.TIMER_ROWS)


def test_nobody_is_warned_once_the_time_is_over() -> None:
    house = House(asker(tools=[ask_within(HOUR)]))
    task = house.submit()
    waiting(house, task.id)
    house.kill()
    house.sim.clock.advance(2 * HOUR)
    house.reopen()
    assert house.until(lambda: house.runtime.task(task.id).status == "completed")
    assert warned(house) == []
