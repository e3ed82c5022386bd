"""Crash loops: how many recoveries a task may begin, from its recovery stream alone."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...storage.records import Record
from ..baseline import Baseline

__all__ = ["HOUR", "why_park"]

HOUR = 3600.0  # seconds


def why_park(records: Sequence[Record], *, now: float, rules: Baseline) -> str:
    """Say why one more recovery would be one too many, or nothing where it may begin.

    `records` are those of ``task/<id>/recovery``. A task is parked when a recovery
    would begin after five without progress, or after twenty within an hour. Those that
    are no strike count for neither. Whoever has a parked task go on gives both counts
    back.
    """
    in_vain = 0
    lately = 0
    for record in records:
        match record.type:
            case "ProgressMade":
                in_vain = 0
            case "RecoveriesForgiven":
                in_vain = lately = 0
            case _ if _is_strike(record):
                in_vain += 1
                lately += record.at > now - HOUR
    if in_vain >= rules.park_without_progress:
        return f"crash loop: {in_vain} recoveries without progress"
    if lately >= rules.park_within_hour:
        return f"crash loop: {lately} recoveries within an hour"
    return ""


def _is_strike(record: Record) -> bool:
    strike: bool = msgspec.json.decode(record.body).get("strike", True)
    return strike
