"""The whole runtime on seeded schedules of faults; each mutant of it is caught."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.catching import catches, smallest, verdict
from tests.simulation.findings import INVARIANTS
from tests.simulation.mutants import MUTANTS, mutated
from tests.simulation.run import Run
from tests.simulation.schedule import schedule_of
from tests.simulation.shrink import shrink

ROOT = Path(__file__).resolve().parents[2]
PARTS = 10
SEEDS = 200
HANDING_ON = (60, 75, 105, 129)  # seeds that show every way to hand work on
WAITING = (2, 4, 13, 14, 18)  # seeds that show every way to wait
# Seeds that show a mutant: several, since a step more in the product moves the faults.
CATCHING: dict[str, tuple[int, ...]] = {
    "skip_the_flush": (0, 1, 2),
    "record_before_execute": (8, 20, 24),
    "forget_settle": (0, 1, 2),
    "settle_twice": (0, 1, 2),
    "ignore_the_runtimes_epoch": (57, 59, 99, 134),
    "ignore_the_lease": (49, 53, 61, 66),
    "load_before_the_queue": (15, 603),
    "reuse_a_stale_snapshot": (0, 1, 2),
    "drop_the_wake_again_mark": (1, 3, 5),
    "lose_a_timer": (4, 14, 20, 45),
    "wake_before_the_time": (0, 1, 2),
    "run_without_approval": (0, 1, 2),
    "answer_an_approval_twice": (3, 4, 13, 14),
    "restart_without_backoff": (3, 4, 9),
    "send_again_on_down": (110, 115, 134, 170),
    "probe_while_the_worker_lives": (68, 306, 339, 353),
    "believe_an_absence_at_once": (46, 713),
    "a_new_key_for_each_attempt": (4, 134, 54, 80),
    "accept_every_answer": (0, 1, 2),
    "grant_without_limit": (1, 3, 5),
    "give_a_grant_twice": (0, 1, 2),
    "forget_the_parent": (1, 7, 10),
    "pay_a_sub_task_twice": (1, 7, 10),
    "charge_the_whole_share": (1, 7, 10),
    "end_before_the_sub_tasks": (1, 73, 105, 128),
    "forget_the_goal": (0, 2, 6),
}
SHOW = """
from tests.simulation.catching import verdict
for seed in (3, 31, 41):
    print(verdict(seed).digest)
"""


@pytest.mark.proof("seeds")
@pytest.mark.parametrize("part", range(PARTS))
def test_every_invariant_holds_whatever_goes_wrong(part: int) -> None:
    # P1 P2 P3 P4 P5 P6 P7 P8 P9
    checks: Counter[str] = Counter()
    crashes = 0
    for seed in range(part, SEEDS, PARTS):
        found = verdict(seed)
        assert found.wrong == [], f"python bench/simulate.py --seed {seed} --trace"
        checks.update(found.checks)
        crashes += found.crashes
    assert set(checks) == set(INVARIANTS)
    assert crashes > 0


@pytest.mark.proof("mutants")
@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_product_is_caught(name: str) -> None:
    assert any(catches(seed, name) for seed in CATCHING[name])


def test_a_seed_gives_the_same_schedule_whatever_the_hash_seed() -> None:
    # P10
    def digests(hash_seed: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", SHOW],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    one = digests("1")
    assert one == digests("2")
    assert len(set(one.split())) == 3


def test_tasks_wait_for_people_and_for_the_time_in_every_way() -> None:
    # What the other tests would not miss: a workload in which nobody waits.
    seen: set[str] = set()
    for seed in WAITING:
        one = Run(schedule_of(seed))
        assert one.whole().wrong == []
        submitted = {
            entry.task: entry.record.at
            for entry in one.witness.entries
            if entry.type == "TaskQueued" and entry.body["not_before"] is not None
        }
        for entry in one.witness.entries:
            body = entry.body
            match entry.type:
                case "ApprovalAnswered":
                    way = "inbox" if body["by"].startswith("c-") else "caller"
                    seen.add(f"{way}: {body['approved']}")
                case "CommandApplied":
                    seen.add(f"command: {body['said'].split(';')[0]}")
                case "TimerFired":
                    seen.add("slept")
                case "TaskActivated" if entry.task in submitted:
                    seen.add("begun later")
    assert seen >= {
        "inbox: True",
        "inbox: False",
        "caller: True",
        "caller: False",
        "command: it was answered before",
        "command: there is no approval 'a-nobody'",
        "slept",
        "begun later",
    }


def test_tasks_hand_work_on_in_every_way() -> None:
    seen: set[str] = set()
    for seed in HANDING_ON:
        one = Run(schedule_of(seed))
        assert one.whole().wrong == []
        parents = one.witness.parents
        for entry in one.witness.entries:
            body, parent = entry.body, parents.get(entry.task, "")
            match entry.type:
                case "SubtaskStarted" if parent:
                    seen.add("a part of a part")
                case "SubtaskEnded":
                    seen.add(f"ended: {body['status']}")
                case "Granted" if parent:
                    seen.add("handed on" if body["parent"] else "extended")
                case "TaskPaused" if parent:
                    seen.add(f"paused: {body['reason']}")
                case "TaskWoken" if parent and body["order"] == "cancel":
                    by = "its parent" if parent in body["by"] else "somebody"
                    seen.add(f"cancelled by {by}")
                case "TaskWoken" if body["by"].startswith("sub-task"):
                    seen.add("woken by its part")
                case "Settled" if body["beside"]:
                    seen.add("paid in two books")
    assert seen >= {
        "a part of a part",
        "ended: completed",
        "ended: cancelled",
        "handed on",
        "extended",
        "paused: budget",
        "paused: operator",
        "paused: approval",
        "cancelled by its parent",
        "cancelled by somebody",
        "woken by its part",
        "paid in two books",
    }


def test_a_failing_schedule_is_made_smaller() -> None:
    name = "probe_while_the_worker_lives"
    seed = next(seed for seed in CATCHING[name] if catches(seed, name))
    whole = schedule_of(seed)
    with mutated(name):
        less = smallest(seed)
    assert len(less.slow) == 1
    assert len(less.faults) <= len(whole.faults)
    assert less != whole


def test_answers_and_time_away_that_do_not_matter_are_left_out() -> None:
    whole = next(
        schedule
        for schedule in map(schedule_of, range(SEEDS))
        if sum(not reply.approved for reply in schedule.replies) > 1
    )
    less = shrink(whole, lambda tried: not all(one.approved for one in tried.replies))
    assert [reply.approved for reply in less.replies] == [False]
    assert less.away == ()
