"""What the begin of a task reads: little of a new one, and no stream twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from perdure import Agent, Call, Finish, PolicyView, tool
from perdure.actors import names
from perdure.storage.journal import Journal
from perdure.storage.memory import MemoryReader
from tests.actors.world import House


def caller(calls: int) -> Agent:
    @tool(effect="read")
    def work(n: int) -> str:
        return "x"

    def decide(view: PolicyView) -> Call | Finish:
        if view.count < calls:
            return Call("work", {"n": view.count})
        return Finish(view.count)

    return Agent(name="agent", policy=decide, tools=[work], recovery="rules")


class Reads:
    """The journal's reads, and which streams each of them loaded."""

    def __init__(self) -> None:
        self.count = 0
        self.loaded: list[tuple[int, str]] = []  # number of the read, stream

    def of(self, stream: str) -> list[int]:
        return [number for number, one in self.loaded if one == stream]


@contextmanager
def reads() -> Iterator[Reads]:
    seen = Reads()
    perform, load = Journal._perform, MemoryReader.load

    def counted(journal: Any, read: Any) -> Any:
        seen.count += 1
        return perform(journal, read)

    def listed(reader: Any, stream: str, **options: Any) -> Any:
        seen.loaded.append((seen.count, stream))
        return load(reader, stream, **options)

    with (
        patch.object(Journal, "_perform", counted),
        patch.object(MemoryReader, "load", listed),
    ):
        yield seen


def test_a_new_task_takes_one_read_from_its_submission_to_its_end() -> None:
    house = House(caller(0))
    house.run()
    with reads() as seen:
        assert house.run().status == "completed"
    assert (seen.count, seen.loaded) == (1, [])


def test_the_streams_of_an_interrupted_task_are_read_together_and_once() -> None:
    house = House(caller(9))
    task = house.submit().id
    house.until_hit("action.observed", op=4)
    house.kill()
    with reads() as seen:
        house.reopen()
        assert house.finish(task).status == "completed"
    streams = names.ledger(task), names.account(task), names.family(task)
    (number,) = {one for stream in streams for one in seen.of(stream)}
    assert [seen.of(stream) for stream in streams] == [[number]] * 3


def test_an_actor_that_crashed_reads_anew_what_it_has_written_since() -> None:
    house = House(caller(9))
    task = house.submit().id
    house.until_hit("action.observed", op=4)
    with reads() as seen:
        house.sim.crash(names.account(task))
        assert house.finish(task).status == "completed"
    assert len(seen.of(names.account(task))) == 1
    assert seen.of(names.ledger(task)) == []
    assert house.log.crashes() == []


def recovered(tasks: int) -> int:
    """How many reads a start takes until so many interrupted tasks have recovered."""
    house = House(caller(99), active=tasks)
    ids = [house.submit().id for _ in range(tasks)]
    had = house.log.of

    def interrupted() -> bool:
        return {one["task"] for one in had("action.observed")} == set(ids)

    assert house.until(interrupted)
    house.kill()
    with reads() as seen:
        house.reopen()
        assert house.until(lambda: len(had("recovery.progressed")) == tasks)
    return seen.count


def test_each_recovery_takes_two_reads() -> None:
    # Whether it can go on, and, once its begin is written down, what it goes on with.
    assert recovered(5) - recovered(2) == 3 * 2


def test_a_task_that_slept_is_read_once_as_it_wakes() -> None:
    @tool(effect="read", approval=True)
    def ask() -> str:
        return "x"

    def decide(view: PolicyView) -> Call | Finish:
        return Finish(1) if view.count else Call("ask", {})

    agent = Agent(name="agent", policy=decide, tools=[ask], recovery="rules")
    house = House(agent)
    task = house.submit().id
    house.finish(task)
    (approval,) = house.runtime.approvals()
    house.until(lambda: False, 5.0)
    with reads() as seen:
        house.runtime.answer(task, approval.approval, "an operator", "", approved=True)
        assert house.finish(task).status == "completed"
    streams = names.ledger(task), names.account(task), names.family(task)
    assert [len(seen.of(stream)) for stream in streams] == [1, 1, 1]
    # Its row, by admission and once more; its answers, by both; and these together.
    assert seen.count == 5
