from __future__ import annotations

import sys
from decimal import Decimal

import pytest

from perdure import Price
from perdure.models import published_price


def test_a_published_price_is_that_of_a_million_tokens() -> None:
    price = published_price("gpt-4o", provider="openai")
    assert price == published_price("gpt-4o")
    assert price == Price(
        input=Decimal("2.5"), output=Decimal(10), cached_input=Decimal("1.25")
    )


def test_a_price_that_grows_with_the_request_is_that_of_small_ones() -> None:
    price = published_price("gemini-2.5-pro", provider="google")
    assert price is not None
    assert (price.input, price.output) == (Decimal("1.25"), Decimal(10))


def test_an_unknown_model_has_no_price() -> None:
    assert published_price("no-such-model") is None
    assert published_price("gpt-4o", provider="nobody") is None


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(ImportError, match=r"pip install 'perdure\[prices\]'"):
        published_price("gpt-4o")
