"""Who may only read a store reads it, and leaves nothing behind: not even a file."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from perdure.storage import sqlite_aside
from perdure.storage.address import open_inbox
from perdure.storage.backend import Backend
from perdure.storage.backup import copy_store
from perdure.storage.errors import CannotOpen, StoreFailed, StoreTrouble
from perdure.storage.folder import FolderBackend
from perdure.storage.reader import open_reader
from perdure.storage.records import Command, Lease
from perdure.storage.sqlite import SqliteBackend
from perdure.testing.journal_contract.bench import Bench, row, snapshot_of
from tests.readonly import WAYS, Place, place

ROOT = Path(__file__).parents[2]
STORE = "tasks.db"
COPIED = ("the store and its WAL", "the store alone")
STATES = ("in use", "killed", "at rest", *COPIED)

READ = """
import json, sys
from perdure.storage.reader import open_reader
with open_reader(sys.argv[1]) as reader:
    loaded = reader.load("task/1")
    said = {
        "copied": reader.copied,
        "durable": reader.durable_seq,
        "records": [one.version for one in reader.records()],
        "snapshot": loaded.snapshot and loaded.snapshot.version,
        "rows": [one.key for one in reader.rows("tasks")],
        "damage": reader.damage(),
    }
print(json.dumps(said))
"""


@pytest.fixture(params=WAYS)
def where(request: pytest.FixtureRequest) -> Iterator[Place]:
    with place(request.param) as made:
        yield made


def filled(backend: Backend) -> tuple[Bench, Lease]:
    bench = Bench(backend)
    lease = bench.lease("task/1")
    (record,) = bench.append(lease, 1, rows=(row("k", b"v"),))
    bench.journal.snapshot(snapshot_of(record))
    bench.commit()
    bench.append(lease, 2)
    bench.commit()
    return bench, lease


def brought_to(state: str, path: Path) -> Bench | None:
    """Make a store there, in one of the states that somebody may find it in."""
    bench, _ = filled(SqliteBackend(path))
    if state == "in use":
        return bench
    if state == "at rest":
        assert bench.journal.close()
        return None
    if state == "the store alone":
        bench.backend.tidy(idle=True)
    bench.backend.abandon()
    if state in COPIED:
        path.with_name(STORE + "-shm").unlink()
        path.with_name(STORE + ".lock").unlink()
    if state == "the store alone":
        path.with_name(STORE + "-wal").unlink()
    return None


def tree(folder: Path) -> dict[str, bytes]:
    files = {
        str(one.relative_to(folder)): one.read_bytes()
        for one in folder.rglob("*")
        if one.is_file() and not one.name.endswith("-shm")  # locks, and no data
    }
    return files | {
        one.name: b"" for one in folder.iterdir() if one.name.endswith("-shm")
    }


@pytest.mark.parametrize("state", STATES)
def test_a_file_is_read_in_every_state_by_who_may_write_nothing(
    where: Place, state: str
) -> None:
    owner = brought_to(state, where.folder / STORE)
    where.show()
    before = tree(where.folder)
    done = where.run("-c", READ, str(where.seen / STORE))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said == {
        "copied": state in COPIED,
        "durable": 2,
        "records": [1, 2],
        "snapshot": 1,
        "rows": ["k"],
        "damage": [],
    }
    assert tree(where.folder) == before
    assert where.left() == []
    if owner is not None:
        assert owner.journal.close()
        assert sorted(tree(where.folder)) == [STORE, f"{STORE}.lock"]


@pytest.mark.parametrize("state", ["in use", "at rest"])
def test_a_folder_is_read_by_who_may_write_nothing(where: Place, state: str) -> None:
    bench, _ = filled(FolderBackend(where.folder / "tasks"))
    if state == "at rest":
        assert bench.journal.close()
    where.show()
    before = tree(where.folder)
    done = where.run("-c", READ, f"dir:{where.seen / 'tasks'}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["records"] == [1, 2]
    assert tree(where.folder) == before


def test_a_folder_is_read_without_those_that_were_empty(tmp_path: Path) -> None:
    bench, _ = filled(FolderBackend(tmp_path / "tasks"))
    assert bench.journal.close()
    for name in ("base", "inbox", "snapshots"):  # archives leave them out
        shutil.rmtree(tmp_path / "tasks" / name)
    before = tree(tmp_path)
    with open_reader(f"dir:{tmp_path / 'tasks'}") as reader:
        assert reader.load("task/1").head == 2
        assert reader.commands() == []
    assert tree(tmp_path) == before
    shutil.rmtree(tmp_path / "tasks" / "log")  # that one was not
    with open_reader(f"dir:{tmp_path / 'tasks'}") as reader, pytest.raises(StoreFailed):
        reader.load("task/1")


def test_a_copy_that_a_power_cut_left_half_written_is_rolled_back(
    where: Place,
) -> None:
    path = where.folder / STORE
    brought_to("at rest", path)
    # A transaction that was cut off after its pages were written.
    code = (
        "import apsw, os, sys\n"
        "db = apsw.Connection(sys.argv[1])\n"
        "db.pragma('cache_size', 1); db.pragma('cache_spill', 1)\n"
        "db.execute('BEGIN')\n"
        "db.execute('DELETE FROM records')\n"
        "db.execute('CREATE TABLE x (y)')\n"
        'for n in range(99): db.execute("INSERT INTO x VALUES (zeroblob(9000))")\n'
        "db.cache_flush()\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True)
    assert path.with_name(STORE + "-journal").stat().st_size
    where.show()
    before = tree(where.folder)
    done = where.run("-c", READ, str(where.seen / STORE))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["records"] == [1, 2]
    assert (tree(where.folder), where.left()) == (before, [])


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_command_is_refused_where_it_cannot_be_kept(where: Place, kind: str) -> None:
    if kind == "file":
        brought_to("killed", where.folder / STORE)
        address = str(where.seen / STORE)
    else:
        filled(FolderBackend(where.folder / STORE))[0].backend.abandon()
        address = f"dir:{where.seen / STORE}"
    where.show()
    before = tree(where.folder)
    code = (
        "import sys\n"
        "from perdure.storage.address import open_inbox\n"
        "from perdure.storage.errors import CannotOpen\n"
        "try:\n    open_inbox(sys.argv[1])\n"
        "except CannotOpen as error:\n    print(error.reason)\n"
    )
    done = where.run("-c", code, address)
    assert done.stdout.strip() == (
        "a command is kept in it, and this user may not write it here"
    ), done.stderr
    assert tree(where.folder) == before


def test_a_mount_shows_what_its_owner_goes_on_to_write() -> None:
    with place("mount") as where:
        bench, lease = filled(SqliteBackend(where.folder / STORE))
        with open_reader(where.seen / STORE) as reader:
            assert reader.durable_seq == 2
            bench.append(lease, 3)
            bench.commit()
            assert reader.load("task/1").head == 3
        assert bench.journal.close()


# ── copies while somebody writes ─────────────────────────────────────────────────


@pytest.fixture
def aside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Have every reader read a copy; the folder that copies are made in."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(sqlite_aside, "_stands_in_place", lambda path: False)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, *acts: Callable[[], object]
) -> list[int]:
    """Between the copies of a file and of its WAL somebody acts: once in each copy."""
    copied: list[int] = []
    copy_file = sqlite_aside._copy_file

    def copy(path: Path, target: Path) -> bool:
        whole = copy_file(path, target)
        if len(copied) < len(acts):
            acts[len(copied)]()
        copied.append(1)
        return whole

    monkeypatch.setattr(sqlite_aside, "_copy_file", copy)
    return copied


def versions(path: Path) -> list[int]:
    with open_reader(path) as reader:
        assert reader.copied
        assert reader.damage() == []
        return [one.version for one in reader.records()]


def test_a_copy_is_of_one_moment_though_pages_were_moved_meanwhile(
    tmp_path: Path, aside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / STORE
    bench, lease = filled(SqliteBackend(path))
    before = path.read_bytes()

    def move() -> None:
        bench.append(lease, 3)
        bench.commit()
        bench.backend._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        assert path.read_bytes() != before

    copied = meanwhile(monkeypatch, move)
    assert versions(path) == [1, 2, 3]
    assert len(copied) == 1
    assert list(aside.iterdir()) == []


def begin_again(bench: Bench, lease: Lease, version: int) -> None:
    """Move all of the WAL into the file, and begin it anew."""
    bench.backend.tidy(idle=True)
    bench.append(lease, version)
    bench.commit()


def test_a_copy_is_made_again_if_the_wal_began_anew(
    tmp_path: Path, aside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / STORE
    bench, lease = filled(SqliteBackend(path))
    copied = meanwhile(monkeypatch, lambda: begin_again(bench, lease, 3))
    assert versions(path) == [1, 2, 3]
    assert len(copied) == 2


def test_a_copy_is_made_again_if_an_owner_came_and_went(
    tmp_path: Path, aside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / STORE
    bench, _ = filled(SqliteBackend(path))
    assert bench.journal.close()

    def come_and_go() -> None:
        again = Bench(SqliteBackend(path))
        again.append(again.lease("task/1", 2), 3)
        assert again.journal.close()

    copied = meanwhile(monkeypatch, come_and_go)
    assert versions(path) == [1, 2, 3]
    assert len(copied) == 2


def test_a_store_that_never_rests_is_said_to_be_busy(
    tmp_path: Path, aside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / STORE
    bench, lease = filled(SqliteBackend(path))
    numbers = iter(range(3, 99))
    copied = meanwhile(
        monkeypatch, *[lambda: begin_again(bench, lease, next(numbers))] * 99
    )
    with pytest.raises(StoreTrouble, match="is busy"):
        open_reader(path)
    assert len(copied) == sqlite_aside.ATTEMPTS
    assert list(aside.iterdir()) == []


WRITER = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from perdure.storage.sqlite import SqliteBackend
from perdure.testing.journal_contract.bench import Bench
bench = Bench(SqliteBackend(sys.argv[1]))
lease = bench.lease("task/1")
version = 0
while True:
    for _ in range(9):
        version += 1
        bench.append(lease, version, body=b'"%s"' % (b"x" * (version % 900)))
        bench.commit()
    if version % 7 == 0:
        bench.backend.tidy(idle=version % 2 == 0)
    print(version, flush=True)
"""


def test_copies_of_a_store_that_is_written_all_the_while_are_whole(
    tmp_path: Path, aside: Path
) -> None:
    path = tmp_path / STORE
    words = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        try:
            for _ in range(20):
                acknowledged = int(writer.stdout.readline())
                found = versions(path)
                assert found == list(range(1, len(found) + 1))
                assert len(found) >= acknowledged
        finally:
            writer.kill()
    assert list(aside.iterdir()) == []


def test_a_copy_leaves_nothing_behind_where_there_is_no_room(
    tmp_path: Path, aside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / STORE
    filled(SqliteBackend(path))[0].backend.abandon()

    def full(*_: Any) -> bool:
        raise OSError(28, "No space left on device", str(aside))

    with monkeypatch.context() as patch:
        patch.setattr(sqlite_aside, "_copy_file", full)
        with pytest.raises(CannotOpen, match=r"no room for that in .*temporary"):
            open_reader(path)
    assert list(aside.iterdir()) == []
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path / "none"))
        with pytest.raises(CannotOpen, match="set TMPDIR"):
            open_reader(path)


def test_a_backup_is_made_of_a_copy_too(tmp_path: Path, aside: Path) -> None:
    path = tmp_path / STORE
    filled(SqliteBackend(path))[0].backend.abandon()
    copy_store(path, tmp_path / "backup.db")
    assert versions(tmp_path / "backup.db") == [1, 2]
    assert list(aside.iterdir()) == []


# ── readers hold nothing ─────────────────────────────────────────────────────────


def test_no_read_leaves_open_what_keeps_the_wal_long(tmp_path: Path) -> None:
    path = tmp_path / STORE
    bench, lease = filled(SqliteBackend(path))
    with open_inbox(path) as inbox:
        inbox.send(Command(id="c", kind="k", subject="s", at=0.0))
    calls: dict[str, tuple[Any, ...]] = {
        "durable_seq": (),
        "row": ("tasks", "k"),
        "rows": ("tasks",),
        "last_row": ("tasks", ""),
        "rows_after": ("tasks", "", 1),
        "digests": ("", 1),
        "streams": (),
        "commands": (),
        "sent": (["s"],),
        "load": ("task/1",),
        "all_of": ("task/1",),
        "whole": (snapshot_of(bench.append(lease, 3)[0]),),
        "head": ("task/1",),
        "position": ("task/1",),
        "records": (0, 1),
        "stretch": ("task/1", 0, 1),
        "examined": ("task/1", 0, 1),
        "examined_snapshots": ("task/1",),
        "damage": (),
        "fetch": ([1],),
        "blob": ("0" * 64,),
        "examined_blob": ("0" * 64,),
        "snapshots": ("task/1",),
    }
    with open_reader(path) as reader:
        public = {name for name in dir(reader) if name[0] != "_"}
        assert public - set(calls) == {"close", "copied", "objects"}
        for version, (name, given) in enumerate(calls.items(), 4):
            found = getattr(reader, name)
            if callable(found):
                found(*given)
            bench.append(lease, version)
            bench.commit()
            bench.backend.tidy(idle=True)
            assert path.with_name(STORE + "-wal").stat().st_size == 0, name
    assert bench.journal.close()
