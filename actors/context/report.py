"""What was measured and what was left out when a request was fitted."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ..model import Message

__all__ = ["LOW_WATER", "BudgetReport", "PreparedContext", "Profile"]

LOW_WATER = 0.7  # share of the limit that a cut goes down to

Profile: TypeAlias = Literal["source", "strict", "runtime"]


class BudgetReport(msgspec.Struct, frozen=True, kw_only=True):
    """Measures of one fit, in the measure it was made with, and in messages.

    Args:
        before, after: how long the request was as given, and as sent.
        limit: how long it may be.
        dropped_messages: messages left out by this fit.
        dropped_turns: user turns among them.
        dropped_exchanges: tool exchanges among them.
        profile: the rules it was fitted under.
        omitted: messages left out by this fit and those before it.
        notice: whether the request says so; ``left out`` where only the notice
            would have made it too long.
    """

    before: int
    after: int
    limit: int
    dropped_messages: int
    dropped_turns: int
    dropped_exchanges: int
    profile: Profile = "source"
    omitted: int = 0
    notice: Literal["none", "placed", "left out"] = "none"


class PreparedContext(msgspec.Struct, frozen=True, kw_only=True):
    """A request's messages, copied, and the report of how they were fitted."""

    messages: list[Message]
    report: BudgetReport
