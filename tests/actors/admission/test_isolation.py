"""A process that dies again and again: one task at a time, until it is known who."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from perdure import tool
from perdure.actors.admission.isolation import suspects
from perdure.actors.admission.queue import QueueState, apply
from perdure.actors.events import (
    Event,
    ProgressSeen,
    QueueReopened,
    RecoveryBegan,
    TaskActivated,
    TaskLeft,
    TaskQueued,
    TaskWoken,
)
from perdure.models import Scripted
from tests.actors.world import House, World, follow, job

NONE = frozenset[str]()


def queued(*tasks: str) -> list[Event]:
    return [
        TaskQueued(task=task, agent="a", group="", priority=0, key=None)
        for task in tasks
    ]


def activated(*tasks: str, epoch: int = 1) -> list[Event]:
    return [
        TaskActivated(task=task, epoch=epoch, since=0, order="run", by="")
        for task in tasks
    ]


def died(*tasks: str, alone: bool = False) -> QueueReopened:
    return QueueReopened(interrupted=tasks, alone=alone)


def fold(*events: Event, state: QueueState | None = None) -> QueueState:
    state = state or QueueState()
    for event in events:
        state = apply(state, event)
    return state


THREE = fold(*queued("1", "2", "3"), *activated("1", "2", "3"))


def test_who_was_alone_when_the_process_died_takes_the_strike() -> None:
    state = fold(died("1", "2", "3"), state=THREE)
    assert [one.struck for one in state.tasks.values()] == [False] * 3
    state = fold(*activated("2", epoch=2), died("2"), state=state)
    assert state.tasks["2"].struck
    assert [state.tasks[one].struck for one in "13"] == [False] * 2


def test_process_ends_in_a_row_are_counted_until_one_is_not_in_vain() -> None:
    state = fold(died("1", "2"), died("1", "2"), state=THREE)
    assert state.unclean == 2
    assert fold(ProgressSeen(task="2"), state=state).unclean == 0
    assert fold(TaskLeft(task="2", status="completed"), state=state).unclean == 0
    assert fold(died(), state=state).unclean == 0, "it ended well"


def test_the_likeliest_is_recovered_first_and_who_runs_or_is_held_is_none() -> None:
    state = fold(died("1", "2", "3"), state=THREE)
    assert suspects(state, NONE) == ["1", "2", "3"]
    state = fold(*activated("1", "2", epoch=2), ProgressSeen(task="1"), state=state)
    assert [one.deaths for one in state.tasks.values()] == [0, 1, 1]
    assert suspects(state, NONE) == ["3"]
    state = fold(died("1", "2"), state=state)
    assert suspects(state, NONE) == ["2", "1", "3"]
    assert suspects(state, frozenset("2")) == ["1", "3"]


def test_who_is_to_end_comes_after_the_sub_tasks_that_it_waits_for() -> None:
    state = fold(*queued("parent", "part"), *activated("parent", "part"))
    part = msgspec.structs.replace(state.tasks["part"], parent="parent")
    state = msgspec.structs.replace(state, tasks={**state.tasks, "part": part})
    state = fold(died("parent", "part"), state=state)
    assert suspects(state, frozenset()) == ["parent", "part"]
    cancel = TaskWoken(task="parent", order="cancel", by="somebody")
    state = fold(cancel, state=state)
    assert suspects(state, frozenset()) == ["part", "parent"]
    assert suspects(state, frozenset({"part"})) == ["parent"]


def test_a_state_of_before_these_counts_is_read_as_one_without_deaths() -> None:
    state = fold(died("1", "2", "3"), state=QueueState(tasks=THREE.tasks))
    assert (state.openings, state.unclean) == (1, 1)


# ── a whole runtime ──────────────────────────────────────────────────────────────


class Poison:
    """A tool that ends the process each time; the house is opened again."""

    def __init__(self, *, seed: int = 0, innocents: int = 7, **options: Any) -> None:
        self.kills = 0
        self.dead = False

        @tool(effect="read")
        def die(what: str) -> str:
            self.dead = True
            self.house.kill()
            return "never heard"

        bad = job(
            World(),
            name="bad",
            tools=[die],
            plan=None,
            model=Scripted(follow({"task": [[("die", {"what": "x"})]]})),
            recovery="rules",
        )
        self.worlds = [World() for _ in range(innocents)]
        good = [
            job(world, name=f"good{place}") for place, world in enumerate(self.worlds)
        ]
        self.house = House(bad, *good, seed=seed, **options)
        place = seed % (innocents + 1)
        names = [one.name for one in good]
        names.insert(place, "bad")
        self.tasks = {name: self.house.submit(name).id for name in names}

    def status(self, name: str) -> str:
        return self.house.runtime.row(self.tasks[name]).status

    def live(self, most: int) -> None:
        """Open the store again after each death, until all tasks stopped."""
        rest = set(self.tasks)

        def over() -> bool:
            ended = {
                name
                for name in rest
                if self.status(name) in ("completed", "parked", "paused", "failed")
            }
            rest.difference_update(ended)
            return self.dead or not rest

        while rest:
            assert self.house.until(over), (rest, self.kills)
            if self.dead:
                self.kills += 1
                assert self.kills <= most, [self.status(name) for name in self.tasks]
                self.dead = False
                self.house.reopen()

    def strikes(self, name: str) -> int:
        stream = f"task/{self.tasks[name]}/recovery"
        return sum(one.strike for one in self.house.of(stream, RecoveryBegan))


@pytest.mark.parametrize("seed", range(8))
def test_a_poison_task_is_parked_and_the_seven_beside_it_complete(seed: int) -> None:
    # P8 R24
    poison = Poison(seed=seed)
    poison.live(most=30)
    assert poison.status("bad") == "parked"
    assert poison.strikes("bad") == 5
    for place, world in enumerate(poison.worlds):
        assert poison.status(f"good{place}") == "completed"
        assert len(world.sent) == 1
    assert poison.house.log.crashes() == []
    assert poison.house.log.strangers == []


def test_the_poison_task_alone_is_parked_after_as_many_strikes() -> None:
    poison = Poison(innocents=0)
    poison.live(most=6)
    assert poison.status("bad") == "parked"
    assert (poison.kills, poison.strikes("bad")) == (6, 5)


def die_at_once(house: House, times: int) -> None:
    for _ in range(times):
        house.kill()
        house.reopen()
        house.until_hit("queue.activated")


def test_after_two_ends_in_vain_one_task_is_recovered_at_a_time() -> None:
    house = House(*(job(World(), name=f"a{place}") for place in range(4)))
    tasks = [house.submit(f"a{place}") for place in range(3)]
    assert house.until(lambda: len(house.of("services/admission", TaskActivated)) == 3)
    die_at_once(house, 2)
    late = house.submit("a3")
    assert house.until_hit("queue.progressed")
    events = house.events("services/admission")
    last = max(p for p, one in enumerate(events) if isinstance(one, QueueReopened))
    assert [type(one) for one in events[last + 1 :]] == [
        TaskActivated,
        TaskQueued,
        ProgressSeen,
    ]
    for task in (*tasks, late):
        assert house.finish(task.id).status == "completed"


def test_two_ends_in_vain_and_a_clean_one_are_forgotten() -> None:
    house = House(job(World()), job(World(), name="b"))
    tasks = [house.submit("agent"), house.submit("b")]
    assert house.until(lambda: len(house.of("services/admission", TaskActivated)) == 2)
    die_at_once(house, 1)
    house.kill()
    house.reopen(resume=False)
    house.sim.run_for(1.0)
    house.runtime.close()
    house.reopen(resume=True)
    for task in tasks:
        assert house.finish(task.id).status == "completed"
    reopened = house.of("services/admission", QueueReopened)
    assert [one.alone for one in reopened] == [False, True, False]
    assert reopened[-1].interrupted == ()
    house.runtime.close()
    house.reopen()
    house.sim.run_for(1.0)
    assert len(house.of("services/admission", QueueReopened)) == 3


def test_a_drain_while_one_is_alone_ends_and_the_others_go_on_later() -> None:
    house = House(*(job(World(), name=f"a{place}") for place in range(3)))
    tasks = [house.submit(f"a{place}") for place in range(3)]
    assert house.until(lambda: len(house.of("services/admission", TaskActivated)) == 3)
    die_at_once(house, 2)
    house.runtime.close()
    assert house.log.of("runtime.drain_incomplete") == []
    house.reopen()
    for task in tasks:
        assert house.finish(task.id).status == "completed"


@pytest.mark.parametrize("steps", range(0, 60, 4))
def test_an_admission_that_crashes_meanwhile_goes_on_with_it(steps: int) -> None:
    house = House(*(job(World(), name=f"a{place}") for place in range(3)), seed=steps)
    tasks = [house.submit(f"a{place}") for place in range(3)]
    assert house.until(lambda: len(house.of("services/admission", TaskActivated)) == 3)
    die_at_once(house, 2)
    for _ in range(steps):
        house.sim.step()
    house.sim.crash("services/admission")
    for task in tasks:
        assert house.finish(task.id).status == "completed"
    assert house.log.crashes() == []
