"""Exact tokens of a text, by the vocabulary of a model family; the extra `tokens`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ..errors import ContextBudgetError, Misuse

__all__ = ["ENCODING", "counter"]

ENCODING = "o200k_base"  # what current models of OpenAI read


@cache
def counter(encoding: str) -> Callable[[str], int]:
    """Return what counts the tokens of a text; no file is read, nothing is fetched.

    Text that looks like a special token counts as text. Raises Misuse where the extra
    is not installed, or knows no such encoding.
    """
    try:
        import splintr
    except ImportError as error:
        raise Misuse(
            "measure='tokens' needs splintr-rs: pip install 'perdure[tokens]', or take "
            "measure='estimate', which needs nothing"
        ) from error
    try:
        encode = splintr.Tokenizer.from_pretrained(encoding).encode_ordinary
    except (ValueError, LookupError) as error:
        raise Misuse(f"measure='tokens:{encoding}': {error}") from error

    def count(text: str) -> int:
        try:
            return len(encode(text))
        except UnicodeEncodeError as error:
            raise ContextBudgetError(f"text cannot be tokens: {error}") from error

    return count
