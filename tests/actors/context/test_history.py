from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.actors.context.measure import CHARACTERS
from perdure.actors.context.notice import notice
from perdure.actors.context.units import units
from perdure.context import (
    OPENAI,
    ContextBudgetError,
    History,
    fit_context,
    request_characters,
)

from .histories import (
    TOOL,
    calls,
    damaged,
    numbered,
    result,
    says,
    system,
    user,
    well_formed,
)


def outcome(fit: Any) -> Any:
    try:
        return fit()
    except ContextBudgetError as error:
        return str(error)


@settings(max_examples=30)
@pytest.mark.parametrize("profile", ["source", "strict"])
@given(messages=well_formed, data=st.data())
def test_a_growing_history_fits_as_the_whole_would(
    profile: Any, messages: Any, data: st.DataObject
) -> None:
    messages = messages if profile == "source" else numbered(messages)
    size = request_characters(messages, [TOOL])
    options: Any = {
        "max_characters": data.draw(st.integers(max(1, size // 4), size + 20)),
        "required_task": data.draw(st.none() | st.just("x")),
        "profile": profile,
    }
    history = History([TOOL], **options)
    for number, message in enumerate(messages, start=1):
        if refused := outcome(lambda one=message: history.append(one)):
            whole = outcome(lambda: fit_context(messages, [TOOL], **options))
            assert refused == whole
            return
        so_far = messages[:number]
        assert outcome(history.fit) == outcome(
            lambda some=so_far: fit_context(some, [TOOL], **options)
        )


@settings(max_examples=80)
@given(well_formed, st.data())
def test_a_cut_of_the_runtime_profile_stands_until_the_limit_is_reached_again(
    messages: Any, data: st.DataObject
) -> None:  # D7, K17
    messages = numbered([system("rules"), user("x"), *messages])
    options: Any = {
        "max_characters": data.draw(
            st.integers(300, 300 + request_characters(messages, []))
        ),
        "required_task": data.draw(st.none() | st.just("x")),
        "profile": "runtime",
    }
    history = History([], **options)
    before: list[Any] = []
    for unit in units(messages):
        new = messages[unit.first : unit.end]
        history.append(*new)
        one = outcome(history.fit)
        other = outcome(
            lambda fed=(*before, *new): fit_context(list(fed), [], **options)
        )
        if isinstance(one, str) or "cut here" in str(one.messages):
            return
        assert one.messages == other.messages
        assert one.report.omitted == other.report.omitted
        assert one.report.after == other.report.after
        assert one.report.dropped_messages == other.report.dropped_messages
        assert one.report.dropped_turns == other.report.dropped_turns
        assert one.report.dropped_exchanges == other.report.dropped_exchanges
        before = one.messages


def test_cuts_are_rare_and_nothing_changes_between_them() -> None:  # K17
    history = History([], max_characters=20_000, profile="runtime")
    history.append(system("rules"), user("task"))
    last: list[Any] = []
    cuts = 0
    for number in range(200):
        history.append(calls(f"c{number}"), result(f"c{number}", "x" * 150))
        prepared = history.fit()
        cuts += prepared.report.dropped_messages > 0
        assert (
            prepared.report.dropped_messages or prepared.messages[: len(last)] == last
        )
        last = prepared.messages
    assert 1 <= cuts <= 20


def test_each_cut_counts_what_it_drops_itself() -> None:  # A70
    history = History([], max_characters=3_000, profile="runtime")
    given: list[dict[str, Any]] = []
    dropped = [0, 0, 0]
    for number in range(60):
        new = [user(f"turn {number}"), calls(f"c{number}"), result(f"c{number}", "x")]
        history.append(*new)
        given += new
        report = history.fit().report
        dropped[0] += report.dropped_messages
        dropped[1] += report.dropped_turns
        dropped[2] += report.dropped_exchanges
    left = history.fit().messages[1:]
    assert left == given[len(given) - len(left) :]
    gone = given[: len(given) - len(left)]
    assert dropped == [
        len(gone),
        sum(one["role"] == "user" for one in gone),
        sum(one["role"] == "tool" for one in gone),
    ]


def test_a_turn_that_was_cut_into_stays_with_its_task_or_goes_whole() -> None:
    def exchange(name: str, size: int) -> list[dict[str, Any]]:
        return [calls(name), result(name, "x" * size)]

    task = user("t" * 1_200)
    history = History([], max_characters=3_000, profile="runtime")
    history.append(task, *exchange("a", 1_500), *exchange("b", 50))
    history.append(*exchange("c", 250))
    cut = [notice(2), task, *exchange("b", 50), *exchange("c", 250)]
    assert history.fit().messages == cut
    history.append(user("next"))
    assert history.fit().messages == [*cut, user("next")]
    last = exchange("d", 1_000)
    history.append(*last)  # without the task alone it would fit
    assert history.fit().messages == [notice(7), user("next"), *last]


def test_a_request_that_was_refused_moves_no_cut() -> None:
    history = History([], max_characters=1_000, profile="runtime")
    history.append(user("task"), says("a"), says("b"), says("x" * 2_000))
    with pytest.raises(ContextBudgetError):
        history.fit()
    history.append(user("task"))
    assert history.fit().report.dropped_messages == 4


@settings(max_examples=50)
@given(damaged())
def test_a_refused_message_was_never_given(messages: Any) -> None:
    history = History([], max_characters=99_999)
    held = [
        message
        for message in messages
        if outcome(lambda one=message: history.append(one)) is None
    ]
    if held:
        assert outcome(history.fit) == outcome(
            lambda: fit_context(held, [], max_characters=99_999)
        )


def test_what_is_appended_is_measured_once_and_only_then() -> None:
    class Counting:
        name = "characters"
        parts = 0

        def part(self, value: Any) -> int:
            self.parts += 1
            return CHARACTERS.part(value)

        def total(self, messages: int, content: int, schemas: int) -> int:
            return CHARACTERS.total(messages, content, schemas)

    counting = Counting()
    history = History([TOOL], max_characters=2_000, measure=counting)
    history.append(system("rules"), user("task"))
    for number in range(200):
        history.append(calls(f"c{number}"), result(f"c{number}", "x" * 100))
    assert counting.parts == 1 + 2 + 400
    counting.parts = 0
    history.append(calls("new"), result("new", "y"))
    history.fit()
    # The two, and a notice for each cut that was tried near the limit.
    assert counting.parts <= 2 + 5


def test_a_history_does_not_share_what_it_was_given() -> None:
    message = user("task")
    history = History([])
    history.append(message)
    message["content"] = "spoilt"
    history.fit().messages[0]["content"] = "spoilt"
    assert history.fit().messages == [user("task")]


def test_what_stands_before_a_refused_message_was_appended() -> None:
    history = History([])
    with pytest.raises(ContextBudgetError, match=r"\(message 1\)"):
        history.append(user("task"), {"role": "owner"}, user("never"))
    assert history.fit().messages == [user("task")]


def test_an_exchange_may_be_appended_piece_by_piece() -> None:
    history = History([], profile="strict")
    history.append(user("task"), calls("a", "b"), result("b", "2"))
    with pytest.raises(ContextBudgetError, match="missing results"):
        history.fit()
    history.append(result("a", "1"))
    assert len(history.fit().messages) == 4


def test_an_empty_history_has_no_task() -> None:  # A65
    with pytest.raises(ContextBudgetError, match="a current user task is required"):
        History([]).fit()


@pytest.mark.parametrize(
    "options", [{"max_characters": 0}, {"profile": "lenient"}, {"provider": OPENAI}]
)
def test_bad_options_are_refused_when_built(options: Any) -> None:
    with pytest.raises(ContextBudgetError):
        History([], **options)
