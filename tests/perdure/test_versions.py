"""Old stores are read step by step; what cannot be read holds up its own task only.

The example of the source: a checkpoint whose field `step` became `current`, and then
what it is called today. It is played on a golden store, rewritten as version 1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure import Runtime, StoreRefused, folds
from perdure.actors.events import StepStarted
from perdure.actors.ledger.entry import LedgerState
from perdure.actors.task.standing import newest
from perdure.actors.task.state import TaskState, apply
from perdure.actors.upgrades import UPGRADERS, state_of
from perdure.cli import main
from perdure.doctor import examine
from perdure.storage.layout import LAYOUT
from perdure.storage.reader import open_reader
from perdure.storage.records import Record, Snapshot
from perdure.storage.sqlite import SqliteBackend
from perdure.upgrading import Upgrade, upgrade
from perdure.views import tasks
from tests.golden.agents import golden
from tests.golden.make import GOALS, HERE, restore
from tests.perdure.hosting import LONG, Told
from tests.perdure.planting import bytes_of, editing, reseal, reseal_snapshot

FINISHED, PAUSED, QUEUED, RUNNING = GOALS
Step = Callable[[dict[str, Any]], dict[str, Any]]


def renames(old: str, new: str) -> Step:
    return lambda value: {new: value.pop(old), **value}


STEPS: dict[tuple[str, int], Step] = {
    ("TaskState", 1): renames("step", "current"),
    ("TaskState", 2): renames("current", "newest"),
    ("LedgerState", 1): renames("now", "current"),
    ("LedgerState", 2): renames("current", "step"),
    ("StepStarted", 1): renames("name", "current"),
    ("StepStarted", 2): renames("current", "step"),
}


class Store:
    """A golden store as version 1 of the example, and its tasks by their goals."""

    def __init__(self, path: Path) -> None:
        self.path = path
        restore((HERE / "schema-1.sql").read_text(), path)
        with open_reader(path) as reader:
            self.ids = {one.goal: one.task for one in tasks(reader)}
            started = [
                record
                for record in reader.records(limit=100_000)
                if record.type == "StepStarted"
            ]
            kept = [
                (one, *names)
                for task in self.ids.values()
                for part, *names in (("", "newest", "step"), ("/ledger", "step", "now"))
                for one in reader.snapshots(f"task/{task}{part}")
            ]
        for record in started:
            self.write(record, **renamed(record.body, "step", "name"))
        for snapshot, old, new in kept:
            self.write(snapshot, **renamed(snapshot.body, old, new))

    def write(self, one: Record | Snapshot, **changes: Any) -> None:
        """Put a record or a snapshot in its own place, changed."""
        if isinstance(one, Record):
            reseal(self.path, one, **changes)
        else:
            reseal_snapshot(self.path, one, **changes)

    def started(self, goal: str) -> Record:
        """A task's newest start of a step."""
        with open_reader(self.path) as reader:
            records = reader.stretch(f"task/{self.ids[goal]}", 0, 10_000)
        return [one for one in records if one.type == "StepStarted"][-1]

    def snapshots(self, goal: str) -> list[Snapshot]:
        with open_reader(self.path) as reader:
            return reader.snapshots(f"task/{self.ids[goal]}")

    def without_snapshots(self, goal: str) -> None:
        """Have its streams read from their first records."""
        with editing(self.path) as db:
            db.execute(
                "DELETE FROM snapshots WHERE stream_id IN (SELECT id FROM streams "
                "WHERE name LIKE ?)",
                (f"task/{self.ids[goal]}%",),
            )

    def own(self, goal: str) -> list[Record]:
        """All records of a task's streams."""
        with open_reader(self.path) as reader:
            return reader.records(0, 100_000, f"task/{self.ids[goal]}")

    def state(self, goal: str) -> TaskState:
        with open_reader(self.path) as reader:
            stream = f"task/{self.ids[goal]}"
            return newest(reader, stream, folds.event_of, TaskState(), apply)[0]

    def opened(self, **options: Any) -> Runtime:
        return Runtime(self.path, agents=[golden()], retention=None, **options)


def renamed(body: bytes, old: str, new: str) -> dict[str, bytes]:
    return {"body": msgspec.json.encode(renames(old, new)(msgspec.json.decode(body)))}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_STORE", raising=False)


@pytest.fixture
def store(tmp_path: Path, folder: None) -> Store:
    (tmp_path / "store").mkdir()
    return Store(tmp_path / "store" / "tasks.db")


@pytest.fixture
def third(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Code at version 3 of them, with the steps up to it."""
    folds._codec.cache_clear()
    for kind in (TaskState, LedgerState, StepStarted):
        monkeypatch.setattr(kind, "schema_version", 3, raising=False)
    for key, step in STEPS.items():
        monkeypatch.setitem(UPGRADERS, key, step)
    yield
    folds._codec.cache_clear()


@pytest.fixture
def gap(third: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step from 2 to 3 of an event is missing."""
    monkeypatch.delitem(UPGRADERS, ("StepStarted", 2))


def approve(runtime: Runtime, task: str) -> None:
    (asked,) = [one for one in runtime.approvals() if one.task == task]
    runtime.task(task).approve(asked.approval, by="operator")


# ── old ones ─────────────────────────────────────────────────────────────────────


def test_a_renamed_field_is_found_again_in_snapshots_and_in_events(
    store: Store, third: None
) -> None:  # B29, K44
    (snapshot, *_) = store.snapshots(RUNNING)
    assert b'"step":"look"' in snapshot.body
    assert "newest" not in msgspec.json.decode(snapshot.body)
    assert state_of(snapshot, TaskState).newest == "look"
    state = store.state(RUNNING)
    assert (state.newest, [one.id for one in state.steps]) == ("look", ["look", "send"])
    store.without_snapshots(RUNNING)
    assert store.state(RUNNING) == state


@pytest.mark.parametrize("goal", [RUNNING, PAUSED])
def test_tasks_of_version_1_go_on_under_version_3(
    store: Store, third: None, goal: str
) -> None:  # R11
    task = store.ids[goal]
    with store.opened() as runtime:
        if goal == RUNNING:
            assert runtime.wait(task, timeout=LONG).reason == "approval"
        approve(runtime, task)
        assert runtime.wait(task, timeout=LONG).status == "completed"
    assert Path("sent").read_text() == "hello\n"


def test_a_finished_task_of_version_1_is_read_under_version_3(
    store: Store, third: None
) -> None:  # R11
    with store.opened(resume=False) as runtime:
        task = store.ids[FINISHED]
        assert runtime.wait(task, timeout=LONG).output == {"step": "send", "ok": True}
        records = runtime.plan(task).records
    assert [one.status for one in records] == ["completed", "completed"]


def test_old_records_are_logged_as_what_they_are_today(
    store: Store, third: None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["log", store.ids[FINISHED], "--store", str(store.path), "--json"]
    assert main(words) == 0
    lines = json.loads(capsys.readouterr().out.splitlines()[-1])
    started = [one["step"] for one in lines if one["event"] == "step.started"]
    assert started == ["look", "send"]


# ── a gap, and newer ones ────────────────────────────────────────────────────────


def stopped(store: Store, goal: str) -> tuple[str, str]:
    """How a task stands after this code opened the store, and had others run."""
    log = Told()
    with store.opened(log=log) as runtime:
        fresh = runtime.submit("golden", "another short")
        assert fresh.wait(LONG).reason == "approval"  # the others run
        log.wait_for("queue.parked", task=store.ids[goal])
        result = runtime.wait(store.ids[goal], timeout=LONG)
        assert result.status == "parked"
        assert not log.of("actor.crashed")
    return result.detail, result.ends_with


def test_a_missing_step_parks_its_task_and_touches_nothing_of_it(
    store: Store, gap: None
) -> None:  # R11
    store.without_snapshots(RUNNING)
    before = store.own(RUNNING)
    reason, ends_with = stopped(store, RUNNING)
    assert "no path 2->3" in reason
    assert ends_with == "start a perdure that can read it"
    assert store.own(RUNNING) == before


def test_a_task_that_waits_is_held_back_when_what_it_waits_for_comes(
    store: Store, gap: None
) -> None:  # R11
    store.without_snapshots(PAUSED)
    log = Told()
    with store.opened(log=log) as runtime:
        approve(runtime, store.ids[PAUSED])
        log.wait_for("queue.parked", task=store.ids[PAUSED])
        result = runtime.wait(store.ids[PAUSED], timeout=LONG)
    assert (result.status, "no path 2->3" in result.detail) == ("parked", True)
    assert not Path("sent").exists()


def test_it_goes_on_by_itself_once_the_step_is_there(
    store: Store, gap: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.without_snapshots(RUNNING)
    stopped(store, RUNNING)
    monkeypatch.setitem(UPGRADERS, ("StepStarted", 2), STEPS["StepStarted", 2])
    log = Told()
    with store.opened(log=log) as runtime:
        log.wait_for("queue.woken", task=store.ids[RUNNING])
        assert runtime.wait(store.ids[RUNNING], timeout=LONG).reason == "approval"


def test_a_newer_record_parks_its_task_and_touches_nothing_of_it(
    store: Store, third: None
) -> None:  # R11, K44
    store.write(store.started(RUNNING), schema_version=4)
    store.without_snapshots(RUNNING)
    before = store.own(RUNNING)
    reason, _ = stopped(store, RUNNING)
    assert "has schema version 4, this code knows up to 3" in reason
    assert store.own(RUNNING) == before


@pytest.mark.parametrize("part", ["ledger", "account"])
def test_a_newer_record_of_any_of_its_streams_parks_it_before_one_is_touched(
    store: Store, third: None, part: str
) -> None:
    # The streams before it are not taken up either: a ledger would cut off its calls.
    store.without_snapshots(RUNNING)
    (newest, *_) = [
        one for one in reversed(store.own(RUNNING)) if one.stream.endswith(part)
    ]
    store.write(newest, schema_version=4)
    before = store.own(RUNNING)
    assert "has schema version 4" in stopped(store, RUNNING)[0]
    assert store.own(RUNNING) == before


def test_a_record_of_a_type_that_is_not_known_parks_its_task(
    store: Store, third: None
) -> None:
    store.write(store.started(RUNNING), type="Dreamt")
    store.without_snapshots(RUNNING)
    assert "'Dreamt' is not known" in stopped(store, RUNNING)[0]


def test_a_log_file_is_continued_over_a_newer_record(store: Store, third: None) -> None:
    store.write(store.started(FINISHED), schema_version=4)
    log = store.path.with_name("log.jsonl")
    with store.opened(log=log, resume=False):
        pass
    lines = [json.loads(one) for one in log.read_text().splitlines()]
    (unknown,) = [one for one in lines if one["event"] == "record.unknown"]
    assert unknown["type"] == "StepStarted"


def test_a_newer_layout_is_refused_and_nothing_is_changed(store: Store) -> None:  # R11
    with editing(store.path) as db:
        db.execute(f"PRAGMA user_version = {LAYOUT + 1}")
    before = bytes_of(store.path.parent)
    with pytest.raises(StoreRefused, match="upgrade perdure"):
        store.opened()
    assert bytes_of(store.path.parent) == before


def test_the_doctor_says_which_tasks_are_held_back_and_by_what(
    store: Store, gap: None
) -> None:
    for goal in (RUNNING, PAUSED):
        store.without_snapshots(goal)
    report = examine(store.path, agents=[golden()])
    assert (report.live, report.loads) == (3, 1)
    held = {one.task: one.why for one in report.held}
    assert sorted(held) == sorted([store.ids[RUNNING], store.ids[PAUSED]])
    assert all("no path 2->3" in why for why in held.values())
    assert set(report.counts) == {"no_upgrade"}


# ── snapshots ────────────────────────────────────────────────────────────────────


def newer(snapshot: Snapshot) -> dict[str, Any]:
    return {"state_schema": 4}


def truncated(snapshot: Snapshot) -> dict[str, Any]:
    return {"body": snapshot.body[: len(snapshot.body) // 2]}


@pytest.mark.parametrize("spoil", [newer, truncated])
def test_a_snapshot_that_is_of_no_use_gives_way_to_the_one_before(
    store: Store, third: None, spoil: Callable[[Snapshot], dict[str, Any]]
) -> None:  # K44
    snapshots = store.snapshots(RUNNING)
    assert len(snapshots) == 2
    before = store.state(RUNNING)
    for spoilt in (snapshots[:1], snapshots):
        for one in spoilt:
            store.write(one, **spoil(one))
        assert store.state(RUNNING) == before


@pytest.mark.parametrize("spoil", [newer, truncated])
def test_a_task_goes_on_over_snapshots_that_are_of_no_use(
    store: Store, third: None, spoil: Callable[[Snapshot], dict[str, Any]]
) -> None:  # K44
    for one in store.snapshots(RUNNING):
        store.write(one, **spoil(one))
    log = Told()
    with store.opened(log=log) as runtime:
        log.wait_for("task.paused", task=store.ids[RUNNING])
        assert runtime.wait(store.ids[RUNNING], timeout=LONG).reason == "approval"
        assert not log.of("actor.crashed")
    new, *_ = store.snapshots(RUNNING)
    assert (new.state_schema, store.state(RUNNING).newest) == (3, "send")


def test_a_snapshot_with_a_wrong_digest_gives_way_to_the_one_before(
    store: Store, third: None
) -> None:  # K44
    before = store.state(RUNNING)
    with editing(store.path) as db:
        db.execute("UPDATE snapshots SET body = replace(body, 'look', 'lurk')")
        assert db.changes() > 1
    assert store.snapshots(RUNNING) == []
    assert store.state(RUNNING) == before


def test_a_snapshot_without_a_path_is_done_without(store: Store, third: None) -> None:
    before = store.state(RUNNING)
    for key in [one for one in UPGRADERS if one[0] == "TaskState"]:
        del UPGRADERS[key]
    assert store.state(RUNNING) == before


# ── the command ──────────────────────────────────────────────────────────────────


def how(made: Upgrade) -> dict[str, str]:
    return {one.name: one.how for one in made.tasks}


def test_an_upgrade_keeps_the_states_anew_and_no_record_changes(
    store: Store, third: None
) -> None:
    before, state = store.own(RUNNING), store.state(RUNNING)
    there = store.snapshots(RUNNING)
    made = upgrade(store.path)
    assert how(made)[store.ids[RUNNING]] == "upgraded"
    new, kept = store.snapshots(RUNNING)
    assert (new.state_schema, new.reason) == (3, "upgrade")
    assert kept == next(one for one in there if one.version < new.version)
    assert store.own(RUNNING) == before
    for key in STEPS:  # the new one needs no step
        del UPGRADERS[key]
    assert store.state(RUNNING) == state


def test_a_state_that_comes_of_old_records_is_kept_too(
    store: Store, third: None
) -> None:
    store.without_snapshots(RUNNING)
    state = store.state(RUNNING)
    assert how(upgrade(store.path))[store.ids[RUNNING]] == "upgraded"
    (kept,) = store.snapshots(RUNNING)
    assert state_of(kept, TaskState) == state


def test_an_old_snapshot_stands_until_the_new_one_is_committed(
    store: Store, third: None, monkeypatch: pytest.MonkeyPatch
) -> None:  # R11
    def dies(*_: object) -> Sequence[Snapshot]:
        raise KeyboardInterrupt

    before = store.snapshots(RUNNING)
    monkeypatch.setattr(SqliteBackend, "write_snapshots", dies)
    with pytest.raises(KeyboardInterrupt):
        upgrade(store.path)
    assert store.snapshots(RUNNING) == before


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(
    store: Store, third: None
) -> None:
    before = bytes_of(store.path.parent)
    made = upgrade(store.path, dry=True)
    assert how(made)[store.ids[RUNNING]] == "to upgrade"
    assert bytes_of(store.path.parent) == before


def test_what_is_held_back_is_named_and_the_rest_upgraded(
    store: Store, gap: None, capsys: pytest.CaptureFixture[str]
) -> None:
    store.without_snapshots(RUNNING)
    assert main(["upgrade", "--store", str(store.path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    (held,) = [one for one in lines if "held back, " in one]
    assert held.startswith(f"{store.ids[RUNNING]}: held back, ")
    assert "no path 2->3" in held
    assert f"{store.ids[PAUSED]}: upgraded" in lines
    assert lines[-1].endswith("1 upgraded, 1 held back")


def test_a_store_that_is_in_use_is_upgraded_by_nobody_else(
    store: Store, third: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with store.opened(resume=False):
        assert main(["upgrade", "--store", str(store.path)]) == 2
        assert "is owned by" in capsys.readouterr().err
        assert main(["upgrade", "--dry-run", "--store", str(store.path)]) == 0


@pytest.mark.parametrize("kind", ["dir", "postgres"])
def test_a_store_that_is_no_file_is_upgraded_too(
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    address = f"dir:{tmp_path / 'tasks'}"
    if kind == "postgres":
        address = request.getfixturevalue("postgres")
    with Runtime(address, agents=[golden()]) as runtime:
        task = runtime.submit("golden", "paused short")
        assert task.wait(LONG).reason == "approval"
    monkeypatch.setattr(TaskState, "schema_version", 2, raising=False)
    monkeypatch.setitem(UPGRADERS, ("TaskState", 1), dict)
    assert how(upgrade(address, dry=True)) == {task.id: "to upgrade"}
    assert how(upgrade(address)) == {task.id: "upgraded"}
    with open_reader(address) as reader:
        (kept, *_) = reader.snapshots(f"task/{task.id}")
    assert kept.state_schema == 2
    assert how(upgrade(address)) == {task.id: "current"}
    with Runtime(address, agents=[golden()]) as runtime:
        approve(runtime, task.id)
        assert runtime.wait(task.id, timeout=LONG).status == "completed"
