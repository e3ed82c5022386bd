"""Prices, limits of cost and of calls, and what failed model calls are charged."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from perdure import Agent, Budget, Misuse, NotSent, Price, tool
from perdure.actors.budget.account import AccountState, apply
from perdure.actors.events import EffectRecorded, Reserved, Settled
from perdure.actors.model import ModelReply, ModelRequest, ToolCall, Usage
from perdure.models import Scripted, ServiceTrouble
from tests.actors.world import House, World, job, outcomes, unbalanced
from tests.perdure.agents import done, one_step

PRICE = Price(input="2.50", output="10")


class Asked:
    """A model that fails, or answers with these figures, and keeps its requests."""

    name = "asked"

    def __init__(self, *answers: Exception | Usage | None) -> None:
        self.answers = list(answers)
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return ModelReply(content='"done"', usage=answer)


def priced(model: Any, **options: Any) -> Agent:
    return one_step(model=model, price=PRICE, recovery="rules", **options)


def books(house: House, task: str) -> AccountState:
    state = AccountState()
    for event in house.events(f"task/{task}/account"):
        state = apply(state, event)
    return state


# ── prices ───────────────────────────────────────────────────────────────────────


def test_the_cost_of_a_call_is_settled_from_the_reported_tokens() -> None:
    usage = Usage(input_tokens=100, output_tokens=10)
    house = House(priced(Asked(usage)))
    result = house.run(budget=Budget(cost="1.5"))
    assert result.spent["cost"] == "0.00035"
    assert unbalanced(house.store) == []


def test_what_a_call_used_beyond_its_estimate_is_gone_from_the_pool() -> None:
    # P3
    model = Asked(Usage(input_tokens=900, output_tokens=10))
    house = House(priced(model), pool=Budget(input_tokens=1000))
    first = house.run(budget=Budget(input_tokens=500))
    assert (first.status, first.spent["input_tokens"]) == ("completed", 900)
    second = house.run(budget=Budget(input_tokens=101))
    assert second.status == "paused"
    assert "100 input_tokens left" in second.detail


def test_a_call_that_may_cost_more_than_is_left_is_not_made() -> None:
    model = Asked()
    house = House(priced(model))
    task = house.submit(budget=Budget(cost=Decimal("0.02")))  # 2,048 tokens cost more
    result = house.finish(task.id)
    assert (result.status, result.reason, result.ends_with) == (
        "paused",
        "budget",
        "extend",
    )
    assert "left of 0.02" in result.detail
    assert model.requests == []
    task.extend(Budget(cost=1))
    assert house.finish(task.id).status == "completed"


def test_the_output_limit_of_a_call_is_what_was_set_aside_for_it() -> None:
    model = Asked()
    house = House(priced(model))
    task = house.submit(budget=Budget(cost=1)).id
    house.finish(task)
    (aside,) = house.of(f"task/{task}/account", Reserved)
    assert model.requests[0].max_output_tokens == aside.amounts["output_tokens"]
    most = aside.amounts["input_tokens"] * 2_500_000
    most += aside.amounts["output_tokens"] * 10_000_000
    assert aside.amounts["cost"] == most


@pytest.mark.parametrize(
    ("options", "budget", "named"),
    [
        ({}, Budget(cost=1), "budget.cost=1"),
        ({"pool": Budget(cost=2)}, None, "pool.cost=2"),
        ({"pool": Budget(cost=2)}, Budget(cost=0), "budget.cost=0"),
    ],
)
def test_a_limit_of_cost_without_a_price_is_refused_before_anything_is_written(
    options: dict[str, Any], budget: Budget | None, named: str
) -> None:
    house = House(one_step(), **options)
    with pytest.raises(Misuse, match=named) as refused:
        house.submit(budget=budget)
    assert "Price(" in str(refused.value)
    assert house.runtime.tasks() == []


def test_the_host_may_be_warned_instead_and_the_cost_stays_unknown() -> None:
    house = House(one_step(), unknown_price="warn")
    result = house.run(budget=Budget(cost=0))
    assert result.status == "completed"
    assert "cost" not in result.spent, "unknown is not zero"
    (warned,) = house.log.of("price.unknown")
    assert (warned["agent"], warned["model"]) == ("agent", "scripted")
    assert house.log.strangers == []


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(Misuse, match="unknown_price='guess'"):
        House(one_step(), unknown_price="guess")


def test_an_agent_that_lost_its_price_pauses_and_goes_on_with_one() -> None:
    house = House(priced(Asked()))
    task = house.submit(budget=Budget(cost=1), not_before=house.sim.clock.time() + 60)
    house.runtime.close()
    unpriced = Asked()
    house.reopen(one_step(model=unpriced))
    result = house.finish(task.id)
    assert (result.reason, result.ends_with) == ("budget", "resume")
    assert "the price of the call is not known" in result.detail
    assert unpriced.requests == []
    house.kill()
    house.reopen(priced(Asked()))
    assert house.runtime.resume(task.id, by="me") is True
    result = house.finish(task.id)
    assert (result.status, result.detail) == ("completed", "")


def test_a_call_without_a_price_has_no_cost_where_cost_is_not_limited() -> None:
    assert "cost" not in House(one_step()).run(budget=Budget(tokens=10_000)).spent


# ── figures ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "usage",
    [
        Usage(input_tokens=-9, output_tokens=9),
        Usage(input_tokens=9, output_tokens=9.5),  # type: ignore[arg-type]
        None,
        Usage(input_tokens=0, output_tokens=0),
        Usage(input_tokens=9, output_tokens=0),
    ],
)
def test_text_without_figures_is_charged_by_estimate_and_marked(
    usage: Usage | None,
) -> None:
    # K32
    class Silent(Asked):
        async def complete(self, request: ModelRequest) -> ModelReply:
            return ModelReply(content="x" * 800, usage=usage)

    house = House(priced(Silent()))
    task = house.submit(budget=Budget(cost=1)).id
    spent = house.finish(task).spent
    assert spent["output_tokens"] == 519
    assert spent["input_tokens"] > 9
    (recorded,) = house.of(f"task/{task}/ledger", EffectRecorded)
    assert recorded.source == "estimated"
    assert recorded.usage["cost"] == (
        spent["input_tokens"] * 2_500_000 + 519 * 10_000_000
    )


def test_calls_without_figures_are_output_too() -> None:
    house = House(one_step(model=Scripted(_one_call), tools=[_look()]))
    task = house.submit()
    house.finish(task.id)
    recorded = house.of(f"task/{task.id}/ledger", EffectRecorded)[0]
    assert recorded.source == "estimated"
    assert recorded.usage["output_tokens"] == 5


def _look() -> Any:
    return tool(effect="read", name="look")(lambda: "x")


def _one_call(request: ModelRequest) -> ModelReply:
    if outcomes(request):
        return done()
    call = ToolCall(id="1", name="look", arguments="{" + " " * 28 + "}")
    return ModelReply(tool_calls=(call,), usage=Usage(input_tokens=5, output_tokens=0))


# ── attempts that failed ─────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("error", "charged"),
    [
        (ServiceTrouble("overloaded", status=500), "estimate"),
        (ValueError("no JSON"), "estimate"),
        (ServiceTrouble("slow down", status=429), "call"),
        (NotSent("refused"), "nothing"),
        (TimeoutError(), "unknown"),
    ],
    ids=repr,
)
def test_a_failed_call_is_charged_once_by_what_is_known_of_it(
    error: Exception, charged: str
) -> None:
    house = House(priced(Asked(error, Usage(input_tokens=100, output_tokens=10))))
    task = house.submit(budget=Budget(cost=1)).id
    assert house.finish(task).status == "completed"
    (aside, _) = house.of(f"task/{task}/account", Reserved)
    (first, second) = house.of(f"task/{task}/account", Settled)
    assert second.amounts["cost"] == 350_000_000
    amounts = {name: n for name, n in first.amounts.items() if name != "milliseconds"}
    expected = {
        "estimate": ("spent", aside.amounts),
        "call": ("spent", {"model_calls": 1}),
        "nothing": ("none", {}),
        "unknown": ("unknown", aside.amounts),
    }
    assert (first.book, amounts) == expected[charged]
    assert unbalanced(house.store) == []


def test_the_time_of_a_call_that_hung_is_active_time() -> None:
    class Slow(Asked):
        async def complete(self, request: ModelRequest) -> ModelReply:
            if not self.requests:
                self.requests.append(request)
                house.sim.clock.advance(120.0)
                raise TimeoutError
            return done()

    house = House(priced(Slow()))
    task = house.submit(budget=Budget(cost=1, seconds=1000)).id
    house.finish(task)
    assert books(house, task).books.unknown["milliseconds"] == 120_000


# ── calls beyond a limit ─────────────────────────────────────────────────────────


def parallel(count: int) -> Scripted:
    def reply(request: ModelRequest) -> ModelReply:
        if found := outcomes(request):
            return ModelReply(content=str(len(found)))
        return ModelReply(
            tool_calls=tuple(
                ToolCall(id=f"c{n}", name="look", arguments=f'{{"what": "{n}"}}')
                for n in range(count)
            )
        )

    return Scripted(reply)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("budget", [Budget(tool_calls=6), Budget(tools={"look": 6})])
def test_of_eight_calls_six_run_and_two_are_told_their_limit(
    budget: Budget, seed: int
) -> None:
    # K36
    world = World()
    told: list[list[str]] = []

    def reply(request: ModelRequest) -> ModelReply:
        told.append(outcomes(request))
        ids = [one["id"] for m in request.messages for one in m.get("tool_calls", ())]
        answered = [m["tool_call_id"] for m in request.messages if m["role"] == "tool"]
        assert ids == answered, "every call has its result"
        return answer(request)

    answer = parallel(8)._fn
    house = House(job(world, model=Scripted(reply), plan=None), seed=seed)
    task = house.submit(budget=budget)
    result = house.finish(task.id)
    assert result.status == "completed"
    assert world.looks == 6
    assert books(house, task.id).books.spent["tool_calls"] == 6
    found = told[-1]
    assert [one.startswith("saw") for one in found] == [True] * 6 + [False] * 2
    assert all("error: limit: tool" in one and "of 6" in one for one in found[6:])
    assert unbalanced(house.store) == []


def test_a_reply_of_which_no_call_fits_pauses_and_is_made_once_extended() -> None:
    # K30
    world = World()
    house = House(job(world, model=parallel(3), plan=None))
    task = house.submit(budget=Budget(tool_calls=0))
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "budget")
    task.extend(Budget(tool_calls=3))
    assert house.finish(task.id).output == 3
    assert world.looks == 3


@pytest.mark.parametrize("seed", range(30))
def test_a_kill_among_limited_calls_leaves_every_call_a_result(seed: int) -> None:
    world = World()
    house = House(job(world, model=parallel(8), plan=None, recovery="rules"), seed=seed)
    task = house.submit(budget=Budget(tool_calls=6))
    for _ in range(60 + 3 * seed):
        house.sim.step()
    house.kill()
    house.reopen()
    result = house.finish(task.id)
    assert (result.status, result.output) in (("completed", 8), ("paused", None))
    assert books(house, task.id).available["tool_calls"] >= 0
    assert unbalanced(house.store) == []
