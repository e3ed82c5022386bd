"""Real kills of the reference workload: a sample of what the bench tries whole."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from perdure.supervision.faults import Fault
from tests.crash.kills import every_hit, killed_run, observed, pairs, wrong
from tests.crash.points import named_points

SINGLES, PAIRS = 45, 15


@pytest.fixture(scope="module")
def base() -> tuple[dict[str, Any], Counter[str], Counter[str]]:
    return observed()


def test_the_unkilled_run_is_as_it_should_be(base: Any) -> None:
    unkilled = base[0]
    assert (unkilled["completed"], unkilled["sent"], unkilled["steps"]) == (4, 5, 7)
    assert unkilled["sent_twice"] == 0
    assert unkilled["books"] is True
    assert unkilled["spent"]["tool_calls"] == {
        "ask": 1,
        "delegate": 1,
        "look": 8,
        "post": 1,
        "put": 3,
        "remember": 1,
        "ring": 2,
        "send": 5,
        "sleep": 3,
        "unlock": 1,
    }


def test_the_workload_passes_every_point_that_the_code_names(base: Any) -> None:
    _, hits, again = base
    assert set(hits | again) == named_points(Path(__file__).parents[2])


@pytest.mark.proof("kills")
@pytest.mark.timeout(300)
def test_sixty_kills_change_nothing(base: Any) -> None:
    # R3, R4: effects, files and `spent` equal the unkilled run's.
    unkilled, hits, again = base
    chance = random.Random(11)
    singles = every_hit(hits, again, chance)
    runs = chance.sample(singles, SINGLES)
    runs += [pairs(singles, again, chance) for _ in range(PAIRS)]
    total = 0
    with ThreadPoolExecutor(2) as pool:
        for kills, (got, killed) in zip(runs, pool.map(killed_run, runs), strict=True):
            assert wrong(got, unkilled) == "", kills
            total += killed  # how often threads flush varies: a last hit may not come
    assert total >= SINGLES + PAIRS


def test_a_doubled_effect_would_be_seen(base: Any) -> None:
    unkilled = base[0]
    assert wrong({**unkilled, "sent": 4, "sent_twice": 1}, unkilled) != ""


def test_a_run_that_no_kill_touches_is_not_counted_as_killed(base: Any) -> None:
    never = (Fault(point="no.such.point", action="kill"),)
    got, killed = killed_run([never])
    assert (wrong(got, base[0]), killed) == ("", 0)
