"""The bench of the loop detector."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench" / "loops.py"


def test_the_detector_is_held_against_the_rules_of_three_others() -> None:
    ran = subprocess.run(
        [sys.executable, BENCH, "--json"], capture_output=True, text=True, check=True
    )
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told["traces"] >= 60
    assert told["false_positives"] == 0
    assert told["missed"] <= 1
    assert told["median_calls"] <= 4
    others = told["baselines"]
    assert set(others) == {"four_equal", "cycle_five_times", "three_equal_calls"}
    assert all(one["precision"] < told["precision"] for one in others.values())
    assert others["cycle_five_times"]["missed"] == 0, "circles go on until it sees them"
