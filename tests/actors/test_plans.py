"""Plans at work: the order of steps, and what becomes of those that are stuck."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure import Agent, Result, Step
from perdure.actors.events import ContextRebuilt, StepEnded, StepStarted
from perdure.models import ModelReply, Scripted
from perdure.replay import render_again, rounds
from tests.actors.runs import not_reproduced
from tests.actors.world import House, World, follow, tools_of

Accepts = dict[str, Callable[..., Any]]


def never(result: Any, view: Any) -> str:
    return "not good enough"


def planned(*steps: Step, **options: Any) -> Agent:
    options.setdefault("model", Scripted(follow({})))
    options.setdefault("recovery", "rules")
    return Agent(name="agent", instructions="Do it.", plan=steps, **options)


def one(name: str, *needs: str, **options: Any) -> Step:
    return Step(id=name, goal=f"{name} it", needs=needs, max_iterations=1, **options)


def began(house: House, task: str) -> list[str]:
    return [one.step for one in house.of(f"task/{task}", StepStarted)]


def check(house: House, task: str) -> None:
    """Every request renders again, and every snapshot is the fold of its events."""
    read = house.runtime._reading.read
    for op in read(lambda reader: rounds(reader, task)):
        read(lambda reader, op=op: render_again(reader, task, op))
    assert not_reproduced(house.store) == []
    assert house.log.crashes() == []


def run(*steps: Step, **options: Any) -> tuple[House, Result]:
    house = House(planned(*steps, **options))
    return house, house.run()


def test_steps_run_one_at_a_time_in_the_order_of_their_needs() -> None:
    # A85
    house, result = run(one("report", "b", "a"), one("b", "a"), one("a"), one("z"))
    assert began(house, result.task) == ["a", "b", "report", "z"]
    assert result.status == "completed"
    kinds = [
        kind
        for kind in house.kinds(f"task/{result.task}")
        if kind in ("StepStarted", "StepEnded")
    ]
    assert kinds == ["StepStarted", "StepEnded"] * 4


def test_the_output_is_that_of_the_step_which_the_others_are_for() -> None:
    _, result = run(one("report", "data"), one("data"))
    assert result.output == {"step": "report", "ok": True}


def test_a_stuck_step_stops_only_those_that_depend_on_it() -> None:
    # A36 A85 A110
    house, result = run(one("a", accept=never), one("b", "a"), one("c"))
    assert (result.status, result.reason) == ("paused", "limited")
    assert result.steps == {"a": "limited", "b": "blocked", "c": "completed"}
    assert result.detail.startswith("step a: ")
    assert began(house, result.task) == ["a", "c"]
    (told,) = house.log.of("task.paused")
    assert told["reason"] == "limited"


def test_a_resumed_task_goes_on_with_the_stuck_step_and_those_behind_it() -> None:
    good = False

    def now(result: Any, view: Any) -> bool:
        return good

    house, result = run(one("a", accept=now), one("b", "a"), one("c"))
    good = True
    house.runtime.task(result.task).resume()
    result = house.finish(result.task)
    assert result.steps == {"a": "completed", "b": "completed", "c": "completed"}
    assert began(house, result.task) == ["a", "c", "a", "b"]


def test_a_task_completes_without_what_it_does_not_require() -> None:
    house, result = run(
        one("a"),
        one("b", required=False, accept=never),
        one("c", "b"),
        one("d", "a", "c"),
        one("e", "a"),
    )
    assert result.status == "completed"
    assert result.steps == {
        "a": "completed",
        "b": "limited",
        "c": "skipped",
        "d": "skipped",
        "e": "completed",
    }
    ends = [
        (one.step, one.status)
        for one in house.of(f"task/{result.task}", StepEnded)
        if not one.again
    ]
    assert ends == [("a", "completed"), ("b", "limited"), ("e", "completed")]


def test_a_task_does_not_complete_with_nothing_accepted() -> None:
    # A11 A36 A103: whatever the model says of it
    says = Scripted(lambda request: ModelReply(content="All done, all accepted."))
    _, result = run(one("a", required=False, accept=never), model=says)
    assert (result.status, result.reason) == ("paused", "limited")


def test_the_model_is_told_what_steps_need_and_which_are_blocked() -> None:
    # A37 A88
    seen: list[str] = []

    def reply(request: Any) -> Any:
        seen.append("\n".join(str(one["content"]) for one in request.messages))
        return follow({})(request)

    run(
        one("a", accept=never),
        one("b", "a"),
        one("c"),
        one("d", "b", "c"),
        model=Scripted(reply),
    )
    assert "- d: d it Needs: b, c." in seen[-1]
    assert "Steps: a: limited, b: blocked, c: running, d: blocked." in seen[-1]


class Interrupted:
    """Step `a` sends a mail and is refused, `c` goes on, then `a` is tried again."""

    def __init__(self, **options: Any) -> None:
        self.world = World()
        self.good = False
        model = Scripted(follow({"a": [[("send", {"text": "hello"})]]}))
        steps = (
            Step(id="a", goal="a", needs=(), max_iterations=2, accept=self.accept),
            Step(id="c", goal="c", needs=()),
        )
        self.house = House(
            planned(*steps, model=model, tools=tools_of(self.world), **options)
        )

    def accept(self, result: Any, view: Any) -> bool:
        return self.good


def test_an_effect_of_a_stuck_step_is_not_repeated_once_it_goes_on() -> None:
    # P2: other steps ran in between, and their calls took the place of its
    run = Interrupted()
    result = run.house.run()
    assert result.steps == {"a": "limited", "c": "completed"}
    run.good = True
    run.house.runtime.task(result.task).resume()
    result = run.house.finish(result.task)
    assert result.status == "completed"
    assert [text for _, text in run.world.sent] == ["hello"]
    check(run.house, result.task)


@pytest.mark.parametrize("seed", range(8))
def test_a_plan_goes_on_after_kills_as_without_them(seed: int) -> None:
    # A85 P6
    world = World()
    script: Any = {
        "b": [[("look", {"what": "b"})], [("send", {"text": "b"})]],
        "d": [[("write", {"name": "d", "text": "d"})]],
    }
    steps = (
        Step(id="d", goal="d", needs=("b",)),
        Step(id="a", goal="a", needs=(), accept=never, required=False),
        Step(id="b", goal="b", needs=()),
        Step(id="c", goal="c", needs=("a",)),
    )
    agent = planned(
        *steps,
        model=Scripted(follow(script)),
        tools=tools_of(world),
        recovery="declare",
    )
    house = House(agent, seed=seed)
    task = house.submit()
    for round_ in range(6):
        kinds = house.kinds(f"task/{task.id}")
        seen = len(kinds) + 9 + (seed + round_) % 5
        if not house.until(
            lambda seen=seen: len(house.kinds(f"task/{task.id}")) >= seen, 600.0
        ):
            break
        house.kill()
        house.reopen()
    result = house.finish(task.id)
    assert result.status == "completed", result
    assert result.steps == {
        "d": "completed",
        "a": "limited",
        "b": "completed",
        "c": "skipped",
    }
    assert result.output == {"step": "d", "ok": True}
    assert [text for _, text in world.sent] == ["b"]
    assert house.of(f"task/{task.id}", ContextRebuilt)
    check(house, task.id)
