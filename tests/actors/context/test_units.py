from __future__ import annotations

from typing import Any

import pytest

from perdure.actors.context.units import Unit, refuse_unportable, units
from perdure.context import ContextBudgetError, fit_context

from .histories import calls, result, says, user


def call(**changes: Any) -> dict[str, Any]:
    whole = {"id": "a", "type": "function", "function": {"name": "q", "arguments": ""}}
    return {"role": "assistant", "content": None, "tool_calls": [{**whole, **changes}]}


def test_an_exchange_is_one_unit_whatever_the_order_of_its_results() -> None:  # A62, K2
    history = [user("t"), calls("a", "b"), result("b", "2"), result("a", "1")]
    assert units(history) == [
        Unit(first=0, end=1, role="user"),
        Unit(first=1, end=4, role="assistant", exchange=True),
    ]


@pytest.mark.parametrize("none", [None, []])
def test_no_calls_may_be_said_as_null_or_empty_list(none: object) -> None:  # A60
    history = [{**user("t"), "tool_calls": none}, {**says("x"), "tool_calls": none}]
    assert [unit.exchange for unit in units(history)] == [False, False]


def test_text_beside_calls_does_not_hide_the_calls() -> None:  # A77
    history = [{**calls("a"), "content": "let me look"}, result("a", "1")]
    assert units(history)[0].exchange


@pytest.mark.parametrize(
    ("broken", "message", "index"),
    [
        ("text", "each message must be an object", 1),  # A57
        ({"role": "owner", "content": ""}, "unknown message role", 1),  # A57
        ({"role": ["user"], "content": ""}, "unknown message role", 1),  # A57
        ({"role": "user", "content": None}, "must be text", 1),  # A58
        ({"role": "user", "content": [{"type": "text"}]}, "must be text", 1),  # A58
        ({"role": "assistant", "content": 1}, "must be text", 1),  # A58
        (result("a", "1"), "orphan tool result", 1),  # A59, A78
        ({**user("t"), "tool_calls": [1]}, "tool calls in a user message", 1),  # A60
        ({**says(""), "tool_calls": {"id": "a"}}, "must be a list", 1),  # A60
        ({**says(""), "tool_calls": 0}, "must be a list", 1),  # A60
        ({**says(""), "tool_calls": ["a"]}, "malformed or duplicate", 1),  # A61
        (call(id=""), "malformed or duplicate", 1),  # A61
        (call(id=7), "malformed or duplicate", 1),  # A61
        (call(type="custom"), "malformed or duplicate", 1),  # A61
        (call(function="q"), "malformed or duplicate", 1),  # A61
        (call(function={"name": "q"}), "malformed or duplicate", 1),  # A61
        (call(function={"arguments": ""}), "malformed or duplicate", 1),  # A61
        (
            call(function={"name": "q", "arguments": {}}),
            "malformed or duplicate",
            1,
        ),  # A61
        (calls("a", "a"), "malformed or duplicate", 1),  # A61, A78
        (calls("a"), "tool exchange has missing results", 1),  # A62, A78, K4
    ],
)
def test_a_malformed_message_is_refused_by_index(
    broken: Any, message: str, index: int
) -> None:
    with pytest.raises(ContextBudgetError, match=rf"{message}.* \(message {index}\)"):
        fit_context([user("t"), broken], [])


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([result("a", "1")], "missing results"),
        ([result("a", "1"), result("a", "2")], "match each call exactly once"),
        ([result("a", "1"), result("c", "2")], "match each call exactly once"),
        ([result("a", "1"), user("wait")], "match each call exactly once"),
        (
            [result("a", "1"), user("wait"), result("b", "2")],
            "match each call exactly once",
        ),
        ([result("a", "1"), {"role": "tool", "content": "2"}], "match each call"),
        (
            [result("a", "1"), {**result("b", "2"), "content": None}],
            "must be text",
        ),
        (
            [result("a", "1"), result("b", "2"), result("b", "again")],
            "orphan tool result",
        ),
    ],
)
def test_results_must_be_those_of_the_calls(
    results: list[dict[str, Any]], message: str
) -> None:  # A62, A78, K7
    with pytest.raises(ContextBudgetError, match=message):
        fit_context([user("t"), calls("a", "b"), *results], [])


REPEATED = [user("t"), calls("a"), result("a", "1"), calls("a"), result("a", "2")]


@pytest.mark.parametrize("profile", ["strict", "runtime"])
@pytest.mark.parametrize(
    ("history", "message"),
    [
        (REPEATED, "'a' is used before"),  # K6
        ([user("t\ud800")], "lone surrogate in message 0.content"),
        ([{**user("t"), "\ud800": 1}], "lone surrogate in a key of message 0"),
        ([user("t"), {**says("x"), "meta": [{1: 2}]}], r"key 1 of message 1.meta\[0\]"),
        ([user("t"), says(None)], "neither content nor calls"),
        ([user("t"), says("")], "neither content nor calls"),
    ],
)
def test_strict_profiles_refuse_what_breaks_providers(
    history: list[dict[str, Any]], message: str, profile: Any
) -> None:
    assert fit_context(history, []).messages == history
    with pytest.raises(ContextBudgetError, match=message):
        fit_context(history, [], profile=profile)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [600, 5000, 200_000])
@pytest.mark.parametrize("profile", ["source", "strict"])
def test_a_message_nested_beyond_reason_is_refused_not_crashed_on(
    depth: int, profile: Any
) -> None:
    with pytest.raises(ContextBudgetError):
        fit_context([{**user("t"), "x": nested(depth)}], [], profile=profile)


def test_what_is_too_deep_to_look_through_is_refused() -> None:
    with pytest.raises(ContextBudgetError, match="tools is nested too deeply"):
        refuse_unportable(nested(5000), "tools")


@pytest.mark.parametrize("profile", ["strict", "runtime"])
def test_strict_profiles_look_at_the_schemas_too(profile: Any) -> None:
    with pytest.raises(ContextBudgetError, match=r"key 1 of tools\[0\]"):
        fit_context([user("t")], [{1: 2}], profile=profile)  # type: ignore[dict-item]
