"""What of an ended task's ledger is scratch: the words of what changed nothing. Pure.

Every attempt stays, with how it ended, who said so and what it used. What was asked of
a model or read, and what came back, goes; effects on the world keep theirs.
"""

from __future__ import annotations

import msgspec

from ..events import EffectRecorded, EffectRegistered

__all__ = ["emptied", "is_scratch"]


def is_scratch(event: EffectRegistered) -> bool:
    """Whether an attempt changed nothing outside, so that its words may go."""
    return event.kind == "model" or (event.effect == "read" and event.undoes is None)


def emptied(
    event: EffectRegistered | EffectRecorded,
) -> EffectRegistered | EffectRecorded:
    """The event without its words; folded as before."""
    change = msgspec.structs.replace
    if isinstance(event, EffectRegistered):
        return change(event, arguments="", trimmed=True)
    return change(event, result="", blob="", anchors={})
