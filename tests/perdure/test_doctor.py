"""The doctor names what is wrong with a store, nothing else, and changes nothing."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure import Agent, Budget, Runtime, tool
from perdure.doctor import Report, examine
from perdure.doctor.report import KINDS
from perdure.storage.backend import Batch
from perdure.storage.reader import open_reader
from perdure.storage.records import Record, Snapshot, blob_digest, record_checksum
from perdure.storage.sqlite import SqliteBackend
from tests.actors.test_erasing import secretive
from tests.actors.world import World
from tests.perdure.hosting import LONG, opened
from tests.perdure.planting import (
    bytes_of,
    editing,
    record_of,
    reseal,
    reseal_snapshot,
)
from tests.perdure.test_cli_ask import here, perdure
from tests.perdure.test_other_stores import worker

STORE = "tasks.db"
QUEUE, POOL = "services/admission", "services/pool"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str, str]:
    """A store at rest, and its tasks: one that ended, one that waits, one dropped."""
    path = tmp_path_factory.mktemp("sound") / STORE
    with opened(path, secretive(World())) as runtime:
        given: dict[str, Any] = {"budget": Budget(tokens=99_999)}
        done = runtime.submit("agent", "Write.", key="may", **given)
        assert done.wait(LONG).status == "completed"
        waits = runtime.submit("agent", "Write later.", not_before=4e9, **given)
        dropped = runtime.submit("agent", "Write never.", not_before=4e9, **given)
        dropped.cancel()
        assert dropped.wait(LONG).status == "cancelled"
    return path, done.id, waits.id, dropped.id


class Planted:
    """A copy of the sound store, to be spoilt."""

    def __init__(self, path: Path, done: str, waits: str, dropped: str) -> None:
        self.path = path
        self.done, self.waits, self.dropped = done, waits, dropped
        self.task = f"task/{done}"

    def sql(self, *statements: str) -> None:
        with editing(self.path) as db:
            for one in statements:
                db.execute(one.format(**vars(self)))
                assert db.changes() == 1, one

    def seal(self, stream: str, kind: str, **changes: Any) -> None:
        """Change fields of an event's body, and have no snapshot remember it."""
        record = record_of(self.path, stream, kind)
        body = {**msgspec.json.decode(record.body), **changes}
        reseal(self.path, record, body=msgspec.json.encode(body))
        with editing(self.path) as db:
            db.execute(
                "DELETE FROM snapshots WHERE stream_id = "
                "(SELECT id FROM streams WHERE name = ?)",
                (stream,),
            )

    def snapshot(self) -> Snapshot:
        with open_reader(self.path) as reader:
            return reader.snapshots(self.task)[0]

    def blob(self) -> str:
        recorded = record_of(self.path, f"{self.task}/ledger", "EffectRecorded")
        with open_reader(self.path) as reader:
            ledger = reader.stretch(recorded.stream, 0, 1_000)
        made = [json.loads(one.body).get("blob") for one in ledger]
        return next(one for one in made if one)


@pytest.fixture
def planted(sound: tuple[Path, str, str, str], tmp_path: Path) -> Planted:
    shutil.copytree(sound[0].parent, tmp_path / "store")
    return Planted(tmp_path / "store" / STORE, *sound[1:])


def test_a_sound_store_is_healthy_and_its_live_tasks_are_counted(
    planted: Planted,
) -> None:
    report = examine(planted.path)
    assert report.findings == ()
    assert report.healthy
    assert (report.tasks, report.live, report.loads, report.held) == (3, 1, 1, ())
    with editing(planted.path) as db:
        for table in ("records", "streams", "snapshots", "blobs"):
            count = db.execute(f"SELECT count(*) FROM {table}").get
            assert (table, getattr(report, table)) == (table, count)
    assert report.snapshots and report.blobs  # there was something to look at


# ── planted damage ───────────────────────────────────────────────────────────────


def checksum(at: Planted) -> str:
    record = record_of(at.path, f"{at.task}/ledger", "EffectRegistered")
    at.sql(f"UPDATE records SET body = body || ' ' WHERE seq = {record.seq}")
    return f"record {record.seq}: {record.stream} {record.version} ({record.type})"


def gap(at: Planted) -> str:
    record = record_of(at.path, at.task, "StepStarted")
    at.sql(f"DELETE FROM records WHERE seq = {record.seq}")
    return record.stream


def unknown_type(at: Planted) -> str:
    record = record_of(at.path, at.task, "StepStarted")
    reseal(at.path, record, type="StepDreamt")
    return f"record {record.seq}: {record.stream} {record.version} (StepDreamt)"


def newer_schema(at: Planted) -> str:
    record = record_of(at.path, at.task, "StepStarted")
    reseal(at.path, record, schema_version=99)
    return f"record {record.seq}: {record.stream} {record.version} (StepStarted)"


def no_upgrade(at: Planted) -> str:
    record = record_of(at.path, at.task, "StepStarted")
    reseal(at.path, record, schema_version=0)
    return f"record {record.seq}: {record.stream} {record.version} (StepStarted)"


def body(at: Planted) -> str:
    record = record_of(at.path, at.task, "StepStarted")
    reseal(at.path, record, body=b'{"step": 7}')
    return f"record {record.seq}: {record.stream} {record.version} (StepStarted)"


def history(at: Planted) -> str:
    at.seal(f"{at.task}/account", "Settled", op=99)
    record = record_of(at.path, f"{at.task}/account", "Settled")
    return f"record {record.seq}: {record.stream} {record.version} (Settled)"


def snapshot_checksum(at: Planted) -> str:
    old = at.snapshot()
    at.sql(f"UPDATE snapshots SET reason = 'x' WHERE covers = {old.covers}")
    return f"snapshot of {old.stream} at {old.version}"


def snapshot_differs(at: Planted) -> str:
    old = at.snapshot()
    state = {**msgspec.json.decode(old.body), "recoveries": 3}
    reseal_snapshot(at.path, old, body=msgspec.json.encode(state))
    return f"snapshot of {old.stream} at {old.version}"


def snapshot_moved(at: Planted) -> str:
    old = at.snapshot()
    reseal_snapshot(at.path, old, covers=old.covers + 1)
    return f"snapshot of {old.stream} at {old.version}"


def snapshot_ahead(at: Planted) -> str:
    reseal_snapshot(at.path, at.snapshot(), version=9_999)
    return f"snapshot of {at.task} at 9999"


def blob_bytes(at: Planted) -> str:
    name = at.blob()
    at.sql(f"UPDATE blobs SET body = body || 'x' WHERE digest = '{name}'")
    return f"blob {name}"


def blob_missing(at: Planted) -> str:
    name = at.blob()
    at.sql(f"DELETE FROM blobs WHERE digest = '{name}'")
    with open_reader(at.path) as reader:
        ledger = reader.stretch(f"{at.task}/ledger", 0, 1_000)
    record = next(one for one in ledger if name in one.body.decode())
    return f"record {record.seq}: {record.stream} {record.version}"


def blob_orphaned(at: Planted) -> str:
    name = blob_digest(b"lost")
    at.sql(f"INSERT INTO blobs VALUES ('{name}', CAST('lost' AS BLOB))")
    return f"blob {name}"


def money(at: Planted) -> str:
    at.seal(f"{at.task}/account", "Settled", book="none", amounts={"tokens": 7})
    record = record_of(at.path, f"{at.task}/account", "Settled")
    return f"record {record.seq}: {record.stream} {record.version}"


def money_kept(at: Planted) -> str:
    at.seal(f"{at.task}/account", "AccountClosed", returned={"tokens": 1})
    record = record_of(at.path, f"{at.task}/account", "AccountClosed")
    return f"record {record.seq}: {record.stream} {record.version}"


def grant(at: Planted) -> str:
    at.seal(POOL, "Granted", amounts={"tokens": 99_998})
    record = record_of(at.path, f"{at.task}/account", "GrantTaken")
    return f"record {record.seq}: {record.stream} {record.version}"


def grant_back(at: Planted) -> str:
    at.seal(POOL, "GrantReturned", amounts={"tokens": 5})
    return f"{at.task}/account"


def row_unreadable(at: Planted) -> str:
    at.sql("UPDATE rows SET value = '[]' WHERE space = 'task' AND key = '{done}'")
    return f"row task/{at.done}"


def row_missing(at: Planted) -> str:
    at.sql("DELETE FROM rows WHERE space = 'task' AND key = '{dropped}'")
    return f"row task/{at.dropped}"


def row_missing_and_stream(at: Planted) -> str:
    with editing(at.path) as db:
        mine = "(SELECT id FROM streams WHERE name = ?)"
        stream = (f"task/{at.dropped}",)
        for table in ("snapshots", "records"):
            db.execute(f"DELETE FROM {table} WHERE stream_id = {mine}", stream)
        db.execute("DELETE FROM streams WHERE name = ?", stream)
    return row_missing(at)


def row_of_none(at: Planted) -> str:
    at.sql(
        "INSERT INTO rows SELECT space, 't-none', value FROM rows "
        "WHERE space = 'task' AND key = '{done}'"
    )
    return "row task/t-none"


def row_of_none_beside(at: Planted) -> str:
    at.sql("INSERT INTO rows VALUES ('doubt', 't-none:3', '{{}}')")
    return "row doubt/t-none:3"


def row_differs(at: Planted) -> str:
    at.sql(
        "UPDATE rows SET value = replace(value, '\"completed\"', '\"failed\"') "
        "WHERE space = 'task' AND key = '{done}'"
    )
    return f"row task/{at.done}"


def row_differs_key(at: Planted) -> str:
    at.sql("DELETE FROM rows WHERE space = 'key'")
    return "row key/may"


def left_open(at: Planted) -> str:
    row = msgspec.json.encode({"task": at.done, "at": 1.0}).decode()
    with editing(at.path) as db:
        values = ("timer", f"{at.done}/1", row)
        db.execute("INSERT INTO rows VALUES (?, ?, ?)", values)
    return f"row timer/{at.done}/1"


def not_queued(at: Planted) -> str:
    at.sql("DELETE FROM rows WHERE space = 'place' AND key = '{waits}'")
    return f"task {at.waits}"


def not_queued_there(at: Planted) -> str:
    at.sql(
        "UPDATE rows SET value = json_set(value, '$.priority', 7) "
        "WHERE space = 'place' AND key = '{waits}'"
    )
    return f"task {at.waits}"


def file(at: Planted) -> str:
    at.sql("INSERT INTO inbox VALUES (7, 'id', 0.0, 'kind', 'subject', '{{}}')")
    with editing(at.path) as db:
        page = db.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name LIKE '%autoindex_inbox%'"
        ).get
        size = db.pragma("page_size")
    with at.path.open("r+b") as raw:
        raw.seek(page * size - 1)
        assert raw.read(1) == b"\x07"  # the entry's row
        raw.seek(page * size - 1)
        raw.write(b"\x08")
    return str(at.path)


def file_names(at: Planted) -> str:
    at.sql(
        f"UPDATE snapshots SET stream_id = 999 WHERE covers = {at.snapshot().covers}"
    )
    return str(at.path)


PLANTS: list[tuple[str, Callable[[Planted], str]]] = [
    ("checksum", checksum),
    ("gap", gap),
    ("unknown_type", unknown_type),
    ("newer_schema", newer_schema),
    ("no_upgrade", no_upgrade),
    ("body", body),
    ("history", history),
    ("snapshot_checksum", snapshot_checksum),
    ("snapshot_differs", snapshot_differs),
    ("snapshot_differs", snapshot_moved),
    ("snapshot_ahead", snapshot_ahead),
    ("blob_bytes", blob_bytes),
    ("blob_missing", blob_missing),
    ("blob_orphaned", blob_orphaned),
    ("money", money),
    ("money", money_kept),
    ("grant", grant),
    ("grant", grant_back),
    ("row_unreadable", row_unreadable),
    ("row_missing", row_missing),
    ("row_missing", row_missing_and_stream),
    ("row_of_none", row_of_none),
    ("row_of_none", row_of_none_beside),
    ("row_differs", row_differs),
    ("row_differs", row_differs_key),
    ("left_open", left_open),
    ("not_queued", not_queued),
    ("not_queued", not_queued_there),
    ("file", file),
    ("file", file_names),
]


@pytest.mark.parametrize(
    ("kind", "plant"), PLANTS, ids=[plant.__name__ for _, plant in PLANTS]
)
def test_what_is_planted_is_named_and_nothing_else_and_nothing_changes(
    planted: Planted, kind: str, plant: Callable[[Planted], str]
) -> None:
    where = plant(planted)
    before = bytes_of(planted.path.parent)
    report = examine(planted.path)
    assert [(one.kind, one.where) for one in report.findings] == [(kind, where)]
    assert report.counts == {kind: 1}
    assert bytes_of(planted.path.parent) == before
    means, fix = KINDS[kind]
    assert (report.findings[0].means, report.findings[0].fix) == (means, fix)


def test_all_damage_is_named_not_the_first_alone(planted: Planted) -> None:
    for plant in (blob_bytes, blob_orphaned, row_differs, left_open):
        plant(planted)
    with editing(planted.path) as db:
        db.execute("UPDATE records SET body = body || ' ' WHERE seq % 3 = 0")
        spoilt = db.execute("SELECT count(*) FROM records WHERE seq % 3 = 0").get
    report = examine(planted.path)
    assert spoilt > 10
    assert report.counts["checksum"] == spoilt
    assert {"blob_bytes", "blob_orphaned", "left_open"} <= set(report.counts)
    assert sum(report.counts.values()) == len(report.findings)


def test_a_file_that_is_torn_to_pieces_is_a_finding_too(planted: Planted) -> None:
    with planted.path.open("r+b") as raw:
        raw.seek(4096)
        raw.write(b"\xff" * 3 * 4096)
    before = bytes_of(planted.path.parent)
    report = examine(planted.path)
    assert {"file", "unreadable"} & set(report.counts)
    assert bytes_of(planted.path.parent) == before


# ── what can go on ───────────────────────────────────────────────────────────────


def test_a_live_task_is_held_back_by_what_this_code_does_not_know(
    planted: Planted,
) -> None:
    task = f"task/{planted.waits}"
    reseal(planted.path, record_of(planted.path, task, "TaskSubmitted"), type="Dreamt")
    report = examine(planted.path)
    assert (report.live, report.loads) == (1, 0)
    assert [one.task for one in report.held] == [planted.waits]
    assert "'Dreamt' is not known" in report.held[0].why
    assert set(report.counts) == {"unknown_type"}


def test_an_agent_that_is_missing_or_changed_holds_its_tasks_back(
    planted: Planted, tmp_path: Path
) -> None:
    agent = secretive(World())
    assert examine(planted.path, agents=[agent]).healthy
    missing = examine(planted.path, agents=[worker(tmp_path / "ran")])
    assert missing.counts == {"agent_missing": 1}
    assert (missing.live, missing.loads) == (1, 0)

    def changed(*tools: Any, **options: Any) -> Report:
        given = {"name": "agent", "instructions": "Other.", "model": agent.model}
        return examine(planted.path, agents=[Agent(**given, tools=tools, **options)])

    @tool(effect="read")
    def another(what: str) -> str:
        """Look elsewhere."""
        return what

    assert changed(*agent.tools.values(), another).healthy  # over this it goes on
    report = changed(another)
    assert report.counts == {"agent_changed": 1}
    assert [one.task for one in report.held] == [planted.waits]
    gone = next(iter(agent.tools))
    assert f"tool {gone!r} removed" in report.held[0].why
    assert changed(another, adopt=True).healthy


# ── other stores, and stores in use ──────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["dir", "postgres"])
def test_a_store_that_is_no_file_is_examined_at_rest_and_in_use(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = f"dir:{tmp_path / 'tasks'}"
    if kind == "postgres":
        store = request.getfixturevalue("postgres")
    with Runtime(store, agents=[worker(tmp_path / "ran")]) as runtime:
        task = runtime.submit("worker", "count")
        while task.status != "completed":
            assert_healthy(examine(store))
    report = examine(store)
    assert_healthy(report)
    assert (report.tasks, report.live) == (1, 0)
    assert report.records and report.snapshots


def assert_healthy(report: Report) -> None:
    assert report.findings == ()


def test_a_folder_s_damaged_files_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "tasks"
    store = f"dir:{folder}"
    with Runtime(store, agents=[worker(tmp_path / "ran")]) as runtime:
        assert runtime.submit("worker", "count").wait(LONG).status == "completed"
    snapshot = next((folder / "snapshots").iterdir())
    snapshot.write_bytes(snapshot.read_bytes()[:-9])
    report = examine(store)
    assert [one.what for one in report.findings] == [
        f"snapshots/{snapshot.name} cannot be read"
    ]
    batch = sorted((folder / "log").iterdir())[3]
    batch.write_bytes(batch.read_bytes()[:-9])
    assert "unreadable" in examine(store).counts
    batch.unlink()
    assert "gap" in examine(store).counts


def test_it_takes_no_more_room_for_a_long_stream(tmp_path: Path) -> None:
    peaks = []
    for records in (2_000, 40_000):
        path = tmp_path / f"{records}.db"
        with Runtime(path):
            pass
        long_stream(path, records)
        tracemalloc.start()
        assert examine(path).records >= records
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def long_stream(path: Path, records: int) -> None:
    """Add a stream of so many records to a store."""
    backend = SqliteBackend(path, create=False)
    opened = backend.open()
    made = []
    for version in range(1, records + 1):
        fields: dict[str, Any] = {
            "seq": opened.last_seq + version,
            "stream": "task/t-long/recovery",
            "version": version,
            "schema_version": 1,
            "codec": "json",
            "at": 0.0,
            "epoch": 1,
            "incarnation": 1,
            "body": b'{"op": 1, "attempt": 1}',
        }
        sealed = record_checksum(type_name="Held", **fields)
        made.append(Record(type="Held", checksum=sealed, **fields))
    backend.write(Batch(records=made, rows=[], blobs={}, upto=made[-1].seq))
    backend.flush()
    backend.close()


# ── the command ──────────────────────────────────────────────────────────────────


def test_the_command_says_what_was_found_and_exits_with_it(
    planted: Planted,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(planted.path.parent)
    monkeypatch.setenv("PERDURE_STORE", STORE)
    code, said, _ = here(capsys, "doctor")
    assert code == 0
    assert said.splitlines()[1:] == ["1 of 1 live tasks can go on", "nothing found"]
    where = blob_bytes(planted)
    code, said, _ = here(capsys, "doctor")
    means, fix = KINDS["blob_bytes"]
    assert code == 1
    assert said.splitlines()[2:] == [
        f"blob_bytes  {where}",
        f"  its bytes do not match its digest: {means}",
        f"  {fix}",
        "1 found",
    ]
    code, value, _ = perdure("doctor")
    assert code == 1
    assert value["counts"] == {"blob_bytes": 1}
    assert value["findings"][0]["where"] == where
    code, _, wrong = here(capsys, "doctor", "--agents", "no.such:agent")
    assert (code, "no module" in wrong) == (2, True)
    assert here(capsys, "doctor", "--store", "none.db")[0] == 2
