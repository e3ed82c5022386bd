"""What a text is about, as units that can be compared across its spellings. Pure.

A unit is a stem of a word in Latin, Greek or Cyrillic letters, two neighbouring
characters of Chinese, Japanese or Korean, a date (``2023-05``, however it was written)
or a value: what no two topics share by chance, such as an id, a path or a number.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator

from .stopwords import EMPTY, SQL

__all__ = ["READ", "is_time", "is_value", "names_in", "units"]

READ = 4_000  # characters of a text that are looked at
EAST = (
    "\u3005\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\U00020000-\U0003134f"
)
TOKEN = re.compile(rf"[{EAST}]+|[^\W{EAST}]+(?:[-./:@#\\+]+[^\W{EAST}]+)*")
EASTERN = re.compile(rf"[{EAST}]")
HIRAGANA = re.compile("[\u3040-\u309f]{2}")  # endings and particles
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
PART = re.compile(r"[^\W_]+")
PROPER = re.compile(r"(?<=[a-z,;:'] )[A-Z]\w+|\b[A-Z][a-z]+[A-Z]\w*")  # in a sentence
JOINED = re.compile(r"[_./:@#\\]")
SEVERAL = re.compile(r"[\s,;{}\[\]]")
PLACE = re.compile(r"[/:@\\]")
SHORT = 5  # characters below which what is joined by a dot is no value
YEAR = re.compile(r"(?:19|20)\d\d")
MONTH = re.compile(r"month \d\d")
_MONTHS = "january february march april may june july august september october "
MONTHS = f"{_MONTHS} november december".split()
_MONTH = "|".join(f"{name[:3]}[a-z]*" for name in MONTHS)
_NAMED = "|".join(name.title() for name in MONTHS)
SOME_DATE = re.compile(rf"(?:19|20)\d\d|[月\uC6D4]|{_NAMED}")  # most texts have none
DATE = re.compile(
    r"(?<!\d)((?:19|20)\d\d)(?:\s*[-/.年\uB144]\s*(1[0-2]|0?[1-9])(?!\d)"
    r"(?:\s*[-/.月\uC6D4]\s*(3[01]|[12]\d|0?[1-9])(?!\d))?"
    r"|(0[1-9]|1[0-2])(3[01]|[12]\d|0[1-9])(?!\d))\s*[月日\uC6D4\uC77C]?"
)
DATE_IN_WORDS = re.compile(
    rf"\b(?:(?:\d{{1,2}}(?:st|nd|rd|th)?\s+)?({_MONTH})\.?(?:\s+\d{{1,2}},)?\s+"
    rf"((?:19|20)\d\d)|((?:19|20)\d\d)\s+({_MONTH}))\b",
    re.IGNORECASE,
)
MONTH_ALONE = re.compile(rf"\b({_NAMED})\b|(?<!\d)(1[0-2]|[1-9])\s*[月\uC6D4]")

ENDINGS = ("ments", "ment", "ings", "ing", "edly", "ed", "ers", "er", "ly", "es", "s")


def units(text: str) -> dict[str, str]:
    """The units of a text, each with the words that it stood there as."""
    text = text[:READ]
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    found: dict[str, str] = {}
    if SOME_DATE.search(text):
        for pattern in (DATE, DATE_IN_WORDS, MONTH_ALONE):
            for match in pattern.finditer(text):
                for unit in _date(match):
                    found.setdefault(unit, match[0].strip())
            text = pattern.sub(" ", text)
    for token in dict.fromkeys(TOKEN.findall(text)):
        for unit, word in _token(token):
            found.setdefault(unit, word)
    return found


def names_in(text: str) -> set[str]:
    """The values of a result, its proper names, and what stands in it alone: no prose.

    A name stands alone where a line, or a text of its JSON, is one word. The details of
    a result's prose are what may pull a task away from its goal; names are what it
    works with.
    """
    text = text[:READ]
    lines = (line.strip(" \t,-*•") for line in re.split(r'["\n]', text))
    alone = (word for word in lines if word and len(word) <= 64)
    alone = (word for word in alone if not SEVERAL.search(word))
    names = " ".join(dict.fromkeys([*alone, *PROPER.findall(text)]))
    return units(names).keys() | set(filter(is_value, units(text)))


def is_value(unit: str) -> bool:
    """Whether two texts that share this unit are about the same thing."""
    if is_time(unit):
        return False
    return any(char.isdigit() for char in unit) or bool(JOINED.search(unit))


def is_time(unit: str) -> bool:
    """Whether a unit is a year or a month: many topics share one."""
    return bool(YEAR.fullmatch(unit) or MONTH.fullmatch(unit))


def _date(match: re.Match[str]) -> Iterator[str]:
    if match.re is MONTH_ALONE:
        month = match[2] or str(MONTHS.index(match[1].lower()) + 1)
        yield f"month {int(month):02}"
        return
    if match.re is DATE:
        year, month, day = match[1], match[2] or match[4], match[3] or match[5]
    else:
        year, day = match[2] or match[3], None
        word = (match[1] or match[4]).lower()
        month = str([name[:3] for name in MONTHS].index(word[:3]) + 1)
    yield f"{year}-{int(month):02}"
    if day:
        yield f"{year}-{int(month):02}-{int(day):02}"
    yield year
    yield f"month {int(month):02}"


def _token(token: str) -> Iterator[tuple[str, str]]:
    if EASTERN.match(token):
        for left, right in itertools.pairwise(token):
            if not HIRAGANA.fullmatch(left + right):
                yield left + right, left + right
        return
    if token.isalpha() and token.islower():  # most are, and nothing else
        if len(token) > 1 and not _empty(token):
            yield _stem(token), token
        return
    for piece in dict.fromkeys((token, *PLACE.split(token))):
        folded = piece.casefold()
        digits = sum(char.isdigit() for char in folded)
        joined = JOINED.search(folded) is not None and len(folded) >= SHORT
        mixed = 0 < digits < len(folded) and len(folded) >= 3
        if digits >= 3 or joined or mixed:
            yield folded, piece
    for part in PART.findall(token):
        for word in CAMEL.split(part):
            folded = word.casefold()
            empty = _empty(folded) or word in SQL or folded.isdecimal()
            if len(folded) > 1 and not empty:
                yield _stem(folded), word


def _empty(word: str) -> bool:
    return word in EMPTY or word.removesuffix("s") in EMPTY


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word
