"""The prices that providers publish, as the package genai-prices collects them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ..actors.price import Price

__all__ = ["published_price"]


def published_price(model: str, provider: str | None = None) -> Price | None:
    """The published price of a model in US dollars, or None where none is known.

    It is the price of the installed genai-prices: nothing is fetched, and a newer price
    needs a newer package. Where it grows with the request it is that of small ones; for
    requests of 100,000 tokens and more give a `Price` by hand.

    Args:
        model: the model's name as its provider knows it.
        provider: as genai-prices names it (``openai``); None finds one by the model.

    Raises:
        ImportError: the extra is not installed.
    """
    try:
        from genai_prices import Usage, calc_price
    except ImportError as error:
        raise ImportError(
            "published_price needs genai-prices: pip install 'perdure[prices]'"
        ) from error
    try:
        found = calc_price(
            Usage(input_tokens=0, output_tokens=0), model, provider_id=provider
        )
    except LookupError:
        return None
    prices = found.model_price
    read = _smallest(getattr(prices, "input_mtok", None))
    written = _smallest(getattr(prices, "output_mtok", None))
    if read is None or written is None:
        return None
    again = _smallest(getattr(prices, "cache_read_mtok", None))
    return Price(input=read, output=written, cached_input=again)


def _smallest(price: Any) -> Decimal | None:
    amount = getattr(price, "base", price)
    return amount if isinstance(amount, Decimal) else None
