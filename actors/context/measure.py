"""How long a request is: Unicode code points of its canonical JSON.

Anyone can compute the figure again from the messages and the tools. It is neither
model tokens nor HTTP bytes.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from ..errors import ContextBudgetError
from ..model import Message, ToolSchema

__all__ = [
    "CHARACTERS",
    "Measure",
    "canonical",
    "characters",
    "copied",
    "request_characters",
    "request_text",
    "total",
]

JSON = TypeVar("JSON")


class Measure(Protocol):
    """How long a request is, from parts that are each measured once. Pure.

    `part` measures one message, or the list of tools; `total` a whole request from
    the number of its messages, the sum of their parts, and that of the tools.
    """

    name: str

    def part(self, value: Any) -> int: ...

    def total(self, messages: int, content: int, schemas: int) -> int: ...


_ATOMS = frozenset({str, int, float, bool, type(None)})

_ENCODER = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
)


def _encoder() -> Callable[[Any], str]:
    # One encoder for all calls: `JSONEncoder.encode` makes the one that does the work
    # anew each time, which takes as long as a small value takes to be written.
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # another Python
        return _ENCODER.encode
    parts = make(
        None,  # no marks against cycles: they end at the interpreter's own limit
        _ENCODER.default,
        json.encoder.encode_basestring,
        None,
        _ENCODER.key_separator,
        _ENCODER.item_separator,
        _ENCODER.sort_keys,
        _ENCODER.skipkeys,
        _ENCODER.allow_nan,
    )
    return lambda value: "".join(parts(value, 0))


_encode = _encoder()


def canonical(value: Any) -> str:
    """Return the one JSON text of `value`: keys sorted, no spaces, no escapes.

    Raises `ContextBudgetError` for what is not finite JSON data: NaN, bytes,
    cycles, keys of mixed types, nesting beyond the interpreter's limit.
    """
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ContextBudgetError(
            f"request must contain finite JSON data: {error}"
        ) from error


def copied(value: JSON) -> JSON:
    """Return a deep copy; `ContextBudgetError` where it is nested too deeply."""
    try:
        found: JSON = _copied(value)
    except RecursionError as error:
        raise ContextBudgetError("request is nested too deeply") from error
    return found


def _copied(value: Any) -> Any:
    # `deepcopy` takes ten times as long, and each request is copied whole, twice.
    kind = type(value)
    if kind is dict:
        return {name: _copied(item) for name, item in value.items()}
    if kind is list:
        return [_copied(item) for item in value]
    return value if kind in _ATOMS else copy.deepcopy(value)


def characters(value: Any) -> int:
    """Return the length of `value` in canonical JSON, in code points."""
    return len(canonical(value))


def request_text(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
    """Return the canonical JSON of a whole request, which its digest is made from."""
    return canonical({"messages": list(messages), "tools": list(tools)})


def request_characters(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> int:
    """Return the length of a whole request, tool schemas included, in code points."""
    return len(request_text(messages, tools))


_FRAME = request_characters([], []) - characters([])


def total(messages: int, content: int, schemas: int) -> int:
    """Return `request_characters` from parts that were measured before.

    Args: the number of messages, the sum of their `characters`, and the
    `characters` of the list of tools.
    """
    return _FRAME + schemas + content + max(messages - 1, 0)


class _Characters:
    """Code points of the whole request's canonical JSON, exactly."""

    name = "characters"

    def part(self, value: Any) -> int:
        return characters(value)

    def total(self, messages: int, content: int, schemas: int) -> int:
        return total(messages, content, schemas)


CHARACTERS: Measure = _Characters()
