"""Watches: who is woken by what, and what of a model's words is kept for whom."""

from __future__ import annotations

import gc
import threading

import pytest

from perdure import RuntimeClosed
from perdure.actors.speech import Piece
from perdure.supervision import SimulatedDispatcher
from perdure.watchers import HEARD_LIMIT, Watch, Watchers


@pytest.fixture
def watchers() -> Watchers:
    return Watchers(SimulatedDispatcher(0))


def piece(index: int, *, op: int = 1, task: str = "t-1", text: str = "word ") -> Piece:
    return Piece(task=task, op=op, attempt=1, at=0.0, index=index, text=text)


def waiting(watchers: Watchers, task: str = "t-1", **options: bool) -> Watch:
    """A watch that has read all there was."""
    watch = watchers.watch(
        task,
        subtasks=options.get("subtasks", False),
        partial=options.get("partial", False),
    )
    assert watchers.begin(watch)[0]
    return watch


def woken(watchers: Watchers, watch: Watch, task: str) -> bool:
    promise = watchers.promise_of(watch)
    assert promise is not None
    watchers.news([task])
    return promise.done


def test_news_of_its_task_wakes_a_watch_and_no_other(watchers: Watchers) -> None:
    watch = waiting(watchers)
    assert not woken(watchers, watch, "t-2")
    assert not woken(watchers, watch, "t-1.1")
    assert not woken(watchers, watch, "t-11")
    assert woken(watchers, watch, "t-1")
    assert watchers.promise_of(watch) is None
    assert watchers.begin(watch) == (True, 0)
    assert watchers.promise_of(watch) is not None


def test_news_of_sub_tasks_wakes_who_follows_them(watchers: Watchers) -> None:
    for task in ("t-1", "t-1.1", "t-1.1.2"):
        assert woken(watchers, waiting(watchers, subtasks=True), task)
    for task in ("t-2", "t-11"):
        assert not woken(watchers, waiting(watchers, subtasks=True), task)


def test_words_are_heard_by_those_alone_who_listen(watchers: Watchers) -> None:
    deaf, heard = waiting(watchers), waiting(watchers, partial=True)
    watchers.say(piece(0))
    watchers.say(piece(0, task="t-2"))
    assert watchers.promise_of(deaf) is not None
    assert watchers.promise_of(heard) is None
    due, count = watchers.begin(heard)
    assert (due, count) == (False, 1)
    assert watchers.pull(heard, (), count) == [piece(0)]


def test_words_that_came_after_the_reading_began_stay_unless_they_are_recorded(
    watchers: Watchers,
) -> None:
    watch = waiting(watchers, partial=True)
    watchers.say(piece(0))
    _, heard = watchers.begin(watch)
    for index, op in ((1, 1), (0, 2)):
        watchers.say(piece(index, op=op))
    assert watchers.pull(watch, {("t-1", 1, 1)}, heard) == [piece(0), piece(1)]
    assert watchers.pull(watch, (), 3) == [piece(0, op=2)]


def test_words_beyond_the_limit_push_out_the_oldest(watchers: Watchers) -> None:
    # P12
    watch = waiting(watchers, partial=True)
    size = HEARD_LIMIT // 4
    for index in range(9):
        watchers.say(piece(index, text="x" * size))
    kept = watchers.pull(watch, (), 9)
    assert [one.index for one in kept] == [5, 6, 7, 8]
    for index in range(4):  # what was pulled has made room
        watchers.say(piece(index, text="x" * size))
    assert len(watchers.pull(watch, (), 13)) == 4


def test_a_watch_that_is_let_go_of_is_gone(watchers: Watchers) -> None:
    # P12
    watch = waiting(watchers)
    assert watchers.alive == [watch]
    del watch
    assert watchers.alive == []
    assert watchers._all == {}


def test_who_waits_when_a_watch_is_closed_is_woken_and_who_comes_later_too(
    watchers: Watchers,
) -> None:
    watch = waiting(watchers)
    promise = watchers.promise_of(watch)
    assert promise is not None
    watchers.close(watch)
    assert promise.done
    assert watchers.promise_of(watch) is None
    assert watchers.alive == []


def test_at_the_end_of_the_runtime_who_waits_hears_why(watchers: Watchers) -> None:
    watch, late = waiting(watchers), waiting(watchers)
    promise = watchers.promise_of(watch)
    assert promise is not None
    watchers.news(["t-1"])  # is read first
    watchers.fail(RuntimeClosed())
    assert watchers.promise_of(watch) is None
    watchers.begin(late)
    with pytest.raises(RuntimeClosed):
        watchers.promise_of(late)


def test_watches_may_end_while_another_thread_wakes_them(watchers: Watchers) -> None:
    over = threading.Event()
    errors: list[BaseException] = []

    def wake() -> None:
        try:
            while not over.is_set():
                watchers.news(["t-1"])
                watchers.say(piece(0))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=wake)
    thread.start()
    for _ in range(2_000):
        some = [waiting(watchers) for _ in range(3)]
        del some
    over.set()
    thread.join(30.0)
    gc.collect()
    assert errors == []
    assert watchers._all == {}
