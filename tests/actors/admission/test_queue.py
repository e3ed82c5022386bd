from __future__ import annotations

import pytest

from perdure.actors.admission.lines import Lines
from perdure.actors.admission.queue import (
    ADOPT,
    REMEMBERED,
    UPGRADE,
    QueueState,
    apply,
)
from perdure.actors.events import (
    AgentChanged,
    Event,
    TaskActivated,
    TaskClosed,
    TaskLeft,
    TaskParked,
    TaskPassivated,
    TaskQueued,
    TaskWoken,
)
from tests.actors.admission.line import Line, due

NONE = frozenset[str]()
NOW = 1_700_000_000.0


def queued(
    task: str, priority: int = 0, key: str | None = None, group: str = ""
) -> TaskQueued:
    return TaskQueued(task=task, agent="a", group=group, priority=priority, key=key)


def activated(task: str, epoch: int = 1, order: str = "run") -> TaskActivated:
    return TaskActivated(task=task, epoch=epoch, since=0, order=order, by="")  # type: ignore[arg-type]


def fold(*events: Event, state: QueueState | None = None) -> QueueState:
    return Line(state=state or QueueState()).after(*events).state


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
    line = Line(state=FIVE).after(
        activated("1", 1),
        TaskPassivated(task="1", waiting=True),
        activated("2", 1),
    )
    assert due(line.state, slots=2, held=NONE, now=NOW) == ["3"]
    state = line.after(TaskWoken(task="1", order="resume", by="me")).state
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
    line = Line(state=FIVE).after(
        activated("1", 1),
        TaskPassivated(task="1", waiting=True),
        TaskWoken(task="1", order="resume", by="me"),
        TaskActivated(task="1", epoch=2, since=2, order="resume", by="me"),
        TaskPassivated(task="1", waiting=True),
    )
    assert line.place("1").where == "waiting"


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
    assert Lines(state.tasks).with_key("mine") == "x"
    left = fold(TaskLeft(task="x", status="completed"), state=state)
    assert Lines(left.tasks).with_key("mine") is None


def test_events_of_other_streams_are_refused() -> None:
    with pytest.raises(TypeError, match="TaskClosed"):
        apply(FIVE, TaskClosed(status="completed"))


def test_only_somebody_who_has_it_go_on_gives_recoveries_back() -> None:
    # What a task waited for has come: that says nothing about its crashes.
    stopped = Line(state=FIVE).after(
        activated("1", 1), TaskPassivated(task="1", waiting=True)
    )
    for order, forgiven in (("again", False), ("resume", True), ("cancel", True)):
        woken = TaskWoken(task="1", order=order, by="me")  # type: ignore[arg-type]
        assert stopped.after(woken).place("1").forgiven is forgiven
    resumed = stopped.after(TaskWoken(task="1", order="resume", by="me"))
    again = TaskActivated(task="1", epoch=2, since=2, order="resume", by="me")
    assert not resumed.after(again).place("1").forgiven


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


def waiting(*tasks: str) -> QueueState:
    """A queue of these tasks; the letter before the dash is the group."""
    return fold(*(queued(task, group=task[0]) for task in tasks))


def served(state: QueueState, count: int) -> tuple[QueueState, str]:
    """Start and end so many tasks, one at a time; the groups in their order."""
    groups = ""
    for _ in range(count):
        (task,) = due(state, slots=1, held=NONE, now=NOW)
        groups += task[0]
        left = TaskLeft(task=task, status="completed")
        state = fold(activated(task), left, state=state)
    return state, groups


def test_a_group_that_comes_later_does_not_catch_up_on_what_it_missed() -> None:
    state, _ = served(waiting(*(f"a-{n}" for n in range(20))), 5)
    state = fold(*(queued(f"b-{n}", group="b") for n in range(10)), state=state)
    assert served(state, 6)[1] == "bababa"


def test_a_group_that_slept_does_not_catch_up_on_what_it_missed() -> None:
    asleep = [f"z-{n}" for n in range(8)]
    line = Line(state=waiting(*asleep))
    for task in asleep:
        line = line.after(activated(task), TaskPassivated(task=task, waiting=True))
    line = line.after(*(queued(f"a-{n}", group="a") for n in range(60)))
    line = Line(state=served(line.state, 40)[0], rests=line.rests)
    wakes = (TaskWoken(task=task, order="again", by="timer") for task in asleep)
    assert served(line.after(*wakes).state, 8)[1].count("z") <= 5
    # Nor does a group that comes anew beside one that sleeps.
    state, _ = served(fold(*(queued(f"c-{n}", group="c") for n in range(9))), 3)
    state = fold(queued("s-1", group="s"), activated("s-1"), state=state)
    state = fold(TaskPassivated(task="s-1", waiting=True), state=state)
    state, _ = served(state, 5)
    state = fold(
        *(queued(f"{name}-{n}x", group=name) for name in "cd" for n in range(9)),
        state=state,
    )
    assert served(state, 6)[1].count("d") == 3


def test_a_group_that_submits_one_task_after_the_other_takes_turns_too() -> None:
    state, order = waiting(*(f"a-{n}" for n in range(9))), ""
    for n in range(8):
        state = fold(queued(f"s-{n}", group="s"), state=state)
        while order.count("s") == n:
            state, group = served(state, 1)
            order += group
    assert order == "as" * 8


def test_a_cancelled_task_takes_no_turn_from_its_group() -> None:
    state = fold(
        TaskWoken(task="a-1", order="cancel", by="me"),
        activated("a-1", order="cancel"),
        TaskLeft(task="a-1", status="cancelled"),
        state=waiting("a-1", "a-2", "b-1"),
    )
    assert due(state, slots=1, held=NONE, now=NOW) == ["a-2"]


def test_a_task_that_was_not_done_when_its_process_ended_keeps_its_turn() -> None:
    state = waiting("a-1", "a-2", "b-1", "b-2")
    state = fold(
        activated("a-1"), TaskPassivated(task="a-1", waiting=False), state=state
    )
    assert due(state, slots=3, held=NONE, now=NOW) == ["a-1", "b-1", "a-2"]


def test_groups_take_turns_among_tasks_of_the_same_priority() -> None:
    urgent = [queued(f"a-{n}", priority=5, group="a") for n in range(5)]
    low = [queued(f"{group}-{n}0", group=group) for group in "ab" for n in range(5)]
    state, order = served(fold(*urgent, *low), 5 + 6)
    assert order == "aaaaa" + "ababab"
    assert 5 not in state.rounds
    names = ("a-1", "a-2", "b-1", "c-1")
    four = [queued(name, priority=5, group=name[0]) for name in names]
    order = "".join(due(fold(*four), slots=4, held=NONE, now=NOW))
    assert order == "a-1b-1c-1a-2"


def test_tasks_that_are_starting_have_their_slots_and_their_turns() -> None:
    # K38
    state = waiting("a-1", "a-2", "a-3", "b-1", "b-2")
    assert due(state, slots=2, held=NONE, now=NOW) == ["a-1", "b-1"]
    starting = frozenset({"a-1"})
    again = due(state, slots=3, held=NONE, now=NOW, starting=starting)
    assert again == ["b-1", "a-2"]
    assert due(state, slots=1, held=NONE, now=NOW, starting=starting) == []


def test_a_slow_start_costs_its_group_no_turn() -> None:
    state = waiting("a-1", "a-2", "a-3", "b-1", "b-2", "b-3")
    # Chosen a-1, b-1, a-2; the pool answers for b-1 last.
    state = fold(activated("a-1"), activated("a-2"), activated("b-1"), state=state)
    assert due(state, slots=4, held=NONE, now=NOW) == ["b-2"]


def test_a_task_that_recovers_takes_no_turn_from_its_group() -> None:
    state = QueueState()
    for name in ("a-1", "b-1", "a-2", "b-2"):
        state = apply(state, queued(name, group=name[0]))
    state = apply(state, activated("a-1"))
    state = apply(state, activated("b-1"))
    for _ in range(3):
        state = apply(state, activated("a-1"))
    assert due(state, slots=3, held=NONE, now=NOW) == ["a-2"]


def test_however_many_groups_come_and_go_few_are_remembered() -> None:
    state = QueueState()
    for n in range(REMEMBERED + 50):
        task = f"t-{n}"
        state = fold(queued(task, group=task), activated(task), state=state)
    assert len(state.rounds[0].next) == REMEMBERED
    for n in range(REMEMBERED + 50):
        state = fold(TaskLeft(task=f"t-{n}", status="failed"), state=state)
    assert state.rounds == {}


@pytest.mark.parametrize("ends_with", [UPGRADE, ADOPT])
def test_a_task_is_unfit_from_its_parking_until_it_is_woken(ends_with: str) -> None:
    parked = TaskParked(task="1", status="parked", reason="r", ends_with=ends_with)
    line = Line(state=FIVE).after(parked)
    assert (line.place("1").unfit, line.place("2").unfit) == (True, False)
    woken = TaskWoken(task="1", order="resume", by="operator")
    assert not line.after(woken).place("1").unfit


def test_what_a_task_goes_on_under_is_remembered_until_it_changes_again() -> None:
    def changed(digest: str, baseline: str) -> AgentChanged:
        return AgentChanged(task="1", before="x", digest=digest, baseline=baseline)

    state = fold(changed("a", "23.3"), changed("b", "mine"), state=FIVE)
    place = state.tasks["1"]
    assert (place.digest, place.rules, place.where) == ("b", "mine", "queued")
    assert state.version == FIVE.version + 2
