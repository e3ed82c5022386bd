"""Facts from outside: each command is applied once, and answered, over every crash."""

from __future__ import annotations

import random
from typing import Any

import pytest

from perdure.actors import names
from perdure.actors.admission.commands import CommandAnswer
from perdure.actors.events import CommandApplied, FactStated
from tests.actors.runs import sound
from tests.actors.test_inbox import answer, answered, send
from tests.actors.world import House, World, job

DB = {"key": "db", "value": '"PostgreSQL"', "evidence": "the wiki"}


def current(house: House) -> list[tuple[str, Any, str]]:
    return [(one.key, one.value, one.status) for one in house.runtime.memory.facts()]


def test_a_fact_from_outside_is_kept_with_who_said_so() -> None:
    house = House(job(World()))
    send(house, "k1", "know", "", fact=DB)
    assert answered(house, "k1") == CommandAnswer(done=True, said="kept as f1")
    assert current(house) == [("db", "PostgreSQL", "fact")]
    (stated,) = house.of("services/memory", FactStated)
    assert (stated.by, stated.evidence) == ("approver", "the wiki")
    sound(house)


def test_a_fact_for_a_store_that_nobody_owns_is_kept_at_the_next_opening() -> None:
    house = House(job(World()))
    house.runtime.close()
    send(house, "k1", "know", "", fact=DB)
    assert answer(house, "k1") is None
    house.reopen()
    assert answered(house, "k1").done
    assert current(house) == [("db", "PostgreSQL", "fact")]


def test_a_fact_is_dropped_from_outside_by_its_id() -> None:
    house = House(job(World()))
    fact = house.runtime.memory.know("db", "MySQL")
    send(house, "d1", "drop", fact)
    send(house, "d2", "drop", fact)
    assert answered(house, "d1") == CommandAnswer(done=True, said="f1 is dropped")
    assert answered(house, "d2").said == "there is no current fact 'f1'"
    assert current(house) == []


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("know", {}, "say the fact"),
        ("know", {"fact": {"key": "", "value": "1"}}, "key='' is empty"),
        ("know", {"fact": {"key": "a", "value": "{"}}, "value is no JSON"),
        ("know", {"fact": {"key": "a"}}, "cannot be read"),
        ("know", {"fact": {**DB, "scope": "task:t-none"}}, "no such task"),
        ("know", {"fact": {**DB, "scope": "all"}}, "scope='all'"),
        ("confirm", {}, "there is no current fact"),
    ],
)
def test_what_cannot_be_kept_is_answered_so(
    kind: str, body: dict[str, Any], said: str
) -> None:
    house = House(job(World()))
    send(house, "c", kind, "", **body)
    found = answered(house, "c")
    assert not found.done
    assert said in found.said
    assert house.runtime.memory.facts() == []
    sound(house)


@pytest.mark.parametrize("seed", range(16))
def test_a_fact_is_kept_once_whatever_crashes(seed: int) -> None:
    # K53
    chance = random.Random(seed)
    house = House(job(World()), seed=seed)
    task = house.submit()
    for _ in range(chance.randint(30, 90)):
        house.sim.step()
    send(house, "k1", "know", "", fact=DB)
    send(house, "k2", "know", "", fact={**DB, "value": '"MySQL"'})
    for _ in range(3):
        for _ in range(chance.randint(1, 30)):
            house.sim.step()
        match chance.choice(["kill", names.MEMORY, names.ADMISSION, names.JOURNAL]):
            case "kill":
                house.kill()
                house.reopen()
                for _ in range(25):
                    house.sim.step()
            case name:
                house.sim.crash(name)
    answers = {answered(house, "k1").said, answered(house, "k2").said}
    assert len(answers) == 2
    assert house.finish(task.id).status == "completed"
    values = [one.value for one in house.of("services/memory", FactStated)]
    assert values == ['"PostgreSQL"', '"MySQL"']
    applied = house.of(names.ADMISSION, CommandApplied)
    assert sorted(one.command for one in applied) == ["k1", "k2"]
    sound(house)
