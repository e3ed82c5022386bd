"""Notes of people: kept, shown in every later request, and never dropped."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from perdure import Agent, Misuse, ask
from perdure.actors import names
from perdure.actors.context.render import STEERED
from perdure.actors.events import NoteGiven, NoteTaken, RequestBuilt, TaskWoken
from perdure.actors.task.steered import NOTE_LENGTH, NOTES_MOST
from perdure.models import Scripted
from perdure.replay import render_again
from tests.actors.runs import sound
from tests.actors.test_questions import COLOUR, asked
from tests.actors.test_timers import sleeper
from tests.actors.world import Calls, House, World, follow, job, quick, tools_of

LOOKS: Sequence[Calls] = [[("look", {"what": str(n)})] for n in range(6)]


def reader(calls: Sequence[Calls], seen: list[str], **options: Any) -> Agent:
    """An agent whose requests' last messages are kept in `seen`."""
    script = follow({"task": calls})

    def model(request: Any) -> Any:
        seen.append(request.messages[-1]["content"])
        return script(request)

    options.setdefault("recovery", "rules")
    return Agent(
        name="agent",
        instructions="Look.",
        model=Scripted(model),
        tools=[ask, *tools_of(World())],
        **options,
    )


def shown(seen: Sequence[str], text: str) -> list[bool]:
    return [f": {text}" in one.partition(STEERED)[2] for one in seen]


def test_a_running_task_has_a_note_in_each_request_from_its_next_one_on() -> None:
    seen: list[str] = []
    house = House(reader(LOOKS, seen))
    task = house.submit()
    assert house.until(lambda: len(seen) == 2)
    assert task.steer("Look twice.", by="approver") == 1
    (given,) = house.of(names.ADMISSION, NoteGiven)
    house.finish(task.id)
    told = shown(seen, "Look twice.")
    first = told.index(True)
    assert first <= 4
    assert (told[:first], set(told[first:])) == ([False] * first, {True})
    assert "- approver, " in seen[-1]
    assert (given.by, given.number) == ("approver", 1)
    sound(house)


def test_a_paused_task_is_not_woken_and_has_it_in_its_first_request() -> None:
    seen: list[str] = []
    house = House(reader([[("ask", COLOUR)], *LOOKS], seen))
    task = house.submit()
    (question,) = asked(house, task.id)
    before = len(seen)
    task.steer("Blue is sold out.")
    house.until(lambda: False, 100.0)
    assert (len(seen), task.status) == (before, "paused")
    assert house.of(names.ADMISSION, TaskWoken) == []
    house.kill()
    house.reopen()
    house.runtime.task(task.id).answer(question, "red")
    assert house.finish(task.id).status == "completed"
    assert all(shown(seen[before:], "Blue is sold out."))


def test_a_queued_task_has_it_in_its_first_request() -> None:
    seen: list[str] = []
    house = House(reader(LOOKS, seen), baseline=quick(active_tasks=1))
    first, second = house.submit(goal="one"), house.submit(goal="two")
    second.steer("Be quick.")
    house.finish(first.id)
    mine = len(seen)
    assert house.finish(second.id).status == "completed"
    assert all(shown(seen[mine:], "Be quick."))
    assert not any(shown(seen[:mine], "Be quick."))


def test_a_task_that_waits_for_the_time_keeps_its_note() -> None:
    house = House(sleeper(World()))
    task = house.submit("sleeper")
    assert house.until(lambda: task.status == "waiting")
    task.steer("Wake up calmly.")
    assert house.finish(task.id).status == "completed"
    (taken,) = house.of(f"task/{task.id}", NoteTaken)
    assert taken.text == "Wake up calmly."


def test_there_is_room_for_so_many_and_none_is_dropped() -> None:
    seen: list[str] = []
    house = House(reader([[("ask", COLOUR)]], seen))
    task = house.submit()
    (question,) = asked(house, task.id)
    numbers = [task.steer(f"note {n}") for n in range(NOTES_MOST)]
    assert numbers == list(range(1, NOTES_MOST + 1))
    with pytest.raises(Misuse, match="has 8 notes, and none is dropped"):
        task.steer("one more")
    assert task.steer("instead", replace=3) == 3
    with pytest.raises(Misuse, match=f"{NOTE_LENGTH} characters"):
        task.steer("x" * (NOTE_LENGTH + 1))
    with pytest.raises(Misuse, match="replace=9"):
        task.steer("x", replace=9)
    task.answer(question, "red")
    house.finish(task.id)
    text = seen[-1]
    assert [f": note {n}\n" in text for n in range(NOTES_MOST)] == [
        n != 2 for n in range(NOTES_MOST)
    ]
    assert ": instead" in text


def test_a_task_without_that_note_says_so() -> None:
    house = House(reader([[("ask", COLOUR)]], []))
    task = house.submit()
    asked(house, task.id)
    with pytest.raises(Misuse, match="has no note 2; it has 0"):
        task.steer("x", replace=2)


def test_a_task_that_ended_takes_no_note() -> None:
    house = House(reader([], []))
    task = house.submit()
    house.finish(task.id)
    with pytest.raises(Misuse, match=r"has ended \(completed\)"):
        task.steer("too late")


def test_a_note_forgives_what_looked_like_a_circle() -> None:
    again: Sequence[Calls] = [[("look", {"what": "a"})]] * 4
    house = House(reader(again, []))
    task = house.submit()
    assert house.until(lambda: house.kinds(f"task/{task.id}").count("LoopFound") > 0)
    task.steer("It is all right: look once more.")
    assert house.finish(task.id).status == "completed"


def test_every_request_is_rendered_again_with_the_notes_that_it_had() -> None:
    house = House(reader(LOOKS, []))
    task = house.submit()
    assert house.until(lambda: len(house.of(f"task/{task.id}", RequestBuilt)) == 2)
    task.steer("First.")
    task.steer("Second.")
    assert house.until(lambda: len(house.of(f"task/{task.id}", RequestBuilt)) == 5)
    task.steer("Instead.", replace=1)
    house.finish(task.id)
    reader_ = house.runtime._reading
    texts = [
        reader_.read(lambda r, op=one.op: render_again(r, task.id, op))
        for one in house.of(f"task/{task.id}", RequestBuilt)
    ]
    last = texts[-1].messages[-1]["content"]
    assert ("Instead." in last, "First." in last, "Second." in last) == (
        True, False, True,
    )  # fmt: skip


def test_notes_survive_kills_at_any_moment() -> None:
    for seed in range(30):
        house, rng = House(job(World()), seed=seed), random.Random(seed)
        task = house.submit()
        given: list[str] = []
        for _ in range(400):
            if house.runtime.task(task.id).status == "completed":
                break
            for _ in range(rng.randrange(1, 60)):
                if not house.sim.step():
                    break
            if len(given) < 5 and rng.random() < 0.2:
                text = f"note {len(given)}"
                try:
                    number = house.runtime.task(task.id).steer(text)
                except Misuse:
                    assert house.finish(task.id).status == "completed"
                    break
                given.append(text)
                assert number == len(given)
            if rng.random() < 0.1:
                house.kill()
                house.reopen()
        taken = [one.text for one in house.of(f"task/{task.id}", NoteTaken)]
        assert taken == given[: len(taken)]
        built = house.of(f"task/{task.id}", RequestBuilt)
        assert built
        sound(house)
