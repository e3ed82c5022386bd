"""A follower's place: what was read and what was heard, in one order."""

from __future__ import annotations

import pytest

from perdure.actors.speech import Piece
from perdure.cursor import Cursor
from perdure.feed import Page, Place, TaskEvent, Wanted
from perdure.supervision import SimulatedDispatcher
from perdure.watchers import Watchers


@pytest.fixture
def watchers() -> Watchers:
    return Watchers(SimulatedDispatcher(0))


@pytest.fixture
def cursor(watchers: Watchers) -> Cursor:
    return Cursor(watchers, Wanted(task="t-1"), Place(), partial=True)


def event(seq: int, type_: str, **fields: int) -> TaskEvent:
    return TaskEvent(
        seq=seq, at=0.0, type=type_, task="t-1", stream="task/t-1", fields=fields
    )


def recorded(seq: int, op: int) -> TaskEvent:
    return event(seq, "effect.recorded", op=op, attempt=1)


def page(*events: TaskEvent, more: bool = False) -> Page:
    seq = events[-1].seq if events else 0
    return Page(events=events, place=Place(seq=seq), more=more, stand="not_there")


def say(watchers: Watchers, op: int, index: int = 0) -> None:
    watchers.say(
        Piece(task="t-1", op=op, attempt=1, at=0.0, index=index, text=f"{op}.{index}")
    )


def taken(cursor: Cursor) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    while (one := cursor.pop()) is not None:
        found.append((one.seq, one.fields.get("text", one.type)))
    return found


def test_words_come_before_the_record_of_their_reply(
    watchers: Watchers, cursor: Cursor
) -> None:
    cursor.begin()
    say(watchers, 1)
    say(watchers, 1, 1)
    cursor.absorb(page(event(1, "effect.registered"), recorded(2, 1), event(3, "x")))
    assert taken(cursor) == [
        (1, "effect.registered"),
        (1, "1.0"),
        (1, "1.1"),
        (2, "effect.recorded"),
        (3, "x"),
    ]


def test_words_said_while_it_was_read_wait_for_what_stands_before_them(
    watchers: Watchers, cursor: Cursor
) -> None:
    say(watchers, 1)
    assert cursor.begin()
    say(watchers, 2)  # its registration may be flushed, and not in what is read
    cursor.absorb(page(event(1, "effect.registered")))
    assert taken(cursor) == [(1, "effect.registered"), (1, "1.0")]
    assert cursor.promise() is None
    watchers.news(["t-1"])
    assert cursor.begin()
    cursor.absorb(page(recorded(2, 1), event(3, "effect.registered")))
    assert taken(cursor) == [
        (2, "effect.recorded"),
        (3, "effect.registered"),
        (3, "2.0"),
    ]
    assert cursor.promise() is not None


def test_words_wait_until_a_replay_has_caught_up(
    watchers: Watchers, cursor: Cursor
) -> None:
    say(watchers, 3)
    cursor.begin()
    cursor.absorb(page(recorded(1, 1), more=True))
    assert taken(cursor) == [(1, "effect.recorded")]
    assert cursor.promise() is None
    assert cursor.begin()
    cursor.absorb(page(event(2, "effect.registered")))
    assert taken(cursor) == [(2, "effect.registered"), (2, "3.0")]


def test_nothing_is_read_for_words_alone(watchers: Watchers, cursor: Cursor) -> None:
    cursor.begin()
    cursor.absorb(page(event(1, "effect.registered")))
    taken(cursor)
    say(watchers, 1)
    assert cursor.promise() is None
    assert not cursor.begin()
    cursor.absorb(None)
    assert taken(cursor) == [(1, "1.0")]


def test_what_is_read_for_a_cursor_that_was_closed_is_not_handed_out(
    cursor: Cursor,
) -> None:
    cursor.begin()
    cursor.close()
    cursor.absorb(page(event(1, "x")))
    assert taken(cursor) == []
    assert cursor.over
