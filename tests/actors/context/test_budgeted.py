from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.context import (
    OPENAI,
    BudgetedModel,
    ContextBudgetError,
    Provider,
    demo,
    request_characters,
)

from .histories import TOOL, says, user


class Echo:
    """Answers with the request it was given, and spoils what it was handed."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    async def complete(self, messages: Any, tools: Any) -> str:
        self.sizes.append(request_characters(messages, tools))
        messages[0]["content"] = "spoilt"
        tools.clear()
        return "answer"


def test_every_call_is_fitted_and_counted_before_the_model_sees_it() -> None:
    echo = Echo()  # A50, A73
    model = BudgetedModel(echo, max_characters=600)
    history = [user("old"), says("x" * 600), user("now")]
    assert asyncio.run(model.complete(history, [TOOL])) == "answer"
    assert echo.sizes == [model.reports[0].after]
    assert echo.sizes[0] <= 600
    assert model.calls == 1


def test_a_model_gets_copies() -> None:  # A73
    history, tools = [user("now")], [TOOL]
    asyncio.run(BudgetedModel(Echo()).complete(history, tools))
    assert (history, tools) == ([user("now")], [TOOL])


def test_a_refused_request_neither_reaches_the_model_nor_counts() -> None:  # A44, A73
    echo = Echo()
    model = BudgetedModel(echo, max_characters=600)
    with pytest.raises(ContextBudgetError):
        asyncio.run(model.complete([user("x" * 600)], []))
    assert (echo.sizes, model.calls, len(model.reports)) == ([], 0, 0)


def test_only_the_latest_64_reports_are_kept() -> None:  # A51
    model = BudgetedModel(Echo())

    async def many() -> None:
        for number in range(70):
            await model.complete([user("x" * (number + 1))], [])

    asyncio.run(many())
    framing = request_characters([user("")], [])
    assert [report.after - framing for report in model.reports] == list(range(7, 71))
    assert model.calls == 70


@pytest.mark.parametrize("limit", [0, True, 1.5])
def test_a_bad_limit_is_refused_when_built(limit: Any) -> None:  # A73
    with pytest.raises(ContextBudgetError):
        BudgetedModel(Echo(), max_characters=limit)


def test_a_required_task_is_enforced_on_every_call() -> None:  # A65, A73
    model = BudgetedModel(Echo(), required_task="now")
    with pytest.raises(ContextBudgetError):
        asyncio.run(model.complete([user("now"), user("continue")], []))


class Messages:
    """A measure that counts messages."""

    name = "messages"

    def part(self, value: Any) -> int:
        return 1

    def total(self, messages: int, content: int, schemas: int) -> int:
        return messages


def test_every_call_is_fitted_by_the_rules_that_were_given() -> None:  # A73, A79
    echo = Echo()
    image = {"role": "user", "content": [{"type": "x-ray", "data": "0" * 999}]}
    model = BudgetedModel(
        echo,
        max_characters=4,
        profile="strict",
        measure=Messages(),
        provider=Provider(name="mine", parts={"x-ray": 10}),
    )
    asyncio.run(model.complete([image, says("a"), user("b"), image], []))
    asyncio.run(model.complete([image, says("a"), user("b"), user("c"), image], []))
    assert [report.after for report in model.reports] == [4, 4]
    with pytest.raises(ContextBudgetError, match="neither content nor calls"):
        asyncio.run(model.complete([user("t"), says(None)], []))


@pytest.mark.parametrize("options", [{"profile": "lax"}, {"provider": OPENAI}])
def test_bad_options_are_refused_when_built(options: Any) -> None:
    with pytest.raises(ContextBudgetError):
        BudgetedModel(Echo(), **options)


def test_demo_runs_four_calls_under_its_limit() -> None:  # A3, A74, A75, A76
    found = asyncio.run(demo())
    largest = found.pop("max_request_characters")
    assert 0 < largest <= 3700
    assert found == {
        "complete_tool_exchanges": True,
        "current_task_preserved": True,
        "dropped_exchanges": 2,
        "limit_characters": 3700,
        "mode": "fixture",
        "model_calls": 4,
        "ok": True,
        "status": "complete",
        "tools_executed": ["one", "two", "three", "four"],
    }
