"""A service that says when to come again: nobody calls it before, and nobody sleeps."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Agent
from perdure.actors import names
from perdure.actors.events import RestAsked, TaskPaused, WindowClosed
from perdure.models import ModelReply, ServiceTrouble
from tests.actors.test_rates import Post, gone, mailer, open_house
from tests.actors.world import declaration, standing


class Busy:
    """A model's service that turns calls away, saying for how long."""

    name = "busy"

    def __init__(self, post: Post, service: str, seconds: list[float]) -> None:
        self.post, self.service, self.seconds = post, service, seconds
        self.calls: list[float] = []

    async def complete(self, request: Any) -> ModelReply:
        self.calls.append(self.post.now())
        if self.seconds:
            wait = self.seconds.pop(0)
            raise ServiceTrouble("busy", status=429, retry_after=wait)
        if standing(request)["kind"] == "recovery":
            return ModelReply(content=declaration(request))
        return ModelReply(content='"done"')


def asker(model: Busy) -> Agent:
    return Agent(name="asker", instructions="Ask.", model=model)


@pytest.mark.parametrize("service", ["", "llm"])
def test_a_model_that_asks_to_be_left_alone_is_and_the_task_rests(
    service: str,
) -> None:
    post = Post()
    model = Busy(post, service, [600.0])
    house = open_house(post, asker(model), limits=[])
    task = house.submit("asker")
    assert house.until(lambda: task.status == "waiting", 60.0)
    assert house.until(lambda: gone(house, task.id), 60.0)
    assert house.finish(task.id).status == "completed"
    first, second = model.calls
    assert first + 600.0 <= second < first + 610.0


def test_a_short_rest_is_waited_for_in_memory() -> None:
    post = Post()
    model = Busy(post, "", [3.0])
    house = open_house(post, asker(model), limits=[])
    task = house.submit("asker")
    assert house.finish(task.id).status == "completed"
    assert model.calls[1] >= model.calls[0] + 3.0
    assert house.of(f"task/{task.id}", TaskPaused) == []


def test_what_one_task_was_told_holds_for_all_that_use_the_service() -> None:
    post = Post()
    model = Busy(post, "llm", [600.0])
    house = open_house(post, asker(model), limits=[])
    first = house.submit("asker")
    assert house.until(lambda: first.status == "waiting")
    others = [house.submit("asker") for _ in range(3)]
    assert house.until(lambda: all(one.status == "waiting" for one in others))
    for one in (first, *others):
        assert house.finish(one.id).status == "completed"
    assert min(model.calls[1:]) >= model.calls[0] + 600.0
    assert len(house.of(names.WINDOWS, WindowClosed)) == 1


def test_a_tool_that_was_turned_away_closes_the_window_for_the_next_call() -> None:
    post = Post()
    post.refusals = [300.0]
    calls = [[("mail", {"to": "a"})], [("mail", {"to": "b"})]]
    house = open_house(post, mailer(post, calls))
    began = house.sim.clock.time()
    task = house.submit("mailer")
    assert house.finish(task.id).status == "completed"
    ((at, _),) = post.got
    assert at >= began + 300.0
    (asked,) = house.of(f"task/{task.id}/ledger", RestAsked)
    assert asked.until >= began + 300.0


def test_a_rest_goes_on_over_a_kill() -> None:
    # R3
    for steps in range(10, 200, 9):
        post = Post()
        model = Busy(post, "llm", [600.0])
        house = open_house(post, asker(model), limits=[], seed=steps)
        task = house.submit("asker")
        for _ in range(steps):
            house.sim.step()
        house.kill()
        house.reopen()
        assert house.finish(task.id).status == "completed"
        if house.of(f"task/{task.id}/ledger", RestAsked):
            assert model.calls[1] >= model.calls[0] + 600.0


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), True, "soon"])
def test_a_rest_of_no_length_is_none(seconds: Any) -> None:
    post = Post()
    model = Busy(post, "llm", [seconds])
    house = open_house(post, asker(model), limits=[])
    assert house.run("asker").status == "completed"
    assert house.of(names.WINDOWS, WindowClosed) == []
    assert model.calls[1] < model.calls[0] + 60.0


def test_nobody_can_have_us_wait_for_more_than_a_day() -> None:
    post = Post()
    model = Busy(post, "llm", [1e9])
    house = open_house(post, asker(model), limits=[])
    task = house.submit("asker")
    assert house.until(lambda: task.status == "waiting")
    (closed,) = house.of(names.WINDOWS, WindowClosed)
    assert closed.until - closed.said <= 86_400.0
