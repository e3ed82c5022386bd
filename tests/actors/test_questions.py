"""Questions to people: asked once, answered once, over every restart."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from perdure import Agent, Misuse, ask, ask_within
from perdure.actors import names
from perdure.actors.asking import CHOICES
from perdure.actors.events import (
    ActionObserved,
    EffectRecorded,
    QuestionAnswered,
    QuestionAsked,
    QuestionTaken,
    RequestBuilt,
)
from perdure.actors.protocol import Reply
from perdure.actors.task.actor import Task
from perdure.actors.task.asked import about
from perdure.actors.task.state import TaskState, apply
from perdure.models import Scripted
from perdure.replay import render_again
from tests.actors.runs import sound
from tests.actors.world import Calls, House, World, follow, outcomes, tools_of

COLOUR = {"question": "Which colour?", "choices": ["red", "blue"]}
NAME = {"question": "Which name?"}
ONE: Sequence[Calls] = [[("ask", COLOUR)]]
BOTH: Sequence[Calls] = [[("ask", COLOUR), ("ask", NAME)]]
MINUTE = 60.0  # seconds


def asker(
    calls: Sequence[Calls] = ONE, *, heard: list[str] | None = None, **options: Any
) -> Agent:
    """An agent that makes these calls, then answers; `heard` gets what they gave."""
    script = follow({"task": calls})

    def model(request: Any) -> Any:
        if heard is not None:
            heard[:] = outcomes(request)
        return script(request)

    options.setdefault("tools", [ask, *tools_of(World())])
    return Agent(
        name="agent",
        instructions="Ask.",
        model=Scripted(model),
        recovery="rules",
        **options,
    )


def asked(house: House, task: str) -> list[str]:
    """Run to the pause for answers; the ids of the questions in order."""
    result = house.finish(task)
    assert (result.status, result.reason) == ("paused", "question")
    return [one.question for one in house.runtime.questions()]


def test_a_question_waits_as_a_row_and_its_answer_is_the_result() -> None:
    # B50
    heard: list[str] = []
    house = House(asker(heard=heard))
    task = house.submit()
    (question,) = asked(house, task.id)
    result = house.finish(task.id)
    assert (result.reason, result.ends_with) == ("question", f"answer {question}")
    running = house.runtime._system.is_running
    assert house.until(lambda: not running(names.family(task.id)), 10.0)
    (listed,) = house.runtime.questions()
    assert (listed.task, listed.text, listed.choices) == (
        task.id, "Which colour?", ("red", "blue"),
    )  # fmt: skip
    assert task.answer(question, "blue", by="approver") is True
    assert house.finish(task.id).status == "completed"
    assert heard == ["(answered by approver)\nblue"]
    assert house.runtime.questions() == []
    recorded = [
        one
        for one in house.of(f"task/{task.id}/ledger", EffectRecorded)
        if one.by == "answer"
    ]
    (taken,) = house.of(f"task/{task.id}", QuestionTaken)
    (one,) = recorded
    assert (one.status, one.result, one.who) == ("completed", "blue", "approver")
    assert one.said_at == taken.at > 0
    sound(house)


def test_two_questions_are_independent_and_survive_a_restart() -> None:
    # R21
    house = House(asker(BOTH))
    task = house.submit()
    q1, q2 = asked(house, task.id)
    house.kill()
    house.reopen()
    handle = house.runtime.task(task.id)
    with pytest.raises(Misuse, match="no question 'q-wrong'"):
        handle.answer("q-wrong", "x")
    assert handle.answer(q2, "Ada") is True
    assert handle.answer(q2, "Ada") is False
    assert asked(house, task.id) == [q1]
    house.runtime.close()
    house.reopen()
    assert [one.question for one in house.runtime.questions()] == [q1]
    handle = house.runtime.task(task.id)
    assert handle.answer(q2, "Bob") is False
    assert handle.answer(q1, "red") is True
    assert house.finish(task.id).status == "completed"
    answers = [one.answer for one in house.of(f"task/{task.id}", QuestionTaken)]
    assert answers == ["Ada", "red"]
    sound(house)


def test_each_of_two_answers_is_told_with_who_gave_it_however_late_the_other() -> None:
    heard: list[str] = []
    house = House(asker(BOTH, heard=heard))
    task = house.submit()
    q1, q2 = asked(house, task.id)
    task.answer(q1, "blue", by="approver")
    assert asked(house, task.id) == [q2]
    task.answer(q2, "Ada", by="boss")
    assert house.finish(task.id).status == "completed"
    assert heard == ["(answered by approver)\nblue", "(answered by boss)\nAda"]
    (told,) = {one.op for one in house.of(f"task/{task.id}", RequestBuilt)} - {1}
    again = house.runtime._reading.read(lambda one: render_again(one, task.id, told))
    assert "(answered by approver)" in str(again.messages)  # P4: as it was sent
    sound(house)


def test_two_answers_at_once_are_one() -> None:
    house = House(asker())
    task = house.submit()
    (question,) = asked(house, task.id)
    admission = house.runtime._system.address(names.ADMISSION)
    for text in ("red", "blue"):
        admission.tell(Reply(task=task.id, question=question, text=text, by="approver"))
    assert house.until(lambda: house.runtime.task(task.id).status == "completed")
    (answered,) = house.of(names.ADMISSION, QuestionAnswered)
    (taken,) = house.of(f"task/{task.id}", QuestionTaken)
    assert taken.answer == answered.answer


def test_only_a_choice_is_an_answer_where_there_are_some() -> None:
    house = House(asker())
    task = house.submit()
    (question,) = asked(house, task.id)
    with pytest.raises(Misuse, match=r"none of the choices of q-.*: 'red', 'blue'"):
        task.answer(question, "green")
    with pytest.raises(Misuse, match="1 to 4000 characters"):
        task.answer(question, " ")
    assert asked(house, task.id) == [question]


def test_a_question_of_another_task_is_refused() -> None:
    house = House(asker())
    first, second = house.submit(), house.submit()
    asked(house, first.id)
    asked(house, second.id)
    other = next(one for one in house.runtime.questions() if one.task == second.id)
    with pytest.raises(Misuse, match="no question"):
        first.answer(other.question, "red")


def test_calls_beside_a_question_are_made_meanwhile() -> None:
    heard: list[str] = []
    house = House(asker([[("ask", NAME), ("look", {"what": "a"})]], heard=heard))
    task = house.submit()
    (question,) = asked(house, task.id)
    looked = [
        one
        for one in house.of(f"task/{task.id}", ActionObserved)
        if one.calls == 0 and one.status == "completed"
    ]
    assert looked
    task.answer(question, "Ada")
    assert house.finish(task.id).status == "completed"
    assert heard == ["(answered by operator)\nAda", "saw a"]


def test_a_question_that_cannot_be_one_is_refused_and_nobody_is_asked() -> None:
    heard: list[str] = []
    many = {"question": "Which?", "choices": ["x"] * (CHOICES + 1)}
    house = House(asker([[("ask", many), ("ask", {"question": ""})]], heard=heard))
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    assert house.of(f"task/{task.id}", QuestionAsked) == []
    assert all(one.startswith("error: arguments of ask") for one in heard)


def test_so_many_questions_wait_at_a_time() -> None:
    calls = [("ask", {"question": f"q{n}"}) for n in range(10)]
    house = House(asker([calls]))
    task = house.submit()
    waiting = asked(house, task.id)
    assert len(waiting) == 8
    refused = [
        one
        for one in house.of(f"task/{task.id}/ledger", EffectRecorded)
        if one.by == "door"
    ]
    assert len(refused) == 2
    assert "8 questions wait for an answer already" in refused[0].error
    for one in waiting:
        task.answer(one, "yes")
    assert house.finish(task.id).status == "completed"


def test_a_question_that_nobody_answers_in_time_fails_and_the_model_goes_on() -> None:
    heard: list[str] = []
    within = ask_within(MINUTE)
    house = House(asker(tools=[within], heard=heard))
    task = house.submit()
    (question,) = asked(house, task.id)
    (listed,) = house.runtime.questions()
    assert listed.expires == listed.at + MINUTE
    assert house.until(lambda: house.runtime.task(task.id).status == "completed")
    assert house.sim.clock.monotonic() == pytest.approx(MINUTE, abs=10.0)
    assert heard == ["error: nobody answered within 60 s"]
    assert house.runtime.questions() == []
    assert task.answer(question, "red") is False
    sound(house)


def test_the_time_of_a_question_runs_while_nothing_does() -> None:
    house = House(asker(tools=[ask_within(MINUTE)]))
    task = house.submit()
    asked(house, task.id)
    house.kill()
    house.sim.clock.advance(2 * MINUTE)
    house.reopen()
    assert house.until(lambda: house.runtime.task(task.id).status == "completed")


@pytest.mark.parametrize("seconds", [0, -1.0, float("inf"), float("nan"), True, "1"])
def test_ask_within_takes_a_time(seconds: Any) -> None:
    with pytest.raises(Misuse, match="seconds above 0"):
        ask_within(seconds)


def test_a_cancelled_task_drops_its_question() -> None:
    house = House(asker())
    task = house.submit()
    (question,) = asked(house, task.id)
    assert task.cancel().status == "cancelled"
    assert house.runtime.questions() == []
    assert task.answer(question, "red") is False
    sound(house)


def test_a_task_asks_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    asks(monkeypatch)
    house = House(asker([[("look", {"what": "a"})]]))
    task = house.submit()
    (question,) = asked(house, task.id)
    (listed,) = house.runtime.questions()
    assert (listed.about, listed.op) == ("consent:two", 0)
    house.kill()
    house.reopen()
    assert asked(house, task.id) == [question]
    house.runtime.task(task.id).answer(question, "yes", by="approver")
    assert house.finish(task.id).status == "completed"
    state = TaskState()
    for event in house.events(f"task/{task.id}"):
        state = apply(state, event)
    found = about(state, "consent:two")
    assert found is not None
    assert (found.status, found.answer, found.by) == ("answered", "yes", "approver")


def test_a_cancelled_task_asks_no_more_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asks(monkeypatch)
    house = House(asker([[("look", {"what": "a"})]]))
    task = house.submit()
    asked(house, task.id)
    task.cancel()
    assert house.runtime.questions() == []


def asks(patch: pytest.MonkeyPatch) -> None:
    """Have every task ask for itself, twice, once its first call is decided."""
    handle = Task.handle

    def asking(task: Task, message: Any) -> None:
        if task.state.ops and not task.state.asked:
            first = task.questions.ask("Drop it?", ("yes", "no"), what="consent:two")
            assert task.questions.ask("Drop it?", what="consent:two") == first
        handle(task, message)

    patch.setattr(Task, "handle", asking)


def test_questions_survive_kills_at_any_moment() -> None:
    # R21
    for seed in range(40):
        house, rng = House(asker(BOTH), seed=seed), random.Random(seed)
        task = house.submit()
        answers: dict[str, str] = {}
        for _ in range(200):
            if house.runtime.task(task.id).status in ("completed", "failed"):
                break
            for _ in range(rng.randrange(1, 120)):
                if not house.sim.step():
                    break
            for one in house.runtime.questions():
                if rng.random() < 0.3:
                    text = (one.choices or ("Ada",))[0]
                    if house.runtime.task(task.id).answer(one.question, text):
                        assert one.question not in answers
                        answers[one.question] = text
            if rng.random() < 0.2:
                house.kill()
                house.reopen()
        else:
            pytest.fail(f"seed {seed}: it did not end")
        taken = house.of(f"task/{task.id}", QuestionTaken)
        assert {one.question: one.answer for one in taken} == answers
        assert len(taken) == len(answers) == 2
        sound(house)
