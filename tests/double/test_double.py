"""A small form of `bench/double.py`: real kills, real connections, an outside count."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.crash.children import SPAWN
from tests.double.kills import Found, judged, killed_run
from tests.double.service import Reached, Service
from tests.double.worker import expected

SEED = 23
KILLS = 3  # a run


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    SPAWN.set_forkserver_preload(["tests.double.worker", "tests.double.service"])
    with Service(SEED) as started:
        yield started


def killed(service: Service, *, runs: int, probes: bool) -> Found:
    def one(number: int) -> Found:
        name = f"probed{number}" if probes else f"asked{number}"
        return killed_run(service, name, seed=SEED, kills=KILLS, probes=probes)

    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(one, range(runs)), Found())


@pytest.mark.proof("double")
@pytest.mark.timeout(120)
def test_nothing_reaches_the_outside_twice_and_nothing_is_lost(
    service: Service,
) -> None:
    # P2, K39: by the outside's own count, over kills and connections that are cut.
    found = killed(service, runs=4, probes=True)
    assert (found.once_twice, found.idempotent_other_key, found.lost) == (0, 0, 0)
    assert found.effects == 4 * len(expected("any"))
    assert found.unknown_resolved > 0
    assert found.kills > 0


@pytest.mark.timeout(120)
def test_without_a_probe_a_person_is_asked_and_nothing_is_sent_twice(
    service: Service,
) -> None:
    found = killed(service, runs=2, probes=False)
    assert (found.once_twice, found.idempotent_other_key, found.lost) == (0, 0, 0)
    assert found.waiting > 0


def test_the_count_sees_what_is_doubled_or_lost() -> None:
    right: list[Reached] = [(kind, what, what) for kind, what in expected("r")]
    assert judged("r", right) == Found(effects=len(right))
    once = next(one for one in right if one[0] == "once")
    again = next(one for one in right if one[0] == "idempotent")
    assert judged("r", [*right, once]).once_twice == 1
    assert judged("r", [*right, again]).idempotent_other_key == 0
    other = (again[0], again[1], "another key")
    assert judged("r", [*right, other]).idempotent_other_key == 1
    assert judged("r", right[1:]).lost == 1
