"""Kill the reference workload at every fault-point hit, in real processes.

    python bench/crash.py --exhaustive --json
    python bench/crash.py --pairs --sample 200 --json
    python bench/crash.py --times --sample 100 --json
    python bench/crash.py --submit --sample 200 --json

A killed run is started again until it ends; then effects, files and `spent` must equal
the unkilled run's. Hits of one point beyond 40 are sampled, by the seed, and counted.
With `--submit` each process is killed 1 ms after `submit` returned; then every id must
be found, and its task run once.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from common import finish, heading, options

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.crash.children import SPAWN, Wrong
from tests.crash.kills import (
    every_hit,
    killed_run,
    observed,
    pairs,
    wrong,
)
from tests.crash.points import named_points
from tests.crash.submits import submitted_and_killed

ROOT = Path(__file__).resolve().parent.parent
SHORT_SAMPLE = 24
AT_A_TIME = 2


def submits(arguments: argparse.Namespace) -> None:
    """Kill right behind `submit`, so many times, and say what was lost or doubled."""
    began = time.monotonic()
    begun, faults = submitted_and_killed(arguments.sample)
    for fault in faults:
        print(fault, flush=True)
    seconds = round(time.monotonic() - began, 1)
    result = {"submits": arguments.sample, "sent_before": begun}
    finish(arguments, {**result, "failures": len(faults), "seconds": seconds})


def main() -> None:
    """Try all kills, two processes at a time."""
    parser = options(__doc__ or "")
    parser.add_argument("--exhaustive", action="store_true", help="every hit")
    parser.add_argument("--pairs", action="store_true", help="and in its recovery")
    parser.add_argument("--times", action="store_true", help="at random times instead")
    parser.add_argument("--submit", action="store_true", help="right behind submit")
    parser.add_argument("--sample", type=int, default=60, help="how many runs (60)")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.sample = SHORT_SAMPLE
    heading(arguments, "scripted, no LLM; SIGKILL of a real process; fork server")
    SPAWN.set_forkserver_preload(["tests.crash.workload"])
    if arguments.submit:
        submits(arguments)
    unkilled, hits, again = observed()
    began = time.monotonic()
    chance = random.Random(arguments.seed)
    singles = every_hit(hits, again, chance)
    count = range(arguments.sample)
    jobs: list[tuple[Any, float | None]]
    if arguments.times:
        jobs = [([], chance.uniform(0.02, 0.25)) for _ in count]
    elif arguments.pairs:
        jobs = [(pairs(singles, again, chance), None) for _ in count]
    elif arguments.exhaustive and not arguments.short:
        jobs = [(kills, None) for kills in singles]
    else:
        few = chance.sample(singles, min(len(singles), arguments.sample))
        jobs = [(kills, None) for kills in few]

    def attempt(job: tuple[Any, float | None]) -> tuple[str, int]:
        kills, after = job
        try:
            got, killed = killed_run(kills, after)
        except Wrong as error:
            return f"{kills}: {error}", 0
        fault = wrong(got, unkilled)
        return (f"{kills}: {fault}" if fault else ""), killed

    failures = kills = 0
    reached: set[str] = set()
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for job, (said, killed) in zip(jobs, pool.map(attempt, jobs), strict=True):
            kills += killed
            failures += bool(said)
            if killed == len(job[0]):
                reached |= {
                    one.point for faults in job[0] for one in faults if one.point
                }
            if said:
                print(said, flush=True)
    points = named_points(ROOT)
    result = {"points": len(points), "hit": len(reached & points)}
    if arguments.pairs or arguments.times:
        result = {"runs": len(jobs)}
    elif arguments.exhaustive and not arguments.short:
        if unhit := sorted(points - reached):
            print(f"no kill at {', '.join(unhit)}", flush=True)
        failures += len(unhit)
    seconds = round(time.monotonic() - began, 1)
    finish(
        arguments, {**result, "kills": kills, "failures": failures, "seconds": seconds}
    )


if __name__ == "__main__":
    main()
