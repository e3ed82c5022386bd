from __future__ import annotations

import pytest

from perdure.actors.admission.queue import QueueState, apply, due
from perdure.actors.events import (
    Event,
    TaskActivated,
    TaskClosed,
    TaskLeft,
    TaskParked,
    TaskPassivated,
    TaskQueued,
    TaskWoken,
)

NONE = frozenset[str]()
NOW = 1_700_000_000.0


def queued(
    task: str, priority: int = 0, key: str | None = None, group: str = ""
) -> TaskQueued:
    return TaskQueued(task=task, agent="a", group=group, priority=priority, key=key)


def activated(task: str, epoch: int = 1, order: str = "run") -> TaskActivated:
    return TaskActivated(task=task, epoch=epoch, since=0, order=order, by="")  # type: ignore[arg-type]


def fold(*events: Event, state: QueueState | None = None) -> QueueState:
    state = state or QueueState()
    for event in events:
        state = apply(state, event)
    return state


FIVE = fold(*(queued(str(n)) for n in range(1, 6)))


def test_at_most_so_many_are_active_and_the_rest_keep_their_order() -> None:
    # K38 B65
    assert due(FIVE, slots=2, held=NONE, now=NOW) == ["1", "2"]
    state = fold(activated("1", 1), activated("2", 1), state=FIVE)
    assert due(state, slots=2, held=NONE, now=NOW) == []
    state = fold(TaskLeft(task="1", status="completed"), state=state)
    assert due(state, slots=2, held=NONE, now=NOW) == ["3"]
    assert list(state.tasks) == ["2", "3", "4", "5"]


def test_higher_priority_goes_first_and_equals_by_submission() -> None:
    state = fold(queued("late", 5), queued("later", 5), state=FIVE)
    assert due(state, slots=4, held=NONE, now=NOW) == ["late", "later", "1", "2"]


def test_a_task_that_waited_comes_back_to_its_old_place() -> None:
    # B66
    state = fold(
        activated("1", 1),
        TaskPassivated(task="1", waiting=True),
        activated("2", 1),
        state=FIVE,
    )
    assert due(state, slots=2, held=NONE, now=NOW) == ["3"]
    state = fold(TaskWoken(task="1", order="resume", by="me"), state=state)
    assert due(state, slots=2, held=NONE, now=NOW) == ["1"]
    assert state.tasks["1"].order == "resume"


def test_a_waiting_or_parked_task_holds_no_slot() -> None:
    state = fold(
        activated("1", 1),
        TaskPassivated(task="1", waiting=True),
        activated("2", 1),
        TaskParked(task="2", status="parked", reason="", ends_with=""),
        state=FIVE,
    )
    assert state.active() == []
    assert due(state, slots=2, held=NONE, now=NOW) == ["3", "4"]


def test_a_wake_that_meets_an_active_task_is_kept_for_its_end() -> None:
    state = fold(
        activated("1", 1),
        TaskWoken(task="1", order="resume", by="me"),
        state=FIVE,
    )
    assert state.tasks["1"].where == "active"
    state = fold(TaskPassivated(task="1", waiting=True), state=state)
    assert state.tasks["1"].where == "queued"
    assert due(state, slots=1, held=NONE, now=NOW) == ["1"]


def test_an_old_wake_does_not_wake_again() -> None:
    state = fold(
        activated("1", 1),
        TaskPassivated(task="1", waiting=True),
        TaskWoken(task="1", order="resume", by="me"),
        TaskActivated(task="1", epoch=2, since=2, order="resume", by="me"),
        TaskPassivated(task="1", waiting=True),
        state=FIVE,
    )
    assert state.tasks["1"].where == "waiting"


def test_a_cancelled_task_needs_no_free_slot() -> None:
    state = fold(
        activated("1", 1), TaskWoken(task="5", order="cancel", by="me"), state=FIVE
    )
    assert due(state, slots=1, held=NONE, now=NOW) == ["5"]


def test_held_tasks_are_left_alone() -> None:
    assert due(FIVE, slots=2, held=frozenset({"1"}), now=NOW) == ["2", "3"]


def test_only_a_task_whose_actors_ended_well_counts_as_clean() -> None:
    state = fold(activated("1", 1), activated("2", 1), state=FIVE)
    assert not state.tasks["1"].clean
    state = fold(TaskPassivated(task="1", waiting=False), state=state)
    assert (state.tasks["1"].clean, state.tasks["1"].where) == (True, "queued")
    assert not state.tasks["2"].clean


def test_a_key_finds_its_unfinished_task() -> None:
    state = fold(queued("x", key="mine"))
    assert state.with_key("mine") == "x"
    left = fold(TaskLeft(task="x", status="completed"), state=state)
    assert left.with_key("mine") is None


def test_events_of_other_streams_are_refused() -> None:
    with pytest.raises(TypeError, match="TaskClosed"):
        apply(FIVE, TaskClosed(status="completed"))


def test_only_somebody_who_has_it_go_on_gives_recoveries_back() -> None:
    # What a task waited for has come: that says nothing about its crashes.
    stopped = fold(
        activated("1", 1), TaskPassivated(task="1", waiting=True), state=FIVE
    )
    for order, forgiven in (("again", False), ("resume", True), ("cancel", True)):
        woken = TaskWoken(task="1", order=order, by="me")  # type: ignore[arg-type]
        assert fold(woken, state=stopped).tasks["1"].forgiven is forgiven
    resumed = fold(TaskWoken(task="1", order="resume", by="me"), state=stopped)
    again = TaskActivated(task="1", epoch=2, since=2, order="resume", by="me")
    assert not fold(again, state=resumed).tasks["1"].forgiven


def test_groups_that_wait_get_slots_in_turn_however_many_tasks_they_have() -> None:
    # B65
    state = QueueState()
    for n in range(1000):
        state = apply(state, queued(f"big-{n}", group="big"))
    state = apply(state, queued("small", group="small"))
    starts: list[str] = []
    for _ in range(2):
        (task,) = due(state, slots=1, held=NONE, now=NOW)
        starts.append(task)
        state = apply(state, activated(task))
        state = apply(state, TaskLeft(task=task, status="completed"))
    assert starts == ["big-0", "small"]


def test_a_group_that_comes_later_does_not_catch_up_on_what_it_missed() -> None:
    state = QueueState()
    for n in range(10):
        state = apply(state, queued(f"a-{n}", group="a"))
    for n in range(5):
        state = apply(state, activated(f"a-{n}"))
    for n in range(10):
        state = apply(state, queued(f"b-{n}", group="b"))
    order = due(state, slots=5 + 6, held=NONE, now=NOW)
    assert [name[0] for name in order] == ["a", "b"] * 3


def test_a_task_that_recovers_takes_no_turn_from_its_group() -> None:
    state = QueueState()
    for name in ("a-1", "b-1", "a-2", "b-2"):
        state = apply(state, queued(name, group=name[0]))
    state = apply(state, activated("a-1"))
    state = apply(state, activated("b-1"))
    for _ in range(3):
        state = apply(state, activated("a-1"))
    assert due(state, slots=3, held=NONE, now=NOW) == ["a-2"]


def test_a_group_without_tasks_is_forgotten() -> None:
    state = apply(QueueState(), queued("a-1", group="a"))
    state = apply(apply(state, activated("a-1")), TaskLeft(task="a-1", status="failed"))
    assert state.turns == {}
