"""Messages between actors are lost, doubled, late or out of order: nothing comes of it.

Every request is sent again, is idempotent on the other side, and says all that its
answer rests on. Actors crash in between, in the middle of their turns.
"""

from __future__ import annotations

from collections import Counter

import pytest

from perdure.actors import names
from perdure.supervision.faults import (
    DELIVERY,
    Action,
    Fault,
    FaultPlan,
    InjectedCrash,
    installed,
    seeded_faults,
)
from tests.actors.runs import check, wide
from tests.actors.test_waiting_faults import agent, sound, work
from tests.actors.world import House, Log, World

OF_MESSAGES: tuple[Action, ...] = ("drop", "duplicate", "reorder", "delay")
MESSAGES = 120  # that actors send each other in one run
TURNS = {
    "task.append.after": 38,
    "task.apply.after": 38,
    "task.decided": 7,
    "ledger.append.after": 32,
    "account.append.after": 34,
    "effect.registered": 16,
    "effect.recorded": 16,
    "approval.asked": 2,
    "approval.answered": 2,
    "timer.set": 2,
    "timer.fired": 1,
    "inbox.applied": 2,
    "admission.passivated": 3,
}


class Forgiving(Log):
    """A log that takes the crashes of the plan for what they are."""

    def crashes(self) -> list[str]:
        return [one for one in super().crashes() if InjectedCrash.__name__ not in one]


class Counting(FaultPlan):
    """Counts what it did."""

    def __init__(self, faults: tuple[Fault, ...], house: House) -> None:
        super().__init__(faults, sleep=house.sim.clock.advance)
        self.fired: Counter[str] = Counter()

    def _due(self, point: str, subject: str) -> list[Fault]:
        due = super()._due(point, subject)
        self.fired.update(fault.action for fault in due)
        return due


def run(seed: int, *actions: Action) -> Counter[str]:
    """One job with calls of every effect class, and one with waits, under one plan."""
    fired: Counter[str] = Counter()
    hits = {DELIVERY: MESSAGES, **TURNS}
    plan = seeded_faults(seed, hits=hits, count=1 + seed % 4, actions=actions)
    world = World()
    house = House(wide(world), seed=seed)
    house.log.__class__ = Forgiving
    with installed(Counting(plan, house)) as counting:
        check(house, world, house.submit().id)
    assert isinstance(counting, Counting)
    fired += counting.fired
    world = World()
    house = House(agent(world), seed=seed)
    with installed(Counting(plan, house)) as counting:
        task = house.submit().id
        work(house, task)
        sound(house, world, task)
    assert isinstance(counting, Counting)
    return fired + counting.fired


@pytest.mark.parametrize("action", [*OF_MESSAGES, "crash"])
def test_one_kind_of_fault_changes_nothing(action: Action) -> None:
    # P2 P3
    fired = sum((run(seed, action) for seed in range(15)), Counter[str]())
    assert fired[action] > 15


@pytest.mark.proof("messages")
@pytest.mark.parametrize("part", range(4))
def test_all_kinds_of_faults_together_change_nothing(part: int) -> None:
    # P2 P3 P6
    seeds = range(1000 + part, 1100, 4)
    fired = sum((run(seed, *OF_MESSAGES, "crash") for seed in seeds), Counter[str]())
    assert len(fired) > 3
    assert fired.total() > 25


def test_each_message_of_a_run_may_be_lost_or_doubled() -> None:
    for nth in range(1, MESSAGES):
        for action in ("drop", "duplicate"):
            fault = Fault(point=DELIVERY, nth=nth, action=action)
            world = World()
            house = House(wide(world))
            with installed(FaultPlan([fault])):
                check(house, world, house.submit().id)


@pytest.mark.parametrize(
    ("order", "status"), [("pause", "paused"), ("cancel", "cancelled")]
)
def test_an_order_that_is_lost_is_told_again(order: str, status: str) -> None:
    house = House(wide(World()))
    task = house.submit()

    def lost(receiver: str, nth: int) -> Fault:
        return Fault(point=DELIVERY, nth=nth, action="drop", subject=receiver)

    account = names.account(task.id)
    plan = [lost(account, 2), lost(account, 3), lost(names.task(task.id), 2)]
    with installed(FaultPlan(plan)):
        house.sim.run_for(1.0)  # its first question to the account is lost
        getattr(task, order)()
        assert house.finish(task.id).status == status


@pytest.mark.parametrize("nth", range(1, 16))
def test_no_task_sleeps_on_because_admission_missed_a_word(nth: int) -> None:
    world = World()
    house = House(agent(world))
    task = house.submit().id
    lost = Fault(point=DELIVERY, nth=nth, action="drop", subject=names.ADMISSION)
    with installed(FaultPlan([lost])):
        work(house, task)
    sound(house, world, task)
