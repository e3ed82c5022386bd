"""Scratch goes from every kind of store, and all that is shown stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import Runtime
from perdure.doctor import examine
from perdure.storage.reader import open_reader
from perdure.views import sheet
from perdure.views_spend import spend
from tests.perdure.hosting import LONG, Told
from tests.perdure.test_other_stores import worker

SOON = 0.001  # seconds


@pytest.fixture(params=["file", "dir", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres"))
    start = "dir:" if request.param == "dir" else ""
    return f"{start}{tmp_path / 'tasks'}"


def shown(store: str, task: str) -> tuple[Any, ...]:
    with open_reader(store) as reader:
        found = sheet(reader, task)
        return found.output, found.steps, found.spent, spend(reader, task, "tool").lines


def records(store: str, task: str) -> dict[str, int]:
    with open_reader(store) as reader:
        family = f"task/{task}"
        return {one: reader.head(one) for one in reader.streams(family)}


def test_scratch_goes_and_what_is_shown_stays(store: str, tmp_path: Path) -> None:
    agent = worker(tmp_path / "ran")
    with Runtime(store, agents=[agent], retention="forever") as runtime:
        task = runtime.submit("worker", "count", key="one")
        assert task.wait(LONG).status == "completed"
    before, had = shown(store, task.id), records(store, task.id)
    told = Told()
    with Runtime(store, agents=[agent], retention=SOON, log=told) as runtime:
        told.wait_for("retention.dropped", over=True)
        assert runtime.submit("worker", "count", key="one").id == task.id
    assert shown(store, task.id) == before
    own = f"task/{task.id}"
    left = records(store, task.id)
    assert left[own] < had[own] / 5
    assert left[f"{own}/account"] == had[f"{own}/account"]
    assert examine(store).findings == ()
    assert told.strangers == []
