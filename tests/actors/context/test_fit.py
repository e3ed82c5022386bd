from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from perdure.actors.context.notice import notice
from perdure.context import (
    BudgetReport,
    ContextBudgetError,
    fit_context,
    request_characters,
)

from .histories import TOOL, calls, result, says, system, user

# Two turns of a user and, in the second, two exchanges.
TWO_TURNS = [
    system("rules"),
    user("Total May orders"),
    calls("a", arguments='{"m":5}'),
    result("a", "120 rows"),
    user("only region East"),
    calls("b", arguments='{"m":5,"r":"East"}'),
    result("b", "31 rows"),
]


def fitted(history: list[dict[str, Any]], limit: int, **options: Any) -> Any:
    return fit_context(history, [TOOL], max_characters=limit, **options)


def size(history: list[dict[str, Any]]) -> int:
    return request_characters(history, [TOOL])


def test_what_fits_is_returned_as_it_is() -> None:  # A55, A68
    prepared = fitted(TWO_TURNS, size(TWO_TURNS))
    assert prepared.messages == TWO_TURNS
    assert prepared.report == BudgetReport(
        before=size(TWO_TURNS),
        after=size(TWO_TURNS),
        limit=size(TWO_TURNS),
        dropped_messages=0,
        dropped_turns=0,
        dropped_exchanges=0,
    )


def test_the_oldest_user_turn_goes_first_and_whole() -> None:  # A42, A67, A70, K1
    prepared = fitted(TWO_TURNS, size(TWO_TURNS) - 1)
    assert prepared.messages == [notice(3), TWO_TURNS[0], *TWO_TURNS[4:]]
    report = prepared.report
    assert report.after == size(prepared.messages)
    assert (report.dropped_messages, report.dropped_turns) == (3, 1)
    assert report.dropped_exchanges == 1


def test_a_report_starts_with_its_six_figures() -> None:  # A55
    assert BudgetReport.__struct_fields__[:6] == (
        "before",
        "after",
        "limit",
        "dropped_messages",
        "dropped_turns",
        "dropped_exchanges",
    )


def test_loose_messages_before_the_first_user_go_before_any_turn() -> None:  # A67
    history = [says("x" * 300), system("rules"), says("y"), user("t"), says("z")]
    prepared = fitted([*history, user("now")], size([*history, user("now")]) - 1)
    assert prepared.messages == [notice(2), system("rules"), *history[3:], user("now")]
    assert prepared.report.dropped_turns == 0  # A70


def test_earlier_exchanges_of_the_current_turn_go_one_by_one() -> None:  # A42, A68
    exchanges = [
        message
        for name in "abcd"
        for message in (calls(name), result(name, name * 300))
    ]
    history = [user("t"), *exchanges]
    expected = [notice(4), user("t"), *exchanges[4:]]
    prepared = fitted(history, size(expected))
    assert prepared.messages == expected
    assert prepared.report.dropped_exchanges == 2
    assert prepared.report.dropped_turns == 0


def test_dropping_stops_as_soon_as_the_rest_fits() -> None:  # A68
    history = [user("1"), says("x" * 300), user("2"), says("y" * 300), user("now")]
    prepared = fitted(history, size(history) - 1)
    assert prepared.messages == [notice(2), *history[2:]]


def test_instructions_stay_wherever_they_stand() -> None:  # A43, A66
    late = {"role": "developer", "content": "only read"}
    history = [user("old"), late, says("x" * 300), user("now"), system("careful")]
    prepared = fitted(history, size(history) - 1)
    assert prepared.messages == [notice(2), late, user("now"), system("careful")]


def test_the_newest_exchange_stays_whole() -> None:  # A43, A66, A77
    newest = [calls("c", "d"), result("d", "4" * 50), result("c", "3" * 50)]
    history = [user("t"), says("x" * 400), *newest]
    prepared = fitted(history, size(history) - 1)
    assert prepared.messages == [notice(1), user("t"), *newest]


def test_a_system_message_behind_the_newest_exchange_does_not_unpin_it() -> None:
    newest = [calls("c"), result("c", "3" * 50)]
    history = [user("t"), says("x" * 400), *newest, system("careful")]  # A66
    prepared = fitted(history, size(history) - 1)
    assert prepared.messages == [notice(1), user("t"), *newest, system("careful")]


def test_the_notice_counts_toward_the_limit() -> None:  # A69
    history = [user("1"), says("x" * 200), user("2"), says("y" * 300), user("now")]
    with_notice = size([notice(2), *history[2:]])
    assert fitted(history, with_notice).report.dropped_turns == 1
    assert fitted(history, with_notice - 1).messages == [notice(4), user("now")]


def test_the_notice_is_one_text_with_one_number() -> None:  # A69
    texts = [notice(number)["content"] for number in (1, 2, 345)]
    assert [re.findall("[0-9]+", text) for text in texts] == [["1"], ["2"], ["345"]]
    assert len({re.sub("[0-9]+", "N", text) for text in texts}) == 1
    assert "evidence" in texts[0]
    assert "no proof of completion" in texts[0]
    assert len(texts[2]) <= 160


@pytest.mark.parametrize(
    ("history", "tools"),
    [
        ([user("t" * 900)], []),
        ([system("s" * 900), user("t")], []),
        ([user("t")], [{**TOOL, "x": "y" * 900}]),
        ([user("t"), calls("a"), result("a", "r" * 900)], []),
    ],
    ids=("task", "instructions", "schemas", "newest exchange"),
)
def test_a_required_part_that_is_too_long_is_refused(
    history: list[dict[str, Any]], tools: list[dict[str, Any]]
) -> None:  # A44, A71, K14
    with pytest.raises(
        ContextBudgetError,
        match="required task, instructions, schemas or newest exchange exceed",
    ):
        fit_context(history, tools, max_characters=900)


def test_the_input_is_neither_changed_nor_shared() -> None:  # A49, A72
    original = copy.deepcopy(TWO_TURNS)
    prepared = fitted(TWO_TURNS, size(TWO_TURNS) - 1)
    prepared.messages[-2]["tool_calls"][0]["id"] = "changed"
    prepared.messages[1]["content"] = "changed"
    assert original == TWO_TURNS


@pytest.mark.parametrize("limit", [0, -1, True, 16000.0, "16000", None])
def test_a_limit_must_be_a_positive_int(limit: Any) -> None:  # A63
    with pytest.raises(ContextBudgetError, match="max_characters"):
        fit_context([user("t")], [], max_characters=limit)


def test_the_default_limit_is_16000() -> None:  # A63
    framing = request_characters([user("")], [])
    assert fit_context([user("x" * (16000 - framing))], []).report.after == 16000
    with pytest.raises(ContextBudgetError):
        fit_context([user("x" * (16001 - framing))], [])


@pytest.mark.parametrize(
    ("messages", "tools"), [([], []), ((user("t"),), []), ("t", []), ([user("t")], ())]
)
def test_messages_and_tools_must_be_lists(messages: Any, tools: Any) -> None:  # A64
    with pytest.raises(ContextBudgetError, match="must be a list"):
        fit_context(messages, tools)


@pytest.mark.parametrize(
    "history", [[system("s")], [user("old"), user(" \n")]], ids=("none", "blank")
)
def test_there_must_be_a_current_task(history: list[dict[str, Any]]) -> None:  # A65
    with pytest.raises(ContextBudgetError, match="current user task is required"):
        fit_context(history, [])


def test_the_current_task_must_be_the_required_one_exactly() -> None:  # A65
    assert fitted([user("t")], 500, required_task="t").messages == [user("t")]
    for history in ([user("t ")], [user("t"), user("continue")]):
        with pytest.raises(ContextBudgetError, match="required task"):
            fitted(history, 500, required_task="t")


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(ContextBudgetError, match="profile"):
        fitted([user("t")], 500, profile="lenient")


def test_a_budget_error_is_a_value_error() -> None:  # A52
    assert issubclass(ContextBudgetError, ValueError)
