"""Damage stays in its task: what serves all tasks lives on."""

from __future__ import annotations

import msgspec

from tests.actors.test_inbox import answered, send
from tests.actors.world import House, World, job


def spoil(house: House, stream: str, version: int) -> None:
    """Change a byte of a record, which then does not match its checksum."""
    records = house.store.streams[stream]
    old = records[version - 1]
    new = msgspec.structs.replace(old, body=b"x" + old.body[1:])
    records[version - 1] = house.store.log[house.store.log.index(old)] = new


def test_a_task_that_cannot_be_read_is_parked_before_it_ever_ran() -> None:
    house = House(job(World()))
    later = house.sim.clock.time() + 1_000.0
    task = house.runtime.submit("agent", "Later.", not_before=later)
    house.runtime.close()
    spoil(house, f"task/{task.id}", 1)
    house.reopen()
    assert house.until_hit("queue.parked", task=task.id)
    parked = house.runtime.task(task.id)
    assert parked.status == "parked"
    assert "its checksum does not match" in parked.wait(1.0).detail
    assert house.run().status == "completed"
    assert house.log.crashes() == []


def test_more_for_a_task_that_cannot_be_read_is_refused_alone() -> None:
    house = House(job(World()))
    later = house.sim.clock.time() + 1_000_000.0
    task = house.runtime.submit("agent", "Later.", not_before=later)
    house.runtime.close()
    spoil(house, f"task/{task.id}", 1)
    house.reopen()
    send(house, "c-1", "extend", task.id, amounts={"tokens": 5})
    assert "its checksum does not match" in answered(house, "c-1").said
    assert house.run().status == "completed"
    assert house.log.crashes() == []


def test_a_damaged_count_of_recoveries_is_one_more_strike() -> None:
    house = House(job(World()))
    task = house.submit()
    for _ in range(2):
        assert house.until_hit("request.built")
        house.kill()
        house.reopen()
    house.until_hit("request.built")
    house.kill()
    spoil(house, f"task/{task.id}/recovery", 1)
    house.reopen()
    assert house.finish(task.id).status == "completed"
    assert house.log.crashes() == []
