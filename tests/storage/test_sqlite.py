"""The store as a file: opening, refusing, owning, resting."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from perdure.storage.errors import (
    CannotOpen,
    NewerLayout,
    NotAStore,
    StorageError,
    StoreLocked,
)
from perdure.storage.layout import LAYOUT
from perdure.storage.reader import open_reader
from perdure.storage.sqlite import SqliteBackend
from perdure.storage.writer import IDLE
from perdure.testing.journal_contract.bench import Bench, row, snapshot_of


def snapshot_tree(folder: Path) -> dict[str, tuple[int, bytes | None]]:
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() else None,
        )
        for path in sorted(folder.rglob("*"))
    }


def filled(path: Path) -> Bench:
    bench = Bench(SqliteBackend(path))
    (record,) = bench.append(bench.lease("task/1"), 1, rows=(row("k", b"v"),))
    bench.journal.snapshot(snapshot_of(record))
    bench.commit()
    return bench


def close(bench: Bench) -> None:
    assert bench.journal.close()


def no_folder(path: Path) -> Path:
    return path.parent / "missing" / path.name


def below_a_file(path: Path) -> Path:
    path.write_text("x")
    return path / "tasks.db"


def is_a_folder(path: Path) -> Path:
    path.mkdir()
    return path


def plain_text(path: Path) -> Path:
    path.write_text("shopping list\n" * 100)
    return path


def other_database(path: Path) -> Path:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE records (seq)")
    connection.close()
    return path


def newer_store(path: Path) -> Path:
    close(filled(path))
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", LAYOUT + 1)
    connection.close()
    (path.parent / "tasks.db.lock").unlink()
    return path


REFUSED = [
    (no_folder, CannotOpen, "make that folder"),
    (below_a_file, CannotOpen, "is not a folder"),
    (is_a_folder, CannotOpen, "name a file inside it"),
    (plain_text, NotAStore, "is not a perdure store"),
    (other_database, NotAStore, "is not a perdure store"),
    (newer_store, NewerLayout, "upgrade perdure"),
]


@pytest.mark.parametrize(("make", "kind", "words"), REFUSED)
def test_what_is_no_store_of_ours_is_refused_untouched(
    tmp_path: Path,
    make: Callable[[Path], Path],
    kind: type[StorageError],
    words: str,
) -> None:
    # R11
    path = make(tmp_path / "tasks.db")
    before = snapshot_tree(tmp_path)
    for attempt in (lambda: Bench(SqliteBackend(path)), lambda: open_reader(path)):
        with pytest.raises(kind) as caught:
            attempt()
        message = str(caught.value)
        assert str(path) in message
        assert "\n" not in message
    assert words in message or make is no_folder
    assert snapshot_tree(tmp_path) == before


def test_reading_a_store_that_is_not_there_makes_none(tmp_path: Path) -> None:
    with pytest.raises(CannotOpen, match="there is no store"):
        open_reader(tmp_path / "tasks.db")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(CannotOpen, match="permission was denied"):
        SqliteBackend(tmp_path / "tasks.db").open()


def test_store_files_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        bench = filled(tmp_path / "tasks.db")
    finally:
        os.umask(before)
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
    close(bench)
    assert modes == {
        "tasks.db": 0o600,
        "tasks.db-wal": 0o600,
        "tasks.db-shm": 0o600,
        "tasks.db.lock": 0o600,
    }


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    path.touch()
    close(filled(path))
    with open_reader(path) as reader:
        assert reader.durable_seq == 1


def test_a_store_half_made_by_a_kill_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "tasks.db.new").write_bytes(b"half")
    close(filled(tmp_path / "tasks.db"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tasks.db", "tasks.db.lock"]


def test_at_rest_a_store_is_one_plain_file(tmp_path: Path) -> None:
    close(filled(tmp_path / "tasks.db"))
    before = snapshot_tree(tmp_path)
    assert sorted(before) == ["tasks.db", "tasks.db.lock"]
    with open_reader(tmp_path / "tasks.db") as reader:
        assert reader.load("task/1").head == 1
        assert sorted(snapshot_tree(tmp_path)) == ["tasks.db", "tasks.db.lock"]
    assert snapshot_tree(tmp_path) == before


def test_a_second_owner_is_refused_and_told_who_owns_it(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    bench = filled(path)
    code = (
        "import sys\n"
        "from perdure.storage.sqlite import SqliteBackend\n"
        "from perdure.storage.errors import StoreLocked\n"
        "try:\n    SqliteBackend(sys.argv[1]).open()\n"
        "except StoreLocked as error:\n    print(error.owner)\n"
    )
    before = snapshot_tree(tmp_path)
    run = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith(f"process {os.getpid()} on ")
    assert snapshot_tree(tmp_path) == before
    with pytest.raises(StoreLocked, match="close that runtime first"):
        SqliteBackend(path).open()
    bench.append(bench.lease("task/1"), 2)
    close(bench)
    close(Bench(SqliteBackend(path)))


def test_one_store_reached_by_two_names_has_one_owner(tmp_path: Path) -> None:
    bench = filled(tmp_path / "tasks.db")
    (tmp_path / "alias.db").symlink_to(tmp_path / "tasks.db")
    with pytest.raises(StoreLocked):
        SqliteBackend(tmp_path / "alias.db").open()
    close(bench)


def test_a_failed_opening_lets_the_store_go(tmp_path: Path) -> None:
    def hit(point: str, subject: str) -> None:
        if point == "journal.open.after":
            raise RuntimeError("crash")

    path = tmp_path / "tasks.db"
    with pytest.raises(RuntimeError, match="crash"):
        Bench(SqliteBackend(path), hit=hit)
    close(filled(path))


def test_a_live_store_is_read_without_owning_it(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    bench = filled(path)
    with open_reader(path) as reader:
        assert reader.durable_seq == 1
        lease = bench.lease("task/1")
        bench.append(lease, 2)
        bench.commit()
        assert [record.version for record in reader.records()] == [1, 2]
    bench.append(lease, 3)
    close(bench)


def test_looking_at_a_live_store_leaves_its_owner_its_locks(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    bench = filled(path)
    with pytest.raises(StoreLocked):
        SqliteBackend(path).open()
    open_reader(path).close()
    # Had a descriptor of ours dropped SQLite's locks, a process that reads the store
    # and leaves would think itself the last one and take the owner's WAL away.
    code = (
        "import sqlite3, sys\n"
        "other = sqlite3.connect(sys.argv[1])\n"
        "print(other.execute('SELECT count(*) FROM events').fetchone())\n"
        "other.close()\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    assert run.stdout == "(1,)\n"
    assert (tmp_path / "tasks.db-wal").exists()
    bench.append(bench.lease("task/1"), 2)
    close(bench)


def test_plain_sql_tools_read_the_events(tmp_path: Path) -> None:
    bench = Bench(SqliteBackend(tmp_path / "tasks.db"))
    bench.append(bench.lease("task/1", epoch=3), 1, body='{"city":"Ålesund"}'.encode())
    close(bench)
    connection = sqlite3.connect(tmp_path / "tasks.db")
    cursor = connection.execute(
        "SELECT *, json_extract(body, '$.city') AS city FROM events"
    )
    names = [column[0] for column in cursor.description]
    values = cursor.fetchone()
    connection.close()
    assert dict(zip(names, values, strict=True)) == {
        "seq": 1,
        "stream": "task/1",
        "version": 1,
        "type": "Noted",
        "schema_version": 1,
        "codec": "json",
        "at": bench.now,
        "epoch": 3,
        "incarnation": 1,
        "body": '{"city":"Ålesund"}',
        "city": "Ålesund",
    }


def test_many_rows_of_one_batch_are_all_written(tmp_path: Path) -> None:
    bench = Bench(SqliteBackend(tmp_path / "tasks.db"))
    lease = bench.lease("a")
    count = 64 * 2 + 8 + 3
    for version in range(1, count + 1):
        bench.append(
            lease,
            version,
            rows=(row(f"{version:04}", b"%d" % version),),
            blobs=(b"blob %d" % version,),
        )
    assert [r.version for r in bench.load("a").records] == list(range(1, count + 1))
    assert len(bench.read(lambda reader: reader.rows("tasks"))) == count
    close(bench)


def test_the_wal_starts_over_when_it_is_long(tmp_path: Path) -> None:
    # R26: bounded by the checkpoint, not by what was written.
    bench = Bench(SqliteBackend(tmp_path / "tasks.db"))
    lease = bench.lease("a")
    body = b'"' + b"x" * 100_000 + b'"'
    sizes: list[int] = []
    for version in range(1, 181):
        bench.append(lease, version, body=body)
        bench.commit()
        sizes.append((tmp_path / "tasks.db-wal").stat().st_size)
    assert sum(len(body) for _ in sizes) > 2 * max(sizes)
    close(bench)


def test_the_wal_is_emptied_when_nothing_was_written_for_a_while(
    tmp_path: Path,
) -> None:
    # R26
    bench = filled(tmp_path / "tasks.db")
    wal = tmp_path / "tasks.db-wal"
    ((delay, _),) = bench.timers
    assert delay == IDLE
    bench.append(bench.lease("task/2"), 1)
    bench.commit()
    bench.pass_time()  # there was a batch meanwhile
    assert wal.stat().st_size > 0
    bench.pass_time()
    assert wal.stat().st_size == 0
    assert bench.timers == []
    bench.append(bench.lease("task/2"), 2)
    assert bench.load("task/2").head == 2
    assert len(bench.timers) == 1
    close(bench)


def test_the_wal_is_emptied_once_nobody_reads_it(tmp_path: Path) -> None:
    bench = filled(tmp_path / "tasks.db")
    wal = tmp_path / "tasks.db-wal"
    other = apsw.Connection(str(tmp_path / "tasks.db"))
    other.execute("BEGIN")
    assert other.execute("SELECT count(*) FROM records").get == 1
    bench.pass_time()
    assert wal.stat().st_size > 0
    assert bench.journal.health().state == "ok"
    other.execute("COMMIT")
    bench.pass_time()
    assert wal.stat().st_size == 0
    other.close()
    close(bench)


def test_a_forked_child_holds_neither_the_lock_nor_the_journal(tmp_path: Path) -> None:
    code = """
import os, sys, time
sys.path.insert(0, sys.argv[2])
from perdure.storage.errors import Fenced
from perdure.storage.sqlite import SqliteBackend
from perdure.storage.writer import IDLE
from perdure.testing.journal_contract.bench import Bench
bench = Bench(SqliteBackend(sys.argv[1]))
lease = bench.lease("a")
read, write = os.pipe()
child = os.fork()
if child == 0:
    os.close(write)
    try:
        bench.append(lease, 1)
    except Fenced:
        assert not bench.journal.close()
        print("refused", flush=True)
    os.read(read, 1)  # lives on until its parent is gone
    SqliteBackend(sys.argv[1]).open()
    print("free", flush=True)
os._exit(0)
"""
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "tasks.db", root],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert (run.stdout.split(), run.stderr) == (["refused", "free"], "")
