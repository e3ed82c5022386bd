"""Run the whole runtime on seeded schedules of faults, and check what is left.

    python bench/simulate.py --seeds 2000 --json
    python bench/simulate.py --seed 432 --trace
    python bench/simulate.py --mutants --json

Each seed is one schedule: tasks, sub-tasks, callers, people who approve and reject,
here or from another process, sleeps, crashes of actors and of the process, slow and
hung tools, clock jumps. An independent checker reads the journal by hand, and the world
counts what really happened. A schedule that fails is made smaller and printed.
With `--mutants` the product is broken on purpose, and each break must be caught.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from common import finish, heading, options

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.simulation.catching import CATCHING_LIMIT, caught_at, smallest, verdict
from tests.simulation.findings import INVARIANTS
from tests.simulation.mutants import MUTANTS
from tests.simulation.run import Verdict, run
from tests.simulation.schedule import schedule_of

PROCESSES = 2
SHORT_SEEDS = 100


def trace(seed: int) -> dict[str, Any]:
    """Run one seed and print every step of it."""
    schedule = schedule_of(seed)
    print(schedule)
    found, steps = run(schedule)
    print("\n".join(steps))
    tell(found)
    return {"seed": seed, "digest": found.digest, "failures": len(found.wrong)}


def tell(found: Verdict) -> None:
    """Print what a run violated."""
    for invariant, text in found.wrong:
        print(f"seed {found.seed}: {invariant}: {text}", flush=True)


def schedules(first: int, count: int) -> dict[str, Any]:
    """Run many seeds."""
    began = time.perf_counter()
    checks: Counter[str] = Counter(dict.fromkeys(INVARIANTS, 0))
    crashes = failures = 0
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        for found in pool.map(verdict, range(first, first + count), chunksize=10):
            checks.update(found.checks)
            crashes += found.crashes
            if found.wrong:
                failures += 1
                tell(found)
                print(f"seed {found.seed}, smaller: {smallest(found.seed)}")
    return {
        "schedules": count,
        "crashes": crashes,
        "invariants": dict(checks),
        "invariants_checked": sum(number > 0 for number in checks.values()),
        "failures": failures,
        "schedules_per_s": round(count / (time.perf_counter() - began), 1),
    }


def mutants(first: int) -> dict[str, Any]:
    """Find for each mutant a seed that catches it."""
    seeds: dict[str, int | None] = {}
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        jobs = {name: pool.submit(caught_at, name, first) for name in MUTANTS}
        for name, job in jobs.items():
            seeds[name] = job.result()
            print(f"{name}: seed {seeds[name]}", flush=True)
    caught = sum(seed is not None for seed in seeds.values())
    return {
        "mutants": len(seeds),
        "caught": caught,
        "seeds": seeds,
        "failures": len(seeds) - caught,
    }


def main() -> None:
    """Run what was asked for."""
    parser = options(__doc__ or "")
    parser.add_argument("--seeds", type=int, default=2000, help="how many (2000)")
    parser.add_argument("--trace", action="store_true", help="one seed, step by step")
    parser.add_argument("--mutants", action="store_true", help="break it on purpose")
    arguments = parser.parse_args()
    heading(
        arguments,
        "one thread, virtual time, a store in memory: no measure of speed",
        f"a mutant may take {CATCHING_LIMIT} schedules to be caught",
    )
    if arguments.trace:
        finish(arguments, trace(arguments.seed))
    if arguments.mutants:
        finish(arguments, mutants(0))
    count = min(SHORT_SEEDS, arguments.seeds) if arguments.short else arguments.seeds
    finish(arguments, schedules(arguments.seed, count))


if __name__ == "__main__":
    main()
