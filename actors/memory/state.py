"""What the memory service knows, and how each event changes it. Pure."""

from __future__ import annotations

import msgspec

from ..events import Event

__all__ = ["MemoryState", "apply"]


class MemoryState(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing yet but the version of the stream."""

    version: int = 0


def apply(state: MemoryState, event: Event) -> MemoryState:
    """Fold one event of the memory's stream."""
    raise TypeError(f"{type(event).__name__} does not belong to the memory")
