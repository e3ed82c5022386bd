"""Makes a failing schedule smaller, as long as it fails in the same way."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tests.simulation.schedule import Schedule

__all__ = ["shrink"]

PARTS = ("faults", "slow", "orders", "replies", "away")


def shrink(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """Leave out faults, naps, orders and so on one by one while `fails` still holds."""
    smaller = True
    while smaller:
        smaller = False
        for part in PARTS:
            whole = getattr(schedule, part)
            for place in range(len(whole)):
                rest = whole[:place] + whole[place + 1 :]
                tried = msgspec.structs.replace(schedule, **{part: rest})
                if fails(tried):
                    schedule, smaller = tried, True
                    break
    return schedule
