from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Agent, Misuse
from perdure.actors.context import tally as tally_module
from perdure.actors.context.estimate import estimated_tokens
from perdure.actors.context.exact import counter
from perdure.actors.context.measure import CHARACTERS
from perdure.actors.context.measures import FRAME, SEAM, named
from perdure.actors.context.tally import Tally
from perdure.context import ContextBudgetError, canonical, fit_context
from perdure.models import Scripted
from tests.perdure.agents import done

from .histories import TOOL, calls, long_histories, result, says, user, well_formed

TOKENS = ("estimate", "tokens", "tokens:cl100k_base")


def agent(**options: Any) -> Agent:
    return Agent(name="a", instructions="", model=Scripted(lambda _: done()), **options)


# ── what is counted ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", TOKENS)
@given(messages=well_formed, tools=st.lists(st.just(TOOL), max_size=3))
def test_a_request_is_the_sum_of_its_messages_its_tools_and_their_frame(
    name: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]]
) -> None:
    measure = named(name)
    parts = [measure.part(message) for message in messages]
    schemas = measure.part(tools)
    total = measure.total(len(messages), sum(parts), schemas)
    assert total == sum(parts) + len(parts) * SEAM + schemas + FRAME
    assert min(parts) >= 1


@pytest.mark.parametrize("name", TOKENS)
def test_the_parts_are_not_less_than_the_whole_text(name: str) -> None:
    count = estimated_tokens if name == "estimate" else counter("o200k_base")
    messages = [user("导出 May sales"), calls("c"), result("c", "x, y\n" * 50)]
    measure = named("tokens" if name == "tokens:cl100k_base" else name)
    parts = sum(map(measure.part, messages))
    whole = count(canonical({"messages": messages, "tools": [TOOL]}))
    assert measure.total(3, parts, measure.part([TOOL])) >= whole


def five_hundred_a_result(value: Any) -> int:
    return 500 if isinstance(value, dict) and value["role"] == "tool" else 0


def test_the_results_of_twenty_calls_are_ten_thousand_tokens() -> None:  # A18
    history = [user("go on")]
    for number in range(20):
        history += [calls(f"c{number}"), result(f"c{number}", "found")]

    def fitted(limit: int) -> tuple[int, int]:
        report = fit_context(
            history, [], max_characters=limit, measure=five_hundred_a_result
        ).report
        return report.before, report.dropped_exchanges

    assert fitted(10_000) == (10_000, 0)
    assert fitted(9_999) == (10_000, 1)


@pytest.mark.parametrize("name", ["characters", *TOKENS])
def test_the_schemas_of_tools_count_in_every_measure(name: str) -> None:  # A14
    long = {**TOOL, "function": {**TOOL["function"], "description": "word " * 500}}
    history = [user("t")]
    bare = fit_context(history, [TOOL], max_characters=9_000, measure=name)
    full = fit_context(history, [long], max_characters=9_000, measure=name)
    assert full.report.after > bare.report.after + 400
    with pytest.raises(ContextBudgetError, match="schemas alone"):
        fit_context(history, [long], max_characters=300, measure=name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("characters", "newest exchange exceed character budget: "),
        ("estimate", "newest exchange exceed estimated token budget: "),
        ("tokens", "newest exchange exceed token budget: "),
    ],
)
def test_what_does_not_fit_names_the_measure(name: str, said: str) -> None:  # A71
    with pytest.raises(ContextBudgetError, match=said):
        fit_context([user("task " * 90)], [], max_characters=50, measure=name)


def test_special_tokens_in_a_text_are_text() -> None:
    assert counter("o200k_base")("<|endoftext|>") > 1


@given(st.integers(1_000, 2_000), st.integers(0, 10**6), st.integers(0, 10**4))
def test_only_the_estimate_is_scaled_and_never_below(
    scale: int, content: int, schemas: int
) -> None:
    plain, moved = named("estimate"), named("estimate", scale)
    before = plain.total(1, content, schemas)
    assert before * scale <= moved.total(1, content, schemas) * 1_000
    assert moved.part(user("x")) == plain.part(user("x"))
    for name in ("characters", "tokens"):
        assert named(name, scale).total(1, content, schemas) == named(name).total(
            1, content, schemas
        )


# ── fitting by it ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", TOKENS)
@given(history=long_histories, share=st.integers(30, 110))
def test_what_is_fitted_is_within_the_limit_of_the_measure(
    name: str, history: list[dict[str, Any]], share: int
) -> None:  # A89
    measure = named(name)
    tools = measure.part([])
    whole = measure.total(len(history), sum(map(measure.part, history)), tools)
    limit = max(whole * share // 100, 1)
    try:
        found = fit_context(history, [], max_characters=limit, measure=name)
    except ContextBudgetError:
        assert share < 100
        return
    kept = sum(map(measure.part, found.messages))
    assert found.report.after == measure.total(len(found.messages), kept, tools)
    assert found.report.after <= limit
    assert found.report.limit == limit


def test_a_function_of_a_host_measures_when_the_fitter_is_used_alone() -> None:
    seen: list[Any] = []

    def words(value: Any) -> int:
        seen.append(value)
        return len(canonical(value).split())

    history = [user("old words " * 9), says("so"), user("the task")]
    found = fit_context(history, [], max_characters=20, measure=words)
    assert [message["content"] for message in found.messages][-1] == "the task"
    assert found.report.dropped_messages == 2
    assert (found.report.after, [] in seen) == (16 + 2 + 1, True)


@pytest.mark.parametrize("answer", [-1, 1.5, "9", None, True])
def test_a_hosts_measure_must_answer_a_whole_number(answer: Any) -> None:
    def odd(value: Any) -> Any:
        return answer

    with pytest.raises(ContextBudgetError, match=f"measure odd answered {answer!r}"):
        fit_context([user("t")], [], measure=odd)


def test_a_hosts_total_is_checked_as_its_parts_are() -> None:
    class Odd:
        name = "odd"

        def part(self, value: Any) -> int:
            return 1

        def total(self, messages: int, content: int, schemas: int) -> int:
            return -messages

    with pytest.raises(ContextBudgetError, match="measure odd answered -1"):
        fit_context([user("t")], [], measure=Odd())


@pytest.mark.parametrize("measure", [7, None, "words", "tokens:", "tokens:none"])
def test_what_is_no_measure_is_refused(measure: Any) -> None:
    with pytest.raises(Misuse, match="measure="):
        fit_context([user("t")], [], measure=measure)


# ── an agent's ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"measure": "words"}, "measure='words' is no measure"),
        ({"measure": len}, "is no measure: give 'characters'"),
        ({"measure": None}, "measure=None is no measure"),
        ({"measure": "estimate"}, "measure='estimate' needs request_limit="),
        ({"measure": "tokens"}, "measure='tokens' needs request_limit="),
        ({"request_limit": 0}, "request_limit=0 must be a whole number"),
        ({"request_limit": 9.5}, "request_limit=9.5 must be a whole number"),
        ({"request_limit": True}, "request_limit=True must be a whole number"),
        ({"measure": "tokens:no", "request_limit": 9}, "measure='tokens:no'"),
    ],
)
def test_an_agent_is_refused_what_cannot_be_measured(
    options: dict[str, Any], said: str
) -> None:  # A15
    with pytest.raises(Misuse) as caught:
        agent(**options)
    assert said in str(caught.value)
    assert "agent 'a'" in str(caught.value)


def test_characters_are_counted_where_nothing_is_said() -> None:
    assert named(agent().measure) is CHARACTERS


def test_exact_tokens_name_the_extra_that_they_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "splintr", None)
    counter.cache_clear()
    try:
        with pytest.raises(Misuse, match=r"pip install 'perdure\[tokens\]'"):
            agent(measure="tokens", request_limit=9_000)
        agent(measure="estimate", request_limit=9_000)
    finally:
        counter.cache_clear()


# ── what a call is expected to be charged ────────────────────────────────────────


def test_a_message_is_estimated_once_and_forgotten_with_its_request() -> None:
    tally = Tally()
    first, second = user("one"), user("two 资料")
    both = tally.tokens([first, second], [TOOL])
    assert both == sum(estimated_tokens(canonical(x)) for x in (first, second, TOOL))
    assert tally.tokens([second, second], []) == 2 * named("estimate").part(second)
    assert len(tally._known) == 1


def test_a_message_that_stays_is_not_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []

    def counting(text: str) -> int:
        read.append(text)
        return 1

    monkeypatch.setattr(tally_module, "estimated_tokens", counting)
    tally, first, second = Tally(), user("one"), user("two")
    tally.tokens([first], [TOOL])
    tally.tokens([first, second], [TOOL])
    assert len(read) == 3
