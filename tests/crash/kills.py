"""Kill the reference workload in real processes and compare with an unkilled run."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from perdure.supervision.faults import Fault

from .children import Wrong, was_killed
from .workload import outcome, run

__all__ = ["every_hit", "killed_run", "observed", "pairs", "wrong"]

HITS_A_POINT = 40
STARTS = 8  # of one run, its kills included
REACH = (Fault(point="effect.executed", nth=3, action="kill"),)  # then recover


def start(
    place: Path, faults: tuple[Fault, ...], hits: str = "", after: float | None = None
) -> bool:
    """Start the workload; True where it was killed, raises where it failed."""
    return was_killed(run, str(place), faults, hits, after=after)


def killed_run(
    kills: list[tuple[Fault, ...]], after: float | None = None
) -> tuple[dict[str, Any], int]:
    """Run the workload with these kills, one a start; return its outcome and kills."""
    with tempfile.TemporaryDirectory(prefix="perdure-crash-") as folder:
        place = Path(folder)
        for killed in range(STARTS):
            faults = kills[killed] if killed < len(kills) else ()
            if not start(place, faults, after=after if killed == 0 else None):
                return outcome(place), killed
        raise Wrong(f"not at its end after {STARTS} starts")


def observed() -> tuple[dict[str, Any], Counter[str], Counter[str]]:
    """The unkilled run: its outcome, its hits by point, and those of a recovery."""
    with tempfile.TemporaryDirectory(prefix="perdure-crash-") as folder:
        place = Path(folder)
        start(place, (), str(place / "hits"))
        hits = Counter((place / "hits").read_text().split())
        unkilled = outcome(place)
    with tempfile.TemporaryDirectory(prefix="perdure-crash-") as folder:
        place = Path(folder)
        start(place, REACH)
        start(place, (), str(place / "hits"))
        again = Counter((place / "hits").read_text().split())
    return unkilled, hits, again


def every_hit(
    hits: Counter[str], again: Counter[str], chance: random.Random
) -> list[list[tuple[Fault, ...]]]:
    """One run for each hit of each point; hits of one point beyond 40 are sampled.

    A point that only a recovery passes is reached by one kill before it.
    """
    found: list[list[tuple[Fault, ...]]] = []
    for point, count in sorted((hits | again).items()):
        places = range(1, count + 1)
        for nth in sorted(chance.sample(places, min(count, HITS_A_POINT))):
            fault = (Fault(point=point, nth=nth, action="kill"),)
            found.append([fault] if point in hits else [REACH, fault])
    return found


def pairs(
    singles: list[list[tuple[Fault, ...]]], again: Counter[str], chance: random.Random
) -> list[tuple[Fault, ...]]:
    """A single kill and another one inside what follows it."""
    nth = chance.randint(1, sum(again.values()) // 2)
    second = Fault(point=None, nth=nth, action="kill")
    return [*chance.choice(singles), (second,)]


def wrong(got: dict[str, Any], unkilled: dict[str, Any]) -> str:
    """How an outcome differs from the unkilled run's."""
    return "; ".join(
        f"{name} is {got[name]!r}, not {right!r}"
        for name, right in unkilled.items()
        if got[name] != right
    )
