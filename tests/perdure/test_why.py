"""Why a task did what it did: the story of each iteration, from the log alone."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from perdure import (
    Agent,
    Call,
    Calls,
    Finish,
    Misuse,
    Plan,
    Planner,
    PolicyView,
    Step,
    TaskNotFound,
    tool,
)
from perdure.actors.events import DecisionMade
from perdure.actors.model import ModelReply, ModelRequest
from perdure.cli_why import why_text
from perdure.models import Scripted
from perdure.storage.base_reader import Reader
from perdure.storage.memory import MemoryBackend
from perdure.views_checkpoint import checkpoint
from perdure.views_why import Iteration, Recovered, Turn, Why, why
from tests.actors.test_planning import Model, host
from tests.actors.test_planning import agent as planning
from tests.actors.world import (
    ROUND_AND_ROUND,
    House,
    World,
    as_calls,
    follow,
    job,
    outcomes,
    quick,
    standing,
    tools_of,
)


@contextmanager
def reading(house: House) -> Iterator[Reader]:
    with MemoryBackend(house.store).reader(lambda *_: None) as reader:
        yield reader


def story(house: House, task: str, **options: Any) -> Why:
    with reading(house) as reader:
        return why(reader, task, **options)


def iterations(found: Why) -> list[Iteration]:
    return [one for one in found.story if isinstance(one, Iteration)]


def turns(found: Why) -> list[tuple[str, str]]:
    return [(one.what, one.says) for one in found.story if isinstance(one, Turn)]


def test_each_iteration_says_why_it_was_and_what_the_last_one_brought() -> None:
    # B58 A102
    house = House(job(World()))
    task = house.run().task
    found = story(house, task)
    first, second, third = iterations(found)[:3]
    assert [one.step for one in (first, second, third)] == ["find"] * 3
    assert [one.why for one in (first, second, third)] == [
        "iteration 1 of 5",
        "iteration 2 of 5",
        "iteration 3 of 5",
    ]
    assert (first.learned, second.learned) == ("", "look completed: saw a")
    assert [(one.iteration, one.limit, one.round) for one in (first, second)] == [
        (1, 5, 1),
        (2, 5, 2),
    ]
    (call,) = first.calls
    assert (call.tool, call.arguments) == ("look", '{"what": "a"}')
    assert (call.outcome, call.by, call.feedback) == ("completed", "run", "saw a")
    assert third.said == '{"step": "find", "ok": true}'
    assert (second.verdict, third.verdict) == ("", "accepted")
    assert found.status == "completed"
    assert turns(found)[0] == ("step.started", "find begins, attempt 1")
    assert turns(found)[-1][0] == "task.closing"


def test_several_results_are_told_in_short() -> None:
    house = House(job(World()))
    task = house.run().task
    learned = [
        one.learned
        for one in house.of(f"task/{task}", DecisionMade)
        if one.step == "write"
    ]
    assert learned[-1] == "write completed: wrote f; look completed: saw c"
    assert all(len(one) <= 160 for one in learned)


def test_a_refused_answer_is_what_the_next_iteration_learned() -> None:
    # B58 B51
    answers = iter(["one", "two"])

    def reply(request: ModelRequest) -> ModelReply:
        return ModelReply(content=json.dumps(next(answers)))

    def accept(result: Any, view: Any) -> Any:
        return result == "two" or "say two"

    house = House(
        Agent(
            name="agent",
            instructions="x",
            model=Scripted(reply),
            plan=[Step(id="s", goal="s", accept=accept)],
        )
    )
    first, second = iterations(story(house, house.run().task))
    assert (first.verdict, second.learned) == ("refused: say two", "say two")
    assert second.verdict == "accepted"


class Stubborn:
    """A model that goes on with one call, whatever it is told."""

    def __init__(self, name: str, times: int, error: Exception | None = None) -> None:
        @tool(effect="read", approval=name == "asks")
        def fetch(what: str) -> str:
            """Fetch."""
            if error is not None:
                raise error
            return "nothing"

        def reply(request: ModelRequest) -> ModelReply:
            if len(outcomes(request)) < times:
                calls = as_calls([("fetch", {"what": "a"})], len(outcomes(request)))
                return ModelReply(content="I fetch it.", tool_calls=calls)
            return ModelReply(content=json.dumps(standing(request)["step"]["id"]))

        self.agent = Agent(
            name="agent",
            instructions="x",
            model=Scripted(reply),
            tools=[fetch],
            recall=False,
            plan=[Step(id="s", goal="s", max_iterations=30)],
        )


def test_what_was_ruled_out_is_told_failed_twice() -> None:
    # B58 A107
    house = House(Stubborn("fails", 3, ValueError("404")).agent)
    found = iterations(story(house, house.run().task))
    assert [one.ruled_out for one in found[:2]] == [(), ()]
    (ruled,) = found[2].ruled_out
    assert ruled == (
        'fetch {"what": "a"} failed 2 times (op2, op4), and nothing has changed since'
    )
    (call,) = found[2].calls
    assert (call.outcome, call.by) == ("failed", "door")
    assert call.feedback.startswith("not made: this very call failed 2 times")
    assert found[2].said == "I fetch it."


def test_what_was_ruled_out_is_told_blocked() -> None:
    house = House(Stubborn("repeats", 9).agent)
    result = house.run()
    assert result.reason == "loop"
    found = story(house, result.task)
    said = [text for what, text in turns(found) if what == "guard.found"]
    assert [one.partition(":")[0] for one in said] == ["nudge", "block", "stop"]
    last = iterations(found)[-1]
    assert last.ruled_out == ("blocked as a circle: fetch did the same 3 times over",)
    assert last.calls[0].by == "door"
    assert found.reason == "loop" and found.ends_with == "resume"
    stopped = [one for one in found.story if getattr(one, "condition", "")]
    assert [one.condition for one in stopped if isinstance(one, Turn)] == ["loop"]
    assert "loop" in found.conditions
    assert "task.paused: loop: " in "\n".join(why_text(found))
    assert any(line.endswith(" [loop]") for line in why_text(found))


def test_what_was_ruled_out_is_told_rejected() -> None:
    house = House(Stubborn("asks", 2).agent)
    handle = house.submit()
    assert house.finish(handle.id).reason == "approval"
    (asked,) = house.runtime.approvals()
    handle.reject(asked.approval, by="an operator", why="not this one")
    assert house.finish(handle.id).status == "completed"
    found = story(house, handle.id)
    first, second, _ = iterations(found)
    assert (first.calls[0].outcome, first.calls[0].by) == ("failed", "person")
    assert second.ruled_out == (
        "rejected in this step: an operator rejected it: not this one",
    )
    whats = [what for what, _ in turns(found)]
    for what in ("approval.asked", "task.paused", "approval.taken", "task.resumed"):
        assert what in whats


def test_a_recovery_tells_what_was_asked_answered_and_ruled() -> None:
    # B35 B80
    honest = follow({})
    lies = [True]

    def reply(request: ModelRequest) -> ModelReply:
        if standing(request)["kind"] == "recovery" and lies.pop():
            return ModelReply(content='{"done": ["write"], "next": "send"}')
        return honest(request)

    lies = [False, True]
    house = House(job(World(), model=Scripted(reply)))
    task = house.submit().id
    house.until_hit("step.ended", step="find")
    house.kill()
    house.reopen()
    assert house.finish(task).status == "completed"
    found = story(house, task)
    (recovery,) = [one for one in found.story if isinstance(one, Recovered)]
    assert (recovery.number, recovery.cause) == (1, "process ended")
    assert recovery.next == "write" and "find" in recovery.facts
    assert len(recovery.asked) == 2
    refused, passed = recovery.declared
    assert (refused.accepted, refused.by) == (False, "model")
    assert refused.declaration == '{"done": ["write"], "next": "send"}'
    assert refused.why == "not complete by the record: write"
    assert (passed.accepted, passed.why) == (True, "")


def test_a_person_who_passed_a_recovery_is_named() -> None:
    house = House(job(World(), recovery="person"))
    task = house.submit().id
    house.until_hit("step.ended", step="find")
    house.kill()
    house.reopen()
    shown = house.finish(task).detail
    house.runtime.task(task).resume(by="the shift")
    house.finish(task)
    found = story(house, task)
    (recovery,) = [one for one in found.story if isinstance(one, Recovered)]
    (declared,) = recovery.declared
    assert (declared.by, declared.who) == ("person", "the shift")
    assert ("task.paused", f"recovery: {shown}; ends with: resume, or cancel") in turns(
        found
    )
    (resumed,) = [one for one in found.story if getattr(one, "by", "") == "the shift"]
    assert isinstance(resumed, Turn) and resumed.what == "task.resumed"


def test_only_one_step_and_only_the_last_iterations() -> None:
    house = House(job(World()))
    task = house.run().task
    whole = iterations(story(house, task))
    assert iterations(story(house, task, last=2)) == whole[-2:]
    mine = story(house, task, step="write")
    assert {one.step for one in mine.story} == {"write"}
    assert iterations(mine) == [one for one in whole if one.step == "write"]
    assert iterations(story(house, task, step="write", last=1)) == [
        [one for one in whole if one.step == "write"][-1]
    ]
    assert len(iterations(story(house, task, last=99))) == len(whole)
    with pytest.raises(Misuse, match="no step 'x'; its steps are find, write, send"):
        story(house, task, step="x")
    with pytest.raises(Misuse, match="last=0"):
        story(house, task, last=0)


def test_the_story_is_the_same_after_a_kill_and_while_it_runs() -> None:
    house = House(job(World()))
    task = house.submit().id
    house.until_hit("step.ended", step="find")
    running = story(house, task)
    assert running.status == "running"
    assert "accepted" in [one.verdict for one in iterations(running)]
    house.kill()
    assert story(house, task) == running
    house.reopen()
    assert house.runtime.why(task).story[: len(running.story)] == running.story


def test_a_handle_tells_it_as_data() -> None:
    house = House(job(World()), baseline=quick(**ROUND_AND_ROUND))
    handle = house.submit()
    house.finish(handle.id)
    found = handle.why(step="find", last=1)
    assert found == story(house, handle.id, step="find", last=1)
    assert asyncio.run(handle.awhy(step="find", last=1)) == found
    with pytest.raises(TaskNotFound):
        house.runtime.why("t-none")


def test_an_erased_task_has_no_story() -> None:
    house = House(job(World()))
    task = house.run().task
    house.runtime.erase(task=task, by="somebody")
    with pytest.raises(Misuse, match="erased by somebody"):
        story(house, task)


def test_the_story_for_people_says_the_same() -> None:
    house = House(
        job(
            World(), plan=Plan(steps=(Step(id="find", goal="find"),)), recovery="person"
        )
    )
    task = house.submit(goal="Find\x1b[2J it").id
    house.until_hit("action.observed", op=2)
    house.kill()
    house.reopen()
    house.finish(task)
    house.runtime.task(task).resume(by="the shift")
    house.finish(task)
    text = "\n".join(why_text(story(house, task)))
    assert "\x1b" not in text
    assert f"task {task} (agent): Find\\x1b[2J it" in text
    assert re.search(
        r"step find, attempt 1, iteration 1 of 5: op1, round 1, completed", text
    )
    assert '  op2        look {"what": "a"} -> completed: saw a' in text
    assert "  why        iteration 1 of 5" in text
    assert "  verdict    accepted" in text
    assert "recovery 1: process ended" in text
    assert "  declared   by person (the shift): {" in text and "-> passed" in text
    assert re.search(r"-- \S+Z task.resumed: .* \(by the shift\)", text)


def test_a_policy_tells_its_reasons_too() -> None:
    def decide(view: PolicyView) -> Any:
        if view.count:
            return Finish({"n": view.count}, why="both are out")
        calls = [Call("send", {"text": "a"}, why="first"), Call("send", {"text": "b"})]
        return Calls(calls, why="two")

    house = House(Agent(name="agent", policy=decide, tools=tools_of(World())))
    task = house.run().task
    first, second = iterations(story(house, task))
    assert (first.by, first.why, first.learned) == ("policy", "first", "")
    assert [one.outcome for one in first.calls] == ["completed", "completed"]
    assert [one.arguments for one in first.calls] == ['{"text":"a"}', '{"text":"b"}']
    assert (second.why, second.verdict) == ("both are out", "accepted")
    assert second.learned == "", "what went well stands in the record"
    assert second.said == '{"n":2}'
    assert "the agent's policy" in "\n".join(why_text(story(house, task)))


def test_revisions_of_the_plan_are_told() -> None:
    new = {"steps": [{"id": "b", "goal": "do b otherwise"}], "why": "b was wrong"}
    planner = Planner(triggers=("half",))
    house = House(planning(Model(new), planner, plan=host("a", "b")))
    task = house.run(goal="x").task
    said = [(what, text) for what, text in turns(story(house, task)) if "plan" in what]
    assert [what for what, _ in said] == ["plan.checked", "plan.revised"]
    assert said[1][1].startswith("plan 2 is in force (a, b): b was wrong; for half: ")


def test_a_fork_tells_what_it_began_with() -> None:
    house = House(job(World()))
    source = house.run().task
    (at,) = [
        record.seq
        for record in house.store.streams[f"task/{source}"]
        if record.type == "StepStarted" and b'"send"' in record.body
    ]
    fork = house.runtime.task(source).fork(at=at)
    house.finish(fork.id)
    said = turns(story(house, fork.id))
    assert ("step.inherited", "find was completed before the fork") in said
    assert {one.step for one in iterations(story(house, fork.id))} == {"send"}
    with reading(house) as reader:
        found = checkpoint(reader, fork.id)
    assert [one.step for one in found.completed] == ["find", "write", "send"]
    assert found.side_effects == {"send": 1}  # its own; the source's are not
