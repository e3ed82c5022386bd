"""How far a provider's count of input tokens is from the estimate that gates requests.

Of one task, by what its own calls were told: a small figure, folded from its events.
"""

from __future__ import annotations

import msgspec

from ..budget.estimates import LEAST, RATIOS, THOUSAND

__all__ = ["Seen", "scale_of", "seen_after"]

MARGIN = 1_100  # of a thousand: where the estimate is lowered, a tenth is left


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What providers counted for each thousand tokens of the estimate.

    Args:
        calls: how many said so.
        most: the largest of them, in thousandths.
    """

    calls: int = 0
    most: int = 0


def seen_after(seen: Seen, *, estimated: int, reported: int) -> Seen:
    """What is known after one more call; figures that say nothing change nothing."""
    if estimated < 1 or reported < 1:
        return seen
    share = -(-reported * THOUSAND // estimated)
    return Seen(calls=min(seen.calls + 1, LEAST), most=max(seen.most, share))


def scale_of(seen: Seen) -> int:
    """The thousandths to multiply the estimate by: never below what was seen.

    One call is enough to raise it, `LEAST` are needed to lower it; no estimate is moved
    beyond `RATIOS`, whatever a provider says.
    """
    if seen.calls == 0:
        return THOUSAND
    low, high = RATIOS
    most = max(low, min(high, seen.most))
    if most >= THOUSAND:
        return most
    if seen.calls < LEAST:
        return THOUSAND
    return min(THOUSAND, most * MARGIN // THOUSAND)
