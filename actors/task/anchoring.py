"""The task's part for anchors: what of an outcome stays before the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..anchors import admit
from ..events import Anchor, AnchorsRefused
from ..protocol import Replied

if TYPE_CHECKING:
    from .actor import Task

__all__ = ["admitted"]


def admitted(
    task: Task, outcome: Replied
) -> tuple[dict[str, Anchor], list[AnchorsRefused]]:
    """The anchors of an outcome that the task keeps, and the event of the others."""
    if not outcome.anchors:
        return {}, []
    rules = task.house.baseline
    kept, refused = admit(
        task.state.anchors,
        outcome.anchors,
        names=rules.anchor_names,
        characters=rules.anchor_characters,
    )
    return kept, [AnchorsRefused(op=outcome.op, refused=refused)] if refused else []
