"""Facts found by words, in the scopes of the task that asks, and in no other."""

from __future__ import annotations

import pytest

from perdure import Misuse, UseAsync
from perdure.actors.memory.lookup import facts_for
from perdure.storage.memory import MemoryBackend
from tests.actors.world import House, World, job


def keys(house: House, task: str, query: str, now: float = 0.0) -> list[str]:
    with MemoryBackend(house.store).reader(lambda *_: None) as reader:
        return [one.key for one in facts_for(reader, task, query, now)]


@pytest.fixture
def house() -> House:
    return House(job(World()))


def test_the_fact_that_fits_most_words_comes_first(house: House) -> None:
    # A29
    memory = house.runtime.memory
    memory.know("auth", "Bearer token", subject="billing API")
    memory.know("db", "PostgreSQL 15 of billing")
    memory.know("地区", "华东地区")
    task = house.submit().id
    house.finish(task)
    assert keys(house, task, "billing api token?") == ["auth", "db"]
    assert keys(house, task, "华东") == ["地区"]
    assert keys(house, task, "华南的销售") == []
    assert keys(house, task, "  ?! ") == []


def test_a_query_finds_nothing_of_another_group_or_task(house: House) -> None:
    memory = house.runtime.memory
    mine, other = house.submit(group="a").id, house.submit(group="b").id
    for task in (mine, other):
        house.finish(task)
    for number, scope in enumerate(
        (
            "global",
            "group:a",
            "group:b",
            f"task:{mine}",
            f"task:{other}",
            "group:a/more",
        )
    ):
        memory.know(f"k{number}", "same", scope=scope)
    assert sorted(keys(house, mine, "same")) == ["k0", "k1", "k3"]
    assert sorted(keys(house, other, "same")) == ["k0", "k2", "k4"]


def test_a_query_finds_no_fact_that_is_over(house: House) -> None:
    memory = house.runtime.memory
    task = house.submit().id
    house.finish(task)
    memory.know("db", "MySQL", until=50.0)
    memory.drop(memory.know("auth", "MySQL too"))
    assert keys(house, task, "mysql", now=49.0) == ["db"]
    assert keys(house, task, "mysql", now=50.0) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"key": 3}, "key=3 must be text"),
        ({"value": float("nan")}, "value=nan is no JSON value"),
        ({"value": {1, 2}}, "is no JSON value"),
        ({"value": "\ud800"}, "is no JSON value"),
        ({"core": 1}, "core=1 must be"),
        ({"until": "soon"}, "until='soon' must be"),
        ({"scope": "all"}, "scope='all'"),
        ({"by": ""}, "by='' must be"),
    ],
)
def test_a_fact_that_cannot_be_kept_is_refused_by_name(
    house: House, wrong: dict[str, object], said: str
) -> None:
    given: dict[str, object] = {"key": "db", "value": "x", **wrong}
    with pytest.raises(Misuse) as refused:
        house.runtime.memory.know(**given)  # type: ignore[arg-type]
    assert said in str(refused.value)


async def in_loop(house: House) -> None:
    for call in (
        lambda: house.runtime.memory.know("a", 1),
        lambda: house.runtime.memory.confirm("f1"),
        lambda: house.runtime.memory.drop("f1"),
    ):
        with pytest.raises(UseAsync, match=r"await runtime\.memory\.a"):
            call()


def test_a_call_that_blocks_is_refused_inside_an_event_loop(house: House) -> None:
    import asyncio

    asyncio.run(in_loop(house))
