"""A newest exchange that alone overflows: its bulky results become references.

Only what the fitter may not drop is shrunk, and only as far as needed. Older results
that do so are `layers.assemble`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..errors import ContextBudgetError
from ..model import ToolSchema
from .blocks import Block, Window
from .known import Known
from .layers import Assembled, assemble
from .references import by_reference
from .report import LOW_WATER

__all__ = ["assemble_shrinking"]

KEEP = (4_000, 2_000, 1_000, 500, 250)  # characters of each result, first that fits


def assemble_shrinking(
    fixed: Sequence[Block],
    stable: Sequence[Block],
    scratch: Sequence[Block],
    moving: Block,
    tools: Sequence[ToolSchema],
    *,
    limit: int,
    window: Window,
    low_water: float = LOW_WATER,
    known: Known | None = None,
) -> Assembled:
    """`assemble`, with the newest exchange's results shrunk where they overflow.

    Takes what `assemble` takes and raises what it raises, where even references do
    not fit. Same input, same bytes.
    """
    known = known or Known()
    rules: dict[str, Any] = {
        "limit": limit,
        "window": window,
        "low_water": low_water,
        "known": known,
    }
    try:
        return assemble(fixed, stable, scratch, moving, tools, **rules)
    except ContextBudgetError as error:
        if not scratch:
            raise
        refused = error
    *older, newest = scratch
    for keep in KEEP:
        shorter = by_reference(newest, opens=known.opens, keep=keep)
        if shorter is newest:
            continue
        try:
            made = assemble(fixed, stable, [*older, shorter], moving, tools, **rules)
        except ContextBudgetError as error:
            refused = error
            continue
        return _told(made, newest, limit, known)
    raise refused


def _told(made: Assembled, newest: Block, limit: int, known: Known) -> Assembled:
    """Say of the newest block that it is a reference, and how long it is whole."""
    whole = sum(map(known.measure.part, newest.messages))
    why = f"alone it is too much for {limit} {known.measure.name}"
    fates = tuple(
        msgspec.structs.replace(one, fate="referenced", why=why, before=whole)
        if one.layer == "scratch" and one.block == newest.id
        else one
        for one in made.fates
    )
    return msgspec.structs.replace(made, fates=fates)
