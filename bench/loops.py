"""Labelled traces of calls under the loop detector, and under three others' rules.

    python bench/loops.py --json

A trace is a circle, or repetition that is meant (polling, paging, a backoff, one edit a
file). Circles go on, five times over, so that a slow rule sees them too. `precision`
and `recall` count traces; `median_calls` is the number of the call at which a detector
spoke, of the circles that it found; `baselines` holds the same figures for what other
runtimes do: four equal actions with equal results in a row; any cycle of one to five
actions, five times over; the last three calls equal, whatever came of them.
It fails on a false alarm, and where more than one circle is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from common import finish, heading, options

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.actors.guard.traces import TRACES, Call, Trace, first_finding

MISSED = 1  # circles that may be missed
MORE = 5  # times that a circle goes on


def ours(calls: Sequence[Call]) -> int | None:
    """The detector of this package, with its defaults."""
    found = first_finding(calls)
    return None if found is None else found[0]


def four_equal(calls: Sequence[Call]) -> int | None:
    """Equal action and observation four times in a row."""
    return _cycles(calls, longest=1, times=4)


def any_cycle(calls: Sequence[Call]) -> int | None:
    """Any cycle of length one to five, five times over; results are not looked at."""
    return _cycles([(one.tool, one.args) for one in calls], longest=5, times=5)


def three_calls(calls: Sequence[Call]) -> int | None:
    """The last three calls are equal."""
    return _cycles([(one.tool, one.args) for one in calls], longest=1, times=3)


def _cycles(items: Sequence[Any], *, longest: int, times: int) -> int | None:
    """The number of the item with which a cycle is full, where one is."""
    for end in range(1, len(items) + 1):
        for length in range(1, longest + 1):
            part = items[max(0, end - length * times) : end]
            if len(part) == length * times and all(
                part[n] == part[n % length] for n in range(len(part))
            ):
                return end
    return None


def goes_on(calls: Sequence[Call]) -> list[Call]:
    """A circle that nobody stops: what comes round in it does so five times more."""
    made = list(calls)
    for length in range(1, len(made) // 2 + 1):
        if made[-length:] == made[-2 * length : -length]:
            return made + made[-length:] * MORE
    return made + made * MORE


def figures(
    detects: Callable[[Sequence[Call]], int | None], traces: Sequence[Trace]
) -> dict[str, Any]:
    """Count alarms, right and wrong, and when they came."""
    circles = [detects(goes_on(trace.calls)) for trace in traces if trace.loop]
    meant = [detects(trace.calls) for trace in traces if not trace.loop]
    found = [place for place in circles if place is not None]
    false = sum(place is not None for place in meant)
    said = len(found) + false
    return {
        "false_positives": false,
        "missed": len(circles) - len(found),
        "precision": round(len(found) / said, 3) if said else 1.0,
        "recall": round(len(found) / len(circles), 3),
        "median_calls": median(found) if found else None,
    }


def main() -> None:
    """Run each detector over each trace."""
    arguments = options(__doc__.partition("\n")[0]).parse_args()
    heading(
        arguments,
        "the traces were written for this detector; nothing here is random",
    )
    mine = figures(ours, TRACES)
    others = {
        "four_equal": figures(four_equal, TRACES),
        "cycle_five_times": figures(any_cycle, TRACES),
        "three_equal_calls": figures(three_calls, TRACES),
    }
    failed = mine["false_positives"] + max(0, mine["missed"] - MISSED)
    spoke = mine.pop("median_calls")
    result = {"traces": len(TRACES), **mine, "baselines": others}
    result |= {"median_calls": spoke, "failures": failed}
    finish(arguments, result)


if __name__ == "__main__":
    main()
