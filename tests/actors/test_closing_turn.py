"""The closing turn: the floor pays for one more call before a pause for money."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from perdure import Agent, Budget
from perdure.actors.budget.account import Refusal
from perdure.actors.events import (
    ActionObserved,
    CallModel,
    DecisionMade,
    EffectRegistered,
    RequestBuilt,
    Reserved,
    Settled,
    TaskPaused,
)
from perdure.actors.model import ModelReply, ModelRequest, Usage
from perdure.actors.task.closing import pause_for
from perdure.models import Scripted
from perdure.replay import render_again
from tests.actors.world import (
    JOB,
    House,
    World,
    follow,
    job,
    outcomes,
    quick,
    redone,
    standing,
    unbalanced,
)

WORDS = "It found a; b is to be looked at next."
SHORT = Budget(model_calls=10, tokens=1_000_000)  # a floor of one call
ENOUGH = Budget(model_calls=40)
LONG_JOB = {**JOB, "find": [[("look", {"what": str(n)})] for n in range(25)]}


class Speaker:
    """A model that follows the script, and says `words` in a closing turn."""

    def __init__(self, words: str | Exception = WORDS) -> None:
        self.words = words
        self.usage: Usage | None = None
        self.requests: list[ModelRequest] = []
        self.closing: list[ModelRequest] = []
        self._follow = follow(LONG_JOB)

    def __call__(self, request: ModelRequest) -> ModelReply:
        if standing(request)["kind"] != "closing":
            self.requests.append(request)
            return msgspec.structs.replace(self._follow(request), usage=self.usage)
        self.closing.append(request)
        if isinstance(self.words, Exception):
            raise self.words
        return ModelReply(content=self.words)


def house_of(model: Speaker, world: World | None = None, **options: Any) -> House:
    agent: Agent = job(
        world or World(), model=Scripted(model), **options.pop("agent", {})
    )
    options.setdefault("baseline", quick(step_iterations=30))
    return House(agent, **options)


def closings(house: House, task: str) -> list[int]:
    """The operations that were decided as closing turns."""
    return [
        one.op
        for one in house.of(f"task/{task}", DecisionMade)
        if isinstance(one.action, CallModel) and one.action.purpose == "closing"
    ]


def registered(house: House, task: str) -> list[tuple[int, int]]:
    """The attempts of closing turns that were let out."""
    turns = closings(house, task)
    return [
        (one.op, one.attempt)
        for one in house.of(f"task/{task}/ledger", EffectRegistered)
        if one.op in turns
    ]


def test_the_floor_pays_for_the_words_and_the_task_goes_on_from_there() -> None:
    # R16 K30 B62 B78 B81
    world, model = World(), Speaker()
    house = house_of(model, world)
    task = house.submit(budget=SHORT)
    result = house.finish(task.id)
    assert (result.status, result.reason, result.ends_with) == (
        "paused",
        "budget",
        "extend",
    )
    assert "model_calls: 1 wanted, 1 left of 10" in result.detail
    assert result.spent["model_calls"] == 10, (
        "nine for the work, the floor for the rest"
    )
    assert [len(model.requests), len(model.closing), world.looks] == [9, 1, 9]
    task.extend(ENOUGH)
    result = house.finish(task.id)
    assert (result.status, len(world.sent)) == ("completed", 1)
    assert world.looks == 25 + 1
    assert redone(house.store) == []
    assert unbalanced(house.store) == []
    assert f"you said: {WORDS}" in model.requests[9].messages[-1]["content"]
    assert outcomes(model.requests[9]) == [*outcomes(model.requests[8]), "saw 8"]


def test_it_is_a_short_request_without_tools_that_holds_goal_and_facts() -> None:
    model = Speaker()
    house = house_of(model, baseline=quick(step_iterations=30, closing_tokens=77))
    task = house.submit(goal="Count the boats", budget=SHORT).id
    house.finish(task)
    (request,) = model.closing
    assert request.tools == []
    assert request.max_output_tokens == 77
    assert [one["role"] for one in request.messages] == ["system", "user"]
    assert "Count the boats" in request.messages[-1]["content"]
    assert "no tool can be called" in " ".join(
        request.messages[-1]["content"].lower().split()
    )
    assert outcomes(request) == [f"saw {n}" for n in range(9)]
    (turn,) = closings(house, task)
    (aside,) = [
        one for one in house.of(f"task/{task}/account", Reserved) if one.op == turn
    ]
    assert (aside.book, aside.amounts["output_tokens"]) == ("spent", 77)


def test_the_state_is_kept_before_the_words_and_at_the_pause() -> None:
    # K30 B62 B64
    house = house_of(Speaker())
    task = house.submit(budget=SHORT).id
    house.until_hit("task.decided", action={"type": "model", "purpose": "closing"})
    assert house.until_hit("task.paused")
    house.sim.run_for(60.0)
    reasons = [one.reason for one, _ in house.store.snapshots[f"task/{task}"]]
    assert reasons.count("budget_exhausted") == 2
    newest = house.store.snapshots[f"task/{task}"][0][0]
    assert newest.version == len(house.store.streams[f"task/{task}"])


def test_the_words_are_shown_while_the_task_waits_for_money() -> None:
    house = house_of(Speaker())
    task = house.submit(budget=SHORT)
    house.finish(task.id)
    from perdure.views import sheet
    from perdure.views_text import sheet_text

    shown = house.runtime._reading.read(lambda reader: sheet(reader, task.id))
    assert shown.said == WORDS
    assert any(WORDS in line for line in sheet_text(shown))
    task.extend(ENOUGH)
    house.finish(task.id)
    assert house.runtime._reading.read(lambda r: sheet(r, task.id)).said == ""


def test_there_is_one_closing_turn_for_each_time_that_something_was_done() -> None:
    model = Speaker()
    house = house_of(model)
    task = house.submit(budget=Budget(model_calls=20))  # a floor of two
    assert house.finish(task.id).reason == "budget"
    for _ in range(3):
        task.resume()
        assert house.finish(task.id).reason == "budget"
    assert len(house.of(f"task/{task.id}", TaskPaused)) == 4
    assert len(closings(house, task.id)) == 1, "nothing was done after the first"
    task.extend(Budget(model_calls=4))
    assert house.finish(task.id).reason == "budget"
    assert len(closings(house, task.id)) == 2
    assert len(registered(house, task.id)) == 2


def test_a_task_that_could_do_nothing_has_nothing_to_say() -> None:
    model = Speaker()
    house = house_of(model)
    task = house.submit(budget=Budget(tokens=1_000)).id
    assert house.finish(task).reason == "budget"
    assert (model.requests, model.closing) == ([], [])


@pytest.mark.parametrize(
    ("budget", "agent"),
    [
        (Budget(model_calls=4), {}),  # a floor of nothing
        (Budget(tool_calls=4), {}),  # kept for no winding up
        (Budget(tools={"look": 4}), {}),
        (SHORT, {"recovery": "rules"}),  # the record alone says where it stands
    ],
    ids=repr,
)
def test_a_pause_without_a_floor_or_a_model_to_ask_has_none(
    budget: Budget, agent: dict[str, Any]
) -> None:
    model = Speaker()
    house = house_of(model, agent=agent)
    task = house.submit(budget=budget).id
    assert house.finish(task).reason == "budget"
    assert (closings(house, task), model.closing) == ([], [])


def test_only_what_has_a_floor_pays_and_only_while_some_is_left() -> None:
    def asks(dimension: str, requested: int | None, remaining: int) -> bool:
        refusal = Refusal(
            dimension=dimension, limit=50, requested=requested, remaining=remaining
        )
        return pause_for(refusal).closing

    assert asks("tokens", 8, 1)
    assert not asks("tokens", 8, 0)
    assert not asks("tool_calls", 8, 3)
    assert not asks("cost", None, 3)


def test_a_closing_turn_whose_request_does_not_fit_is_left_out() -> None:
    def run(**rules: int) -> tuple[House, str]:
        agent = job(
            World(),
            tools=(),
            plan=None,
            model=Scripted(Speaker()),
            accept=lambda result, view: "no",
        )
        house = House(agent, baseline=quick(task_retries=50, **rules))
        task = house.submit(budget=SHORT).id
        assert house.finish(task).reason == "budget"
        return house, task

    house, task = run()
    built = {one.op: one for one in house.of(f"task/{task}", RequestBuilt)}
    (turn,) = closings(house, task)
    spoken = built.pop(turn).characters
    longest = max(one.characters for one in built.values())
    assert longest < spoken
    house, task = run(request_limit=spoken - 1)
    assert registered(house, task) == []
    (turn,) = closings(house, task)
    told = [one for one in house.of(f"task/{task}", ActionObserved) if one.op == turn]
    assert "do not fit" in told[0].reason


def test_where_the_floor_is_too_small_the_task_pauses_without_words() -> None:
    model = Speaker()
    model.usage = Usage(input_tokens=400, output_tokens=2_900)
    house = house_of(model)
    task = house.submit(budget=Budget(tokens=3_400)).id  # a hundred are left
    result = house.finish(task)
    assert (result.status, result.reason) == ("paused", "budget")
    (turn,) = closings(house, task)
    assert registered(house, task) == []
    told = [one for one in house.of(f"task/{task}", ActionObserved) if one.op == turn]
    assert "cannot be paid: tokens" in told[0].reason
    assert unbalanced(house.store) == []


@pytest.mark.parametrize(
    "error", [ConnectionError("gone"), TimeoutError(), ValueError()]
)
def test_a_closing_turn_that_fails_is_not_made_again(error: Exception) -> None:
    model = Speaker(error)
    house = house_of(model)
    task = house.submit(budget=SHORT)
    result = house.finish(task.id)
    assert (result.reason, len(registered(house, task.id))) == ("budget", 1)
    task.extend(ENOUGH)
    assert house.finish(task.id).status == "completed"
    assert unbalanced(house.store) == []


@pytest.mark.parametrize("part", range(4))
def test_a_kill_in_a_closing_turn_neither_repeats_it_nor_loses_the_pause(
    part: int,
) -> None:
    # R16
    for steps in range(2 * part, 56, 8):
        world, model = World(), Speaker()
        house = house_of(model, world, seed=steps)
        task = house.submit(budget=SHORT).id
        until_closing(house, "task.decided")
        for _ in range(steps):
            house.sim.step()
        house.kill()
        house.reopen()
        result = house.finish(task)
        assert (result.status, result.reason) == ("paused", "budget")
        assert len(registered(house, task)) <= 1
        assert unbalanced(house.store) == []
        house.runtime.task(task).extend(Budget(model_calls=30))
        result = house.finish(task)
        assert (result.status, len(world.sent)) == ("completed", 1)
        assert redone(house.store) == []
        assert unbalanced(house.store) == []
        assert house.log.crashes() == []


def test_an_attempt_that_a_kill_cut_off_is_the_only_one() -> None:
    house = house_of(Speaker())
    task = house.submit(budget=Budget(model_calls=30)).id  # recovery has some to spend
    until_closing(house, "task.decided")
    (turn,) = closings(house, task)
    assert house.until_hit("effect.registered", op=turn)
    house.kill()
    house.reopen()
    assert house.finish(task).reason == "budget"
    assert registered(house, task) == [(turn, 1)]
    house.runtime.task(task).extend(ENOUGH)
    assert house.finish(task).status == "completed"
    assert registered(house, task) == [(turn, 1)]
    assert unbalanced(house.store) == []


@pytest.mark.parametrize("how", ["kill", "close"])
def test_money_that_comes_before_the_next_process_is_not_overlooked(how: str) -> None:
    # B67: the pause that was decided on is for money that has come by now.
    house = house_of(Speaker())
    task = house.submit(budget=Budget(model_calls=30)).id
    until_closing(house, "task.decided")
    (turn,) = closings(house, task)
    assert house.until_hit("effect.registered", op=turn)
    house.kill() if how == "kill" else house.runtime.close()
    house.reopen()
    house.runtime.task(task).extend(Budget(model_calls=9))
    assert house.until(lambda: house.runtime.status(task) == "completed", 60.0)
    assert (turn, 2) not in registered(house, task)
    assert unbalanced(house.store) == []


def until_closing(house: House, what: str) -> None:
    def came() -> bool:
        return bool([line for line in house.log.of(what) if _is_closing(line)])

    assert house.until(came)


def _is_closing(line: dict[str, Any]) -> bool:
    action = line.get("action", {})
    return bool(action.get("purpose") == "closing")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("order", ["pause", "cancel", "close", "extend"])
def test_what_comes_in_a_closing_turn_is_not_lost(order: str, seed: int) -> None:
    house = house_of(Speaker(), seed=seed)
    task = house.submit(budget=SHORT)
    until_closing(house, "task.decided")
    for _ in range(4 * seed):
        house.sim.step()
    act: dict[str, Callable[[], Any]] = {
        "pause": task.pause,
        "cancel": task.cancel,
        "close": house.runtime.close,
        "extend": lambda: task.extend(ENOUGH),
    }
    act[order]()
    if order == "close":
        house.reopen()
        task = house.runtime.task(task.id)
    if order == "extend":
        assert house.until(lambda: task.status == "completed", 120.0)
    if order in ("pause", "close"):
        assert house.finish(task.id).reason in ("budget", "operator")
        task.extend(ENOUGH)
        task.resume()
        assert house.until(lambda: task.status == "completed", 120.0)
    result = house.finish(task.id)
    assert result.status == "cancelled" if order == "cancel" else "completed"
    assert len(closings(house, task.id)) <= 2
    assert unbalanced(house.store) == []
    assert house.log.crashes() == []


def test_every_request_around_a_closing_turn_renders_again_to_what_was_sent() -> None:
    # R17
    model = Speaker()
    house = house_of(model)
    task = house.submit(budget=SHORT)
    house.finish(task.id)
    task.extend(ENOUGH)
    house.finish(task.id)
    sent = {one.op: one.digest for one in house.of(f"task/{task.id}", RequestBuilt)}
    assert len(sent) > 15
    for op, digest in sent.items():
        again = house.runtime._reading.read(
            lambda reader, op=op: render_again(reader, task.id, op)
        )
        assert again.digest == digest
    (turn,) = closings(house, task.id)
    again = house.runtime._reading.read(
        lambda reader: render_again(reader, task.id, turn)
    )
    assert (again.messages, again.tools) == (model.closing[0].messages, [])


def test_what_a_model_calls_in_a_closing_turn_is_not_done() -> None:
    class Calling(Speaker):
        def __call__(self, request: ModelRequest) -> ModelReply:
            if standing(request)["kind"] == "closing":
                self.closing.append(request)
            return self._follow(request)

    world = World()
    house = house_of(Calling(), world)
    task = house.submit(budget=SHORT)
    house.finish(task.id)
    assert world.looks == 9
    (turn,) = closings(house, task.id)
    settled = [
        one for one in house.of(f"task/{task.id}/account", Settled) if one.op == turn
    ]
    assert [one.book for one in settled] == ["spent"]
    assert house.of(f"task/{task.id}", DecisionMade)[-1].op == turn
