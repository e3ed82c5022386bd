"""Names and values in a text: what a summary must not lose, and may not make up."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

__all__ = ["codes_of", "holds", "numbers", "values_of"]

_EDGE = r"(?<![0-9A-Za-z_])(?:{})(?![0-9A-Za-z_])"  # \b would join CJK to what it holds
_FAILED = re.compile(r"(?:\([^\n]*\)\n)?error: ")
_CODE = re.compile(
    _EDGE.format(
        r"[A-Z]{1,12}[-_]?[0-9]{1,8}"  # E42, ORA-00942
        r"|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+"  # NOT_FOUND
        r"|E[A-Z]{3,}"  # ECONNREFUSED
        r"|[45][0-9]{2}"  # 404
    )
)
_VALUE = re.compile(r"[0-9A-Za-z_](?:[0-9A-Za-z_.:/-]*[0-9A-Za-z_])?")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?")


def codes_of(text: str) -> list[str]:
    """Error codes in a result that says that a call failed; of others none."""
    return _CODE.findall(text) if _FAILED.match(text) else []


def holds(text: str, value: str) -> bool:
    """Whether a text holds a value as a word of its own."""
    return re.search(_EDGE.format(re.escape(value)), text) is not None


def values_of(text: str) -> Iterator[str]:
    """The words of a text that have a digit in them."""
    return (one for one in _VALUE.findall(text) if any(map(str.isdecimal, one)))


def numbers(text: str, *, whole: bool = False) -> Iterator[str]:
    """The numbers in a text, each in one form; ``1,234`` counts as 1234 too.

    With `whole` it counts as that alone, where it may be that.
    """
    text = unicodedata.normalize("NFKC", text)
    for match in _GROUPED.finditer(text):
        yield _plain(match[0].replace(",", ""))
    if whole:
        text = _GROUPED.sub(" ", text)
    for match in _NUMBER.finditer(text):
        yield _plain(match[0])


def _plain(number: str) -> str:
    head, point, tail = number.partition(".")
    head, tail = head.lstrip("0") or "0", tail.rstrip("0")
    return f"{head}.{tail}" if point and tail else head
