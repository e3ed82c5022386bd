"""The bench of long tasks, in its short form."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench" / "long.py"


def test_every_request_of_a_long_task_fits_and_holds_the_goal() -> None:
    # P4: and a value of round 1 is there in the round before the last.
    run = subprocess.run(
        [sys.executable, str(BENCH), "--short", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout.splitlines()[-1])
    assert list(figures)[:4] == ["fits", "goal_present", "value_used", "prefix_changes"]
    for one in (figures, figures["tight"]):
        assert (one["fits"], one["goal_present"], one["value_used"]) == (60, 60, True)
    assert 1 <= figures["prefix_changes"] <= 6
