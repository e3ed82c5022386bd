"""Runs by seed alone, so that they can be handed to other processes."""

from __future__ import annotations

from tests.simulation.mutants import mutated
from tests.simulation.run import Verdict, run
from tests.simulation.schedule import Schedule, schedule_of
from tests.simulation.shrink import shrink

__all__ = ["CATCHING_LIMIT", "catches", "caught_at", "smallest", "verdict"]

CATCHING_LIMIT = 2_000  # schedules


def verdict(seed: int) -> Verdict:
    """What came of the schedule of a seed."""
    return run(schedule_of(seed))[0]


def catches(seed: int, name: str) -> bool:
    """Whether the schedule of a seed shows a mutant."""
    with mutated(name):
        return bool(verdict(seed).wrong)


def caught_at(name: str, first: int = 0) -> int | None:
    """The first seed that shows a mutant, if there is one."""
    for seed in range(first, first + CATCHING_LIMIT):
        if catches(seed, name):
            return seed
    return None


def smallest(seed: int) -> Schedule:
    """A smaller schedule that violates what the seed's does."""
    schedule = schedule_of(seed)
    violated = {invariant for invariant, _ in run(schedule)[0].wrong}

    def fails(tried: Schedule) -> bool:
        return bool(violated & {one for one, _ in run(tried)[0].wrong})

    return shrink(schedule, fails)
