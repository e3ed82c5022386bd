"""The bench of growth, in its short form."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "growth.py"


@pytest.mark.timeout(400)
def test_a_store_grows_by_its_work_and_shrinks_after_retention() -> None:  # R8
    run = subprocess.run(
        [sys.executable, str(BENCH), "--short", "--json"],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert run.returncode == 0, run.stderr + run.stdout
    figures = json.loads(run.stdout.splitlines()[-1])
    assert list(figures) == ["once", "model", "load_ms", "failures"]
    for one in (figures["once"], figures["model"]):
        assert one["bytes_per_op"] > one["overhead"] > 0
        assert one["after"] < 0.8 * one["before"]
        assert one["status"] == "completed"
    assert list(figures["load_ms"]) == [str(ops) for ops in figures["once"]["ops"]]
