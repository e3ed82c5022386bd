"""Kill the report job at points that seeds pick, and compare with an unkilled run.

    python bench/seeds.py --count 50 --json

Each run is SIGKILLed five times. It fails where a figure is off: not completed, a
mail or another effect doubled, a step lost or done again, books that do not balance,
kills or recoveries missing, or reports and `spent` unlike those of the unkilled run.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from common import finish, heading, options

from perdure.demo.parent import Job, kills_by_seed

KILLS = 5
RIGHT = {
    "status": "completed",
    "kills": KILLS,
    "recoveries": KILLS,
    "mails": 1,
    "duplicate_effects": 0,
    "lost_steps": 0,
    "redone_steps": 0,
    "budget_ok": True,
}
SHORT_COUNT = 4
AT_A_TIME = 2


def run(kills: int, seed: int) -> dict[str, Any]:
    """Run the job once; return what its parent counted."""
    with tempfile.TemporaryDirectory(prefix="perdure-seeds-") as folder:
        job = Job(
            Path(folder),
            country="NO",
            operator="operator@example.org",
            model="scripted",
            say=lambda _: None,
        )
        return job.run(kills_by_seed(kills, seed))


def wrong(counted: dict[str, Any], unkilled: dict[str, Any]) -> list[str]:
    """The figures of a killed run that are not as they should be."""
    wanted = RIGHT | {name: unkilled[name] for name in ("spent", "report_sha256")}
    return [
        f"{name} is {counted[name]!r}, not {right!r}"
        for name, right in wanted.items()
        if counted[name] != right
    ]


def attempt(seed: int, unkilled: dict[str, Any]) -> list[str]:
    """What is wrong with the run of one seed; a run that raises is wrong too."""
    try:
        return wrong(run(KILLS, seed), unkilled)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]


def main() -> None:
    """Run all seeds, two at a time."""
    parser = options(__doc__ or "")
    parser.add_argument("--count", type=int, default=50, help="how many seeds (50)")
    arguments = parser.parse_args()
    count = SHORT_COUNT if arguments.short else arguments.count
    heading(arguments, "scripted, no LLM; killed by SIGKILL at fault points")
    unkilled = run(0, arguments.seed)
    seeds = range(arguments.seed, arguments.seed + count)
    failures = 0
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for seed, faults in zip(
            seeds, pool.map(lambda one: attempt(one, unkilled), seeds), strict=True
        ):
            failures += bool(faults)
            for fault in faults:
                print(f"seed {seed}: {fault}", flush=True)
    finish(arguments, {"runs": count, "failures": failures})


if __name__ == "__main__":
    main()
