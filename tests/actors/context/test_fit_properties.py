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
from .histories import TOOL, damaged, long_histories, numbered, well_formed

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


@settings(max_examples=300)
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


@settings(max_examples=300)
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
