"""One call of a tool in short, as records hold it: nearly all amounts are of one."""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["Amounts", "in_full", "in_short"]

Amounts: TypeAlias = dict[str, int]

TIMED = "call:"  # name of the tool, and milliseconds that one call of it took
COUNTED = "calls:"  # name of the tool, and how many calls of it are meant


def in_short(amounts: Amounts) -> Amounts:
    """The amounts as they are stored; `in_full` gives them back."""
    calls = amounts.get("tool_calls")
    timed = "milliseconds" in amounts
    if calls is None or len(amounts) != 2 + timed:
        return amounts
    for name, n in amounts.items():
        if name.startswith("tool:") and n == calls:
            tool = name.removeprefix("tool:")
            if not timed:
                return {COUNTED + tool: calls}
            return {TIMED + tool: amounts["milliseconds"]} if n == 1 else amounts
    return amounts


def in_full(amounts: Amounts) -> Amounts:
    """The amounts by dimension; those that are stored in full are given back."""
    if len(amounts) != 1:
        return amounts
    ((name, n),) = amounts.items()
    if name.startswith(TIMED):
        tool = name.removeprefix(TIMED)
        return {"milliseconds": n, f"tool:{tool}": 1, "tool_calls": 1}
    if name.startswith(COUNTED):
        return {f"tool:{name.removeprefix(COUNTED)}": n, "tool_calls": n}
    return amounts
