"""The queue against a list of tasks: who may start, in which order, and how fairly."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from perdure.actors.admission import lines
from perdure.actors.admission.lines import Lines
from perdure.actors.admission.queue import LAG, QueueState
from perdure.actors.events import (
    Event,
    TaskActivated,
    TaskLeft,
    TaskParked,
    TaskPassivated,
    TaskQueued,
    TaskWoken,
)
from tests.actors.admission.line import Line, due

NOW = 1_700_000_000.0
PASSED = 1 + LAG  # starts of another group while one of the same priority waits


class Known:
    """One task, as a person would keep it on a list."""

    def __init__(self, name: str, group: str, priority: int) -> None:
        self.name = name
        self.group = group
        self.priority = priority
        self.where = "queued"
        self.cancelled = False
        self.woken = False

    @property
    def waits(self) -> bool:
        return self.where == "queued" and not self.cancelled


class QueueAgainstList(RuleBasedStateMachine):
    """Tasks come, start, sleep, wake, park, end; the process may end in between."""

    def __init__(self) -> None:
        super().__init__()
        self.line = Line()
        self.lines = Lines({})
        self.tasks: list[Known] = []
        self.epochs: Counter[str] = Counter()
        self.passed: Counter[tuple[int, str, str]] = Counter()  # priority, whom, by

    def fold(self, event: Event) -> None:
        self.line = self.line.after(event)
        task = getattr(event, "task", "")
        self.lines.put(task, self.state.tasks.get(task))

    @property
    def state(self) -> QueueState:
        return self.line.state

    def waiting(self, priority: int) -> set[str]:
        return {
            one.group for one in self.tasks if one.waits and one.priority == priority
        }

    def draw(self, data: Any, *where: str) -> Known | None:
        found = [one for one in self.tasks if one.where in where]
        return data.draw(st.sampled_from(found)) if found else None

    def no_longer_waiting(self) -> None:
        """Whoever does not wait is not passed by anybody, and begins anew."""
        for priority, group, by in list(self.passed):
            if group not in self.waiting(priority):
                del self.passed[priority, group, by]

    @rule(
        groups=st.text("abc", min_size=1, max_size=6),
        priority=st.sampled_from((0, 0, 0, 1)),
    )
    def submit(self, groups: str, priority: int) -> None:
        for group in groups:
            name = f"t-{self.state.version}"
            self.tasks.append(Known(name, group, priority))
            queued = TaskQueued(
                task=name, agent="x", group=group, priority=priority, key=None
            )
            self.fold(queued)

    @rule(times=st.integers(1, 9), data=st.data())
    def start_and_end(self, times: int, data: Any) -> None:
        for _ in range(times):
            self.start(1, data)
            self.stop(data, "ends")

    @rule(free=st.integers(1, 4), data=st.data())
    def start(self, free: int, data: Any) -> None:
        active = sum(one.where == "active" for one in self.tasks)
        chosen = due(self.state, slots=active + free, held=frozenset(), now=NOW)
        listed = {one.name: one for one in self.tasks}
        ending = [one for one in self.tasks if one.where == "queued" and one.cancelled]
        assert {one.name for one in ending} <= set(chosen)
        begun = [listed[name] for name in chosen if not listed[name].cancelled]
        left = [one for one in self.tasks if one.waits and one not in begun]
        assert len(begun) == min(free, len(begun) + len(left))
        for one in begun:
            for other in left:
                assert other.priority <= one.priority
                if (other.priority, other.group) == (one.priority, one.group):
                    assert self.tasks.index(one) < self.tasks.index(other)
        for name in chosen:
            self.begin(listed[name])
        for name in data.draw(st.permutations(chosen)):
            self.activated(listed[name])  # each starts when its money is there
        for key, times in self.passed.items():
            assert times <= PASSED, f"{key} {times}"

    def begin(self, one: Known) -> None:
        fresh = one.waits
        one.where, one.woken = "active", False
        if fresh:
            for group in self.waiting(one.priority) - {one.group}:
                self.passed[one.priority, group, one.group] += 1
            for priority, group, by in list(self.passed):
                if (priority, group) == (one.priority, one.group):
                    del self.passed[priority, group, by]
        self.no_longer_waiting()

    def activated(self, one: Known) -> None:
        self.epochs[one.name] += 1
        self.fold(
            TaskActivated(
                task=one.name,
                epoch=self.epochs[one.name],
                since=0,
                order="cancel" if one.cancelled else "run",
                by="",
            )
        )

    @rule(data=st.data())
    def recover(self, data: Any) -> None:
        if one := self.draw(data, "active"):
            self.begin(one)
            self.activated(one)

    @rule(data=st.data(), how=st.sampled_from(("waits", "parks", "ends")))
    def stop(self, data: Any, how: str) -> None:
        one = self.draw(data, "active")
        if one is None:
            return
        if how == "waits":
            one.where = "queued" if one.woken else "waiting"
            self.fold(TaskPassivated(task=one.name, waiting=True))
        elif how == "parks":
            one.where = "parked"
            parked = TaskParked(task=one.name, status="parked", reason="", ends_with="")
            self.fold(parked)
        else:
            self.tasks.remove(one)
            self.fold(TaskLeft(task=one.name, status="completed"))

    @rule(data=st.data())
    def wake(self, data: Any) -> None:
        one = self.draw(data, "waiting", "parked", "active")
        if one is None or one.cancelled:
            return
        one.woken = one.where == "active"
        one.where = one.where if one.woken else "queued"
        self.fold(TaskWoken(task=one.name, order="resume", by="me"))
        if one.woken:
            one.where = "queued"
            self.fold(TaskPassivated(task=one.name, waiting=True))

    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        one = self.draw(data, "queued", "waiting", "parked")
        if one is not None:
            one.cancelled, one.where = True, "queued"
            self.fold(TaskWoken(task=one.name, order="cancel", by="me"))
            self.no_longer_waiting()

    @precondition(lambda self: self.state.active())
    @rule()
    def close_and_open_again(self) -> None:
        """All that were active wait again; those turns are not had."""
        for one in self.tasks:
            if one.where == "active":
                one.where, one.woken = "queued", False
                self.fold(TaskPassivated(task=one.name, waiting=False))
        self.passed.clear()

    @invariant()
    def everybody_is_where_the_list_says(self) -> None:
        places = self.line.places
        assert list(places) == [one.name for one in self.tasks]
        for one in self.tasks:
            assert places[one.name].where == one.where

    @invariant()
    def who_rests_takes_no_room(self) -> None:
        known = [one.name for one in self.tasks if one.where in ("queued", "active")]
        assert list(self.state.tasks) == known

    @invariant()
    def lines_kept_up_are_those_of_a_look_at_all(self) -> None:
        kept, state = self.lines, self.state
        anew = Lines(state.tasks)
        assert (kept.active, kept.lines) == (anew.active, anew.lines)
        for slots in (1, len(state.active()) + 2):
            turn = lines.due(kept, state.rounds, slots=slots, held=set(), now=NOW)
            assert turn == due(state, slots=slots, held=frozenset(), now=NOW)

    @invariant()
    def a_snapshot_holds_all_of_it(self) -> None:
        kept = msgspec.json.decode(msgspec.json.encode(self.state), type=QueueState)
        assert kept == self.state


TestQueueAgainstList = QueueAgainstList.TestCase  # B65 B66
TestQueueAgainstList.settings = settings(max_examples=60, stateful_step_count=30)
