"""What the memory service keeps in mind, and how each event changes it. Pure.

The facts themselves stand in rows, written with their events: there is no bound on
how many there are.
"""

from __future__ import annotations

import msgspec

from ..events import Event, FactEnded, FactsErased, FactStated

__all__ = ["MemoryState", "apply"]


class MemoryState(msgspec.Struct, frozen=True, kw_only=True):
    """How many core facts there are; where there are none, nobody need look."""

    version: int = 0
    core: int = 0


def apply(state: MemoryState, event: Event) -> MemoryState:
    """Fold one event of the memory's stream."""
    version = state.version + 1
    match event:
        case FactStated(core=core):
            return MemoryState(version=version, core=state.core + core)
        case FactEnded(core=core):
            return MemoryState(version=version, core=state.core - core)
        case FactsErased():
            return MemoryState(version=version, core=state.core)
    raise TypeError(f"{type(event).__name__} does not belong to the memory")
