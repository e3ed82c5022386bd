"""Tasks that go round in circles, through a whole runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure import Agent, Baseline, Effect, Misuse, Step, sleep, tool
from perdure.actors import names
from perdure.actors.events import (
    ActionObserved,
    EffectRegistered,
    LoopFound,
    RequestBuilt,
)
from perdure.actors.model import ModelReply, ModelRequest
from perdure.models import Scripted, ServiceTrouble
from perdure.replay import render_again
from tests.actors.world import (
    Calls,
    House,
    as_calls,
    declaration,
    outcomes,
    standing,
)

READ: Calls = [("read", {"path": "x"})]


class Desk:
    """Tools that answer as they are told to, and a model that follows a script.

    Each group of calls is one reply; the last is repeated for ever with `on`.
    """

    def __init__(self, *groups: Calls, on: bool = False) -> None:
        self.groups, self.on = list(groups), on
        self.made: list[str] = []
        self.requests: list[ModelRequest] = []
        self.answer: Callable[[str], str] = lambda path: f"all that stands in {path}"

    def reply(self, request: ModelRequest) -> ModelReply:
        if standing(request)["kind"] == "recovery":
            return ModelReply(content=declaration(request))
        self.requests.append(request)
        made = len(outcomes(request))
        for group in self.groups:
            if made < len(group):
                return ModelReply(tool_calls=as_calls(group[made:], made))
            made -= len(group)
        if self.on:
            return ModelReply(tool_calls=as_calls(self.groups[-1]))
        return ModelReply(content='"done"')

    def open(self, steps: int = 0, **options: Any) -> House:
        @tool(effect="read", **options)
        def read(path: str, note: str = "") -> str:
            """Read a file."""
            self.made.append(path)
            return self.answer(path)

        def unput(effect: Effect) -> None:
            self.made.append(f"undo {effect.arguments['path']}")

        @tool(effect="once", undo=unput)
        def put(path: str) -> str:
            """Put a file somewhere."""
            self.made.append(f"put {path}")
            return "ok"

        agent = Agent(
            name="agent",
            instructions="Work.",
            model=Scripted(self.reply),
            tools=[read, put, sleep],
            plan=[Step(id=f"s{number}", goal="Read.") for number in range(steps)]
            or None,
            recall=False,
        )
        return House(agent)


def told(request: ModelRequest, word: str) -> list[str]:
    """The lines of a request's moving part that hold a word."""
    lines = request.messages[-1]["content"].splitlines()
    return [line for line in lines if word in line]


def stages(house: House, task: str) -> list[str]:
    return [one.stage for one in house.of(f"task/{task}", LoopFound)]


def test_a_task_that_repeats_itself_is_told_then_blocked_then_paused() -> None:
    # R20 A20 B53
    desk = Desk(READ, on=True)
    house = desk.open()
    task = house.submit()
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "loop")
    assert stages(house, task.id) == ["nudge", "block", "stop"]
    assert desk.made == ["x"] * 4, "the fifth was refused"
    assert "read did the same 3 times over" in result.detail
    assert "(operations 4, 6, 8, 10)" in result.detail
    assert result.spent["tool_calls"] == {"read": 4}, "what is blocked costs nothing"
    newest, _ = house.store.snapshots[f"task/{task.id}"][0]
    assert newest.reason == "paused: loop"


def test_the_model_is_told_before_it_is_stopped() -> None:
    # R20
    desk = Desk(READ, on=True)
    house = desk.open()
    house.run()
    notes = [told(one, "circles") for one in desk.requests]
    assert [len(one) for one in notes] == [0, 0, 0, 1, 2]
    assert notes[3][0].startswith(
        "- you go round in circles: read did the same 3 times"
    )
    assert "one more of them pauses the task" in notes[4][1]


def test_two_calls_in_turn_are_a_circle_and_each_is_blocked() -> None:
    # R20 B57
    pair: Calls = [("read", {"path": "a"}), ("read", {"path": "b"})]
    desk = Desk(*[[one] for one in pair * 6])
    house = desk.open()
    task = house.submit()
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "loop")
    assert stages(house, task.id) == ["nudge", "block", "stop"]
    assert "2 calls (read, read) came round 3 times" in result.detail
    assert desk.made == ["a", "b"] * 3 + ["a"]


def test_a_job_that_gets_on_is_never_disturbed() -> None:
    # R20 K19
    desk = Desk(*[READ] * 12)
    desk.answer = lambda _: f"running {len(desk.made)}0%"
    house = desk.open()
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    assert stages(house, task.id) == []


@pytest.mark.parametrize("calls", [1, 2, 3, 4])
def test_a_kill_in_the_middle_does_not_begin_the_count_anew(calls: int) -> None:
    # R20
    desk = Desk(READ, on=True)
    house = desk.open()
    task = house.submit()
    stream = f"task/{task.id}"
    assert house.until(
        lambda: (
            sum(one.seen is not None for one in house.of(stream, ActionObserved))
            >= calls
        )
    )
    house.kill()
    house.reopen()
    assert house.finish(task.id).reason == "loop"
    assert stages(house, task.id) == ["nudge", "block", "stop"]
    assert len(desk.made) == 4


def test_a_person_who_resumes_gives_it_a_new_start() -> None:
    # R20
    desk = Desk(READ, on=True)
    house = desk.open()
    task = house.submit()
    assert house.finish(task.id).reason == "loop"
    task.resume()
    assert house.finish(task.id).reason == "loop"
    assert stages(house, task.id) == ["nudge", "block", "stop"] * 2
    assert len(desk.made) == 8


def test_a_resume_with_another_idea_ends_well() -> None:
    desk = Desk(READ, on=True)
    house = desk.open()
    task = house.submit()
    assert house.finish(task.id).reason == "loop"
    desk.on = False
    task.resume()
    assert house.finish(task.id).status == "completed"


def test_another_step_has_a_count_of_its_own() -> None:
    desk = Desk(READ, READ)
    house = desk.open(steps=2)
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    assert len(desk.made) == 4
    assert stages(house, task.id) == []


def test_calls_of_one_reply_are_not_blamed_for_what_came_of_each_other() -> None:
    desk = Desk([*READ] * 8)
    house = desk.open()
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    assert stages(house, task.id) == ["nudge"]
    assert len(desk.made) == 8


# ── what a tool declares ─────────────────────────────────────────────────────────


def test_a_poll_may_say_the_same_until_it_has_waited_long_enough() -> None:
    # K19
    desk = Desk(READ, on=True)
    house = desk.open(poll=True, max_wait=60.0)

    def slow(path: str) -> str:
        house.sim.clock.advance(10.0)
        return "running"

    desk.answer = slow
    task = house.submit()
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "loop")
    assert result.detail.startswith("poll_timeout: read said the same for ")
    assert len(desk.made) == 8, "seven in 60 s, and one after the warning"


def test_waiting_between_two_polls_is_no_circle() -> None:
    # K19
    nap: Calls = [("sleep", {"seconds": 5.0})]
    desk = Desk(*[READ, nap] * 5)
    desk.answer = lambda _: "running"
    house = desk.open(poll=True, max_wait=60.0)
    task = house.submit()
    while (result := house.finish(task.id)).status == "waiting":
        pass
    assert result.status == "completed"
    assert stages(house, task.id) == []


def test_arguments_that_say_nothing_are_declared() -> None:
    notes: list[Calls] = [[("read", {"path": "x", "note": n})] for n in "abcdefgh"]
    desk = Desk(*notes)
    assert desk.open(volatile=["note"]).run().reason == "loop"
    desk = Desk(*notes)
    assert desk.open(loop_key=["path"]).run().reason == "loop"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"loop_key": ["file"]}, "loop_key=\\('file',\\): it has no parameter 'file'"),
        ({"volatile": ["x"]}, "its parameters: path"),
        ({"loop_key": ["path"], "volatile": ["path"]}, "say the same thing twice"),
        ({"poll": True, "max_wait": -1.0}, "max_wait=-1.0 must be seconds"),
        ({"poll": True, "max_wait": float("inf")}, "max_wait=inf must be seconds"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(
    options: dict[str, Any], says: str
) -> None:
    with pytest.raises(Misuse, match=says):

        @tool(effect="read", **options)
        def read(path: str) -> str:
            return path


# ── what is no circle ────────────────────────────────────────────────────────────


def test_a_model_whose_service_is_overloaded_is_not_stuck() -> None:
    # K26
    def busy(request: ModelRequest) -> ModelReply:
        raise ServiceTrouble("slow down", status=429)

    house = House(Agent(name="agent", instructions="x", model=Scripted(busy)))
    task = house.submit()
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "service")
    assert stages(house, task.id) == []


def test_a_tool_whose_service_is_overloaded_pauses_for_the_service() -> None:
    # K26 B82
    desk = Desk(READ, on=True)

    def busy(path: str) -> str:
        raise ServiceTrouble("slow down", status=429)

    desk.answer = busy
    house = desk.open()
    task = house.submit()
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "service")
    assert len(desk.made) == 1 + Baseline().query_retries
    assert "the service of read failed it" in result.detail


@pytest.mark.parametrize(("calls", "found"), [(5, []), (6, ["nudge"])])
def test_a_failing_call_has_its_retries_before_it_counts(
    calls: int, found: list[str]
) -> None:
    # B82
    desk = Desk(*[READ] * calls)

    def wrong(path: str) -> str:
        raise ValueError(path)

    desk.answer = wrong
    house = desk.open(kind="generate")
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    assert len(desk.made) == calls
    assert stages(house, task.id) == found


def test_what_was_blocked_is_taken_back_all_the_same() -> None:
    put: Calls = [("put", {"path": "y"})]
    desk = Desk(put, on=True)
    house = desk.open()
    task = house.submit()
    assert house.finish(task.id).reason == "loop"
    task.cancel(compensate=True)
    assert house.finish(task.id).status == "cancelled"
    assert desk.made == ["put y", "undo y"]


def test_a_call_that_waits_for_a_person_is_not_counted_while_it_waits() -> None:
    desk = Desk(READ, READ)
    house = desk.open(approval=True)
    task = house.submit()
    for _ in range(4):
        assert house.finish(task.id).reason == "approval"
        house.kill()
        house.reopen()
    for _ in range(2):
        (one,) = house.runtime.approvals()
        house.runtime.task(task.id).approve(one.approval)
        house.finish(task.id)
    assert stages(house, task.id) == []
    assert desk.made == ["x", "x"]


# ── what is told of it ───────────────────────────────────────────────────────────


def test_each_step_of_the_ladder_is_an_event_and_a_log_line() -> None:
    desk = Desk(READ, on=True)
    house = desk.open()
    task = house.submit()
    house.finish(task.id)
    lines = house.log.of("guard.found")
    assert [one["stage"] for one in lines] == ["nudge", "block", "stop"]
    assert lines[0]["found"]["kind"] == "repeat"
    assert house.log.strangers == []


def test_a_request_with_a_warning_is_rendered_again_as_it_was() -> None:
    desk = Desk(READ, on=True)
    house = desk.open()
    task = house.submit()
    house.finish(task.id)
    built = house.of(f"task/{task.id}", RequestBuilt)
    assert len(built) == 5
    for one in built:
        again = house.runtime._reading.read(
            lambda reader, op=one.op: render_again(reader, task.id, op)
        )
        assert again.digest == one.digest


def test_a_blocked_call_is_told_once_and_is_no_failure_of_the_call() -> None:
    desk = Desk(READ, on=True)
    house = desk.open(steps=2)
    task = house.submit()
    assert house.finish(task.id).reason == "loop"
    desk.on = False
    task.resume()
    assert house.finish(task.id).status == "completed"
    assert max(len(told(one, "- read: blocked")) for one in desk.requests) == 1
    assert not any(told(one, "Failed before") for one in desk.requests)


def test_a_blocked_call_is_recorded_as_refused_at_the_door() -> None:
    desk = Desk(READ, on=True)
    house = desk.open()
    task = house.submit()
    house.finish(task.id)
    last = house.of(names.ledger(task.id), EffectRegistered)[-1]
    observed = house.of(f"task/{task.id}", ActionObserved)[-1]
    assert (observed.op, observed.refused) == (last.op, True)
    assert observed.reason.startswith("read: blocked: read did the same 3 times over")
