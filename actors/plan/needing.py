"""Which steps stand on another. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ..events import PlanStep

__all__ = ["needing"]


def needing(steps: Sequence[PlanStep], step: str) -> tuple[str, ...]:
    """Return `step` and all that need it, directly or through others, in their order.

    Args:
        steps: a plan, in any order; what it does not name is needed by nobody.
    """
    found = {step}
    grown = True
    while grown:
        more = {one.id for one in steps if found.intersection(one.needs)}
        grown = not more <= found
        found |= more
    return tuple(one.id for one in steps if one.id in found)
