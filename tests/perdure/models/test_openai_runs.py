"""A real endpoint in trouble, as a task meets it: typed, charged once, gone on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure import Baseline, Budget, Price
from perdure.actors.events import EffectRecorded, Reserved, Settled
from perdure.models import OpenAIModel
from tests.actors.world import House, unbalanced
from tests.perdure.agents import one_step

DONE = {"role": "assistant", "content": '"done"'}
USAGE = {"prompt_tokens": 100, "completion_tokens": 10}
RULES = Baseline(id="quick", model_timeout=0.5)  # a second of the real clock
PRICE = Price(input="2.50", output="10")


def well(endpoint: Any) -> None:
    endpoint.hangs = endpoint.cuts = endpoint.drips = False
    endpoint.answers(DONE, usage=USAGE)


def overloaded(endpoint: Any) -> None:
    endpoint.answers_body({"error": {}}, status=429, retry_after="7")


def broken(endpoint: Any) -> None:
    endpoint.answers_body({"error": {}}, status=500)


def refusing(endpoint: Any) -> None:
    endpoint.answers_body({"error": {}}, status=401)


def babbling(endpoint: Any) -> None:
    endpoint.answers_body(b"<html>")


def cutting(endpoint: Any) -> None:
    endpoint.cuts = True


def hanging(endpoint: Any) -> None:
    endpoint.hangs = True


TROUBLE: dict[str, tuple[Callable[[Any], None], str, str, str]] = {
    # what happens, the status, the error's type, and what the attempt is charged
    "429": (overloaded, "failed", "ServiceTrouble", "call"),
    "500": (broken, "failed", "ServiceTrouble", "estimate"),
    "no completion": (babbling, "failed", "ServiceTrouble", "estimate"),
    "401": (refusing, "failed", "NotSent", "nothing"),
    "cut": (cutting, "unknown", "ConnectionError", "estimate"),
    "hang": (hanging, "unknown", "TimeoutError", "estimate"),
}


def house_of(endpoint: Any, **options: Any) -> House:
    model = OpenAIModel("small", base_url=endpoint.url)
    return House(one_step(model=model, price=PRICE), baseline=RULES, **options)


@pytest.mark.parametrize("trouble", TROUBLE)
def test_each_attempt_is_typed_and_charged_once_and_the_task_goes_on(
    endpoint: Any, trouble: str
) -> None:
    act, status, kind, charged = TROUBLE[trouble]
    endpoint.planned = [lambda: act(endpoint), lambda: well(endpoint)]
    house = house_of(endpoint)
    task = house.submit(budget=Budget(cost=1)).id
    assert house.finish(task).status == "completed"
    assert len(endpoint.requests) == 2, "one request for each attempt"
    (failed, done) = house.of(f"task/{task}/ledger", EffectRecorded)
    assert (failed.status, done.status) == (status, "completed")
    assert failed.error.startswith(kind)
    (aside, _) = house.of(f"task/{task}/account", Reserved)
    (first, second) = house.of(f"task/{task}/account", Settled)
    amounts = {name: n for name, n in first.amounts.items() if name != "milliseconds"}
    book = {"failed": "spent", "unknown": "unknown"}[status]
    assert (first.book, amounts) == {
        "call": (book, {"model_calls": 1}),
        "estimate": (book, aside.amounts),
        "nothing": ("none", {}),
    }[charged]
    assert second.amounts["cost"] == 350_000_000
    assert unbalanced(house.store) == []


def test_an_endpoint_that_stays_in_trouble_pauses_the_task_until_it_is_well(
    endpoint: Any,
) -> None:
    broken(endpoint)
    house = house_of(endpoint)
    task = house.submit(budget=Budget(cost=1))
    result = house.finish(task.id)
    assert (result.status, result.reason) == ("paused", "service")
    assert "answered 500" in result.detail
    assert len(endpoint.requests) == 1 + RULES.model_retries
    assert result.spent["model_calls"] == 1 + RULES.model_retries
    well(endpoint)
    task.resume()
    assert house.finish(task.id).status == "completed"
    assert unbalanced(house.store) == []


def test_a_limit_of_cost_stops_retries_that_are_charged_by_estimate(
    endpoint: Any,
) -> None:
    broken(endpoint)
    house = house_of(endpoint)
    result = house.run(budget=Budget(cost="0.06"))  # two attempts are estimated at less
    assert (result.status, result.reason) == ("paused", "budget")
    assert len(endpoint.requests) == 2
    assert unbalanced(house.store) == []
