"""A kill at every commit, and at every commit of the recovery behind it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from perdure import Agent, Handle, Plan, Step
from perdure.actors.events import EffectRecorded, Held, Reserved, Settled
from perdure.actors.model import ModelReply, ModelRequest, Usage
from perdure.models import Scripted
from perdure.supervision.faults import FaultPlan, installed
from tests.actors.runs import not_reproduced
from tests.actors.world import (
    House,
    World,
    comparable,
    follow,
    redone,
    tools_of,
    unbalanced,
)

SCRIPT = {
    "find": [[("look", {"what": "a"}), ("look", {"what": "b"})]],
    "write": [[("write", {"name": "f", "text": "1"})], [("send", {"text": "hello"})]],
}
NTH, PARTS = 3, 3  # of the commits that the pairs begin with


def worker(world: World) -> Agent:
    """Two steps, three tools, one of which a person must approve."""
    tools = tools_of(world)
    tools[-1].approval = True
    return Agent(
        name="agent",
        instructions="Do the job.",
        model=Scripted(follow(SCRIPT)),
        tools=tools,
        plan=Plan(steps=tuple(Step(id=name, goal=f"{name} it") for name in SCRIPT)),
    )


class Run:
    """One run to the end, killed behind the commits of these numbers."""

    def __init__(self, *places: int) -> None:
        self.commits = 0
        self.kills = 0
        self.world = World()
        self._due = False
        self._places = list(places)
        with installed(FaultPlan((), self._passed)):
            self.house = House(worker(self.world))
            self._until_completed()
        self.house.runtime.close()

    def _passed(self, point: str, subject: str) -> None:
        if point == "journal.flush.after":
            self.commits += 1
            if self._places and self._places[0] == self.commits:
                self._places.pop(0)
                self._due = True

    def _until_completed(self) -> None:
        task = self.house.submit(key="k")
        while True:
            if self._due:
                self._due = False
                self.kills += 1
                self.house.kill()
                self.house.reopen()
                task = self.house.submit(key="k")
            elif (result := task.result()) is None:
                assert self.house.sim.step()
            elif result.reason == "approval":
                for one in self.house.runtime.approvals():
                    task.approve(one.approval)
                self.house.sim.step()
            else:
                break
        assert result.status == "completed", result
        self.result = result
        self.stream = f"task/{task.id}"

    def end(self) -> dict[str, Any]:
        """What kills must not change."""
        return {
            **comparable(self.result),
            "steps": self.result.steps,
            "sent": [text for _, text in self.world.sent],
            "files": self.world.files,
            "writers": len({request for request, _ in self.world.writes}),
            "open": self.house.runtime.health()["running"],
        }

    def broken(self) -> list[str]:
        store = self.house.store
        return [
            *unbalanced(store),
            *redone(store),
            *not_reproduced(store),
            *self.house.log.crashes(),
        ]


@pytest.fixture(scope="module")
def calm() -> Run:
    run = Run()
    assert len(run.house.events(run.stream)) >= 30
    assert run.world.sent[0][1] == "hello"
    return run


def test_a_kill_at_any_commit_changes_nothing_at_the_end(calm: Run) -> None:
    # R3: thirty events, three tools, one approval.
    for place in range(1, calm.commits + 1):
        run = Run(place)
        assert (run.kills, run.end(), run.broken()) == (1, calm.end(), []), place
    assert calm.commits > 30


@pytest.mark.parametrize("part", range(PARTS))
def test_two_more_kills_at_the_commits_of_its_recovery_change_nothing(
    calm: Run, part: int
) -> None:
    # R4
    kills: list[int] = []
    for first in range(1 + part, calm.commits + 1, NTH * PARTS):
        for behind in range(1, 8):
            run = Run(first, first + behind, first + 2 * behind)
            assert (run.end(), run.broken()) == (calm.end(), []), (first, behind)
            kills.append(run.kills)
    assert min(kills) >= 1  # near the end there is no commit left to kill behind
    assert sum(kills) > 2.5 * len(kills)


# ── money ────────────────────────────────────────────────────────────────────────


def one_call(request: ModelRequest) -> ModelReply:
    usage = Usage(input_tokens=100, output_tokens=20)
    return ModelReply(content='"done"', usage=usage)


def billed(seed: int = 0) -> House:
    """A task of one model call that is billed 120 tokens, and reserved more."""
    agent = Agent(
        name="agent",
        instructions="Answer.",
        model=Scripted(one_call),
        recovery="rules",
    )
    return House(agent, seed=seed)


def once_each(house: House, stream: str) -> bool:
    times = Counter((e.op, e.attempt) for e in house.of(f"{stream}/account", Settled))
    return set(times.values()) == {1}


def test_a_call_whose_bill_was_lost_is_held_and_then_settled_once() -> None:
    # R14: the reservation stands until the attempt is decided.
    house = billed()
    task = house.submit()
    hits: list[str] = []
    with installed(FaultPlan((), lambda point, subject: hits.append(point))):
        assert house.until(lambda: "effect.executed" in hits)
    stream = f"task/{task.id}"
    assert house.of(f"{stream}/ledger", EffectRecorded) == []
    house.kill()
    house.reopen()
    result = house.finish(task.id)
    first = house.of(f"{stream}/account", Reserved)[0].amounts
    assert first["tokens"] > 120
    assert [one.op for one in house.of(f"{stream}/account", Held)] == [1]
    assert result.spent["tokens"] == 120
    assert result.spent_unknown["tokens"] == first["tokens"]
    assert once_each(house, stream)
    assert unbalanced(house.store) == []


def recorded_alone() -> tuple[House, Handle]:
    """Where the record of the bill is on disk, and what follows from it is not."""
    for seed in range(20):
        house = billed(seed)
        task = house.submit()
        ledger, account = f"task/{task.id}/ledger", f"task/{task.id}/account"
        house.until(lambda h=house, name=ledger: h.of(name, EffectRecorded) != [])
        if not house.of(account, Settled):
            return house, task
    raise AssertionError("no seed puts the two into commits of their own")


def test_a_call_whose_bill_is_on_record_is_charged_from_it_once() -> None:
    # R14: killed behind the commit, before the event that follows.
    house, task = recorded_alone()
    house.kill()
    house.reopen()
    result = house.finish(task.id)
    assert house.of(f"task/{task.id}/account", Held) == []
    assert result.spent["tokens"] == 120
    assert result.spent_unknown.get("tokens", 0) == 0
    assert once_each(house, f"task/{task.id}")
