"""Cases that users of comparable systems ran into, each with its whole kind."""

from __future__ import annotations

import asyncio
import copy
import json
import subprocess
import sys
from typing import Any

import pytest

from perdure.actors.context import fit
from perdure.actors.context.notice import notice, noticed
from perdure.actors.context.units import Unit, units
from perdure.context import (
    BudgetedModel,
    ContextBudgetError,
    fit_context,
    request_characters,
)

from .histories import calls, result, says, system, user

PROFILES: list[Any] = ["source", "strict", "runtime"]
STRICT: list[Any] = ["strict", "runtime"]

GOAL = "export May sales"
CONTINUE = user("ok, continue" + "." * 1988)  # 2,000 characters

ORDERS = [
    system("rules"),
    user("Total May orders"),
    calls("a", arguments='{"m":5}'),
    result("a", "120 rows" * 10),
    user("only region East"),
    calls("b", arguments='{"m":5,"r":"East"}'),
    result("b", "31 rows"),
]


@pytest.mark.parametrize("profile", PROFILES)
def test_one_character_too_many_costs_the_first_turn_and_no_more(profile: Any) -> None:
    before = copy.deepcopy(ORDERS)  # K1, A42, A49
    limit = request_characters(ORDERS, []) - 1
    prepared = fit_context(ORDERS, [], max_characters=limit, profile=profile)
    assert prepared.messages == [notice(3), ORDERS[0], *ORDERS[4:]]
    assert [unit.exchange for unit in units(prepared.messages)][-1]
    assert before == ORDERS


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("turns", [2, 5, 9])
def test_every_turn_before_the_current_one_can_go(profile: Any, turns: int) -> None:
    history = [  # K1, A67
        message
        for turn in range(turns)
        for message in (
            user(f"turn {turn}"),
            calls(f"c{turn}"),
            result(f"c{turn}", "x" * 200),
        )
    ]
    last = history[-3:]
    for kept in range(1, turns + 1):
        rest = history[len(history) - 3 * kept :]
        gone = len(history) - len(rest)
        expected = [notice(gone), *rest] if gone else rest
        limit = request_characters(expected, [])
        fitted = fit_context(history, [], max_characters=limit, profile=profile)
        assert fitted.messages[-3:] == last
        assert len(fitted.messages) <= len(expected)
        if profile != "runtime":  # which cuts deeper, so that it cuts rarely
            assert fitted.messages == expected


@pytest.mark.parametrize("profile", STRICT)
def test_results_come_in_any_order_and_stay_with_their_call(profile: Any) -> None:
    pair = [calls("a", "b"), result("b", "2"), result("a", "1")]  # K2, A77
    history = [user("t"), *pair, calls("c"), result("c", "x" * 300)]
    for limit in range(400, request_characters(history, []) + 10):
        try:
            fitted = fit_context(history, [], max_characters=limit, profile=profile)
        except ContextBudgetError:
            continue
        assert sum(one in fitted.messages for one in pair) in {0, 3}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_call_without_its_result_is_refused(profile: Any, lost: int) -> None:
    exchange = [calls("a", "b", "c"), *(result(one, "1") for one in "abc")]  # K4, A78
    with pytest.raises(ContextBudgetError, match="missing results"):
        fit_context([user("t"), *exchange[: len(exchange) - lost]], [], profile=profile)


@pytest.mark.parametrize("profile", STRICT)
@pytest.mark.parametrize("between", [0, 1, 5])
def test_a_call_id_is_used_once_in_a_request(profile: Any, between: int) -> None:
    def asked(call: str) -> list[dict[str, Any]]:
        return [calls(call), result(call, "1")]

    others = [message for number in range(between) for message in asked(f"o{number}")]
    history = [user("t"), *asked("c1"), *others, *asked("c1")]  # K6
    place = len(history) - 2
    with pytest.raises(
        ContextBudgetError, match=rf"'c1' is used before \(message {place}\)"
    ):
        fit_context(history, [], profile=profile)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("again", ["1", "1 again"])
def test_a_result_comes_once(profile: Any, again: str) -> None:  # K7, A78
    history = [user("t"), calls("a"), result("a", "1"), result("a", again)]
    with pytest.raises(ContextBudgetError, match="orphan tool result"):
        fit_context(history, [], profile=profile)


def turns_since_the_goal(number: int = 40) -> list[dict[str, Any]]:
    return [
        system("rules"),
        user(GOAL),
        *(
            message
            for turn in range(number)
            for message in (user(f"turn {turn}"), says("x" * 100))
        ),
        CONTINUE,
    ]


@pytest.mark.parametrize("limit", [2_400, 4_000, 6_000])
def test_the_required_task_is_kept_however_old_it_is(limit: int) -> None:  # K9, D2
    history = turns_since_the_goal()
    prepared = fit_context(
        history, [], max_characters=limit, required_task=GOAL, profile="runtime"
    )
    assert prepared.messages[1:3] == [system("rules"), user(GOAL)]
    assert prepared.messages.count(user(GOAL)) == 1
    assert prepared.messages[-1] == CONTINUE
    assert prepared.report.after == request_characters(prepared.messages, []) <= limit
    gone = len(history) - len(prepared.messages) + 1
    assert prepared.report.dropped_messages == noticed(prepared.messages[0]) == gone
    kept = [one for one in prepared.messages if one["content"].startswith("turn")]
    assert prepared.report.dropped_turns == 40 - len(kept)


def test_the_required_task_is_kept_from_call_to_call() -> None:  # K9
    class Listener:
        heard: list[dict[str, Any]]

        async def complete(self, messages: Any, tools: Any) -> None:
            self.heard = messages

    model = Listener()
    budgeted = BudgetedModel(
        model, max_characters=2_500, required_task=GOAL, profile="runtime"
    )
    history = turns_since_the_goal(0)
    for turn in range(40):
        history += [user(f"turn {turn}"), says("x" * 100)]
        asyncio.run(budgeted.complete([*history, CONTINUE], []))
        assert model.heard.count(user(GOAL)) == 1


def test_a_required_task_that_nobody_gave_is_refused() -> None:  # K9, A65
    for profile in PROFILES:
        with pytest.raises(ContextBudgetError, match="the required task"):
            fit_context([user("t")], [], required_task=GOAL, profile=profile)
    history = turns_since_the_goal()
    for profile in ("source", "strict"):
        with pytest.raises(ContextBudgetError, match="last user message"):
            fit_context(history, [], required_task=GOAL, profile=profile)


@pytest.mark.parametrize("profile", STRICT)
def test_a_task_in_the_instructions_is_kept_without_being_required(
    profile: Any,
) -> None:  # K11, A43
    history = [system(GOAL), *turns_since_the_goal()[2:]]
    fitted = fit_context(history, [], max_characters=2_500, profile=profile)
    assert fitted.messages.count(system(GOAL)) == 1


def test_what_is_required_fits_without_the_notice_where_the_notice_would_not() -> None:
    required = [user("t" * 300), calls("n"), result("n", "z")]  # K11
    history = [user("old"), says("x"), *required]
    limit = request_characters(required, [])
    prepared = fit_context(history, [], max_characters=limit, profile="runtime")
    assert prepared.messages == required
    assert (prepared.report.notice, prepared.report.omitted) == ("left out", 2)
    assert prepared.report.after == limit


def test_a_fit_fed_into_the_next_has_one_notice_with_the_whole_count() -> None:  # K11
    messages: list[dict[str, Any]] = [user("t")]
    dropped = 0
    for number in range(60):
        messages += [calls(f"c{number}"), result(f"c{number}", "x" * 100)]
        prepared = fit_context(messages, [], max_characters=1_500, profile="runtime")
        messages = prepared.messages
        dropped += prepared.report.dropped_messages
        assert [noticed(one) for one in messages if noticed(one)] == (
            [dropped] if dropped else []
        )
    assert len(messages) + dropped == 1 + 1 + 2 * 60


UNPORTABLE = [
    ("\ud800", "lone surrogate in"),
    (float("nan"), "must be finite JSON data, not nan"),
    (float("-inf"), "must be finite JSON data, not -inf"),
    (b"x", "must be finite JSON data, not bytes"),
    ({1, 2}, "must be finite JSON data, not set"),
    ({1: 2}, "key 1 of"),
    ({None: 2}, "key None of"),
    ({"\udfff": 2}, "lone surrogate in a key of"),
]


@pytest.mark.parametrize("profile", STRICT)
@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: [x], lambda x: {"in": x}])
@pytest.mark.parametrize(("value", "why"), UNPORTABLE)
def test_what_no_reader_reads_alike_is_refused_by_one_rule(
    profile: Any, wrap: Any, value: Any, why: str
) -> None:  # K11, K18b
    for message in (
        {**user("t"), "extra": wrap(value)},
        {**calls("a"), "extra": wrap(value)},
        {**system("s"), "extra": wrap(value)},
    ):
        with pytest.raises(
            ContextBudgetError,
            match=rf"message 1\.extra.* {why}|{why}.* message 1\.extra",
        ):
            fit_context([user("t"), message], [], profile=profile)
    with pytest.raises(ContextBudgetError, match=why):
        fit_context([user("t")], [{"extra": wrap(value)}], profile=profile)


@pytest.mark.parametrize("value", [float("nan"), b"x", {1, 2}])
def test_what_is_no_json_is_refused_under_every_profile(value: Any) -> None:  # A53
    for profile in PROFILES:
        with pytest.raises(ContextBudgetError, match="finite JSON data"):
            fit_context([{**user("t"), "extra": value}], [], profile=profile)


BIG = [user("t"), calls("a", "b"), result("b", "x" * 20_000), result("a", "1")]


def test_a_newest_exchange_that_alone_is_too_long_is_refused_when_strict() -> None:
    for profile in ("source", "strict"):  # K11, A71
        with pytest.raises(ContextBudgetError, match="newest exchange exceed"):
            fit_context(BIG, [], profile=profile)


@pytest.mark.parametrize("limit", [1_000, 3_000, 16_000])
def test_a_newest_exchange_that_alone_is_too_long_becomes_a_reference(
    limit: int,
) -> None:  # K11
    history = [user("old"), *BIG]
    prepared = fit_context(history, [], max_characters=limit, profile="runtime")
    assert prepared.report.after == request_characters(prepared.messages, []) <= limit
    shown = prepared.messages[-2]["content"]
    assert "20000 characters, SHA-256 " in shown
    assert shown.startswith("xxx")
    assert shown.endswith("xxx")
    assert prepared.messages[-1] == BIG[-1]
    assert BIG[2]["content"] == "x" * 20_000
    assert (
        fit_context(BIG, [], max_characters=99_999, profile="runtime").messages == BIG
    )


def test_a_result_that_a_reference_would_lengthen_stays() -> None:  # K11
    short = result("b", "y" * 260)
    history = [user("t"), calls("a", "b"), result("a", "x" * 9_000), short]
    prepared = fit_context(history, [], max_characters=1_000, profile="runtime")
    assert prepared.messages[-1] == short


@pytest.mark.parametrize("profile", PROFILES)
def test_what_goes_out_is_validated_by_the_same_rules(
    profile: Any, monkeypatch: pytest.MonkeyPatch
) -> None:  # A76
    monkeypatch.setattr(fit, "notice", lambda omitted: {"role": "owner"})
    limit = request_characters(ORDERS, []) - 1
    with pytest.raises(ContextBudgetError, match=r"unknown message role.*message 0"):
        fit_context(ORDERS, [], max_characters=limit, profile=profile)


def test_a_unit_cannot_be_changed() -> None:  # A56
    unit = units([user("t"), calls("a"), result("a", "1")])[1]
    assert unit == Unit(first=1, end=3, role="assistant", exchange=True)
    with pytest.raises(AttributeError):
        unit.end = 2  # type: ignore[misc]


def test_the_demo_is_one_line_and_needs_nothing_from_outside() -> None:  # A47, A48, A75
    line = (
        "import asyncio, json; from perdure.context import demo; "
        "print(json.dumps(asyncio.run(demo()), ensure_ascii=False, sort_keys=True))"
    )
    shut = "import socket; socket.getaddrinfo = socket.create_connection = None; "
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", shut + line],
        env={},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["ok"]
    assert found["model_calls"] == 4
    assert found["tools_executed"] == ["one", "two", "three", "four"]
    assert list(found) == sorted(found)
    assert found.keys() == {
        "complete_tool_exchanges",
        "current_task_preserved",
        "dropped_exchanges",
        "limit_characters",
        "max_request_characters",
        "mode",
        "model_calls",
        "ok",
        "status",
        "tools_executed",
    }
