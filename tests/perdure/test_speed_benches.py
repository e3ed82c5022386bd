"""The benches of speed and what gathers them, in their smallest form."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

BENCH = Path(__file__).parents[2] / "bench"
SMALL = ("--windows", "2", "--operations", "4", "--json")
LINK = "{http://www.w3.org/2000/svg}"


def ran(*words: object, **environment: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


@pytest.fixture
def gathering(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("all")


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("figures")


@pytest.mark.timeout(160)
def test_the_bench_of_steps_says_every_figure(figures: Any) -> None:
    said = ran(BENCH / "steps.py", "--short", *SMALL)
    for figure in figures.FIGURES["steps"]:
        assert figures.find(said, figure.path) > 0
    low, high = said["ratio_hundred_tasks_range"]
    assert low <= said["ratio_hundred_tasks"] <= high
    assert said["flushes_per_op"] > 0.5


@pytest.mark.timeout(160)
def test_the_bench_on_postgresql_says_every_figure(postgres: str, figures: Any) -> None:
    server = postgres.partition("?")[0]
    said = ran(BENCH / "postgres.py", "--short", "--url", server, *SMALL)
    for figure in figures.FIGURES["postgres"]:
        assert figures.find(said, figure.path) > 0
    low, high = said["ratio_one_task_range"]
    assert low <= said["ratio_one_task"] <= high
    assert said["bytes_per_op"] > 500


@pytest.mark.timeout(160)
def test_what_cannot_be_installed_is_named_and_the_others_run(tmp_path: Path) -> None:
    cache = tmp_path / "no folder"
    cache.touch()
    said = ran(
        BENCH / "peers" / "run.py",
        *("--short", "--only", "perdure", "langgraph", "dbos_postgres"),
        *("--steps", "4", "--cache", cache, *SMALL),
    )
    assert said["not_run"]["langgraph"] == "it could not be installed"
    assert said["not_run"]["dbos_postgres"] == "no --url"
    assert said["not_run"]["dbos"] == "not asked for"
    assert list(said["peers"]) == ["perdure"]
    perdure = said["peers"]["perdure"]
    for name in ("one", "hundred"):
        median, low, high = perdure[f"{name}_ops_per_s"]
        assert 0 < low <= median <= high
        assert perdure[f"{name}_ratio_to_raw"][0] > 0
        assert perdure[f"{name}_cpu_us_per_op"][0] > 0
    assert perdure["resume_s"] > 0
    assert perdure["repeated"] == 0  # killed half-way, nothing was done twice
    assert perdure["store_bytes"] > 4 * 500
    assert [steps for steps, *_ in perdure["lengths"]] == [2, 4]


def test_every_bench_is_gathered_and_no_helper(gathering: Any) -> None:
    names = set(gathering.benches())
    assert {"crash", "fit", "peers", "postgres", "soak"} <= names
    assert not {"all", "common", "figures", "liars", "plot", "raw"} & names


@pytest.mark.timeout(160)
def test_what_the_benches_said_is_written_down(tmp_path: Path) -> None:
    results = tmp_path / "RESULTS.md"
    said = ran(
        BENCH / "all.py",
        *("--short", "--only", "loops", "postgres", "--results", results, "--json"),
        PERDURE_TEST_POSTGRES="",
    )
    assert said["ran"] == 1
    text = results.read_text()
    assert "| loops | `failures` | 0 | 0 | yes |" in text
    assert "seed 7" in text
    assert "- postgres: there is no server" in text


def test_a_figure_that_a_bench_does_not_say_is_missing(gathering: Any) -> None:
    said = {"ms_2000": 99.0, "linear": 2.5, "failures": 0}
    table, missing = gathering.rows("fit", said)
    assert missing == ["append_growth"]
    assert table == [
        "| fit | `ms_2000` | 99 | < 100 | yes |",
        "| fit | `linear` | 2.5 | ≤ 2 | no |",
        "| fit | `append_growth` | missing | ≤ 2 | no |",
        "| fit | `failures` | 0 | 0 | yes |",
    ]


def test_a_figure_of_windows_is_shown_with_its_range(figures: Any) -> None:
    said = {"a": {"b": [10.0, 9.5, 1200.0]}, "ratio": 0.5, "ratio_range": [0.4, 0.6]}
    assert figures.shown(said, "a.b") == "10 (9.5 to 1,200)"
    assert figures.shown(said, "ratio") == "0.5 (0.4 to 0.6)"
    assert figures.met(said, figures.Figure("a.b", "≥ 10"))
    assert not figures.met(said, figures.Figure("ratio", "< 0.5"))


def test_cost_is_drawn_against_size_on_logarithmic_axes(figures: Any) -> None:
    said = {
        "recovery": {
            "ms_thousand": 10.0,
            "ms_million": 10.0,
            "events": [1_000, 1_000_000],
        },
        "fit": {"us_an_exchange": {"100": 20.0, "10000": 20.0}},
        "peers": {"peers": {}},
    }
    drawn = figures.panels(said)
    assert [one.x for one in drawn] == ["events of the task", "exchanges"]
    picture = ET.fromstring(importlib.import_module("plot").svg(drawn))
    flat, steep = (one.get("points") for one in picture.iter(f"{LINK}polyline"))
    (_, before), (_, after) = (point.split(",") for point in str(flat).split())
    assert before == after
    assert str(steep).split()[0] != str(steep).split()[1]
    texts = [one.text for one in picture.iter(f"{LINK}text")]
    assert {"1k", "1M", "100", "10k", "perdure"} <= set(texts)
