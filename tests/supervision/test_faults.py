from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from perdure.supervision import faults
from perdure.supervision.faults import Fault, FaultPlan, InjectedFault, hit


@pytest.fixture(autouse=True)
def no_plan_left() -> Iterator[None]:
    yield
    faults.uninstall()


def raising(nth: int = 1, point: str | None = "p", **options: str) -> Fault:
    return Fault(point=point, nth=nth, action="raise", **options)


def hits_until_fault(*points: tuple[str, str]) -> int | None:
    for number, (point, subject) in enumerate(points, start=1):
        try:
            hit(point, subject)
        except InjectedFault:
            return number
    return None


def test_without_a_plan_nothing_happens() -> None:
    hit("p", "anything")


def test_a_fault_fires_at_the_nth_hit_of_its_point() -> None:
    with faults.installed(FaultPlan([raising(nth=2)])):
        assert hits_until_fault(("p", ""), ("q", ""), ("p", "")) == 3


def test_a_fault_fires_once() -> None:
    with faults.installed(FaultPlan([raising()])):
        assert hits_until_fault(("p", "")) == 1
        assert hits_until_fault(("p", ""), ("p", "")) is None


def test_without_a_point_every_hit_counts() -> None:
    with faults.installed(FaultPlan([raising(nth=3, point=None)])):
        assert hits_until_fault(("a", ""), ("b", ""), ("c", "")) == 3


def test_a_subject_narrows_the_point() -> None:
    with faults.installed(FaultPlan([raising(subject="mail")])):
        assert hits_until_fault(("p", "read"), ("p", "mail")) == 2


def test_after_starts_the_count_behind_its_own_hit() -> None:
    with faults.installed(FaultPlan([raising(nth=2, point=None, after="start")])):
        steps = [("p", ""), ("p", ""), ("start", ""), ("p", ""), ("p", "")]
        assert hits_until_fault(*steps) == 5


def test_observe_sees_a_hit_before_its_fault_fires() -> None:
    seen: list[tuple[str, str]] = []
    plan = FaultPlan([raising()], observe=lambda *point: seen.append(point))
    with faults.installed(plan), pytest.raises(InjectedFault):
        hit("p", "mail")
    assert seen == [("p", "mail")]


def test_a_plan_ends_with_its_block() -> None:
    with faults.installed(FaultPlan([raising()])):
        pass
    hit("p")


def test_hits_are_counted_from_one() -> None:
    with pytest.raises(ValueError, match="counted from 1"):
        raising(nth=0)


CHILD = """
import sys, msgspec
from perdure.supervision import faults
plan = msgspec.json.decode(sys.argv[1], type=list[faults.Fault])
faults.install(faults.FaultPlan(plan))
faults.hit("p")
print("once", flush=True)
faults.hit("p")
print("twice", flush=True)
"""


def test_a_plan_given_as_json_kills_the_child_at_the_hit() -> None:
    plan = [Fault(point="p", nth=2, action="kill")]
    child = subprocess.run(
        [sys.executable, "-c", CHILD, msgspec.json.encode(plan).decode()],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (child.returncode, child.stdout) == (-signal.SIGKILL, "once\n")
