"""How text is split into words for the index of the record, and for a query. Pure.

Both sides are split by the same rules, so what stands in a text is found by a piece of
it: a word, a part of an identifier, or any two characters of a script that is written
without spaces. A query is only ever words: nothing in it is syntax.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterator
from itertools import pairwise

import msgspec

__all__ = ["Wanted", "holds", "spans", "wanted", "words"]

WORD = 64  # characters of a word that count
QUERY = 1_000  # characters of a query that are looked at
ASKED = 32  # words of a query that count

JOINT = "\u00b7"  # stands for what joins the parts of an identifier: no word holds it

# Scripts without spaces between words, and Hangul, where endings stick to them: Thai,
# Lao, Burmese, Khmer; kana, bopomofo, Han with its later blocks, Hangul. The two marks
# that make a kana voiced are not among them: normalised text has none of its own.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u3096\u309d-\u30ff"
    "\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_LETTER = rf"[^\W_{_UNSPACED}]"
_RUN = re.compile(
    rf"(?P<unspaced>[{_UNSPACED}]+)|(?P<word>{_LETTER}+(?:[-_.]+{_LETTER}+)*)"
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_JOINTS = re.compile(r"[-_.]+")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A word of a query: a text has it `whole` or in all its `parts`."""

    whole: str
    parts: tuple[str, ...]

    @property
    def terms(self) -> tuple[str, ...]:
        """All that a text may hold of it, the whole first."""
        return tuple(dict.fromkeys((self.whole, *self.parts)))


def words(text: str) -> list[str]:
    """Return all words of a text, in order, with repetitions.

    An identifier is there whole and in parts (`gen-itgc`, `order_id`, `orderId`),
    Chinese, Japanese and Korean as single characters and as pairs. Case and width of
    letters do not matter.
    """
    found: list[str] = []
    for run in _runs(text):
        if run.lastgroup == "unspaced":
            signs = run[0]
            found += signs
            found += map("".join, pairwise(signs))
        else:
            whole, parts = _identifier(run[0])
            found.append(whole)
            if parts != [whole]:
                found += parts
    return found


def wanted(query: str) -> tuple[Wanted, ...]:
    """Return the words that a query asks for.

    Empty for a query without any (punctuation, or nothing at all). Of three and more
    Chinese characters in a row all pairs are asked for.
    """
    found: dict[Wanted, None] = {}
    for run in _runs(query[:QUERY]):
        if run.lastgroup == "unspaced":
            signs = run[0][:WORD]
            pairs = tuple(map("".join, pairwise(signs))) or (signs,)
            found[Wanted(whole=pairs[0] if len(pairs) == 1 else "", parts=pairs)] = None
        else:
            whole, parts = _identifier(run[0])
            found[Wanted(whole=whole, parts=tuple(parts))] = None
    return tuple(found)[:ASKED]


def holds(terms: Container[str], word: Wanted) -> bool:
    """Tell whether a text with these words has what a query's word asks for."""
    return word.whole in terms or all(part in terms for part in word.parts)


def spans(text: str, query: tuple[Wanted, ...]) -> list[tuple[int, int]]:
    """Return where words of a query stand in a text: first and last character + 1.

    Nothing where the text as it was written is longer or shorter than the normal form
    of it that the index is made from.
    """
    terms = {term for word in query for term in word.terms}
    normal = unicodedata.normalize("NFKC", text)
    if len(normal) != len(text):
        return []
    found: list[tuple[int, int]] = []
    for run in _RUN.finditer(normal):
        if run.lastgroup == "unspaced":
            found += [
                (place, place + size)
                for size in (2, 1)
                for place in range(run.start(), run.end() - size + 1)
                if normal[place : place + size] in terms
            ]
        else:
            whole, parts = _identifier(run[0])
            if whole in terms or not terms.isdisjoint(parts):
                found.append(run.span())
    return sorted(found)


def _runs(text: str) -> Iterator[re.Match[str]]:
    return _RUN.finditer(unicodedata.normalize("NFKC", text))


def _identifier(run: str) -> tuple[str, list[str]]:
    """An identifier as one word, and its parts; a plain word is its only part."""
    if run.isalnum() and run.islower():
        plain = run.casefold()[:WORD]
        return plain, [plain]
    pieces = [part for joined in _JOINTS.split(run) for part in _HUMP.split(joined)]
    whole = _JOINTS.sub(JOINT, run).casefold()[:WORD]
    return whole, [piece.casefold()[:WORD] for piece in pieces]
