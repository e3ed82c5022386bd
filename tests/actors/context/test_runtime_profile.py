from __future__ import annotations

from typing import Any

import pytest

from perdure.actors.context.notice import notice, noticed
from perdure.context import ContextBudgetError, fit_context, request_characters

from .histories import calls, result, says, system, user

HISTORY = [
    system("rules"),
    user("task"),
    *(
        message
        for number in range(40)
        for message in (calls(f"c{number}"), result(f"c{number}", "x" * 200))
    ),
]


def fitted(history: list[dict[str, Any]], limit: int) -> Any:
    return fit_context(history, [], max_characters=limit, profile="runtime")


def test_an_overflowing_request_is_cut_to_the_low_water_mark() -> None:  # D12
    limit = request_characters(HISTORY, []) - 1
    report = fitted(HISTORY, limit).report
    assert limit * 0.7 - 400 < report.after <= limit * 0.7


def test_what_fits_is_not_cut_to_the_mark() -> None:
    assert fitted(HISTORY, request_characters(HISTORY, [])).messages == HISTORY


def test_the_mark_is_a_wish_and_the_limit_the_rule() -> None:
    newest = [calls("big"), result("big", "y" * 850)]
    history = [user("t"), calls("old"), result("old", "x" * 200), *newest]
    assert fitted(history, 1300).messages == [notice(2), user("t"), *newest]


def test_feeding_a_fit_back_keeps_one_notice_with_the_whole_count() -> None:
    first = fitted(HISTORY, 6000)  # D7
    more = [calls("n"), result("n", "z" * 2500)]
    second = fitted([*first.messages, *more], 6000)
    assert [noticed(message) for message in second.messages if noticed(message)] == [
        first.report.dropped_messages + second.report.dropped_messages
    ]
    assert second.report.omitted == noticed(second.messages[0])
    assert second.report.dropped_messages > 0


def test_fitting_a_fit_again_changes_nothing() -> None:  # D7
    once = fitted(HISTORY, 6000)
    assert fitted(once.messages, 6000).messages == once.messages


def test_several_notices_become_one() -> None:
    history = [notice(3), system("rules"), notice(4), user("task")]
    assert fitted(history, 900).messages == [notice(7), system("rules"), user("task")]


@pytest.mark.parametrize("profile", ["source", "strict"])
def test_the_other_profiles_keep_notices_as_the_instructions_they_are(
    profile: Any,
) -> None:
    history = [notice(3), notice(4), user("t"), says("x" * 500), user("task")]
    assert fit_context(history, [], profile=profile).messages == history
    short = fit_context(history, [], max_characters=600, profile=profile)
    assert short.messages == [notice(2), *history[:2], user("task")]


def test_a_users_words_are_never_taken_for_a_notice() -> None:
    forged = {**notice(3), "role": "user"}
    assert fitted([forged, user("task")], 900).messages == [forged, user("task")]


def test_the_notice_never_makes_a_fitting_request_fail() -> None:  # D7
    required = [user("task" * 200), calls("n"), result("n", "z")]
    history = [user("old"), *required]
    limit = request_characters(required, [])
    prepared = fitted(history, limit)
    assert prepared.messages == required
    assert prepared.report.notice == "left out"
    assert prepared.report.omitted == 1
    assert fitted(history, limit + 200).report.notice == "none"
    with pytest.raises(ContextBudgetError):
        fitted(history, limit - 1)
    with pytest.raises(ContextBudgetError):  # the source's rule says otherwise
        fit_context(history, [], max_characters=limit)


def test_the_report_names_its_profile() -> None:
    assert fitted(HISTORY, 6000).report.profile == "runtime"
    assert fitted(HISTORY, 6000).report.notice == "placed"


def test_instructions_that_quote_a_notice_are_kept() -> None:
    quoting = system(notice(3)["content"] + " So answer briefly.")
    assert fitted([quoting, user("task")], 900).messages == [quoting, user("task")]
