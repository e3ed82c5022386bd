"""Stores of every schema version are opened by this build, and their tasks go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perdure import Runtime
from perdure.doctor import examine
from perdure.storage.reader import open_reader
from perdure.upgrading import upgrade
from perdure.views import tasks
from tests.golden.agents import golden
from tests.golden.make import GOALS, HERE, SCHEMA, restore, shapes
from tests.perdure.hosting import LONG

STORES = sorted(HERE.glob("schema-*.sql"))
FINISHED, PAUSED, QUEUED, RUNNING = GOALS


@pytest.fixture(params=STORES, ids=[one.stem for one in STORES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "golden.db"
    restore(request.param.read_text(), path)
    return path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ids(store: Path) -> dict[str, str]:
    with open_reader(store) as reader:
        return {one.goal: one.task for one in tasks(reader)}


def sent() -> list[str]:
    path = Path("sent")
    return path.read_text().split() if path.exists() else []


def test_there_is_a_store_of_each_version() -> None:
    named = [f"schema-{n}" for n in range(1, SCHEMA + 1)]
    assert [one.stem for one in STORES] == named


def test_a_finished_task_is_read_as_it_ended(store: Path) -> None:  # R11
    task = ids(store)[FINISHED]
    with Runtime(store, agents=[golden()], retention=None, resume=False) as runtime:
        result = runtime.wait(task, timeout=LONG)
        plan = runtime.plan(task)
    assert result.status == "completed"
    assert result.output == {"step": "send", "ok": True}
    assert [one.status for one in plan.records] == ["completed", "completed"]


def test_a_task_that_was_killed_half_way_goes_on(store: Path) -> None:  # R11
    task = ids(store)[RUNNING]
    with Runtime(store, agents=[golden()], retention=None) as runtime:
        assert runtime.wait(task, timeout=LONG).status == "paused"
        (asked,) = [one for one in runtime.approvals() if one.task == task]
        runtime.task(task).approve(asked.approval, by="operator")
        assert runtime.wait(task, timeout=LONG).status == "completed"
    assert sent() == ["hello"]


def test_a_task_that_waits_for_a_person_goes_on_when_it_is_answered(
    store: Path,
) -> None:  # R11
    task = ids(store)[PAUSED]
    with Runtime(store, agents=[golden()], retention=None, resume=False) as runtime:
        (asked,) = [one for one in runtime.approvals() if one.task == task]
        runtime.task(task).approve(asked.approval, by="operator")
        runtime.task(task).resume()
        assert runtime.wait(task, timeout=LONG).status == "completed"
    assert sent() == ["hello"]


def test_the_doctor_finds_it_whole_and_its_live_tasks_loadable(store: Path) -> None:
    report = examine(store, agents=[golden()])
    assert report.healthy, report.findings
    assert (report.live, report.loads) == (3, 3)


def test_an_upgrade_holds_nothing_back(store: Path) -> None:
    assert upgrade(store, dry=True).held == 0
    assert upgrade(store).held == 0
    again = upgrade(store)
    assert {one.how for one in (*again.services, *again.tasks)} == {"current"}


SHAPES: dict[str, list[str]] = json.loads((HERE / f"shapes-{SCHEMA}.json").read_text())


@pytest.mark.parametrize(("name", "fields"), list(SHAPES.items()))
def test_no_field_is_lost_under_the_same_version(name: str, fields: list[Any]) -> None:
    # B29
    now = shapes().get(name)
    if now is None:  # at another version: the golden store of this one tells
        return
    lost = sorted(set(fields) - set(now))
    assert not lost, (
        f"{name} has no {lost} any more, and old stores do: raise its schema_version "
        "and give the step in perdure/actors/upgrades.py, or, where no version of it "
        "was released, run tests/golden/make.py"
    )
