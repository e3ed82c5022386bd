"""One call of a tool in short, as records hold it: nearly all amounts are of one."""

from __future__ import annotations

import functools
from typing import TypeAlias

__all__ = ["Amounts", "in_full", "in_short"]

Amounts: TypeAlias = dict[str, int]

TIMED = "call:"  # name of the tool, and milliseconds that one call of it took
COUNTED = "calls:"  # name of the tool, and how many calls of it are meant


def in_short(amounts: Amounts) -> Amounts:
    """The amounts as they are stored; `in_full` gives them back."""
    if "tool_calls" not in amounts or len(amounts) > 3:
        return amounts
    return _short(tuple(amounts.items())) or amounts


def in_full(amounts: Amounts) -> Amounts:
    """The amounts by dimension; those that are stored in full are given back."""
    if len(amounts) != 1:
        return amounts
    (one,) = amounts.items()
    return _full(one) or amounts


@functools.lru_cache(maxsize=1024)  # as amounts of events, nobody changes them
def _short(amounts: tuple[tuple[str, int], ...]) -> Amounts | None:
    others = dict(amounts)
    calls = others.pop("tool_calls")
    took = others.pop("milliseconds", None)
    if len(others) != 1:
        return None
    ((dimension, n),) = others.items()
    if n != calls or not dimension.startswith("tool:"):
        return None
    name = dimension.removeprefix("tool:")
    if took is None:
        return {COUNTED + name: calls}
    return {TIMED + name: took} if calls == 1 else None


@functools.lru_cache(maxsize=1024)
def _full(one: tuple[str, int]) -> Amounts | None:
    name, n = one
    if name.startswith(TIMED):
        return {
            "milliseconds": n,
            f"tool:{name.removeprefix(TIMED)}": 1,
            "tool_calls": 1,
        }
    if name.startswith(COUNTED):
        return {f"tool:{name.removeprefix(COUNTED)}": n, "tool_calls": n}
    return None
