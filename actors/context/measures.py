"""The measures by name, and those that a host brings along.

`characters` is A46's and needs no model; `estimate` and ``tokens`` count what a model's
window is counted in, the first from above and without a tokenizer, the second exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ..errors import ContextBudgetError, Misuse
from .estimate import estimated_tokens
from .exact import ENCODING, counter
from .measure import CHARACTERS, Measure, canonical

__all__ = ["AnyMeasure", "chosen", "counts_tokens", "named"]

FRAME = 10  # tokens around the messages and the tools of a request
SEAM = 1  # token between two messages
THOUSAND = 1_000

AnyMeasure: TypeAlias = str | Measure | Callable[[Any], int]


class _Tokens:
    """Tokens of canonical JSON: of each message, of the tools, and of their frame.

    `scale` is what a provider counted for each thousand of ours; it is applied to the
    whole, so that parts that were measured before need not be measured again.
    """

    def __init__(
        self, name: str, count: Callable[[str], int], scale: int = THOUSAND
    ) -> None:
        self.name = name
        self._count = count
        self._scale = scale

    def part(self, value: Any) -> int:
        return self._count(canonical(value))

    def total(self, messages: int, content: int, schemas: int) -> int:
        found = content + schemas + messages * SEAM + FRAME
        return -(-found * self._scale // THOUSAND)


class _Foreign:
    """A host's own measure, each answer of which is checked."""

    def __init__(self, measure: Measure | Callable[[Any], int]) -> None:
        self._part: Any = getattr(measure, "part", measure)
        self._total: Any = getattr(measure, "total", _sum)
        found = getattr(measure, "name", None) or getattr(measure, "__name__", None)
        self.name = found if isinstance(found, str) else type(measure).__name__

    def part(self, value: Any) -> int:
        return self._checked(self._part(value))

    def total(self, messages: int, content: int, schemas: int) -> int:
        return self._checked(self._total(messages, content, schemas))

    def _checked(self, size: Any) -> int:
        if type(size) is not int or size < 0:
            raise ContextBudgetError(
                f"measure {self.name} answered {size!r}; it must be a whole number of "
                "at least 0"
            )
        return size


def named(name: str, scale: int = THOUSAND) -> Measure:
    """Return the measure of that name.

    Args:
        name: ``characters``, ``estimate``, ``tokens``, or ``tokens:ENCODING`` with an
            encoding of splintr-rs (``cl100k_base``, ``llama3``, ``qwen3`` …).
        scale: thousandths; only the estimate is moved by it.

    Raises Misuse for a name that is none, and where the extra is not installed.
    """
    if name == "characters":
        return CHARACTERS
    if name == "estimate":
        return _Tokens("estimated tokens", estimated_tokens, scale)
    kind, _, encoding = name.partition(":") if isinstance(name, str) else ("", "", "")
    if name == "tokens" or (kind == "tokens" and encoding):
        return _Tokens(f"{encoding} tokens".strip(), counter(encoding or ENCODING))
    raise Misuse(
        f"measure={name!r} is no measure: give 'characters', 'estimate', 'tokens' or "
        "'tokens:ENCODING'"
    )


def counts_tokens(name: str) -> bool:
    """Whether a measure counts what a model's window and its replies are counted in."""
    return name != CHARACTERS.name


def chosen(measure: AnyMeasure) -> Measure:
    """Return the measure that is meant: a name, a `Measure`, or a function.

    A function measures one message, or the list of tools; a request is the sum of its
    parts. Raises Misuse for what is none.
    """
    if measure is CHARACTERS:
        return CHARACTERS
    if isinstance(measure, str):
        return named(measure)
    whole = callable(getattr(measure, "part", None)) and callable(
        getattr(measure, "total", None)
    )
    if not whole and not callable(measure):
        raise Misuse(
            f"measure={measure!r} is no measure: give a name, a function of a message, "
            "or an object with name, part and total"
        )
    return _Foreign(measure)


def _sum(messages: int, content: int, schemas: int) -> int:
    return content + schemas
