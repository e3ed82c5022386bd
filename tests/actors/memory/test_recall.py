"""The tool `recall`: a task finds in its record what no request shows any more."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from perdure import Agent, tool
from perdure.actors import names
from perdure.actors.events import EffectRecorded, RequestBuilt
from perdure.actors.memory.recollection import told
from perdure.actors.memory.searching import Hit, Question
from perdure.errors import Misuse, StoreRefused
from perdure.models import Scripted
from perdure.recalling import search
from perdure.replay import render_again
from perdure.storage.memory import MemoryReader
from tests.actors.runs import sound
from tests.actors.world import HAND, Calls, House, follow, handing_on

NOTE = "今天讨论了部署方案 重跑gen-itgc后50条"


@tool(effect="read")
def note(what: str) -> str:
    """Say something."""
    return {"plan": NOTE, "long": "filler word " * 900}.get(what, f"about {what}")


def asker(*groups: Calls, name: str = "agent", **options: Any) -> Agent:
    script: Mapping[str, Sequence[Calls]] = {"task": groups}
    return Agent(
        name=name,
        instructions="Ask.",
        model=Scripted(follow(script)),
        tools=[note],
        recovery="rules",
        **options,
    )


def recalled(house: House, task: str) -> list[EffectRecorded]:
    """The outcomes of the task's calls of `recall`."""
    asked = {
        event.op
        for event in house.events(names.ledger(task))
        if getattr(event, "name", "") == "recall"
    }
    found = house.of(names.ledger(task), EffectRecorded)
    return [one for one in found if one.op in asked]


LOOK: Calls = [("note", {"what": "plan"}), ("note", {"what": "x"})]
ASK: Calls = [("recall", {"query": "部署 itgc"})]


def test_what_was_found_before_is_found_again_with_its_evidence() -> None:
    house = House(asker(LOOK, ASK))  # A26 A27 A31 A91
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    (outcome,) = recalled(house, task.id)
    first, *lines = outcome.result.split("\n")
    assert first == "Found, best first; read_evidence shows one whole:"
    (line,) = lines
    assert line.startswith("- op2, note, completed, step task, ")
    assert line.endswith(NOTE)
    sound(house)


def test_what_was_recalled_is_in_the_next_request_and_renders_again() -> None:
    house = House(asker(LOOK, ASK))
    task = house.submit()
    house.finish(task.id)
    reader = MemoryReader(house.store, lambda *_: None)
    shown = []
    for op in [one.op for one in house.of(names.family(task.id), RequestBuilt)]:
        again = render_again(reader, task.id, op)
        found = "Found, best first"
        shown.append(found in json.dumps(again.messages, ensure_ascii=False))
        last = again
    # In the record it is from the search on: in a request only where it was put.
    assert shown == [False, False, True]  # A24
    assert NOTE in json.dumps(last.messages, ensure_ascii=False)  # A86


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"query": "about", "outcome": "failed"}, False),
        ({"query": "about", "tool": "note", "step": "task"}, True),
        ({"query": "about", "tool": "send"}, False),
        ({"query": 'NEAR("about" AND'}, True),
        ({"query": "", "tool": "note"}, True),
    ],
)
def test_a_model_may_narrow_its_search(arguments: dict[str, str], found: bool) -> None:
    house = House(asker([("note", {"what": "y"})], [("recall", arguments)]))
    task = house.submit()
    house.finish(task.id)
    (outcome,) = recalled(house, task.id)
    assert ("about y" in outcome.result) == found


def test_no_task_finds_what_another_one_did() -> None:
    house = House(asker(LOOK, name="first"), asker(ASK, name="second"))
    house.run("first")
    task = house.submit("second")
    house.finish(task.id)
    (outcome,) = recalled(house, task.id)
    assert outcome.result.startswith("Nothing in the record of this task")
    assert len(house.runtime.recall("itgc")) == 1  # the host sees them all


def test_a_parent_finds_what_its_sub_task_did_and_not_the_reverse() -> None:
    parent = handing_on(note, also=[("note", {"what": "secret"})])
    parent.model = Scripted(
        follow(
            {
                "task": [
                    [("note", {"what": "secret"})],
                    [("delegate", HAND)],
                    [("recall", {"query": "itgc"})],
                ]
            }
        )
    )
    child = asker(LOOK, [("recall", {"query": "secret"})])
    house = House(parent, child)
    task = house.submit("boss")
    assert house.finish(task.id).status == "completed"
    (of_parent,) = recalled(house, task.id)
    below = f"{task.id}.4"
    assert f"op2 of {below}, note, completed" in of_parent.result
    reader = MemoryReader(house.store, lambda *_: None)
    assert [hit.task for hit in search(reader, "itgc", task=task.id)] == [below]
    assert search(reader, "itgc", task=below)[0].task == below
    (of_child,) = recalled(house, below)
    assert of_child.result.startswith("Nothing in the record of this task")


def test_an_answer_is_bounded_and_holds_whole_hits_only() -> None:
    calls = [("note", {"what": "long"})] * 8
    house = House(asker(calls, [("recall", {"query": "filler"})]))
    task = house.submit()
    house.finish(task.id)
    (outcome,) = recalled(house, task.id)
    assert 1_000 < len(outcome.result) <= 2_000
    assert all(line.endswith("…") for line in outcome.result.split("\n")[1:])
    huge = Hit(
        evidence="op1",
        task="t",
        step="s" * 3_000,
        tool="x",
        kind="call",
        outcome="completed",
        at=0.0,
        seq=1,
        snippet="",
    )
    assert len(told([huge] * 3, Question(query="x", task="t"))) <= 2_000


def test_facts_that_fit_come_with_what_was_found() -> None:
    house = House(asker(LOOK, ASK))  # A31
    memory = house.runtime.memory
    memory.know("itgc owner", "the audit team")
    memory.know("itgc owner", "somebody else", scope="group:other")
    memory.know("zone", "east")
    task = house.submit()
    house.finish(task.id)
    (outcome,) = recalled(house, task.id)
    first, fact, second, hit = outcome.result.split("\n")
    assert first == "Known, beyond this request:"
    assert fact.startswith("- itgc owner: the audit team, from ")
    assert second == "Found, best first; read_evidence shows one whole:"
    assert hit.endswith(NOTE)


def test_a_search_does_not_find_itself() -> None:
    house = House(asker(LOOK, [("recall", {"query": "zebra"})], ASK))
    task = house.submit()
    house.finish(task.id)
    assert house.runtime.recall("zebra") == []


def test_a_query_that_is_too_long_fails_the_call_and_the_task_goes_on() -> None:
    house = House(asker([("recall", {"query": "x" * 2_000})]))
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    outcomes = recalled(house, task.id)
    assert {one.status for one in outcomes} == {"failed"}
    assert "at most 1000 characters" in outcomes[0].error


def test_a_search_that_cannot_be_made_fails_the_call_and_the_task_goes_on() -> None:
    house = House(asker(LOOK, ASK))

    def broken() -> MemoryReader:
        raise OSError(28, "No space left on device")

    house.runtime._library._open_reader = broken
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    outcomes = recalled(house, task.id)
    assert {one.status for one in outcomes} == {"failed"}
    assert "No space left on device" in outcomes[0].error
    with pytest.raises(StoreRefused, match="No space left"):
        house.runtime.recall("x")


def test_nobody_waits_for_a_search_but_who_asked() -> None:
    house = House(asker(LOOK, ASK), asker(LOOK, name="other"))
    library = house.runtime._library
    kept: list[Callable[[], None]] = []
    ask = library.ask
    library.ask = lambda *asked: kept.append(lambda: ask(*asked))  # type: ignore[method-assign]
    task = house.submit()
    assert house.until(lambda: bool(kept))
    assert house.run("other").status == "completed"
    house.sim.run_for(300.0)  # the call is asked for again meanwhile
    assert task.status == "running"
    assert len(kept) == 1
    kept[0]()
    assert house.finish(task.id).status == "completed"


@pytest.mark.parametrize("seed", range(12))
def test_a_crash_anywhere_only_has_the_search_made_again(seed: int) -> None:
    house = House(asker(LOOK, ASK, LOOK, ASK), seed=seed)  # A27
    task = house.submit()
    victims = [names.MEMORY, names.SERVICES, names.ledger(task.id), names.JOURNAL]
    for turn in range(3):
        for _ in range(10 + 7 * seed % 23):
            house.sim.step()
        house.sim.crash(victims[(seed + turn) % len(victims)])
    assert house.finish(task.id).status == "completed"
    answers = [one.result for one in recalled(house, task.id) if not one.error]
    assert len(answers) == 2
    assert all("- op2, note, completed" in one for one in answers)
    sound(house)


@pytest.mark.parametrize("seed", range(8))
def test_a_killed_process_goes_on_with_a_new_index(seed: int) -> None:
    house = House(asker(LOOK, ASK, LOOK, ASK), seed=seed)
    task = house.submit()
    for _ in range(40 + 31 * seed):
        house.sim.step()
    house.kill()
    house.reopen()
    assert house.finish(task.id).status == "completed"
    answers = [one.result for one in recalled(house, task.id) if not one.error]
    assert all("- op2, note, completed" in one for one in answers)
    assert len(answers) == 2
    sound(house)


def test_the_host_searches_by_words_and_filters() -> None:
    house = House(asker(LOOK))
    task = house.submit()
    house.finish(task.id)
    (hit,) = house.runtime.recall("部署", task=task.id, tool="note", limit=3)
    assert (hit.evidence, hit.task) == ("op2", task.id)
    assert house.runtime.recall("部署", until=hit.at - 0.001) == []
    assert house.runtime.recall("部署", since=hit.at, until=hit.at) == [hit]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"limit": 0}, "limit=0 must be between 1 and 100"),
        ({"limit": True}, "limit=True"),
        ({"since": "noon"}, "since='noon' must be seconds"),
        ({"until": float("nan")}, "until=nan"),
        ({"task": None}, "task=None must be text"),
        ({"tool": "\ud800"}, "tool="),
        ({"group": "x"}, "group it knows these filters: task, step, tool, outcome"),
    ],
)
def test_a_wrong_filter_is_named(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(Misuse) as raised:
        House(asker()).runtime.recall("x", **wrong)
    assert says in str(raised.value)
