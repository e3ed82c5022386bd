"""The bench of lies: each is told, each is caught, and nothing is complete for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "lies.py"


@pytest.mark.timeout(240)
def test_every_lie_of_a_model_is_caught() -> None:  # A80, A110, K48
    run = subprocess.run(
        [sys.executable, str(BENCH), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    said = json.loads(run.stdout.splitlines()[-1])
    assert said["lies"] == said["caught"] >= 6
    assert said["completed_without_acceptance"] == 0
    assert all(one["told"] for one in said["told"])
