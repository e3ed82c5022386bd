"""What is stored of amounts in short is read as it was."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.actors.amounts import in_full, in_short
from perdure.actors.events import EVENTS, EffectRecorded, Reserved, Settled
from perdure.storage.codec import Codec

CODEC = Codec(EVENTS)
CALL = {"milliseconds": 7, "tool:send": 1, "tool_calls": 1}
NAMES = ["tool_calls", "milliseconds", "tool:a", "tool:b", "tokens", "tool:tool:a"]


@given(st.dictionaries(st.sampled_from(NAMES), st.integers(-1, 3)))
def test_amounts_in_short_are_the_same_in_full(amounts: dict[str, int]) -> None:
    short = in_short(amounts)
    assert in_full(short) == amounts
    assert len(short) == 1 or short == amounts


@pytest.mark.parametrize(
    ("amounts", "short"),
    [
        (CALL, {"call:send": 7}),
        ({"tool:send": 1, "tool_calls": 1}, {"calls:send": 1}),
        ({"tool:send": 2, "tool_calls": 3}, {"tool:send": 2, "tool_calls": 3}),
        ({"tokens": 5}, {"tokens": 5}),
        ({}, {}),
    ],
)
def test_only_calls_of_one_tool_have_a_short_form(
    amounts: dict[str, int], short: dict[str, int]
) -> None:
    assert in_short(amounts) == short


@pytest.mark.parametrize(
    ("event", "field"),
    [
        (Reserved(op=1, amounts=CALL), "amounts"),
        (Settled(op=1, amounts=CALL), "amounts"),
        (EffectRecorded(op=1, usage=CALL), "usage"),
    ],
)
def test_an_event_is_stored_in_short_and_read_in_full(event: Any, field: str) -> None:
    _, _, body, read = CODEC.settle(event)
    assert msgspec.json.decode(body)[field] == {"call:send": 7}
    assert read == event
    assert getattr(read, field) == getattr(event, field) == CALL
    assert list(getattr(read, field)) == sorted(CALL)
