"""The limits of a supervisor's children, on one timer."""

from __future__ import annotations

from typing import Any

from perdure.supervision.dues import Dues


class Timer:
    def __init__(self, due: float) -> None:
        self.due = due
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Desk:
    """Stands in for a supervisor, with its clock and the timers that it set."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[Timer] = []

    @property
    def system(self) -> Any:
        return self

    @property
    def clock(self) -> Any:
        return self

    def monotonic(self) -> float:
        return self.now

    def after(self, delay: float, _message: object) -> Timer:
        self.timers.append(Timer(self.now + delay))
        return self.timers[-1]

    @property
    def alive(self) -> list[float]:
        return [timer.due for timer in self.timers if not timer.cancelled]


def child(name: str) -> Any:
    return name


def dues() -> tuple[Desk, Dues]:
    desk = Desk()
    return desk, Dues(desk)  # type: ignore[arg-type]


def test_one_timer_is_set_for_whoever_is_due_first() -> None:
    desk, due = dues()
    due.set(child("a"), 30.0, "start")
    due.set(child("b"), 40.0, "start")
    assert desk.alive == [130.0]
    due.set(child("c"), 5.0, "stop")
    assert desk.alive == [105.0]


def test_each_is_due_at_its_time_for_what_was_set_last() -> None:
    desk, due = dues()
    due.set(child("a"), 30.0, "start")
    due.set(child("b"), 5.0, "start")
    due.set(child("b"), 35.0, "stop")
    desk.now = 105.0
    assert list(due.over()) == []
    desk.now = 130.0
    assert list(due.over()) == [("a", "start")]
    assert desk.alive[-1] == 135.0
    desk.now = 135.0
    assert list(due.over()) == [("b", "stop")]
    assert desk.alive[-1] == 135.0  # and none for nobody


def test_who_is_dropped_or_given_no_limit_is_not_due() -> None:
    desk, due = dues()
    due.set(child("a"), 5.0, "start")
    due.set(child("b"), 5.0, "start")
    due.set(child("c"), 5.0, "start")
    due.drop(child("a"))
    due.set(child("b"), None, "start")
    desk.now = 105.0
    assert list(due.over()) == [("c", "start")]


def test_who_is_dropped_while_the_others_are_told_is_left_out() -> None:
    desk, due = dues()
    due.set(child("a"), 5.0, "restart")
    due.set(child("b"), 5.0, "restart")
    desk.now = 105.0
    told = []
    for one, _ in due.over():
        told.append(one)
        due.drop(child("b"))
    assert told == ["a"]
