"""Which texts can be stored: a journal holds UTF-8, and so do requests."""

from __future__ import annotations

__all__ = ["is_storable"]


def is_storable(text: str) -> bool:
    """Tell whether text can be stored: it holds no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
