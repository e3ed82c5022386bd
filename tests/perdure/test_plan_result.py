"""What a host is told of a plan: its steps, how far they are, and what was revised."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from perdure import Agent, Misuse, PlanResult, PlanStep, Step, StepRecord, TaskNotFound
from perdure.actors.events import (
    DroppedStep,
    Fired,
    PlanRevised,
    TaskSubmitted,
)
from perdure.actors.plan.result import revisions_of
from perdure.models import Scripted
from perdure.views import sheet
from perdure.views_text import sheet_text
from tests.actors.task.support import submitted
from tests.actors.world import House, follow


def never(result: Any, view: Any) -> str:
    return "not good enough"


def planned(**options: Any) -> Agent:
    steps = (
        Step(id="look", goal="l", needs=(), phase="find", max_iterations=1, **options),
        Step(id="tell", goal="t", needs=("look",), phase="tell"),
        Step(id="more", goal="m", needs=(), phase="find"),
    )
    return Agent(
        name="agent",
        instructions="Do it.",
        plan=steps,
        model=Scripted(follow({})),
        recovery="rules",
    )


def test_a_plan_says_what_it_holds_and_how_far_it_is() -> None:
    # A34
    house = House(planned())
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    plan = task.plan()
    assert isinstance(plan, PlanResult)
    assert (plan.task, plan.status, plan.phase) == (task.id, "completed", "")
    assert all(isinstance(one, PlanStep) for one in plan.steps)
    assert [one.id for one in plan.steps] == ["look", "tell", "more"]
    assert plan.steps[1].needs == ("look",)
    assert [(one.id, one.status, one.attempt) for one in plan.records] == [
        ("look", "completed", 1),
        ("tell", "completed", 1),
        ("more", "completed", 1),
    ]
    assert isinstance(plan.records[0], StepRecord)
    assert (plan.attempted, plan.retries, plan.revisions) == (3, 0, ())
    assert plan.output == "more"


def test_attempts_and_tries_are_counted_and_what_is_blocked_says_by_what() -> None:
    # A34 A84
    house = House(planned(accept=never))
    task = house.submit()
    assert house.finish(task.id).condition == "max_iterations"
    plan = task.plan()
    assert (plan.status, plan.phase) == ("paused", "find")
    assert (plan.attempted, plan.retries) == (2, 3)
    look = plan.records[0]
    assert (look.status, look.tries, look.condition) == ("limited", 3, "max_iterations")
    assert look.why == "1 iterations without an accepted answer: not good enough"
    assert plan.standing["tell"].status == "blocked"
    assert plan.standing["tell"].why == "needs look (limited)"
    assert plan.records[1].status == "pending"
    task.resume()
    assert house.finish(task.id).status == "paused"
    assert task.plan().attempted == 3


def test_a_running_plan_is_in_the_phase_of_its_step() -> None:
    house = House(planned())
    task = house.submit()
    assert task.plan().phase == "find"
    assert house.until_hit("step.started", step="tell")
    plan = task.plan()
    assert (plan.status, plan.phase, plan.output) == ("running", "tell", "look")


def test_what_is_blocked_is_shown_with_the_reason() -> None:
    house = House(planned(accept=never))
    task = house.submit()
    house.finish(task.id)
    shown = house.runtime._reading.read(lambda reader: sheet(reader, task.id))
    assert (shown.steps[1].status, shown.steps[1].reason) == (
        "blocked",
        "needs look (limited)",
    )
    lines = [" ".join(line.split()) for line in sheet_text(shown)]
    assert "stopped by max_iterations" in lines
    assert "tell blocked 0 0/5 needs look (limited)" in lines


def test_event_loops_have_a_twin_and_nobody_gets_a_plan_that_is_not_there() -> None:
    house = House(planned())
    task = house.submit()
    house.finish(task.id)
    assert asyncio.run(task.aplan()) == task.plan()
    with pytest.raises(TaskNotFound):
        house.runtime.plan("t-none")
    house.runtime.erase(task=task.id, by="an operator")
    with pytest.raises(Misuse, match="erased by"):
        house.runtime.plan(task.id)


def test_a_revision_says_what_it_changed_and_who_let_steps_be_dropped() -> None:
    # A34 A95
    first = submitted("a", "b", "c")
    assert isinstance(first, TaskSubmitted)
    a, b, _ = first.steps
    new = PlanStep(id="d", goal="d", done="", max_iterations=5)
    steps = (a, msgspec.structs.replace(b, goal="b, but better"), new)
    revised = PlanRevised(
        op=1,
        number=2,
        fired=(Fired(trigger="phase", why="done: x"),),
        steps=steps,
        digest="",
        before="",
        goal="",
        why="c is of no use",
        dropped=(DroppedStep(id="c", why="of no use"),),
        consent="an operator",
    )
    (found,) = revisions_of([first, revised])
    assert (found.number, found.why, found.fired) == (2, "c is of no use", ("phase",))
    assert (found.added, found.changed) == (("d",), ("b",))
    assert (found.dropped, found.consent) == ({"c": "of no use"}, "an operator")
