from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.actors.context.notice import notice, noticed
from perdure.actors.context.units import units
from perdure.context import (
    ContextBudgetError,
    canonical,
    fit_context,
    request_characters,
)

from . import reference
from .histories import (
    TOOL,
    calls,
    damaged,
    long_histories,
    numbered,
    result,
    well_formed,
)

tools = st.lists(st.just(TOOL), max_size=2)


def outcome(messages: Any, schemas: Any, limit: int) -> Any:
    try:
        prepared = fit_context(messages, schemas, max_characters=limit)
    except ContextBudgetError:
        return "refused"
    return prepared.messages, msgspec.structs.astuple(prepared.report)[:6]


def expected(messages: Any, schemas: Any, limit: int) -> Any:
    try:
        return reference.fit(messages, schemas, limit, notice)
    except reference.RefusedError:
        return "refused"


def limits(messages: Any, schemas: Any) -> st.SearchStrategy[int]:
    """Limits around and below the size of a request: where something happens."""
    size = request_characters(messages, schemas)
    return st.integers(1, size + 20)


@settings(max_examples=150)
@given(well_formed, tools, st.data())
def test_source_profile_agrees_with_the_reference(
    messages: Any, schemas: Any, data: st.DataObject
) -> None:  # A66-A71, K18
    limit = data.draw(limits(messages, schemas))
    original = copy.deepcopy(messages)
    assert outcome(messages, schemas, limit) == expected(messages, schemas, limit)
    assert messages == original  # A72


@given(long_histories, st.data())
def test_source_profile_agrees_with_the_reference_on_long_turns(
    messages: Any, data: st.DataObject
) -> None:  # A67, K18
    limit = data.draw(limits(messages, []))
    assert outcome(messages, [], limit) == expected(messages, [], limit)


@settings(max_examples=150)
@given(damaged())
def test_both_refuse_the_same_malformed_histories(messages: Any) -> None:  # A57-A62
    assert outcome(messages, [], 10**6) == expected(messages, [], 10**6)


@pytest.mark.parametrize("profile", ["source", "runtime"])
@given(history=long_histories, schemas=tools, data=st.data())
def test_a_fitted_request_is_whole_short_and_repeatable(
    profile: Any, history: Any, schemas: Any, data: st.DataObject
) -> None:  # A76, A109, R18
    messages = numbered(history)
    limit = data.draw(limits(messages, schemas))
    try:
        prepared = fit_context(messages, schemas, max_characters=limit, profile=profile)
    except ContextBudgetError:
        newest = messages[units(messages)[-1].first :]
        assert request_characters([*messages[:2], *newest], schemas) > limit - 200
        return
    units(prepared.messages)
    assert prepared.report.after == request_characters(prepared.messages, schemas)
    assert prepared.report.after <= limit
    kept = [message for message in prepared.messages if not noticed(message)]
    assert kept[:2] == messages[:2]
    assert kept[2:] == messages[len(messages) - len(kept) + 2 :]
    again = fit_context(messages, schemas, max_characters=limit, profile=profile)
    assert canonical(again.messages) == canonical(prepared.messages)


@st.composite
def wild(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Several turns, huge results and arguments, and perhaps a call left pending."""
    history = numbered(draw(well_formed))
    for message in history:
        if draw(st.integers(0, 9)) == 0 and message["role"] == "tool":
            message["content"] *= draw(st.integers(1, 400))
        for call in message.get("tool_calls") or ():
            if draw(st.integers(0, 19)) == 0:
                call["function"]["arguments"] = "y" * draw(st.integers(1, 30_000))
    end = draw(st.sampled_from(("", "", "exchange", "exchange", "pending")))
    newest = [calls("z")] if end else []
    if end == "exchange":
        newest.append(result("z", "z" * draw(st.integers(0, 3_000))))
    tail = draw(well_formed) if draw(st.booleans()) else []
    behind = [one for one in tail if one["role"] in {"system", "developer"}]
    return [
        *history,
        {"role": "user", "content": "now"},
        *behind,
        *newest,
    ]


@settings(max_examples=50)
@pytest.mark.parametrize("profile", ["source", "strict", "runtime"])
@given(history=wild(), schemas=tools, data=st.data())
def test_a_request_is_right_or_refused_whatever_the_history(
    profile: Any, history: Any, schemas: Any, data: st.DataObject
) -> None:  # R18, A41, A76, A78
    limit = data.draw(limits(history, schemas))
    options: Any = {"max_characters": limit, "profile": profile}
    if history[-1].get("tool_calls"):
        with pytest.raises(ContextBudgetError, match="missing results"):
            fit_context(history, schemas, **options)
        return
    fixed = {"system", "developer"}
    now = max(n for n, one in enumerate(history) if one["role"] == "user")
    required = [m for n, m in enumerate(history) if m["role"] in fixed or n >= now]
    try:
        prepared = fit_context(history, schemas, **options)
    except ContextBudgetError:
        least = required if profile == "runtime" else [notice(10), *required]
        assert request_characters(least, schemas) > limit
        return
    fitted = prepared.messages
    units(fitted)
    assert prepared.report.after == request_characters(fitted, schemas) <= limit
    kept = fitted[1:] if prepared.report.notice == "placed" else fitted
    places = iter(history)
    for message in kept:
        short = "cut here" in str(message["content"])
        assert any(
            one == message
            or (short and one.get("tool_call_id") == message.get("tool_call_id"))
            for one in places
        )
    stands = [message["role"] for message in history[now:]]
    assert [message["role"] for message in kept[len(kept) - len(stands) :]] == stands
    assert [one for one in kept if one["role"] in fixed] == [
        one for one in history if one["role"] in fixed
    ]
    again = fit_context(history, schemas, **options)
    assert canonical(again.messages) == canonical(fitted)
