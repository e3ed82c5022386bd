"""What a model's tokens cost, exact; a price not given is unknown, never zero."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import msgspec

from .errors import Misuse
from .model import Usage

__all__ = ["COST_UNIT", "Price", "cost_of", "cost_text"]

COST_UNIT = 10**12  # units of cost in one unit of the currency
TOKENS_PRICED = 10**6  # prices are for a million tokens, as providers print them


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """The price of a million tokens, in the currency of the budgets.

    Args:
        input, output: exact amounts (`Decimal`, int or text); a float is refused.
        cached_input: of input tokens that the provider had in its cache; None where
            they cost what others do.

    Raises:
        Misuse: naming the field and the value.
    """

    input: Decimal | int | str
    output: Decimal | int | str
    cached_input: Decimal | int | str | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None or name != "cached_input":
                _amount(name, value)


def _amount(name: str, value: object) -> Fraction:
    try:
        if isinstance(value, bool) or not isinstance(value, Decimal | int | str):
            raise ValueError
        amount = Decimal(value)
        if not amount.is_finite() or amount < 0:
            raise ValueError
    except (ValueError, ArithmeticError):
        raise Misuse(
            f"Price: {name}={value!r} must be an exact amount of at least 0 for a "
            "million tokens (Decimal('2.50'), 2 or '2.50')"
        ) from None
    return Fraction(amount)


def cost_of(price: Price, usage: Usage) -> int:
    """The cost of one call in units of 10^-12, rounded up once, over its whole sum."""
    cached = min(usage.cached_input_tokens, usage.input_tokens)
    again = price.input if price.cached_input is None else price.cached_input
    total = (
        _amount("input", price.input) * (usage.input_tokens - cached)
        + _amount("cached_input", again) * cached
        + _amount("output", price.output) * usage.output_tokens
    )
    return math.ceil(total * COST_UNIT / TOKENS_PRICED)


def cost_text(cost: int) -> str:
    """A cost in units of 10^-12 as an exact decimal, without an exponent."""
    whole, rest = divmod(abs(cost), COST_UNIT)
    sign = "-" if cost < 0 else ""
    return f"{sign}{whole}.{rest:012}".rstrip("0").rstrip(".")
