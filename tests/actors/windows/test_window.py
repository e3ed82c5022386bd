"""Sliding windows, pure, against the one rule that the outside can count."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.actors.events import (
    Event,
    SlotPromised,
    SlotTaken,
    TaskClosed,
    WindowClosed,
    WindowsSet,
)
from perdure.actors.windows.window import (
    Answer,
    Window,
    WindowsState,
    answer,
    apply,
    grace,
)

SERVICE = "smtp"
BIT = 1e-6  # seconds
NOW = 1_000_000.0  # second since the epoch


class Desk:
    """The actor without the actor: asks, and appends what came of it."""

    def __init__(self, count: int, per: float) -> None:
        self.count, self.per = count, per
        self.events: list[Event] = []
        self.state = WindowsState()
        self.asked: set[str] = set()
        self.begun: dict[str, float] = {}  # when it may have begun at the latest
        self.grace = grace(per)
        self.period = per + self.grace
        self.add(WindowsSet(limits={SERVICE: (count, per)}))

    def add(self, event: Event) -> None:
        self.events.append(event)
        self.state = apply(self.state, event)

    @property
    def window(self) -> Window:
        return self.state.windows[SERVICE]

    def ask(self, key: str, now: float) -> Answer:
        said = answer(self.window, key, now, waited=key in self.asked)
        if said.known:
            return said
        if said.granted:
            self.add(SlotTaken(service=SERVICE, key=key, at=said.at))
        else:
            self.asked.add(key)
            promised = SlotPromised(service=SERVICE, key=key, at=said.at, asked=now)
            self.add(promised)
        return said

    def close(self, until: float, now: float) -> None:
        if until > self.window.closed:
            self.add(WindowClosed(service=SERVICE, until=until, said=now))


def most_in(starts: list[float], per: float) -> int:
    """The most starts in any half-open window of `per` seconds, the slow way."""
    return max(
        (sum(one <= other < one + per - BIT for other in starts) for one in starts),
        default=0,
    )


MOMENTS = st.lists(
    st.tuples(
        st.integers(0, 15),  # who
        st.floats(0, 40),  # seconds later
        st.floats(0, 1),  # how late it begins, as a share of the grace
        st.sampled_from(["ask"] * 12 + ["close"]),
    ),
    max_size=120,
)


@given(st.integers(1, 4), st.floats(0.5, 100), MOMENTS)
def test_never_more_begin_than_allowed_in_any_window(
    count: int, per: float, moments: list[tuple[int, float, float, str]]
) -> None:
    # Whoever asks whenever, comes late or not at all, is closed out or asks again.
    desk, now = Desk(count, per), NOW
    starts: list[float] = []
    used: set[str] = set()
    for who, later, share, what in moments:
        now += later
        if what == "close":
            desk.close(now + later, now)
            continue
        key = f"{who}#{sum(one.startswith(f'{who}#') for one in used)}"
        said = desk.ask(key, now)
        if said.granted:
            assert desk.window.closed <= now
            used.add(key)
            until = said.at + desk.grace
            assert now <= until
            starts.append(now + share * (until - now))
        else:
            assert said.at > now
        assert len(desk.window.slots) <= count
    assert most_in(starts, per) <= count


@given(st.integers(1, 5), st.floats(0.5, 100), st.lists(st.floats(0, 30), max_size=40))
def test_who_comes_at_its_time_gets_its_slot_in_order_of_asking(
    count: int, per: float, gaps: list[float]
) -> None:
    desk = Desk(count, per)
    arrivals = list(itertools.accumulate(gaps, initial=NOW))
    due = [(at, place, f"{place}") for place, at in enumerate(arrivals)]
    begun: list[tuple[float, int]] = []
    told: dict[str, int] = {}
    while due:
        now, place, key = due.pop(0)
        said = desk.ask(key, now)
        told[key] = told.get(key, 0) + 1
        if said.granted:
            begun.append((now, place))
        else:
            due = sorted([*due, (said.at, place, key)])
    assert [place for _, place in sorted(begun)] == list(range(len(arrivals)))
    assert max(told.values()) <= 2  # it was told once when to come
    naive: list[float] = []
    for at in arrivals:  # as early as the rule allows
        free = naive[-count] + desk.period if len(naive) >= count else at
        naive.append(max(at, free))
    assert [at for at, _ in sorted(begun)] == pytest.approx(naive)


@given(st.integers(1, 3), st.integers(1, 30), st.data())
def test_all_get_through_however_late_they_come(
    count: int, many: int, data: Any
) -> None:
    desk = Desk(count, 60.0)
    due = [(NOW, place) for place in range(many)]
    for _ in range(many * many + many):
        if not due:
            return
        now, place = min(due)
        due.remove((now, place))
        if now > NOW:
            now += data.draw(st.floats(0, 600))
        now = max(now, NOW + max(desk.begun.values(), default=0.0))
        said = desk.ask(str(place), now)
        if said.granted:
            desk.begun[str(place)] = now - NOW
        else:
            due.append((said.at, place))
    raise AssertionError(f"{len(due)} of {many} never got a slot")


def test_asked_twice_is_answered_alike_and_changes_nothing() -> None:
    desk = Desk(1, 60.0)
    first = desk.ask("a", NOW)
    promised = desk.ask("b", NOW + 1)
    have = len(desk.events)
    assert desk.ask("a", NOW + 2).at == first.at == NOW
    assert desk.ask("b", NOW + 2).at == promised.at == NOW + desk.period
    assert len(desk.events) == have


def test_a_slot_that_was_not_used_in_time_is_spent() -> None:
    desk = Desk(1, 60.0)
    desk.ask("a", NOW)
    again = desk.ask("a", NOW + desk.grace + 1)
    assert (again.granted, again.at) == (False, NOW + desk.period)


def test_a_newcomer_does_not_pass_those_who_wait() -> None:
    desk = Desk(1, 60.0)
    desk.ask("a", NOW)
    waiting = desk.ask("b", NOW + 1)
    said = desk.ask("c", waiting.at + 1)  # b is about to come
    assert (said.granted, said.at) == (False, waiting.at + desk.period)
    assert desk.ask("b", waiting.at + 2).granted


def test_one_that_comes_too_late_goes_before_those_whose_time_has_not_come() -> None:
    desk = Desk(1, 60.0)
    desk.ask("a", NOW)
    late, after = desk.ask("b", NOW + 1), desk.ask("c", NOW + 2)
    now = late.at + 31
    assert after.at > now
    assert desk.ask("b", now).granted
    assert desk.ask("c", after.at).at == now + desk.period


def test_a_promise_that_nobody_came_for_holds_up_nobody_for_long() -> None:
    desk = Desk(1, 60.0)
    desk.ask("a", NOW)
    gone = desk.ask("b", NOW + 1)
    assert desk.ask("c", gone.at + 31).granted
    assert desk.window.waiting == {}


def test_nothing_begins_before_a_service_opens_again_and_order_is_kept() -> None:
    desk = Desk(1, 60.0)
    desk.ask("a", NOW)
    times = {key: desk.ask(key, NOW + 1).at for key in "bcd"}
    until = NOW + 500
    desk.close(until, NOW + 2)
    times = {key: desk.ask(key, at).at for key, at in times.items()}
    assert list(times.values()) == [until + n * desk.period for n in range(3)]
    assert all(desk.ask(key, at).granted for key, at in times.items())


def test_a_service_without_a_rate_is_only_closed_at_times() -> None:
    state = apply(WindowsState(), WindowClosed(service="x", until=NOW + 30, said=NOW))
    window = state.windows["x"]
    assert answer(window, "a", NOW + 1, waited=False).at == NOW + 30
    for key in "abcdef":
        assert answer(window, key, NOW + 30, waited=True).granted
    later = WindowClosed(service="y", until=NOW + 90, said=NOW + 60)
    assert set(apply(state, later).windows) == {"y"}


@pytest.mark.parametrize("back", [1.0, 3600.0, 86_400.0])
def test_a_clock_that_was_set_back_stops_no_service_for_as_long(
    back: float,
) -> None:
    desk = Desk(2, 60.0)
    for key in "abcd":
        desk.ask(key, NOW)
    now = NOW - back
    said = desk.ask("e", now)
    assert not said.granted
    assert said.at <= now + 2 * desk.period + 1.0
    assert desk.ask("e", said.at).granted


def test_a_limit_that_was_changed_holds_for_what_began_before() -> None:
    desk = Desk(3, 60.0)
    for key in "abc":
        desk.ask(key, NOW)
    desk.add(WindowsSet(limits={SERVICE: (2, 120.0)}))
    assert [one.key for one in desk.window.slots] == ["b", "c"]
    said = desk.ask("d", NOW + 90)
    assert (said.granted, said.at) == (False, NOW + 120.0 + grace(120.0))


def test_a_limit_that_was_taken_away_leaves_a_closed_service_closed() -> None:
    desk = Desk(1, 60.0)
    desk.ask("a", NOW)
    desk.close(NOW + 50, NOW)
    desk.add(WindowsSet(limits={}))
    assert desk.window == Window(closed=NOW + 50)


@given(MOMENTS)
def test_a_snapshot_and_its_tail_give_the_same_windows(
    moments: list[tuple[int, float, float, str]],
) -> None:
    # P5
    desk, now = Desk(2, 30.0), NOW
    for who, later, _, _ in moments:
        now += later
        desk.ask(str(who), now)
    cut = len(desk.events) // 2
    state = WindowsState()
    for event in desk.events[:cut]:
        state = apply(state, event)
    state = msgspec.json.decode(msgspec.json.encode(state), type=WindowsState)
    for event in desk.events[cut:]:
        state = apply(state, event)
    assert msgspec.json.encode(state) == msgspec.json.encode(desk.state)


def test_foreign_events_are_refused() -> None:
    with pytest.raises(TypeError, match="TaskClosed"):
        apply(WindowsState(), TaskClosed(status="completed"))
