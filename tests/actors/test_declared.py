"""What tools declare of their calls, seen through a whole runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure import Agent, Step, tool
from perdure.actors import names
from perdure.actors.events import EffectRecorded, EffectRegistered
from perdure.actors.model import ModelReply, ModelRequest
from perdure.models import Scripted
from tests.actors.runs import sound
from tests.actors.world import Calls, House, follow, outcomes, quick, taken


class Shop:
    """A `once` tool that sends orders, and a model that says what it was told."""

    def __init__(self, *groups: Calls, steps: int = 1) -> None:
        self.sent: list[tuple[str, int]] = []
        self.told: list[str] = []
        self.raises: Exception | None = None
        self.gives: Any = None
        self.steps = steps
        script = follow({f"s{number}": groups for number in range(steps)})

        def reply(request: ModelRequest) -> ModelReply:
            self.told = outcomes(request)
            return script(request)

        self.model = Scripted(reply)

    def open(self, **options: Any) -> House:
        house = options.pop("house", {})

        @tool(name="order", **options)
        def order(number: str, amount: int = 1) -> Any:
            self.sent.append((number, amount))
            if self.raises is not None:
                raise self.raises
            return self.gives or f"ordered {amount}"

        steps = [
            Step(id=f"s{number}", goal="Order.", accept=taken)
            for number in range(self.steps)
        ]
        agent = Agent(
            name="agent",
            instructions="Do it.",
            model=self.model,
            tools=[order],
            plan=steps,
            recovery="rules",
        )
        return House(agent, **house)


def order(number: str = "7", amount: int = 1) -> Calls:
    return [("order", {"number": number, "amount": amount})]


def recorded(house: House, task: str) -> list[EffectRecorded]:
    """The records of the tool's calls."""
    ledger = names.ledger(task)
    tools = {e.op for e in house.of(ledger, EffectRegistered) if e.kind == "tool"}
    return [one for one in house.of(ledger, EffectRecorded) if one.op in tools]


def by_number(arguments: dict[str, Any]) -> str:
    return f"order {arguments['number']}"


# ── its exceptions ───────────────────────────────────────────────────────────────


class SoldOut(Exception):
    """A user's own: the shop said no."""


def test_an_exception_that_a_tool_declares_as_failed_is_surely_not_done() -> None:
    shop = Shop(order(), order("8"))
    shop.raises = SoldOut("none left")
    house = shop.open(effect="once", failed=(SoldOut,))
    result = house.run()
    assert result.status == "completed"
    assert shop.told == ["error: SoldOut: none left"] * 2
    assert result.spent["tool_calls"] == {}
    sound(house)


def test_an_exception_that_a_tool_declares_as_unknown_is_in_doubt() -> None:
    shop = Shop(order())
    shop.raises = ConnectionRefusedError("after the order went out on another line")
    house = shop.open(effect="once", unknown=(ConnectionRefusedError,))
    result = house.run()
    assert (result.status, result.reason) == ("paused", "unknown_effect")
    assert len(shop.sent) == 1


# ── its key ──────────────────────────────────────────────────────────────────────


def test_an_effect_that_its_caller_names_is_one_in_the_whole_task() -> None:
    # B37
    shop = Shop(order(), order(), steps=2)
    house = shop.open(effect="once", key=by_number)
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    assert shop.sent == [("7", 1)]
    assert [one.by for one in recorded(house, task.id)] == ["run", *["record"] * 3]
    assert shop.told[-1].endswith("was made before)\nordered 1")
    sound(house)


def test_the_same_key_with_other_arguments_is_a_conflict() -> None:
    shop = Shop(order("7", 1), order("7", 2), steps=2)
    house = shop.open(effect="once", key=by_number)
    assert house.run().status == "completed"
    assert shop.sent == [("7", 1)]
    assert shop.told[-1] == (
        "error: key 'order 7' is operation 2's, with other arguments: "
        '{"amount":1,"number":"7"}; another call takes another key'
    )


@pytest.mark.parametrize("seed", range(20))
def test_two_calls_of_one_key_in_one_reply_are_one_effect(seed: int) -> None:
    shop = Shop([*order("7", 1), *order("7", 1), *order("7", 2)])
    house = shop.open(effect="once", key=by_number, house={"seed": seed})
    assert house.run().status == "completed"
    assert len(shop.sent) == 1
    assert len([text for text in shop.told if "not made twice" in text]) <= 1
    assert len([text for text in shop.told if "other arguments" in text]) >= 1


def test_a_call_of_a_key_that_failed_may_be_made_again() -> None:
    shop = Shop(order(), order(), steps=2)
    shop.raises = ConnectionRefusedError()
    house = shop.open(effect="once", key=by_number)
    assert house.run().status == "completed"
    assert len(shop.sent) == 3, "its retry, and one attempt in the next step"


@pytest.mark.parametrize("steps", range(0, 90, 6))
def test_a_key_keeps_its_effect_over_kills(steps: int) -> None:
    shop = Shop(order(), order(), steps=2)
    house = shop.open(effect="idempotent", key=by_number)
    task = house.submit()
    house.until(lambda: bool(shop.sent))
    for _ in range(steps):
        house.sim.step()
    house.kill()
    house.reopen()
    assert house.finish(task.id).status == "completed"
    keys = {one.request_id for one in house.of(names.ledger(task.id), EffectRegistered)
            if one.kind == "tool"}  # fmt: skip
    assert len(keys) == 1
    assert len(shop.sent) <= 2
    sound(house)


@pytest.mark.parametrize("steps", range(0, 24, 2))
def test_a_close_while_a_key_is_found_loses_no_call(steps: int) -> None:
    shop = Shop(order())
    house = shop.open(effect="once", key=by_number)
    task = house.submit()
    assert house.until_hit("task.decided", op=2)
    for _ in range(steps):
        house.sim.step()
    house.runtime.close()
    assert house.log.of("runtime.drain_incomplete") == []
    house.reopen()
    assert house.finish(task.id).status == "completed"
    assert shop.sent == [("7", 1)]
    sound(house)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (lambda arguments: 7, "gave no key: int, not text"),
        (lambda arguments: "", "gave no key: 0 characters; give 1 to 256"),
        (lambda arguments: "x" * 257, "257 characters"),
        (lambda arguments: "\ud800", "lone surrogate"),
        (lambda arguments: arguments["none"], "gave no key: KeyError: 'none'"),
    ],
)
def test_a_call_without_a_key_is_not_made(key: Callable[..., Any], said: str) -> None:
    shop = Shop(order())
    house = shop.open(effect="once", key=key)
    assert house.run().status == "completed"
    assert shop.sent == []
    assert said in shop.told[0]
    assert house.log.crashes() == []


# ── its kind ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "made"),
    [
        ({"effect": "once"}, 2),
        ({"effect": "idempotent", "kind": "downstream"}, 2),
        ({"effect": "read"}, 4),
        ({"effect": "once", "kind": "query"}, 4),
        ({"effect": "read", "kind": "generate"}, 6),
        ({"effect": "once", "repeat": True}, 9),
    ],
)
def test_a_failed_call_is_made_again_as_often_as_its_kind_allows(
    options: dict[str, Any], made: int
) -> None:
    # B82 B83
    shop = Shop(*[order()] * 9)
    shop.raises = ConnectionRefusedError("no")
    patient = quick(step_iterations=20, loop_repeats=9, loop_near=9)
    house = shop.open(**options, house={"baseline": patient})
    assert house.run().status == "completed"
    assert len(shop.sent) == made
    refused = [text for text in shop.told if "is not made again" in text]
    assert len(refused) == 9 - made


def test_other_arguments_or_another_step_are_another_call() -> None:
    shop = Shop(order("1"), order("1"), order("2"), steps=2)
    shop.raises = ConnectionRefusedError("no")
    house = shop.open(effect="once")
    assert house.run().status == "completed"
    # B82 A107: what used up its retries has one attempt in a later step.
    assert [number for number, _ in shop.sent] == ["1", "1", "2", "1", "2"]


def test_a_resume_gives_the_retries_back() -> None:
    shop = Shop(*[order()] * 6)
    shop.raises = ConnectionRefusedError("no")
    house = shop.open(effect="once", house={"baseline": quick(step_iterations=20)})
    task = house.submit()
    assert house.until(lambda: any("not made again" in one for one in shop.told))
    task.pause()
    assert house.finish(task.id).reason == "operator"
    assert len(shop.sent) == 2
    task.resume()
    assert house.finish(task.id).status == "completed"
    assert len(shop.sent) == 4


# ── its results ──────────────────────────────────────────────────────────────────


def test_a_result_over_the_tools_limit_is_cut_there_and_whole_in_the_store() -> None:
    shop = Shop(order())
    shop.gives = "x" * 50 + "y" * 50
    house = shop.open(effect="read", max_result=60)
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    (one,) = recorded(house, task.id)
    assert one.result.startswith("x" * 50 + "y" * 10 + "\n(cut: the whole result has")
    assert house.store.blobs[one.blob] == shop.gives.encode()
    assert shop.told[0] == one.result


def test_a_result_at_the_tools_limit_is_whole() -> None:
    shop = Shop(order())
    shop.gives = "x" * 60
    house = shop.open(effect="read", max_result=60)
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    (one,) = recorded(house, task.id)
    assert (one.result, one.blob) == ("x" * 60, "")


def test_no_limit_of_a_tool_lets_a_record_grow_over_the_baselines() -> None:
    shop = Shop(order())
    shop.gives = "文" * 10_000
    house = shop.open(effect="read", max_result=16_000)
    task = house.submit()
    assert house.finish(task.id).status == "completed"
    (one,) = recorded(house, task.id)
    assert len(one.result.encode()) < 16_384 + 200
    assert house.store.blobs[one.blob] == shop.gives.encode()
