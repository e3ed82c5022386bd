"""What a sub-task may use of its parent's money, and what it is charged for. Pure.

The parent's account sets a share aside as one reservation, and settles it by what the
sub-task really used: nothing of it is in two places. What the sub-task was given from
outside, by `extend`, is used last and never charged to its parent.
"""

from __future__ import annotations

import msgspec

from ..events import Amounts
from .account import FLOORED, AccountState, Books, add

__all__ = ["charged", "portion"]


def portion(
    state: AccountState, own: Amounts, wanted: Amounts, *, floor: float
) -> Amounts:
    """The amounts to set aside for a sub-task that is to get `wanted`.

    Of every other dimension that the account limits it gets half of what is free above
    the floor, so that a second one can still start. `own` is what the call itself uses.
    """
    given = dict(wanted)
    for name, available in state.available.items():
        if name not in given:
            keep = int(state.granted[name] * floor) if name in FLOORED else 0
            given[name] = max(0, available - keep - own.get(name, 0)) // 2
    return add(given, own)


def charged(books: Books, granted: Amounts) -> Books:
    """What of a sub-task's books its parent pays: up to the grant, `spent` first."""
    left = dict(granted)
    found: dict[str, Amounts] = {}
    for book in ("spent", "unknown", "recovery"):
        used: Amounts = getattr(books, book)
        paid = {name: min(n, left.get(name, n)) for name, n in used.items()}
        for name, n in paid.items():
            if name in left:
                left[name] -= n
        found[book] = paid
    return msgspec.convert(found, Books)
