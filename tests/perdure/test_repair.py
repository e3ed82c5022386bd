"""A repair sets aside what is amiss, loses nothing, and lets the rest go on."""

from __future__ import annotations

import base64
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure import Agent, Budget, Misuse, Runtime, views
from perdure.actors.upgrades import body_of
from perdure.doctor import examine, put_back, quarantined, repair
from perdure.doctor.walk import fold_of
from perdure.folds import event_of
from perdure.storage.address import backend_of
from perdure.storage.backend import Batch
from perdure.storage.errors import StorageError, StoreLocked
from perdure.storage.journal import Journal
from perdure.storage.reader import open_reader
from perdure.storage.records import Record, Row, blob_digest, record_checksum
from perdure.storage.sqlite import SqliteBackend
from tests.actors.test_erasing import secretive
from tests.actors.world import World
from tests.perdure.hosting import LONG, calls, opened, reporter
from tests.perdure.planting import editing, record_of, reseal_snapshot
from tests.perdure.test_cli_ask import asking, here, perdure
from tests.perdure.test_doctor import (
    PLANTS,
    STORE,
    Planted,
    blob_bytes,
    body,
    checksum,
    file,
    left_open,
    planted,
    row_differs,
    row_unreadable,
    snapshot_differs,
    sound,
    unknown_type,
)
from tests.perdure.test_other_stores import worker

__all__ = ["planted", "sound"]  # fixtures

# What no quarantine helps against: newer code does, or a backup.
STAYS = {"unknown_type", "newer_schema", "no_upgrade"}

LEFT_OPEN = "SELECT CAST(value AS BLOB) FROM rows WHERE space = 'timer' AND key = ?"
TABLES = {
    "records": "SELECT seq, stream_id, version, type_id, schema_version, "
    "CAST(body AS BLOB), checksum FROM records",
    "rows": "SELECT space, key, CAST(value AS BLOB) FROM rows",
    "blobs": "SELECT digest, CAST(body AS BLOB) FROM blobs",
    "snapshots": "SELECT version, covers, CAST(body AS BLOB) FROM snapshots",
    "inbox": "SELECT id, CAST(body AS BLOB) FROM inbox",
}


def everything(path: Path) -> dict[str, set[tuple[Any, ...]]]:
    with editing(path) as db:
        return {name: set(db.execute(sql)) for name, sql in TABLES.items()}


def kept(path: Path) -> set[bytes]:
    """All that quarantine holds."""
    return {body for _, body in quarantined(path)}


@pytest.mark.parametrize(
    ("kind", "plant"), PLANTS, ids=[plant.__name__ for _, plant in PLANTS]
)
def test_after_a_repair_the_store_opens_and_nothing_was_lost(
    planted: Planted, kind: str, plant: Callable[[Planted], str]
) -> None:
    plant(planted)
    before = everything(planted.path)
    done = repair(planted.path)
    after = everything(planted.path)
    held_now = kept(planted.path)
    for table, lines in before.items():
        for line in lines - after[table]:
            assert table in ("rows", "blobs", "snapshots"), line
            assert any(line[-1] in one for one in held_now), line
    assert before["records"] <= after["records"]
    left = {kind} if kind in STAYS or plant.__name__ == "file_names" else set()
    assert set(done.left.counts) == left
    assert bool(done.taken) == (not left)
    again = repair(planted.path)
    assert (again.taken, again.parked) == ((), ())
    assert again.left == done.left
    assert examine(planted.path) == done.left
    with opened(planted.path, secretive(World())) as runtime:
        assert runtime.submit("agent", "Write.").wait(LONG).status == "completed"


# ── live tasks ───────────────────────────────────────────────────────────────────


class Live:
    """A store with a task that waits for a person, to be spoilt; and others' tasks."""

    def __init__(self, path: Path, task: str, waits: str) -> None:
        self.path, self.task, self.waits = path, task, waits

    def spoil(self, stream: str, kind: str) -> None:
        record = record_of(self.path, f"task/{self.task}{stream}", kind)
        with editing(self.path) as db:
            db.execute(
                f"UPDATE records SET body = body || ' ' WHERE seq = {record.seq}"
            )

    def sql(self, statement: str) -> None:
        with editing(self.path) as db:
            db.execute(statement, (self.task,))
            assert db.changes() == 1


@pytest.fixture(scope="module")
def asking_store(tmp_path_factory: pytest.TempPathFactory) -> Live:
    path = tmp_path_factory.mktemp("asking") / STORE
    with opened(path, asker(World())) as runtime:
        task = runtime.submit("agent", "Delete.", budget=Budget(tokens=99_999))
        assert task.wait(LONG).reason == "approval"
        waits = runtime.submit("agent", "Later.", not_before=4e9)
    return Live(path, task.id, waits.id)


@pytest.fixture
def live(asking_store: Live, tmp_path: Path) -> Live:
    shutil.copytree(asking_store.path.parent, tmp_path / "store")
    return Live(tmp_path / "store" / STORE, asking_store.task, asking_store.waits)


def asker(world: World) -> Agent:
    return reporter(world, asking(world), script=calls("delete"))


HARMS: dict[str, Callable[[Live], object]] = {
    "its first record": lambda at: at.spoil("", "TaskSubmitted"),
    "a later one": lambda at: at.spoil("", "DecisionMade"),
    "one of its effect": lambda at: at.spoil("", "ApprovalAsked"),
    "its account": lambda at: at.spoil("/account", "GrantTaken"),
    "a record is missing": lambda at: at.sql(
        "DELETE FROM records WHERE version = 3 AND stream_id = "
        "(SELECT id FROM streams WHERE name = 'task/' || ?)"
    ),
    "its row cannot be read": lambda at: at.sql(
        "UPDATE rows SET value = '[]' WHERE space = 'task' AND key = ?"
    ),
    "its row is missing": lambda at: at.sql(
        "DELETE FROM rows WHERE space = 'task' AND key = ?"
    ),
    "its row says that it ended": lambda at: at.sql(
        "UPDATE rows SET value = replace(value, '\"paused\"', '\"completed\"') "
        "WHERE space = 'task' AND key = ?"
    ),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_harmed_task_is_parked_and_the_others_run(live: Live, harm: str) -> None:
    others = "SELECT * FROM rows WHERE space NOT IN ('task', 'place', 'quarantined')"
    with editing(live.path) as db:
        before = set(db.execute(others))
    HARMS[harm](live)
    done = repair(live.path)
    with editing(live.path) as db:
        assert set(db.execute(others)) == before
    assert (done.parked, done.left.findings) == ((live.task,), ())
    (item,) = [one for one in done.taken if one.parked]
    with opened(live.path, asker(World())) as runtime:
        stands = runtime.task(live.task)
        assert stands.status == "parked"
        result = stands.wait(LONG)
        assert result.reason == "parked"
        with open_reader(live.path) as reader:
            line = views.task_line(reader, live.task)
        assert item.id in line.detail
        assert item.kind in line.detail
        other = runtime.submit("agent", "Delete.")
        assert other.wait(LONG).reason == "approval"
        assert runtime.task(live.waits).status == "queued"
    assert repair(live.path).taken == ()


@pytest.mark.parametrize("harm", HARMS)
def test_a_harmed_task_that_is_resumed_harms_nobody_else(live: Live, harm: str) -> None:
    HARMS[harm](live)
    repair(live.path)
    with opened(live.path, asker(World())) as runtime:
        task = runtime.task(live.task)
        task.resume()
        assert task.wait(LONG).status in ("parked", "paused")
        other = runtime.submit("agent", "Delete.")
        assert other.wait(LONG).reason == "approval"


# ── quarantine ───────────────────────────────────────────────────────────────────


def test_what_was_taken_comes_back_as_it_was(planted: Planted) -> None:
    left_open(planted)
    row_unreadable(planted)
    before = everything(planted.path)["rows"]
    done = repair(planted.path)
    assert before - everything(planted.path)["rows"]
    back = put_back(planted.path, [one.id for one in done.taken])
    assert {one.kind for one in back} == {"left_open", "row_unreadable"}
    assert everything(planted.path)["rows"] == before
    assert quarantined(planted.path) == []
    assert examine(planted.path).counts == {"row_unreadable": 1}  # it hides the other


def test_a_note_is_dropped_and_the_finding_is_one_again(planted: Planted) -> None:
    checksum(planted)
    (item,) = repair(planted.path).taken
    report = examine(planted.path)
    assert (report.counts, report.quarantined) == ({}, 1)
    put_back(planted.path, [item.id])
    assert examine(planted.path).counts == {"checksum": 1}


def test_what_was_written_since_is_not_overwritten(planted: Planted) -> None:
    row_unreadable(planted)
    (item,) = repair(planted.path).taken
    row_differs(planted)
    before = everything(planted.path)
    with pytest.raises(Misuse, match="was written since"):
        put_back(planted.path, [item.id])
    assert everything(planted.path)["rows"] == before["rows"]


def test_what_is_taken_twice_is_held_twice(planted: Planted) -> None:
    values = []
    for at in ("1.0", "2.0"):
        left_open(planted)
        with editing(planted.path) as db:
            db.execute(
                "UPDATE rows SET value = replace(value, '1.0', ?) "
                "WHERE space = 'timer'",
                (at,),
            )
            values.append(db.execute(LEFT_OPEN, (f"{planted.done}/1",)).get)
        assert len(repair(planted.path).taken) == 1
    assert kept(planted.path) == set(values)
    assert len(set(values)) == 2


def test_a_newer_snapshot_outlives_a_wrong_one(planted: Planted) -> None:
    old = planted.snapshot()
    with open_reader(planted.path) as reader:
        records = reader.stretch(old.stream, 0, 1_000)
    assert old.version < len(records) - 1
    state, apply = fold_of(old.stream) or (None, None)
    assert apply is not None
    for record in records[: old.version + 1]:
        state = apply(state, event_of(record))
    newer = msgspec.structs.replace(
        old,
        version=record.version,
        covers=record.seq,
        body=body_of(state),
    )
    backend = SqliteBackend(planted.path, create=False)
    backend.open()
    assert backend.write_snapshots([newer]) == []
    backend.close()
    reseal_snapshot(planted.path, old, covers=old.covers + 1)
    (item,) = repair(planted.path).taken
    assert item.name == f"{old.stream} {old.version}"
    with open_reader(planted.path) as reader:
        versions = [one.version for one in reader.snapshots(old.stream)]
    assert versions == [len(records), newer.version]


def test_what_was_made_anew_is_found_again_when_it_is_gone_again(live: Live) -> None:
    for _ in range(2):
        HARMS["its row is missing"](live)
        assert examine(live.path).counts["row_missing"] == 1
        assert [one.kind for one in repair(live.path).taken] == ["row_missing"]


@pytest.mark.parametrize("plant", [blob_bytes, snapshot_differs, file])
def test_what_is_damaged_is_held_and_never_put_back(
    planted: Planted, plant: Callable[[Planted], str]
) -> None:
    plant(planted)
    taken = repair(planted.path).taken
    before = everything(planted.path)
    with pytest.raises(Misuse, match="kept to be looked at"):
        put_back(planted.path, [one.id for one in taken])
    with pytest.raises(Misuse, match="is not in quarantine"):
        put_back(planted.path, ["q-none"])
    assert everything(planted.path) == before


def test_a_wrong_snapshot_is_replaced_by_what_replay_comes_to(
    planted: Planted,
) -> None:
    right = planted.snapshot()
    snapshot_differs(planted)
    wrong = planted.snapshot()
    repair(planted.path)
    ((item, body),) = quarantined(planted.path)
    with open_reader(planted.path) as reader:
        now = {one.version: one.body for one in reader.snapshots(right.stream)}
    assert now[right.version] == right.body
    assert body.partition(b"\n")[2] == wrong.body
    assert item.name == f"{right.stream} {right.version}"


def test_of_a_damaged_index_the_whole_file_is_kept(planted: Planted) -> None:
    file(planted)
    before = planted.path.read_bytes()
    (item,) = repair(planted.path).taken
    copy = planted.path.with_name(f"{STORE}.quarantine-1")
    assert item.name == str(copy)
    assert copy.read_bytes() == before
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with editing(planted.path) as db:
        assert db.pragma("integrity_check") == "ok"
    assert examine(copy).counts == {"file": 1}


def test_a_file_that_is_torn_to_pieces_is_left_as_it_is(planted: Planted) -> None:
    with planted.path.open("r+b") as raw:
        raw.seek(4096)
        raw.write(b"\xff" * 3 * 4096)
    before = planted.path.read_bytes()
    try:
        done = repair(planted.path)
    except StorageError:
        pass
    else:
        assert done.taken == ()
        assert {"file", "unreadable"} & set(done.left.counts)
    assert len(planted.path.read_bytes()) == len(before)
    assert sorted(one.name for one in planted.path.parent.iterdir()) == [
        STORE,
        f"{STORE}.lock",
    ]


@pytest.mark.parametrize("plant", [left_open, file])
def test_a_store_in_use_is_not_repaired(
    planted: Planted, plant: Callable[[Planted], str]
) -> None:
    plant(planted)
    with opened(planted.path, secretive(World())):
        for act in (repair, lambda path: put_back(path, ["q-1"])):
            with pytest.raises(StoreLocked, match="close that runtime first"):
                act(planted.path)
    assert quarantined(planted.path) == []
    assert not list(planted.path.parent.glob("*.quarantine*"))


def test_what_quarantine_holds_of_a_task_is_erased_with_it(planted: Planted) -> None:
    blob_bytes(planted)
    body(planted)
    repair(planted.path)
    with opened(planted.path, secretive(World())) as runtime:
        assert any(b"Orchard" in one for one in kept(planted.path))
        assert "Orchard" in str(runtime.export(task=planted.done))
        runtime.erase(task=planted.done, by="an operator")
    assert not any(b"Orchard" in one for one in kept(planted.path))


def test_a_sound_store_is_not_written_to(planted: Planted) -> None:
    before = everything(planted.path)
    done = repair(planted.path)
    assert (done.taken, done.parked, done.left.healthy) == ((), (), True)
    assert everything(planted.path) == before


@pytest.mark.parametrize("at", range(1, 7))
def test_a_repair_that_is_killed_is_done_again(
    planted: Planted, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for plant in (blob_bytes, snapshot_differs, row_unreadable, left_open, checksum):
        plant(planted)
    before = everything(planted.path)
    commits = 0
    commit = Journal.commit_batch

    def dying(journal: Journal) -> bool:
        nonlocal commits
        commits += 1
        if commits == at:
            raise KeyboardInterrupt
        return commit(journal)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "commit_batch", dying)
        patch.setattr(Journal, "close", lambda journal: journal._backend.abandon())
        with pytest.raises(KeyboardInterrupt):
            repair(planted.path)
    done = repair(planted.path)
    assert done.left.findings == ()
    after, held_now = everything(planted.path), kept(planted.path)
    for table, lines in before.items():
        for line in lines - after[table]:
            assert any(line[-1] in one for one in held_now), (table, line)
    assert repair(planted.path).taken == ()


# ── other stores, and the command ────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["dir", "postgres"])
def test_a_store_that_is_no_file_is_repaired(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = f"dir:{tmp_path / 'tasks'}"
    if kind == "postgres":
        store = request.getfixturevalue("postgres")
    with Runtime(store, agents=[worker(tmp_path / "ran")]) as runtime:
        assert runtime.submit("worker", "count").wait(LONG).status == "completed"
    backend = backend_of(store, create=False)
    seq = backend.open().last_seq + 1
    lost = Row(space="timer", key="t-none/1", value=b'{"task":"t-none","at":1.0}')
    orphan = {blob_digest(b"lost"): b"lost", blob_digest(b"x"): b"y"}
    noted = note_of(seq)
    backend.write(Batch(records=[noted], rows=[lost], blobs=orphan, upto=seq))
    backend.flush()
    backend.close()
    kinds = {"row_of_none", "blob_orphaned", "blob_bytes"}
    assert set(examine(store).counts) == kinds
    done = repair(store)
    assert {one.kind for one in done.taken} == kinds
    assert done.left.findings == ()
    held_now = {one.kind: body for one, body in quarantined(store)}
    assert held_now == {
        "row_of_none": lost.value,
        "blob_bytes": b"y",
        "blob_orphaned": b"",
    }
    assert repair(store).taken == ()


def note_of(seq: int) -> Record:
    fields: dict[str, Any] = {
        "seq": seq,
        "stream": "services/quarantine",
        "version": 1,
        "schema_version": 1,
        "codec": "json",
        "at": 0.0,
        "epoch": 1,
        "incarnation": 1,
        "body": b'{"item":"q-0","kind":"none"}',
    }
    sealed = record_checksum(type_name="Quarantined", **fields)
    return Record(type="Quarantined", checksum=sealed, **fields)


def test_a_folder_s_file_of_snapshots_is_moved_away(tmp_path: Path) -> None:
    folder = tmp_path / "tasks"
    store = f"dir:{folder}"
    with Runtime(store, agents=[worker(tmp_path / "ran")]) as runtime:
        assert runtime.submit("worker", "count").wait(LONG).status == "completed"
    snapshot = next((folder / "snapshots").iterdir())
    body = snapshot.read_bytes()[:-9]
    snapshot.write_bytes(body)
    (item,) = repair(store).taken
    assert Path(item.name).read_bytes() == body
    assert Path(item.name).parent == folder / "quarantine"
    assert not snapshot.exists()
    assert examine(store).healthy
    with Runtime(store, agents=[worker(tmp_path / "ran")]) as runtime:
        assert runtime.submit("worker", "count").wait(LONG).status == "completed"


def test_the_command_repairs_lists_and_puts_back(
    planted: Planted,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(planted.path.parent)
    monkeypatch.setenv("PERDURE_STORE", STORE)
    where = left_open(planted)
    code, said, _ = here(capsys, "doctor", "--repair")
    item = said.split()[0]
    assert code == 0
    assert said.splitlines() == [
        f"{item}  left_open  {where}",
        f"  task {planted.done} has ended; held: row timer/{planted.done}/1",
        "1 set aside",
        said.splitlines()[3],
        "1 of 1 live tasks can go on",
        "1 in quarantine, see perdure doctor --quarantine",
        "nothing found",
    ]
    code, said, _ = here(capsys, "doctor", "--quarantine")
    assert (code, said.splitlines()[0]) == (0, f"{item}  left_open  {where}")
    assert said.splitlines()[-1] == "1 in quarantine"
    code, value, _ = perdure("doctor", "--quarantine")
    assert code == 0
    assert b"at" in base64.b64decode(value[0]["held"])
    code, said, _ = here(capsys, "doctor", "--put-back", item)
    assert (code, said) == (0, f"{item}  {where}: put back\n")
    assert here(capsys, "doctor")[0] == 1
    assert here(capsys, "doctor", "--repair", "--agents", "a:b")[0] == 2
    assert here(capsys, "doctor", "--put-back", "q-none")[0] == 2
    checksum(planted)
    unknown_type(planted)
    assert here(capsys, "doctor", "--repair")[0] == 1  # something is left
