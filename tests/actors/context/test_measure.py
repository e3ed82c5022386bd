from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.actors.context.measure import characters, copied, total
from perdure.context import ContextBudgetError, canonical, request_characters

from .histories import TOOL, user, well_formed

GOLDEN = Path(__file__).with_name("canonical.json")


def test_canonical_text_of_a_value_never_changes() -> None:  # A53, K18b
    cases = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert [canonical(case["value"]) for case in cases] == [
        case["text"] for case in cases
    ]


@pytest.mark.parametrize(
    "value",
    [{"f": float("nan")}, {"f": float("inf")}, {"b": b"x"}, {1: 2, "1": 3}, {1, 2}],
    ids=("nan", "infinity", "bytes", "mixed keys", "set"),
)
def test_what_is_not_finite_json_is_refused(value: object) -> None:  # A53
    with pytest.raises(ContextBudgetError, match="finite JSON data"):
        canonical(value)


def test_a_cycle_is_refused() -> None:  # A53
    cycle: list[object] = []
    cycle.append(cycle)
    with pytest.raises(ContextBudgetError, match="finite JSON data"):
        canonical(cycle)


def test_characters_are_code_points_not_bytes_or_words() -> None:  # A45, A46
    short = request_characters([user("")], [])
    assert request_characters([user("资料 😀")], []) == short + 4


def test_schemas_of_tools_count() -> None:  # A14, A54, A79
    bare = request_characters([user("t")], [])
    assert request_characters([user("t")], [TOOL]) == bare + characters(TOOL)


@given(well_formed, st.lists(st.just(TOOL), max_size=3))
def test_parts_add_up_to_the_whole_request(
    messages: list[dict[str, object]], tools: list[dict[str, object]]
) -> None:  # A54
    content = sum(map(characters, messages))
    assert total(len(messages), content, characters(tools)) == request_characters(
        messages, tools
    )


def test_a_request_without_messages_adds_up_too() -> None:
    assert total(0, 0, 2) == request_characters([], [])


def test_a_copy_shares_nothing_that_could_change() -> None:
    message = {"role": "user", "content": [{"text": "x"}], "n": 1.5, "none": None}
    value = [message, OrderedDict(inner=[1])]
    found = copied(value)
    assert found == value
    found[0]["content"][0]["text"] = "harmed"
    found[1]["inner"].append(2)
    assert value == [
        {"role": "user", "content": [{"text": "x"}], "n": 1.5, "none": None},
        OrderedDict(inner=[1]),
    ]
