from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from perdure.actors.context.blocks import Block, Window
from perdure.actors.context.measure import characters
from perdure.actors.context.measures import named
from perdure.actors.context.parts import measurable
from perdure.actors.context.shrink import assemble_shrinking
from perdure.actors.errors import Misuse
from perdure.context import (
    ANTHROPIC,
    ANY,
    OPENAI,
    ContextBudgetError,
    History,
    Provider,
    fit_context,
    repair,
    request_characters,
)

from .histories import calls, result, says, user

STRICT: list[Any] = ["strict", "runtime"]
BASE64 = "iVBORw0KGgo" * 9_000
IMAGE = {"type": "image", "source": {"type": "base64", "data": BASE64}}
THOUGHT = {"type": "thinking", "thinking": "Ask q first.", "signature": "EqQBCg=="}
HIDDEN = {"type": "redacted_thinking", "data": "EmwKAhgB"}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def message(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "content": list(parts)}


@pytest.mark.parametrize("profile", STRICT)
def test_text_parts_count_as_the_json_they_are(profile: Any) -> None:  # D8
    history = [message("user", text("look"), text("资料"))]
    prepared = fit_context(history, [], profile=profile)
    assert prepared.messages == history
    assert prepared.report.after == request_characters(history, [])


@pytest.mark.parametrize("profile", STRICT)
@pytest.mark.parametrize("declared", [2, 700])
def test_a_part_with_a_figure_counts_that_and_not_its_base64(
    profile: Any, declared: int
) -> None:  # D8
    provider = Provider(name="mine", parts={"image": declared})
    history = [message("user", text("look"), IMAGE)]
    prepared = fit_context(history, [], profile=profile, provider=provider)
    rest = request_characters([message("user", text("look"), IMAGE)], [])
    assert prepared.report.after == rest - characters(IMAGE) + declared
    assert prepared.messages == history


@pytest.mark.parametrize("name", ["estimate", "tokens"])
def test_a_figure_in_characters_is_a_quarter_in_tokens(name: str) -> None:  # D8
    if name == "tokens":
        pytest.importorskip("splintr")
    tokens = named(name).part(measurable(message("user", IMAGE), ANTHROPIC))
    assert 4_784 <= tokens < 4_784 * 1.3


def test_a_part_may_be_declared_to_count_as_its_json() -> None:  # D8
    provider = Provider(name="mine", parts={"image": None})
    history = [message("user", IMAGE)]
    with pytest.raises(ContextBudgetError, match="exceed character budget"):
        fit_context(history, [], profile="strict", provider=provider)


@pytest.mark.parametrize("profile", STRICT)
@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_an_undeclared_part_is_refused_with_the_fix(profile: Any, role: str) -> None:
    history = [user("t"), message(role, text("x"), {"type": "video", "url": "u"})]
    with pytest.raises(  # D8
        ContextBudgetError,
        match=r"part 1 of message 1 is of the type 'video', which anthropic does not "
        r"declare; say in Provider\(parts=...\)",
    ):
        fit_context(history, [], profile=profile, provider=ANTHROPIC)


@pytest.mark.parametrize("type_", ["tool_use", "tool_result", "function_call"])
def test_calls_and_results_stay_out_of_contents_where_pairs_cannot_be_seen(
    type_: str,
) -> None:
    for provider in (OPENAI, ANTHROPIC, ANY):
        with pytest.raises(ContextBudgetError, match="does not declare"):
            fit_context(
                [message("user", {"type": type_})],
                [],
                profile="strict",
                provider=provider,
            )


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ("text", "must be an object with a type"),
        ({}, "must be an object with a type"),
        ({"type": None}, "must be an object with a type"),
        ({"type": ["text"]}, "must be an object with a type"),
        ({"type": "text"}, "has no text"),
        ({"type": "text", "text": None}, "has no text"),
    ],
)
def test_a_malformed_part_is_refused_by_place(part: Any, why: str) -> None:
    history = [user("t"), message("user", text("x"), part)]
    with pytest.raises(ContextBudgetError, match=f"part 1 of message 1 {why}"):
        fit_context(history, [], profile="strict")


def test_the_source_profile_takes_text_alone() -> None:  # A58
    with pytest.raises(ContextBudgetError, match="must be text"):
        fit_context([message("user", text("t"))], [])
    with pytest.raises(ContextBudgetError, match="source takes text alone"):
        fit_context([user("t")], [], provider=OPENAI)


def test_thinking_stays_byte_for_byte_or_goes_with_its_whole_unit() -> None:  # D8
    def thought(call: str) -> list[dict[str, Any]]:
        asks = {**calls(call), "content": [THOUGHT, HIDDEN, text("so I ask")]}
        return [asks, result(call, "r" * 300)]

    history = [user("t"), *thought("a"), *thought("b"), *thought("c")]
    before = copy.deepcopy(history)
    for limit in range(900, request_characters(history, []) + 200, 50):
        fitted = fit_context(
            history, [], max_characters=limit, profile="runtime", provider=ANTHROPIC
        ).messages
        kept = [one for one in fitted if one["role"] == "assistant"]
        assert kept
        # Not canonical: the order of the keys is theirs too.
        expected = [one for one in history if one in kept]
        assert json.dumps(kept) == json.dumps(expected)
        assert sum(one["role"] == "tool" for one in fitted) == len(kept)
    assert history == before


def test_a_long_thought_is_never_shortened() -> None:  # D8
    thought = {**THOUGHT, "thinking": "x" * 3_000}
    asks = {**calls("a"), "content": [thought]}
    history = [user("t"), asks, result("a", "r" * 3_000)]
    prepared = fit_context(history, [], max_characters=5_000, profile="runtime")
    assert prepared.messages[1] == asks
    assert "cut here" in prepared.messages[2]["content"]
    with pytest.raises(ContextBudgetError):
        fit_context(history, [], max_characters=3_000, profile="runtime")


@pytest.mark.parametrize("profile", STRICT)
def test_a_message_has_no_more_calls_than_its_provider_takes(profile: Any) -> None:
    def history(number: int) -> list[dict[str, Any]]:
        ids = [f"c{one}" for one in range(number)]
        return [user("t"), calls(*ids), *(result(one, "") for one in ids)]

    def fitted(number: int, provider: Provider) -> Any:
        return fit_context(
            history(number),
            [],
            max_characters=99_999,
            profile=profile,
            provider=provider,
        )

    assert fitted(128, OPENAI).messages == history(128)
    with pytest.raises(
        ContextBudgetError,
        match=r"129 tool calls, where openai takes at most 128 .* \(message 1\)",
    ):
        fitted(129, OPENAI)
    assert fitted(129, ANTHROPIC).messages == history(129)


def test_an_image_alone_may_be_the_task_and_blank_text_may_not() -> None:  # A65
    assert fit_context(
        [message("user", IMAGE)], [], max_characters=99_999, profile="strict"
    )
    with pytest.raises(ContextBudgetError, match="blank"):
        fit_context([message("user", text(" "), text(""))], [], profile="strict")


def test_a_task_in_parts_is_the_required_one_by_its_text() -> None:  # A65
    history = [message("user", text("Total "), IMAGE, text("May"))]
    options: Any = {"max_characters": 99_999, "profile": "strict"}
    assert fit_context(history, [], required_task="Total May", **options)
    with pytest.raises(ContextBudgetError, match="required task"):
        fit_context(history, [], required_task="Total", **options)


def test_an_empty_list_of_parts_says_nothing() -> None:
    with pytest.raises(ContextBudgetError, match="has no part"):
        fit_context([user("t"), message("user")], [], profile="strict")
    for parts in ([], [text("")], [text(""), text("")]):
        with pytest.raises(ContextBudgetError, match="neither content nor calls"):
            fit_context([user("t"), message("assistant", *parts)], [], profile="strict")
    exchange = [{**calls("a"), "content": []}, result("a", "1")]
    assert fit_context([user("t"), *exchange], [], profile="strict")


@pytest.mark.parametrize(
    "options",
    [
        {"parts": {"image": 1}},
        {"parts": {"image": True}},
        {"parts": {"image": 2.5}},
        {"parts": {"text": 7}},
        {"parts": {"text": None}},
        {"most_calls": 0},
        {"most_calls": True},
        {"most_calls": 1.5},
        {"parts": None},
        {"parts": ["image"]},
        {"parts": {1: 20}},
        {"name": 5},
        {"name": ""},
    ],
)
def test_a_provider_with_a_figure_that_is_none_is_refused(options: Any) -> None:
    with pytest.raises(Misuse, match=r"Provider\."):
        Provider(**({"name": "mine"} | options))


@pytest.mark.parametrize("provider", ["openai", {"image": 20}, OPENAI.parts])
def test_what_is_no_provider_is_refused_where_it_is_given(provider: Any) -> None:
    history = [user("t")]
    for fit in (
        lambda: fit_context(history, [], profile="strict", provider=provider),
        lambda: History([], profile="strict", provider=provider),
        lambda: repair(history, provider=provider),
    ):
        with pytest.raises(ContextBudgetError, match="is no Provider"):
            fit()


def test_the_parts_of_the_vendors_are_taken_without_naming_one() -> None:
    reasoning = {"type": "reasoning", "encrypted_content": "x", "summary": []}
    history = [
        message("user", text("t"), {"type": "input_audio", "input_audio": {}}, IMAGE),
        message("assistant", THOUGHT, HIDDEN, reasoning, {"type": "refusal"}),
        message("user", {"type": "file", "file": {}}, {"type": "image_url"}),
        says("seen"),
        user("go on"),
    ]
    for profile in STRICT:
        fitted = fit_context(history, [], max_characters=99_999, profile=profile)
        assert fitted.messages == history


def test_layers_take_the_same_parts_by_the_same_figures() -> None:  # D8
    def block(id_: int, layer: Any, *messages: Any) -> Block:
        return Block(id=id_, layer=layer, origin="test", messages=messages)

    asks = {**calls("a"), "content": [THOUGHT, HIDDEN]}
    seen = {**result("a", ""), "content": [text("a chart"), IMAGE]}
    goal = block(1, "task", message("user", text("export May sales")))
    layers: list[Any] = [
        [block(0, "fixed", {"role": "system", "content": "rules"})],
        [goal],
        [block(2, "scratch", asks, seen)],
        block(3, "task", user("go on")),
        [],
    ]
    least = 4_784 * 4
    found = assemble_shrinking(*layers, limit=least + 2_000, window=Window())
    assert json.dumps(found.messages[2:4]) == json.dumps([asks, seen])
    assert least < found.report.before < least + 2_000
    assert len(BASE64) > least + 2_000
    with pytest.raises(ContextBudgetError, match="newest exchange do not fit"):
        assemble_shrinking(*layers, limit=least, window=Window())
