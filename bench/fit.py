"""Time how long it takes to cut a history to its limit, and how that grows.

    python bench/fit.py --json

`ms_2000` is the CPU time to fit 2,000 exchanges from scratch; `linear` is the time an
exchange takes among 20,000 over that among 1,000; `ratio_to_reference` is the time of
the slow reference implementation in the tests over ours. `append_us` is what one more
exchange and a request cost in a `History`, by the number of exchanges before.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from common import finish, heading, options

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from perdure.actors.context.notice import notice
from perdure.context import History, fit_context
from tests.actors.context import reference

LIMIT = 16_000  # characters
SIZES = (100, 1_000, 2_000, 20_000)  # exchanges
REFERENCE_SIZE = 300  # exchanges: it takes a time that grows with their square
APPENDED = 50  # exchanges in one timed run of `History`
TURN = 12  # exchanges, at most, between two messages of the user
RUNS, SHORT_RUNS = 9, 3
MOST_MS = 100  # CPU, for 2,000 exchanges
MOST_GROWTH = 2
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "query",
        "parameters": {"type": "object", "properties": {"month": {"type": "string"}}},
    },
}


def exchange(number: int, chance: random.Random) -> list[dict[str, Any]]:
    """One to three parallel calls and their results, in any order."""
    ids = [f"call_{number}_{one}" for one in range(chance.choice((1, 1, 1, 2, 3)))]
    asked = [
        {
            "id": call_id,
            "type": "function",
            "function": {"name": "query", "arguments": '{"month":"2023-05"}'},
        }
        for call_id in ids
    ]
    chance.shuffle(ids)
    word = chance.choice(("rows ", "资料", 'a "quoted" line\n'))
    return [
        {"role": "assistant", "content": None, "tool_calls": asked},
        *(
            {
                "role": "tool",
                "tool_call_id": call_id,
                "content": word * chance.randrange(1, 120),
            }
            for call_id in ids
        ),
    ]


def history(exchanges: int, chance: random.Random) -> list[dict[str, Any]]:
    """A history of user turns, the last of which may be as long as any."""
    found: list[dict[str, Any]] = [{"role": "system", "content": "Answer briefly."}]
    left = 0
    for number in range(exchanges):
        if not left:
            left = chance.randrange(1, TURN)
            found.append({"role": "user", "content": f"Part {number} of the report"})
        left -= 1
        found += exchange(number, chance)
    return found


def cpu(work: Callable[[], object]) -> float:
    """Seconds of CPU that `work` took."""
    began = time.process_time()
    work()
    return time.process_time() - began


def medians(
    jobs: dict[Any, Callable[[], object]], runs: int, times: dict[Any, int]
) -> dict[Any, float]:
    """Run the jobs in turn, so that all meet the same moods of the machine.

    A job in `times` runs so often in its turn, and the quickest of them counts: the
    clock is coarse.
    """
    found: dict[Any, list[float]] = {name: [] for name in jobs}
    for _ in range(runs):
        for name, job in jobs.items():
            repeats = range(times.get(name, 1))
            found[name].append(min(cpu(job) for _ in repeats))
    return {name: median(seconds) for name, seconds in found.items()}


def grown(before: list[dict[str, Any]], chance: random.Random) -> Callable[[], object]:
    """A job that appends exchanges to a history, with a request after each."""
    held = History([TOOL], max_characters=LIMIT)
    held.append(*before)
    turns = iter(range(10**9))

    def job() -> None:
        for _ in range(APPENDED):
            held.append(*exchange(next(turns) + 10**6, chance))
            held.fit()

    return job


def main() -> None:
    """Time it, and say whether the promises hold."""
    parser = options(__doc__ or "")
    arguments = parser.parse_args()
    runs = SHORT_RUNS if arguments.short else RUNS
    heading(
        arguments,
        f"CPU time, medians of {runs} alternating runs; limit {LIMIT} characters",
        f"the reference is compared at {REFERENCE_SIZE} exchanges",
    )
    chance = random.Random(arguments.seed)
    given = {size: history(size, chance) for size in (*SIZES, REFERENCE_SIZE)}

    def ours(size: int) -> Callable[[], object]:
        return lambda: fit_context(given[size], [TOOL], max_characters=LIMIT)

    def slow() -> object:
        return reference.fit(given[REFERENCE_SIZE], [TOOL], LIMIT, notice)

    jobs: dict[Any, Callable[[], object]] = {size: ours(size) for size in given}
    jobs["reference"] = slow
    for profile in ("strict", "runtime"):
        jobs[profile] = lambda profile=profile: fit_context(
            given[2_000], [TOOL], max_characters=LIMIT, profile=profile
        )
    for size in (1_000, 20_000):
        jobs["append", size] = grown(given[size], chance)
    times: dict[Any, int] = {100: 10, REFERENCE_SIZE: 10, 1_000: 3, 2_000: 3}
    took = medians(jobs, runs, times)

    each = {size: took[size] / size for size in SIZES}
    append = {size: took["append", size] / APPENDED for size in (1_000, 20_000)}
    result: dict[str, Any] = {
        "ms_2000": round(took[2_000] * 1e3, 1),
        "linear": round(each[20_000] / each[1_000], 2),
        "ratio_to_reference": round(took["reference"] / took[REFERENCE_SIZE], 1),
        "us_an_exchange": {size: round(each[size] * 1e6, 1) for size in SIZES},
        "ms_2000_strict": round(took["strict"] * 1e3, 1),
        "ms_2000_runtime": round(took["runtime"] * 1e3, 1),
        "append_us": {size: round(append[size] * 1e6, 1) for size in append},
        "append_growth": round(append[20_000] / append[1_000], 2),
    }
    kept = (
        result["ms_2000"] < MOST_MS,
        result["linear"] <= MOST_GROWTH,
        result["append_growth"] <= MOST_GROWTH,
    )
    finish(arguments, {**result, "failures": kept.count(False)})


if __name__ == "__main__":
    main()
