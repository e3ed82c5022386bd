"""What failed is known in every later step: told, and not tried for ever."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from perdure import Agent, Plan, Step, tool
from perdure.actors.events import (
    ActionObserved,
    CallTool,
    EffectRecorded,
    StepEnded,
    TaskPaused,
)
from perdure.actors.model import ModelReply, ModelRequest
from perdure.actors.task import failures as memory
from perdure.actors.task.failures import Failure
from perdure.models import Scripted
from perdure.replay import render_again
from perdure.storage.memory import MemoryBackend
from tests.actors.world import (
    ROUND_AND_ROUND,
    House,
    as_calls,
    outcomes,
    quick,
    standing,
)


def call(tool_name: str = "look", **arguments: Any) -> CallTool:
    text = json.dumps(arguments)
    return CallTool(tool=tool_name, arguments=text, call_id="c", parent=1, index=0)


def seen(status: Any, reason: str = "", *, again: bool = False) -> ActionObserved:
    return ActionObserved(op=2, attempt=1, status=status, reason=reason, again=again)


def step_end(status: Any, reason: str = "") -> StepEnded:
    return StepEnded(
        step="find", status=status, reason=reason, result="", evidence=(), op=1
    )


def test_the_same_call_is_counted_however_its_arguments_are_written() -> None:
    first = call(what="a", n=1)
    other = CallTool(
        tool="look", arguments='{ "n":1, "what":"a" }', call_id="", parent=9, index=3
    )
    known = memory.observed({}, first, seen("failed", "look: no such thing"))
    known = memory.observed(known, other, seen("failed", "look: gone"))
    (one,) = memory.failed_before(known, ())
    assert (one.what, one.times, one.why) == ("look", 2, "gone")


def test_a_call_that_went_well_at_last_is_forgotten() -> None:
    known = memory.observed({}, call(what="a"), seen("failed", "look: no"))
    known = memory.observed(known, call(what="b"), seen("failed", "look: no"))
    known = memory.observed(known, call(what="a"), seen("completed"))
    assert [one.arguments for one in known.values()] == ['{"what": "b"}']


def test_an_attempt_that_is_made_again_has_not_failed_yet() -> None:
    assert memory.observed({}, call(), seen("failed", "x", again=True)) == {}


def test_a_step_that_stopped_is_a_blocker_until_it_passes() -> None:
    known = memory.blocked({}, step_end("limited", "5 iterations"))
    paused = TaskPaused(reason="service", detail="503", ends_with="resume", epoch=1)
    known = memory.paused(known, "find", paused)
    (one,) = memory.failed_before(known, ())
    assert (one.what, one.times) == ("step find", 2)
    assert one.why == "paused: service: 503"
    assert memory.blocked(known, step_end("completed")) == {}


def test_waiting_is_no_failure() -> None:
    waits = TaskPaused(reason="approval", detail="x", ends_with="approve", epoch=1)
    assert memory.paused({}, "find", waits) == {}


def test_what_a_note_says_is_not_said_twice() -> None:
    known = memory.observed({}, call(), seen("failed", "look: no\n such thing"))
    assert memory.failed_before(known, ("look: no\n such thing",)) == ()
    assert len(memory.failed_before(known, ("something else",))) == 1
    known = memory.observed(known, call(), seen("failed", "look: no\n such thing"))
    assert len(memory.failed_before(known, ("look: no\n such thing",))) == 1


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from(["failed", "completed"])),
        max_size=80,
    )
)
def test_the_memory_is_bounded_and_keeps_what_failed_last(
    events: list[tuple[int, str]],
) -> None:
    known: dict[str, Failure] = {}
    left: dict[int, int] = {}
    for number, status in events:
        known = memory.observed(known, call(n=number), seen(status, "x" * 5_000))
        if status == "failed":
            left = {**{k: v for k, v in left.items() if k != number}, number: 1}
        else:
            left.pop(number, None)
    kept = [json.loads(one.arguments)["n"] for one in known.values()]
    assert len(kept) <= memory.KEPT
    assert all(len(one.why) <= memory.WHY + 1 for one in known.values())
    assert kept == list(left)[-len(kept) :] if kept else not left


# ── in a task ────────────────────────────────────────────────────────────────────


def stubborn(tries: int, made: list[str], mended: list[bool]) -> Agent:
    """In every step a model that makes the same call `tries` times, then answers.

    The tool's service fails unless `mended` holds something, which one call takes out.
    """

    @tool(effect="read")
    def fetch(name: str) -> str:
        """Fetch a thing."""
        made.append(name)
        if mended:
            mended.pop()
            return "here it is"
        raise ConnectionRefusedError("404")

    def reply(request: ModelRequest) -> ModelReply:
        if len(outcomes(request)) < tries:
            return ModelReply(tool_calls=as_calls([("fetch", {"name": "a"})]))
        return ModelReply(content=json.dumps(standing(request)["step"]["id"]))

    steps = tuple(
        Step(id=name, goal=name, max_iterations=20, accept=lambda result, view: True)
        for name in ("one", "two", "three")
    )
    return Agent(
        name="agent",
        instructions="Fetch.",
        model=Scripted(reply),
        tools=[fetch],
        plan=Plan(steps=steps),
        recovery="rules",
        recall=False,
    )


def shown(house: House, task: str, op: int) -> str:
    with MemoryBackend(house.store).reader(lambda *_: None) as reader:
        content = render_again(reader, task, op).messages[-1]["content"]
    assert isinstance(content, str)
    return content


def test_a_later_step_is_told_what_failed_and_may_try_it_once() -> None:
    # A107
    made: list[str] = []
    house = House(stubborn(6, made, []), baseline=quick(**ROUND_AND_ROUND))
    task = house.submit().id
    assert house.finish(task).status == "completed"
    recorded = house.of(f"task/{task}/ledger", EffectRecorded)
    refused = [one.error for one in recorded if one.by == "door"]
    assert len(made) == 4 + 1 + 1  # three retries; then one attempt a step
    assert "failed 4 times in this step" in refused[0]
    assert "failed 5 times in this task" in refused[2]
    text = shown(house, task, 14)  # the first request of step two
    assert '- fetch {"name": "a"}: 4 times; ConnectionRefusedError: 404' in text
    assert "## Failed before" not in shown(house, task, 1)


def test_a_call_that_went_well_has_all_its_retries_again() -> None:
    made: list[str] = []
    mended: list[bool] = []
    house = House(stubborn(4, made, mended))
    task = house.submit().id
    assert house.until(lambda: len(made) == 4)
    mended.append(True)  # the first call of step two
    assert house.finish(task).status == "completed"
    assert len(made) == 4 + 4 + 1  # three failed since: one more, then no more
    assert "## Failed before\n- fetch" in shown(house, task, 10)
    assert "## Failed before" not in shown(house, task, 12)
