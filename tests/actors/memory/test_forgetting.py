"""Erasing a subject: its facts go wherever they were put, and nobody else's."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from perdure import Misuse
from perdure.actors import names
from perdure.actors.events import FactsErased, FactStated, KnowledgeTaken
from perdure.actors.memory.facts import Said
from perdure.actors.memory.forgetting import Forgetting
from perdure.actors.memory.state import MemoryState, apply
from perdure.actors.protocol import ChangeFact
from perdure.actors.task.knowledge import Knowledge
from perdure.replay import render_again
from perdure.storage.memory import MemoryBackend
from tests.actors.memory.test_core import requests, taken
from tests.actors.runs import sound
from tests.actors.test_erasing import SECRET, leaks
from tests.actors.test_inbox import answered, send
from tests.actors.world import House, World, job

WHO = "customer 7"


def stated(house: House) -> None:
    """Facts about the subject, core and not, past and present, and about others."""
    memory = house.runtime.memory
    memory.know("address", "an older one", core=True, subject=WHO)
    memory.know("address", SECRET, core=True, subject=WHO, evidence=WHO)
    memory.know("pet", f"a cat in {SECRET}", subject=WHO)
    memory.know("address", "elsewhere", core=True, subject="customer 8")
    memory.know("db", "PostgreSQL", core=True)


def left(house: House) -> list[tuple[str, str, Any]]:
    return [(one.subject, one.key, one.value) for one in house.runtime.memory.facts()]


OTHERS = [("customer 8", "address", "elsewhere"), ("", "db", "PostgreSQL")]


def test_all_facts_about_a_subject_go_with_their_history() -> None:
    house = House(job(World()))
    stated(house)
    task = house.run().task
    assert leaks(house.store)
    assert leaks(house.store, WHO)
    assert house.runtime.erase(subject=WHO, by="an operator") is True
    assert leaks(house.store) == []
    assert leaks(house.store, WHO) == []
    assert leaks(house.store, "an older one") == []
    assert left(house) == OTHERS
    assert house.runtime.memory.history("address", subject=WHO) == []
    assert taken(house, task) == [['"elsewhere"', '"PostgreSQL"']]
    told = house.of(names.MEMORY, FactsErased)
    assert sum(one.facts for one in told) == 3
    assert {one.by for one in told} == {"an operator"}
    assert house.runtime.erase(subject=WHO, by="an operator") is False
    sound(house)


def test_a_request_that_showed_some_says_that_they_are_erased() -> None:
    house = House(job(World()))
    stated(house)
    task = house.run().task
    house.runtime.memory.drop("f5", by="an operator")
    house.runtime.erase(subject=WHO, by="an operator")
    with MemoryBackend(house.store).reader(lambda *_: None) as reader:
        for op in requests(house, task):
            with pytest.raises(Misuse, match="showed facts that were erased"):
                render_again(reader, task, op)


def test_a_running_task_lets_go_of_them_and_goes_on() -> None:
    house = House(job(World()))
    stated(house)
    task = house.submit().id
    house.until_hit("step.ended", step="find")
    assert house.runtime.erase(subject=WHO, by="an operator") is True
    assert leaks(house.store, WHO) == []
    assert house.finish(task).status == "completed"
    assert leaks(house.store, WHO) == []
    last = house.of(f"task/{task}", KnowledgeTaken)[-1]
    assert (len(last.facts), last.erased) == (2, 0)
    sound(house)


def test_a_paused_task_has_forgotten_them_when_it_goes_on() -> None:
    house = House(job(World()))
    stated(house)
    task = house.submit()
    house.until_hit("step.ended", step="find")
    task.pause()
    assert house.finish(task.id).status == "paused"
    house.runtime.erase(subject=WHO, by="an operator")
    assert leaks(house.store, WHO) == []
    task.resume()
    assert house.finish(task.id).status == "completed"
    assert leaks(house.store, WHO) == []
    sound(house)


def test_it_is_asked_for_from_outside_and_the_command_goes_last() -> None:
    house = House(job(World()))
    fact = {"key": "phone", "value": '"1234-5678"', "subject": WHO}
    send(house, "k1", "know", "", fact=fact)
    assert answered(house, "k1").done
    stated(house)
    house.runtime.close()
    send(house, "e1", "erase", "", about=WHO)
    assert leaks(house.store, WHO)
    house.reopen()
    assert answered(house, "e1").said == "4 facts are erased"
    assert leaks(house.store, WHO) == []
    assert leaks(house.store, "1234-5678") == []
    assert left(house) == OTHERS
    sound(house)


@pytest.mark.parametrize("seed", range(10))
def test_over_every_crash_all_of_them_go(seed: int) -> None:
    rng = random.Random(seed)
    house = House(job(World()), seed=seed)
    stated(house)
    task = house.submit().id
    house.until_hit("step.ended", step="find")
    send(house, "e1", "erase", "", about=WHO)
    taken_steps = iter(range(rng.randint(1, 120)))
    house.sim.run(until=lambda: next(taken_steps, None) is None)
    if seed % 2:
        house.kill()
        house.reopen()
    else:
        house.sim.crash(rng.choice([names.MEMORY, names.ADMISSION]))
    answered(house, "e1")
    assert house.finish(task).status == "completed"
    assert leaks(house.store, WHO) == []
    assert leaks(house.store) == []
    assert left(house) == OTHERS
    sound(house)


def test_what_is_known_of_a_task_alone_goes_with_it() -> None:
    house = House(job(World()))
    task = house.submit().id
    house.runtime.memory.know("to", SECRET, scope=f"task:{task}", core=True)
    fact = {"key": "cc", "value": json.dumps(SECRET), "scope": f"task:{task}"}
    send(house, "k1", "know", "", fact=fact)
    assert answered(house, "k1").done
    house.finish(task)
    house.runtime.memory.know("db", "PostgreSQL")
    house.runtime.erase(task=task, by="an operator")
    assert leaks(house.store) == []
    assert left(house) == OTHERS[1:]
    with pytest.raises(Misuse, match="no such task"):
        house.runtime.memory.know("to", SECRET, scope=f"task:{task}")
    sound(house)


def test_facts_about_nobody_in_particular_are_not_a_subjects() -> None:
    house = House(job(World()))
    for given in ({"subject": ""}, {}, {"task": "t", "subject": "s"}):
        with pytest.raises(Misuse, match="give one of them"):
            house.runtime.erase(by="an operator", **given)
    send(house, "e1", "erase", "", about="")
    assert answered(house, "e1").done is False


def test_an_export_of_a_subject_has_every_fact_that_was_stated_about_it() -> None:
    house = House(job(World()))
    stated(house)
    task = house.run().task
    lines = house.runtime.export(subject=WHO)
    assert lines[0] == {"is": "subject", "subject": WHO}
    facts = [one for one in lines if one["is"] == "fact"]
    assert [(one["id"], one["value"], one["how"]) for one in facts] == [
        ("f1", "an older one", "superseded"),
        ("f2", SECRET, ""),
        ("f4", f"a cat in {SECRET}", ""),
    ]
    assert facts[1]["evidence"] == WHO
    events = [one for one in house.of(names.MEMORY, FactStated) if one.subject == WHO]
    told = [one for one in lines if one["is"] == "record"]
    assert [one["body"]["fact"] for one in told if one["type"] == "FactStated"] == [
        one.fact for one in events
    ]
    (shown,) = [one for one in lines if one["is"] == "shown"]
    assert (shown["task"], shown["facts"]) == (task, ["f2"])
    assert "customer 8" not in str(lines)
    house.runtime.erase(subject=WHO, by="an operator")
    assert house.runtime.export(subject=WHO) == lines[:1]


def test_it_waits_for_a_running_task_that_still_holds_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House(job(World()))
    stated(house)
    task = house.submit().id
    house.until_hit("step.started", step="find")
    take, refused = Knowledge.take, iter(range(40))

    def later(self: Knowledge) -> None:
        if next(refused, None) is None:
            take(self)

    monkeypatch.setattr(Knowledge, "take", later)
    house.runtime.erase(subject=WHO, by="an operator")
    assert next(refused, None) is None or house.runtime.status(task) == "completed"
    assert house.finish(task).status == "completed"
    assert leaks(house.store, WHO) == []


def test_what_is_stated_meanwhile_is_ended_like_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = House(job(World()))
    stated(house)
    search, said = Forgetting._search, Said(key="a", value="1", subject=WHO, core=True)

    def late(self: Forgetting) -> None:
        if self._rounds == 1 and not self._erased:
            know = ChangeFact(request="late", kind="know", what=said, by="host")
            self._memory.address.tell(know)
        search(self)

    monkeypatch.setattr(Forgetting, "_search", late)
    house.runtime.erase(subject=WHO, by="an operator")
    assert leaks(house.store, WHO) == []
    state = MemoryState()
    for event in house.events(names.MEMORY):
        state = apply(state, event)
    assert state.core == len(OTHERS)
