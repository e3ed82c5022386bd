from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.context import (
    OPENAI,
    ContextBudgetError,
    Repair,
    fit_context,
    repair,
)

from .histories import calls, numbered, result, says, system, user, well_formed

TWINS = dict.fromkeys(["\ud800", "\ud801"], 1)
MISSING = "no result recorded; it may have run"


def mended(history: list[Any], *repairs: tuple[int, str]) -> list[dict[str, Any]]:
    """Repair, and check that exactly these repairs were reported and were enough."""
    before = copy.deepcopy(history)
    found = repair(history)
    assert history == before
    assert [(one.index, one.kind) for one in found.repairs] == list(repairs)
    fitted = fit_context(found.messages, [], max_characters=10**6, profile="strict")
    assert fitted.messages == found.messages
    again = repair(found.messages)
    assert (again.messages, again.repairs) == (found.messages, ())
    return found.messages


def test_a_whole_history_is_returned_as_it_is() -> None:
    history = [
        system("s"),
        user("t"),
        calls("a", "b"),
        result("b", ""),
        result("a", ""),
    ]
    assert mended(history) == history


@pytest.mark.parametrize("answered", [(), ("a",), ("b",), ("c", "a")])
def test_a_missing_result_says_that_its_call_may_have_run(answered: Any) -> None:  # K4
    results = [result(one, "1") for one in answered]
    missing = [one for one in "abc" if one not in answered]
    after = [says("on"), user("t")]
    found = mended(
        [user("t"), calls("a", "b", "c"), *results, *after],
        *[(1, "missing result")] * len(missing),
    )
    assert found[2:5] == [*results, *(result(one, MISSING) for one in missing)]
    assert found[5:] == after


def test_a_repeated_id_is_replaced_in_call_and_result() -> None:  # K6
    history = [
        user("t"),
        *(calls("c1"), result("c1", "1")),
        *(calls("c1", "x"), result("x", "2"), result("c1", "3")),
        *(calls("c1-2"), result("c1-2", "4")),
    ]
    found = mended(history, (3, "repeated call id"))
    assert found == [
        *history[:3],
        *(calls("c1-3", "x"), result("x", "2"), result("c1-3", "3")),
        *history[6:],
    ]
    assert repair(history).repairs == (
        Repair(
            index=3,
            kind="repeated call id",
            done="'c1' is now 'c1-3', in its result too",
        ),
    )


def test_an_id_repeated_in_one_message_is_answered_in_order() -> None:  # K6
    found = mended(
        [user("t"), calls("a", "a"), result("a", "1"), result("a", "2")],
        (1, "repeated call id"),
    )
    assert found[1:] == [calls("a", "a-2"), result("a", "1"), result("a-2", "2")]


@pytest.mark.parametrize("times", [2, 3])
def test_of_doubled_results_the_first_is_kept(times: int) -> None:  # K7
    again = [result("a", f"again {number}") for number in range(1, times)]
    found = mended(
        [user("t"), calls("a"), result("a", "1"), *again],
        *((2 + number, "doubled result") for number in range(1, times)),
    )
    assert found == [user("t"), calls("a"), result("a", "1")]


@pytest.mark.parametrize(
    "orphan", [result("z", "1"), {"role": "tool", "content": "1"}, result("a", "early")]
)
def test_a_result_without_a_call_before_it_goes(orphan: Any) -> None:
    exchange = [calls("a"), result("a", "1")]
    found = mended([user("t"), orphan, *exchange], (1, "orphan result"))
    assert found == [user("t"), *exchange]


@pytest.mark.parametrize(
    "between",
    [
        [user("wait")],
        [says("hm"), system("s")],
        [calls("o"), result("o", "2")],
    ],
)
def test_what_was_put_into_an_exchange_comes_behind_it(between: Any) -> None:  # A78
    exchange = [calls("a", "b"), result("b", "1")]
    late = result("a", "2")
    found = mended(
        [user("t"), *exchange, *between, late], (3 + len(between), "late result")
    )
    assert found == [user("t"), *exchange, late, *between]


def test_results_in_another_order_are_no_fault() -> None:
    history = [user("t"), calls("a", "b"), result("b", "2"), result("a", "1")]
    assert mended(history) == history


@pytest.mark.parametrize("content", [None, "", [], [{"type": "text", "text": ""}] * 2])
@pytest.mark.parametrize("none", [None, []])
def test_a_message_that_says_and_calls_nothing_goes(content: Any, none: Any) -> None:
    empty = {"role": "assistant", "content": content, "tool_calls": none}
    found = mended(
        [user("t"), calls("a"), empty, result("a", "1")], (2, "empty message")
    )
    assert found == [user("t"), calls("a"), result("a", "1")]


def test_lone_surrogates_are_replaced_and_pairs_joined() -> None:  # K18b
    broken = [
        user("t\ud800"),
        {**calls("c\udc00"), "\ud800": ["\ud83d\ude00"]},
        result("c\udc00", "x"),
    ]
    found = mended(broken, *((index, "lone surrogates") for index in range(3)))
    assert found == [
        user("t\ufffd"),
        {**calls("c\ufffd"), "\ufffd": ["\U0001f600"]},
        result("c\ufffd", "x"),
    ]


def test_a_result_belongs_to_the_newest_call_of_its_id() -> None:
    found = mended(
        [user("t"), calls("a"), calls("a"), result("a", "1")],
        (1, "missing result"),
        (2, "repeated call id"),
    )
    assert found == [
        user("t"),
        *(calls("a"), result("a", MISSING)),
        *(calls("a-2"), result("a-2", "1")),
    ]


@pytest.mark.parametrize(
    ("history", "why"),
    [
        ([], "a current user task is required"),
        ([says("x")], "a current user task is required"),
        ([user(" ")], "not a blank one"),
        ([user("t"), "text"], r"must be an object \(message 1\)"),
        ([user("t"), {"content": "x"}], "unknown message role"),
        ([user("t"), {"role": "owner", "content": "x"}], "unknown message role"),
        ([user("t"), {**says("x"), "tool_calls": 7}], "malformed tool calls"),
        ([user("t"), {**says("x"), "tool_calls": {}}], "must be a list"),
        ([user("t"), {**says("x"), "tool_calls": [{}]}], "malformed tool calls"),
        ([user("t"), {**user("x"), "tool_calls": calls("a")["tool_calls"]}], "not the"),
        ([user("t"), calls("")], "malformed or duplicate tool call"),
        ([user("t"), {**says("x"), "content": 0}], "must be text"),
        ([user("t"), {**user("x"), "n": float("nan")}], "finite JSON"),
        ([user("t"), {**user("x"), "n": {1: 2}}], "is not text"),
        ([user("t"), {**user("x"), "n": b"x"}], "finite JSON"),
        ([user("t"), {**user("x"), **TWINS}], "rename them"),
        ([{"role": "user", "content": [{"type": "video"}]}], "does not declare"),
    ],
)
def test_what_cannot_be_mended_without_invention_is_refused(
    history: Any, why: str
) -> None:
    with pytest.raises(ContextBudgetError, match=why):
        repair(history)


@pytest.mark.parametrize("kind", ["thinking", "redacted_thinking", "reasoning"])
def test_what_a_vendor_signed_is_never_changed(kind: str) -> None:  # D8
    signed = {"type": kind, "data": "x", "signature": "s"}
    message = {"role": "assistant", "content": [signed], "note": "\ud800"}
    found = mended([user("t"), message], (1, "lone surrogates"))
    assert found[1] == {**message, "note": "\ufffd"}
    broken = {"role": "assistant", "content": [{**signed, "data": "x\ud800"}]}
    with pytest.raises(ContextBudgetError, match=r"signed.* \(message 1\)"):
        repair([user("t"), broken])


def test_what_is_nested_too_deeply_is_refused() -> None:
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(ContextBudgetError, match=r"nested too deeply \(message 1\)"):
        repair([user("t"), {**user("x"), "deep": deep}])


def test_more_calls_than_a_provider_takes_are_refused() -> None:
    with pytest.raises(ContextBudgetError, match="takes at most 128"):
        repair([user("t"), calls(*map(str, range(129)))], provider=OPENAI)


def test_many_calls_of_one_id_are_mended_in_linear_time() -> None:
    exchange = [calls("a"), result("a", "1")]
    found = repair([user("t"), *exchange * 5_000])
    assert len(found.repairs) == 4_999
    assert found.messages[-1] == result("a-5000", "1")


def replaced(history: list[Any], place: int, **fields: Any) -> None:
    history[place] = {**history[place], **fields}


DAMAGE: dict[str, Callable[[list[Any], int, int], Any]] = {
    "lose": lambda history, a, b: history.pop(a),
    "double": lambda history, a, b: history.insert(b, copy.deepcopy(history[a])),
    "move": lambda history, a, b: history.insert(b, history.pop(a)),
    "interrupt": lambda history, a, b: history.insert(a, user("wait")),
    "empty": lambda history, a, b: history.insert(a, says(None)),
    "orphan": lambda history, a, b: history.insert(a, result("nobody", "x")),
    "surrogate": lambda history, a, b: replaced(history, a, note="\ud800"),
    "anonymous": lambda history, a, b: history[a].pop("tool_call_id", None),
}


def numbered_anew(history: list[Any]) -> list[Any]:
    """Ids as of a provider that counts calls anew in each message."""
    found = copy.deepcopy(history)
    for message in found:
        for call in message.get("tool_calls") or ():
            call["id"] = call["id"][0]
        if "tool_call_id" in message:
            message["tool_call_id"] = message["tool_call_id"][0]
    return found


@st.composite
def spoilt(draw: st.DrawFn) -> list[Any]:
    history: list[Any] = numbered(draw(well_formed))
    for _ in range(draw(st.integers(1, 6))):
        places = st.integers(0, len(history) - 1)
        damage = DAMAGE[draw(st.sampled_from(sorted(DAMAGE)))]
        if len(history) > 1:
            damage(history, draw(places), draw(places))
    if draw(st.booleans()):
        history = numbered_anew(history)
    return [*history, user("now")]


@settings(max_examples=120)
@given(spoilt())
def test_what_was_mended_passes_and_needs_no_repair(history: list[Any]) -> None:
    before = copy.deepcopy(history)
    found = repair(history)
    assert history == before
    fitted = fit_context(found.messages, [], max_characters=10**6, profile="strict")
    assert fitted.messages == found.messages
    again = repair(found.messages)
    assert (again.messages, again.repairs) == (found.messages, ())
    assert (found.messages == history) == (not found.repairs)
    assert all(0 <= one.index < len(history) for one in found.repairs)


@settings(max_examples=60)
@given(spoilt())
def test_nothing_is_lost_that_was_not_reported(history: list[Any]) -> None:
    found = repair(history)
    gone = {"empty message", "doubled result", "orphan result"}
    dropped = sum(one.kind in gone for one in found.repairs)
    added = sum(one.kind == "missing result" for one in found.repairs)
    assert len(found.messages) == len(history) - dropped + added
    for role in ("system", "developer", "user"):
        kept = [one["content"] for one in found.messages if one["role"] == role]
        assert kept == [one["content"] for one in history if one["role"] == role]


@pytest.mark.parametrize("history", [None, "text", user("t"), iter([user("t")])])
def test_what_is_no_list_of_messages_has_no_repair(history: Any) -> None:
    with pytest.raises(ContextBudgetError, match="messages must be a list"):
        repair(history)
