from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from perdure import Budget, Misuse
from perdure.actors.budget.account import (
    AccountState,
    Refusal,
    add,
    alerts,
    apply,
    conserved,
    left_over,
    limits_of,
    refusal,
    shown,
    unpriced,
)
from perdure.actors.events import (
    AccountClosed,
    Amounts,
    GrantTaken,
    Held,
    Reserved,
    Settled,
    TaskClosed,
)


def account(**granted: int) -> AccountState:
    return apply(AccountState(), GrantTaken(grant="g", amounts=granted))


def reserved(state: AccountState, op: int, **amounts: int) -> AccountState:
    return apply(state, Reserved(op=op, attempt=1, book="spent", amounts=amounts))


def settled(state: AccountState, op: int, **amounts: int) -> AccountState:
    return apply(state, Settled(op=op, attempt=1, book="spent", amounts=amounts))


def test_ten_reservations_of_twenty_on_a_hundred_let_five_through() -> None:
    # K29 B62 B63
    state = account(tokens=100)
    admitted = []
    for op in range(10):
        if refusal(state, {"tokens": 20}, floor=0.0) is None:
            state = reserved(state, op, tokens=20)
            admitted.append(op)
    assert admitted == [0, 1, 2, 3, 4]
    for op in (0, 1, 2):
        state = settled(state, op, tokens=5)
    assert state.available == {"tokens": 45}
    assert refusal(state, {"tokens": 20}, floor=0.0) is None


def test_an_estimate_may_go_down_to_the_floor_and_not_below() -> None:
    # K30 B77 B78
    state = settled(reserved(account(tokens=100), 1, tokens=70), 1, tokens=70)
    assert refusal(state, {"tokens": 20}, floor=0.10) is None
    assert refusal(state, {"tokens": 21}, floor=0.10) == Refusal(
        dimension="tokens", limit=100, requested=21, remaining=30
    )
    assert refusal(state, {"tokens": 30}, floor=0.10, closing=True) is None
    assert refusal(state, {"tokens": 31}, floor=0.10, closing=True) is not None


def test_the_floor_is_rounded_down_and_not_kept_for_tool_calls() -> None:
    assert refusal(account(tokens=19), {"tokens": 18}, floor=0.10) is None
    assert refusal(account(tool_calls=10), {"tool_calls": 10}, floor=0.10) is None


def test_each_dimension_is_limited_on_its_own() -> None:
    # B60
    state = account(tokens=1000, model_calls=1)
    wanted = {"tokens": 10, "model_calls": 1, "tool_calls": 99}
    assert refusal(state, wanted, floor=0.0) is None
    state = reserved(state, 1, **wanted)
    refused = refusal(state, wanted, floor=0.0)
    assert refused is not None
    assert refused.dimension == "model_calls"
    assert "model_calls: 1 wanted, 0 left of 1" in str(refused)


def test_time_that_nobody_estimates_is_refused_only_when_none_is_left() -> None:
    assert refusal(account(milliseconds=1), {"tool_calls": 1}, floor=0.0) is None
    assert refusal(account(milliseconds=0), {"tool_calls": 1}, floor=0.0) is not None


def test_time_that_is_estimated_must_be_left() -> None:
    # B62
    state = reserved(account(milliseconds=100), 1, milliseconds=60)
    assert refusal(state, {"milliseconds": 40}, floor=0.10) is None
    refused = refusal(state, {"milliseconds": 41}, floor=0.0)
    assert str(refused) == "milliseconds: 41 wanted, 40 left of 100"


def test_a_model_call_without_a_price_is_refused_where_cost_is_limited() -> None:
    state = account(cost=1_500_000_000_000, tokens=9)
    call = {"model_calls": 1, "tokens": 5}
    refused = unpriced(state, call)
    assert refused == Refusal(
        dimension="cost",
        limit=1_500_000_000_000,
        requested=None,
        remaining=1_500_000_000_000,
    )
    assert str(refused) == (
        "cost: the price of the call is not known, and 1.5 is left of 1.5; give the "
        "agent a price"
    )
    assert unpriced(state, {**call, "cost": 0}) is None
    assert unpriced(state, {"tool_calls": 1}) is None
    assert unpriced(account(tokens=9), call) is None


def test_a_refusal_says_costs_as_decimals_and_counts_as_they_are() -> None:
    refused = refusal(account(cost=10**12), {"cost": 2 * 10**12}, floor=0.1)
    assert str(refused) == "cost: 2 wanted, 1 left of 1"
    refused = refusal(account(tokens=7), {"tokens": 8}, floor=0.1)
    assert str(refused) == "tokens: 8 wanted, 7 left of 7"


def test_the_floor_is_kept_of_the_cost_too() -> None:
    assert refusal(account(cost=100), {"cost": 90}, floor=0.1) is None
    assert refusal(account(cost=100), {"cost": 91}, floor=0.1) is not None


def test_a_settlement_may_overdraw_by_the_error_of_its_estimate() -> None:
    state = settled(reserved(account(tokens=100), 1, tokens=90), 1, tokens=110)
    assert state.available == {"tokens": -10}
    assert conserved(state) == {}


def test_a_held_reservation_stays_charged_until_it_is_settled_once() -> None:
    # K37
    state = reserved(account(tokens=100), 1, tokens=20)
    state = apply(state, Held(op=1, attempt=1))
    assert state.available == {"tokens": 80}
    assert state.reserved["1#1"].held
    unknown = Settled(op=1, attempt=1, book="unknown", amounts={"tokens": 20})
    state = apply(state, unknown)
    assert (state.books.spent, state.books.unknown) == ({}, {"tokens": 20})
    with pytest.raises(KeyError):
        apply(state, unknown)


def test_books_are_kept_apart_and_nothing_is_spent_by_what_never_ran() -> None:
    state = account(tokens=100)
    for op, book in enumerate(("spent", "unknown", "recovery", "none"), 1):
        state = reserved(state, op, tokens=10)
        amounts = {} if book == "none" else {"tokens": op}
        done: Any = book
        state = apply(state, Settled(op=op, attempt=1, book=done, amounts=amounts))
    books = state.books
    assert (books.spent, books.unknown, books.recovery) == (
        {"tokens": 1},
        {"tokens": 2},
        {"tokens": 3},
    )
    assert state.available == {"tokens": 94}


def test_what_has_no_limit_is_booked_all_the_same() -> None:
    state = settled(reserved(account(tokens=9), 1, tool_calls=1), 1, tool_calls=1)
    assert state.books.spent == {"tool_calls": 1}
    assert state.available == {"tokens": 9}


def test_an_alert_rings_once_at_a_fifth_and_again_after_a_grant() -> None:
    # B81 R16
    state = settled(reserved(account(tokens=100), 1, tokens=79), 1, tokens=79)
    assert alerts(state, threshold=0.2) == []
    state = settled(reserved(state, 2, tokens=1), 2, tokens=1)
    (rung,) = alerts(state, threshold=0.2)
    assert (rung.dimension, rung.granted, rung.available) == ("tokens", 100, 20)
    state = apply(state, rung)
    assert alerts(state, threshold=0.2) == []
    state = apply(state, GrantTaken(grant="more", amounts={"tokens": 0}))
    assert [one.dimension for one in alerts(state, threshold=0.2)] == ["tokens"]


def lowered(state: AccountState, **amounts: int) -> AccountState:
    return apply(state, GrantTaken(grant="less", amounts=amounts))


def test_a_lowered_limit_leaves_what_is_used_used() -> None:
    state = settled(reserved(account(tokens=100), 1, tokens=30), 1, tokens=30)
    state = lowered(state, tokens=-60)
    assert (state.granted, state.available) == ({"tokens": 40}, {"tokens": 10})
    assert left_over(state) == {"tokens": 70}
    assert conserved(state) == {}


def test_an_account_gives_back_less_than_nothing_of_what_it_has_overdrawn() -> None:
    # P3
    state = settled(reserved(account(tokens=100), 1, tokens=90), 1, tokens=105)
    assert left_over(state) == {"tokens": -5}
    state = apply(state, AccountClosed(returned=left_over(state)))
    assert conserved(state) == {}


def test_below_what_is_used_a_lowered_limit_lets_nothing_more_through() -> None:
    # B67
    tool = {"tool_calls": 1}
    state = settled(reserved(account(tokens=100), 1, tokens=41), 1, tokens=41)
    assert refusal(lowered(state, tokens=-59), tool, floor=0.1) is None
    state = lowered(state, tokens=-60)
    refused = refusal(state, tool, floor=0.1, closing=True)
    assert str(refused) == "tokens: 0 wanted, -1 left of 40"
    assert refusal(lowered(state, tokens=1), tool, floor=0.1) is None


def test_an_amount_beyond_an_estimate_stops_no_other_dimension() -> None:
    state = settled(reserved(account(tokens=100), 1, tokens=100), 1, tokens=101)
    assert refusal(state, {"tool_calls": 1}, floor=0.1) is None


def test_a_lowered_limit_rings_no_alert_a_second_time() -> None:
    state = settled(reserved(account(tokens=100), 1, tokens=80), 1, tokens=80)
    (rung,) = alerts(state, threshold=0.2)
    state = lowered(apply(state, rung), tokens=-5)
    assert alerts(state, threshold=0.2) == []


def test_what_was_never_granted_rings_no_alert() -> None:
    assert alerts(account(tokens=0), threshold=0.2) == []


def test_events_of_other_streams_are_refused() -> None:
    with pytest.raises(TypeError, match="TaskClosed"):
        apply(AccountState(), TaskClosed(status="completed"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tokens", -1),
        ("tokens", 1.5),
        ("tokens", True),
        ("tokens", "9"),
        ("input_tokens", -1),
        ("output_tokens", float("nan")),
        ("model_calls", -2),
        ("tool_calls", 0.0),
        ("tools", {"send": -1}),
        ("seconds", -0.1),
        ("seconds", float("inf")),
        ("seconds", float("nan")),
        ("seconds", True),
        ("cost", 1.5),
        ("cost", "-1"),
        ("cost", "a lot"),
        ("cost", Decimal("NaN")),
        ("cost", Decimal("Infinity")),
    ],
)
def test_a_malformed_budget_is_refused_by_field_and_value(
    field: str, value: Any
) -> None:
    with pytest.raises(Misuse, match=field) as caught:
        Budget(**{field: value})
    shown_value = value["send"] if field == "tools" else value
    assert repr(shown_value) in str(caught.value)


def test_zero_is_a_limit_and_none_is_none() -> None:
    # B59
    assert limits_of(Budget(tokens=0, tools={"send": 1}, cost="1.5", seconds=2)) == {
        "tokens": 0,
        "tool:send": 1,
        "cost": 1_500_000_000_000,
        "milliseconds": 2000,
    }
    assert limits_of(Budget()) == {}
    assert limits_of(Budget(cost=0, seconds=0)) == {"cost": 0, "milliseconds": 0}


def test_amounts_are_shown_as_people_read_them() -> None:
    amounts = {
        "cost": 1_500_000_000_000,
        "milliseconds": 1500,
        "tokens": 7,
        "tool_calls": 3,
        "tool:b": 2,
        "tool:a": 1,
    }
    assert shown(amounts) == {
        "cost": "1.5",
        "seconds": 1.5,
        "tokens": 7,
        "tool_calls": {"a": 1, "b": 2},
    }


DIMENSIONS = ("tokens", "model_calls", "tool_calls")
some_amounts = st.dictionaries(st.sampled_from(DIMENSIONS), st.integers(0, 60))


class AccountLife(RuleBasedStateMachine):
    """Any order of events: money is conserved at each, limits hold for admission."""

    def __init__(self) -> None:
        super().__init__()
        self.state = AccountState()
        self.granted: Amounts = {}
        self.errors = 0
        self.next_op = 0

    @initialize(amounts=st.fixed_dictionaries({"tokens": st.integers(0, 200)}))
    def first_grant(self, amounts: Amounts) -> None:
        self.grant(amounts)

    @rule(more=st.integers(0, 50))
    def extend(self, more: int) -> None:
        self.grant({"tokens": more})

    def grant(self, amounts: Amounts) -> None:
        self.granted = add(self.granted, amounts)
        taken = GrantTaken(grant=str(len(self.state.grants)), amounts=amounts)
        self.state = apply(self.state, taken)

    @rule(amounts=some_amounts, book=st.sampled_from(("spent", "recovery")))
    def reserve(self, amounts: Amounts, book: Any) -> None:
        before = self.state.available["tokens"]
        if refusal(self.state, amounts, floor=0.1) is not None:
            return
        self.next_op += 1
        event = Reserved(op=self.next_op, attempt=1, book=book, amounts=amounts)
        self.state = apply(self.state, event)
        if amounts.get("tokens"):
            floor = self.granted["tokens"] // 10
            assert before - amounts["tokens"] >= floor

    @rule(pick=st.randoms(use_true_random=False))
    def hold(self, pick: Any) -> None:
        if self.state.reserved:
            op = int(pick.choice(sorted(self.state.reserved)).split("#")[0])
            self.state = apply(self.state, Held(op=op, attempt=1))

    @rule(
        pick=st.randoms(use_true_random=False),
        used=some_amounts,
        book=st.sampled_from(("spent", "unknown", "recovery", "none")),
    )
    def settle(self, pick: Any, used: Amounts, book: Any) -> None:
        if not self.state.reserved:
            return
        key = pick.choice(sorted(self.state.reserved))
        aside = self.state.reserved[key].amounts
        amounts = {} if book == "none" else used
        self.errors += max(0, amounts.get("tokens", 0) - aside.get("tokens", 0))
        op = int(key.split("#")[0])
        event = Settled(op=op, attempt=1, book=book, amounts=amounts)
        self.state = apply(self.state, event)
        assert key not in self.state.reserved

    @invariant()
    def money_is_conserved(self) -> None:
        assert conserved(self.state) == {}

    @invariant()
    def the_limit_is_passed_by_the_errors_of_estimates_at_most(self) -> None:
        assert self.state.available.get("tokens", 0) >= -self.errors

    def teardown(self) -> None:
        for key in list(self.state.reserved):
            op = int(key.split("#")[0])
            event = Settled(op=op, attempt=1, book="none", amounts={})
            self.state = apply(self.state, event)
        left = left_over(self.state)
        self.state = apply(self.state, AccountClosed(returned=left))
        assert conserved(self.state) == {}
        assert not any(self.state.available.values())
        assert self.state.closed


TestAccountLife = AccountLife.TestCase  # P3
