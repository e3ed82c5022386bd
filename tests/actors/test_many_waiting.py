"""However many tasks wait: nothing of them in memory, and a start reads no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from perdure import Agent, Budget, Call, Finish, PolicyView, sleep, tool
from perdure.actors import names
from perdure.actors.admission.actor import Admission
from perdure.actors.events import TaskActivated, TaskRecalled, TimerFired
from perdure.actors.timers import actor as timers
from perdure.actors.timers.actor import Timers
from perdure.storage.memory import MemoryReader
from perdure.storage.records import Loaded, Row
from tests.actors.runs import sound
from tests.actors.world import House, quick

HOUR = 3600.0


@tool(effect="once", approval=True)
def send(what: str) -> str:
    """Send something."""
    return what


def waiter() -> Agent:
    """Tasks that sleep so many seconds, or wait for a word."""

    def decide(view: PolicyView) -> Call | Finish:
        if view.count:
            return Finish("done")
        if seconds := view.inputs.get("seconds"):
            return Call("sleep", {"seconds": seconds})
        return Call("send", {"what": "it"})

    return Agent(name="agent", policy=decide, tools=[sleep, send], recovery="rules")


def actor(house: House, name: str) -> Any:
    """The actor of that name, as it is now."""
    return house.runtime._system._cells[name].actor


def waiting(house: House, count: int) -> list[str]:
    """So many tasks, half of them until the time comes, all at rest."""
    tasks = [
        house.submit(inputs={"seconds": HOUR + n} if n % 2 else {}).id
        for n in range(count)
    ]
    rest = names.PLACES
    assert house.until(lambda: len(house.store.rows.get(rest, {})) == count, 60.0)
    assert house.until(lambda: house.runtime._house.journal.backlog == 0, 10.0)
    house.until(lambda: False, 1.0)  # what is late to hear of it does
    return tasks


def held(house: House) -> dict[str, int]:
    """How much the runtime holds in memory, by what it is of."""
    admission: Admission = actor(house, names.ADMISSION)
    journal = house.runtime._house.journal
    pool = msgspec.structs.replace(actor(house, names.POOL).state, samples={})
    return {
        "places": len(admission.state.tasks),
        "resting": len(admission.resting._written._values),
        "incarnations": len(admission.activation._over),
        "farewells": len(admission.activation.farewells),
        "requests": len(admission.requests._open),
        "leases": len(journal._leases._streams),
        "epochs": len(journal._leases._epochs),
        "families": len(journal._leases._under),
        "grants": len(actor(house, names.POOL).recent),
        "actors": len(house.runtime._system._cells),
        "pool": len(msgspec.json.encode(pool)),
        "queue": len(msgspec.json.encode(admission.state)),
    }


def test_a_waiting_task_holds_no_object_in_memory() -> None:
    # A task that waits is a row: with ten times as many, as much is held. What differs
    # are the digits of versions, and an epoch that was raised and not written with.
    few, many = House(waiter()), House(waiter())
    waiting(few, 4)
    waiting(many, 40)
    lots, some = held(many), held(few)
    assert {name: n for name, n in lots.items() if n > some[name] + 16} == {}


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Counts the rows and records that the actors read."""
    seen: Counter[str] = Counter()
    rows, after, load = MemoryReader.rows, MemoryReader.rows_after, MemoryReader.load

    def counting_rows(reader: Any, space: str, prefix: str = "") -> list[Row]:
        found = rows(reader, space, prefix)
        seen["rows"] += len(found)
        return found

    def counting_after(reader: Any, space: str, key: str, limit: int) -> list[Row]:
        found = after(reader, space, key, limit)
        seen["pages"] += len(found)
        return found

    def counting_load(reader: Any, stream: str, *args: Any, **named: Any) -> Loaded:
        found = load(reader, stream, *args, **named)
        seen["records"] += len(found.records)
        return found

    with (
        patch.object(MemoryReader, "rows", counting_rows),
        patch.object(MemoryReader, "rows_after", counting_after),
        patch.object(MemoryReader, "load", counting_load),
    ):
        yield seen


def opened(house: House) -> Counter[str]:
    """What an opening of the store reads, until nothing more is to be done."""
    house.runtime.close()
    with counted() as seen:
        house.reopen()
        house.until(lambda: False, 5.0)
    return seen


def test_a_start_reads_no_more_where_more_tasks_wait() -> None:
    rules = quick(snapshot_events=8)
    few, many = House(waiter(), baseline=rules), House(waiter(), baseline=rules)
    waiting(few, 4)
    waiting(many, 60)
    with patch.object(timers, "PAGE", 4):
        less, more = opened(few), opened(many)
    assert more["rows"] == less["rows"]
    assert max(more["records"], less["records"]) < 5 * 8  # after three snapshots
    assert more["pages"] <= 2 * 4  # and again once admission is up


def test_where_nobody_is_resumed_those_that_rest_are_held_too() -> None:
    house = House(waiter())
    task = waiting(house, 2)[1]
    house.runtime.close()
    house.reopen(resume=False)
    house.until(lambda: False, 2 * HOUR)
    assert house.of(f"task/{task}", TimerFired) == []
    house.runtime.task(task).resume()
    assert house.finish(task).status == "completed"


@pytest.mark.parametrize("page", [1, 2, 5])
def test_timers_beyond_the_next_page_ring_in_their_time(page: int) -> None:
    with patch.object(timers, "PAGE", page):
        house = House(waiter(), active=2)
        began = house.sim.clock.time()
        order = [7, 3, 9, 1, 8, 2, 6, 4, 5, 0]
        tasks = {n: house.submit(inputs={"seconds": HOUR + 60.0 * n}).id for n in order}
        most = 0
        for again in (False, True):
            until = HOUR + 60.0 * (4.5 if not again else 12.0)
            while house.sim.clock.time() < began + until:
                assert house.sim.step()
                if house.runtime._system.is_running(names.TIMERS):
                    kept: Timers = actor(house, names.TIMERS)
                    most = max(most, len(kept._waiting) if kept else 0)
            if not again:
                house.kill()
                house.reopen()
        for n, task in tasks.items():
            assert house.finish(task).status == "completed"
            (fired,) = [
                one
                for one in house.store.streams[f"task/{task}"]
                if one.type == TimerFired.__name__
            ]
            assert HOUR + 60.0 * n <= fired.at - began < HOUR + 60.0 * n + 5.0
        assert most <= 3 * page + 1
        assert house.store.rows[names.TIMER_ROWS] == {}
        sound(house)


def test_a_task_for_a_later_time_is_a_row_until_then() -> None:
    house = House(waiter())
    at = house.sim.clock.time() + HOUR
    task = house.submit(not_before=at).id
    house.until(lambda: False, 60.0)
    assert actor(house, names.ADMISSION).state.tasks == {}
    assert list(house.store.rows[names.PLACES]) == [task]
    assert house.until(lambda: bool(house.of(names.ADMISSION, TaskActivated)), 2 * HOUR)
    (recalled,) = house.of(names.ADMISSION, TaskRecalled)
    assert (recalled.task, recalled.place.not_before) == (task, 0.0)


def test_a_task_that_rests_comes_back_to_its_old_place() -> None:
    # B66: behind a kill, too, and before whoever was submitted after it.
    house = House(waiter(), active=1)
    first = house.submit(inputs={}).id
    assert house.until(lambda: first in house.store.rows.get(names.PLACES, {}), 60.0)
    house.kill()
    house.reopen()
    place = msgspec.json.decode(house.store.rows[names.PLACES][first])["place"]
    house.runtime.task(first).approve(house.runtime.approvals()[0].approval)
    (recalled,) = house.of(names.ADMISSION, TaskRecalled)
    assert recalled.place.place == place
    assert house.finish(first).status == "completed"


def test_a_pool_takes_back_what_it_gave_to_a_task_that_rested_over_a_kill() -> None:
    # B68: what it was granted is a row, and is not given twice.
    house = House(waiter(), pool=Budget(tool_calls=10))
    task = house.submit(budget=Budget(tool_calls=4)).id
    assert house.until(lambda: task in house.store.rows.get(names.PLACES, {}), 60.0)
    assert list(house.store.rows[names.GRANTS]) == [task]
    house.kill()
    house.reopen()
    house.runtime.task(task).approve(house.runtime.approvals()[0].approval)
    assert house.finish(task).status == "completed"
    assert house.until(lambda: house.store.rows[names.GRANTS] == {}, 60.0)
    assert actor(house, names.POOL).state.out == {"tool_calls": 1}
    sound(house)
