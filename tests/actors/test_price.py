from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Agent, Misuse, Price
from perdure.actors.model import Usage
from perdure.actors.price import COST_UNIT, cost_of, cost_text
from perdure.models import ModelReply, Scripted

amounts = st.decimals(0, 10**6, places=9)
counts = st.integers(0, 10**12)


def test_a_call_costs_what_its_tokens_cost_to_the_unit() -> None:
    price = Price(input="2.50", output=10, cached_input=Decimal("1.25"))
    usage = Usage(input_tokens=39_019, output_tokens=5, cached_input_tokens=39_000)
    assert cost_of(price, usage) == 19 * 2_500_000 + 39_000 * 1_250_000 + 50_000_000
    assert cost_text(cost_of(price, usage)) == "0.0488475"


def test_cached_input_costs_what_other_input_does_unless_said() -> None:
    usage = Usage(input_tokens=10, output_tokens=0, cached_input_tokens=4)
    assert cost_of(Price(input=1, output=1), usage) == 10_000_000
    assert cost_of(Price(input=1, output=1, cached_input=0), usage) == 6_000_000


def test_no_more_input_is_cached_than_there_was() -> None:
    usage = Usage(input_tokens=10, output_tokens=0, cached_input_tokens=11)
    assert cost_of(Price(input=1, output=1, cached_input=2), usage) == 20_000_000


def test_what_is_less_than_a_unit_is_rounded_up_once() -> None:
    price = Price(input="0.0000001", output="0.0000001")
    assert cost_of(price, Usage(input_tokens=1, output_tokens=1)) == 1
    assert cost_of(price, Usage(input_tokens=0, output_tokens=0)) == 0


@given(amounts, amounts, amounts, counts, counts, counts)
def test_the_cost_is_the_exact_sum_and_less_than_a_unit_above(
    read: Decimal, written: Decimal, again: Decimal, i: int, o: int, c: int
) -> None:
    price = Price(input=read, output=written, cached_input=str(again))
    cost = cost_of(
        price,
        Usage(input_tokens=i + c, output_tokens=o, cached_input_tokens=c),
    )
    exact = (
        Fraction(read) * i + Fraction(again) * c + Fraction(written) * o
    ) * Fraction(COST_UNIT, 10**6)
    assert 0 <= cost - exact < 1


@pytest.mark.parametrize(
    "value", [-1, "-0.1", 2.5, True, "much", None, Decimal("NaN"), "Infinity", b"1"]
)
@pytest.mark.parametrize("name", ["input", "output", "cached_input"])
def test_a_malformed_price_is_refused_by_field_and_value(name: str, value: Any) -> None:
    if (name, value) == ("cached_input", None):
        return
    fields: dict[str, Any] = {"input": 1, "output": 1, name: value}
    with pytest.raises(Misuse, match=name) as caught:
        Price(**fields)
    assert repr(value) in str(caught.value)


def test_an_agents_price_is_a_price() -> None:
    model = Scripted(lambda _: ModelReply())
    with pytest.raises(Misuse, match="price=3"):
        Agent(name="a", instructions="", model=model, price=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (0, "0"),
        (1, "0.000000000001"),
        (10 * COST_UNIT, "10"),
        (1_500_000_000_000, "1.5"),
        (-1_500_000_000_000, "-1.5"),
    ],
)
def test_a_cost_is_shown_whole_and_without_an_exponent(cost: int, text: str) -> None:
    assert cost_text(cost) == text
