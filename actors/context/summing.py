"""The request that asks for a summary; pure, so that it can be repeated."""

from __future__ import annotations

import msgspec

from ..agent import FixedLayer
from ..errors import ContextBudgetError
from .blocks import Block, Window
from .known import Known
from .layers import Assembled, assemble
from .measure import CHARACTERS, Measure
from .summary import Subject, summary_request

__all__ = ["summing"]


def summing(
    layer: FixedLayer, subject: Subject, *, limit: int, measure: Measure = CHARACTERS
) -> Assembled:
    """Ask for a summary of as many of the oldest exchanges as fit; those are `kept`.

    Raises `ContextBudgetError` where not even one does.
    """
    system = {"role": "system", "content": layer.instructions}
    fixed = [Block(id=0, layer="fixed", origin="agent", messages=(system,))]

    def asking(count: int) -> Assembled:
        blocks = subject.blocks[:count]
        taken = msgspec.structs.replace(subject, blocks=blocks)
        last = {
            "role": "user",
            "content": summary_request(taken, limit=limit, measure=measure),
        }
        moving = Block(id=0, layer="task", origin="task", messages=(last,))
        made = assemble(
            fixed,
            [],
            [],
            moving,
            [],
            limit=limit,
            window=Window(),
            known=Known([], measure),
        )
        return msgspec.structs.replace(made, kept=((blocks[0].id, blocks[-1].id),))

    fits, beyond = 1, len(subject.blocks) + 1
    best = asking(fits)
    while beyond - fits > 1:
        count = (fits + beyond) // 2
        try:
            best, fits = asking(count), count
        except ContextBudgetError:
            beyond = count
    return best
