"""What was erased is nowhere in the file: not after a kill, nor after a power cut."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import apsw
import msgspec
import pytest

from perdure.storage.erasure import Erasure, Redaction
from perdure.storage.errors import CannotOpen, StorageError
from perdure.storage.inbox import Inbox
from perdure.storage.reader import open_reader
from perdure.storage.records import Command, Row
from perdure.storage.sqlite import SqliteBackend
from perdure.testing.journal_contract.bench import Bench, draft, snapshot_of
from tests.storage.power import Disk

ROOT = Path(__file__).parents[2]
SECRET = b"Orchard Lane 7"
FAMILY = Erasure(families=("task/1",), subjects=("t-1",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


def written(path: Path) -> Bench:
    """A store with the secret wherever a task's words may be, old places included."""
    bench = Bench(SqliteBackend(path))
    one, two = bench.lease("task/1"), bench.lease("task/2")
    for version in range(1, 41):
        body = b'{"n":%d,"said":"%s"}' % (version, SECRET * (1 + version * 20 % 400))
        key, other = f"{version * 37 % 100:02}", f"x{version * 13 % 100:02}"
        rows = (Row(space="tasks", key=key, value=SECRET * 9 + b"%d" % version),)
        (record,) = bench.append(one, version, body=body, rows=rows)
        kept = (Row(space="tasks", key=other, value=b"kept" * version),)
        bench.append(two, version, body=b'{"n":%d}' % version, rows=kept)
        bench.commit()
        if version % 8 == 0:
            bench.journal.snapshot(snapshot_of(record, body=body * 3))
            bench.commit()
    blob = SECRET * 5_000
    bench.append(one, 41, body=b"{}", blobs=(blob,))
    with Inbox(path) as inbox:
        command = Command(id="c1", kind="extend", subject="t-1", at=1.0, body=SECRET)
        inbox.send(command)
    bench.commit()
    return bench


def erase(bench: Bench, erasure: Erasure = FAMILY) -> None:
    blobs = bench.read(
        lambda reader: [
            digest
            for (digest,) in reader._connection.execute("SELECT digest FROM blobs")
        ]
    )
    gone = tuple(
        Row(space="tasks", key=row.key, value=None)
        for row in bench.read(lambda reader: reader.rows("tasks"))
        if not row.key.startswith("x")
    )
    lease = bench.lease("queue")
    head = bench.read(lambda reader: reader.head("queue"))
    told = draft("queue", head + 1, type="Erased", rows=gone)
    seq = bench.read(lambda reader: reader.durable_seq)
    erasure = msgspec.structs.replace(erasure, blobs=tuple(blobs), searched=seq)
    bench.journal.append([(lease, [told])], erasure)
    bench.commit()


def places(path: Path) -> list[str]:
    """The files that hold a byte of the secret."""
    return [
        one.name
        for one in sorted(path.parent.iterdir())
        if SECRET[:8] in one.read_bytes()
    ]


def test_every_byte_is_gone_when_it_is_acknowledged(path: Path) -> None:
    bench = written(path)
    assert places(path) == ["tasks.db", "tasks.db-wal"] or places(path) == [
        "tasks.db-wal"
    ]
    erase(bench)
    assert places(path) == []
    assert bench.load("task/2").head == 40
    assert bench.journal.close()
    assert places(path) == []


def test_of_a_redacted_record_every_byte_is_gone(path: Path) -> None:
    bench = written(path)
    records = bench.read(lambda reader: reader.records(0, 1000, "task/1"))
    erasure = Erasure(
        redactions=tuple(
            Redaction(stream=one.stream, seq=one.seq, type="Erased", body=b"{}")
            for one in records
        ),
        subjects=("t-1",),
    )
    erase(bench, erasure)
    assert places(path) == []
    assert bench.load("task/1").head == 41


def test_a_reader_that_is_in_the_way_is_waited_for_and_not_blocked(path: Path) -> None:
    bench = written(path)
    reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    rows = iter(reader.execute("SELECT seq FROM records WHERE seq < 50"))
    next(rows)
    bench.backend._db.set_busy_timeout(0)  # type: ignore[attr-defined]
    erase(bench)
    assert [name for name, _ in bench.warnings] == ["journal.erasure_waits"]
    assert bench.journal.health().state == "ok"
    assert bench.load("task/1").head == 0  # whoever begins to read sees nothing of it
    assert len(list(rows)) == 48  # whoever had begun sees what was there
    grown = (path.parent / "tasks.db-wal").stat().st_size
    for _ in range(3):
        bench.pass_time()
    assert places(path) == []
    assert (path.parent / "tasks.db-wal").stat().st_size <= grown
    reader.close()


def test_a_reader_that_stays_does_not_make_the_wal_grow(path: Path) -> None:
    bench = written(path)
    reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    rows = iter(reader.execute("SELECT seq FROM records"))
    next(rows)
    bench.backend._db.set_busy_timeout(0)  # type: ignore[attr-defined]
    erase(bench)
    grown = (path.parent / "tasks.db-wal").stat().st_size
    for _ in range(3):
        bench.pass_time()
    assert (path.parent / "tasks.db-wal").stat().st_size == grown
    reader.close()
    bench.pass_time()
    assert places(path) == []


KILLED = """
import os, signal, sys
store, root, point = sys.argv[1:]
sys.path.insert(0, root)
from pathlib import Path
from tests.storage.test_erase import erase, written
bench = written(Path(store))
def hit(name, subject):
    if (name, subject) == (point, "Erased"):
        os.kill(os.getpid(), signal.SIGKILL)
bench.journal._hit = bench.journal._writer._hit = hit
erase(bench)
"""


@pytest.mark.parametrize(
    ("point", "done"),
    [
        ("journal.append.after", False),
        ("journal.flush.before", False),
        ("journal.flush.after", True),
        ("journal.ack.before", True),
    ],
)
def test_after_a_kill_all_of_it_is_there_or_none(
    path: Path, point: str, done: bool
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, path, ROOT, point], check=False
    )
    assert ended.returncode == -9
    bench = Bench(SqliteBackend(path))
    assert bench.load("task/2").head == 40
    assert (bench.load("task/1").head == 0) == done
    assert bench.load("queue").head == int(done)
    assert (places(path) == []) == done  # the opening finishes what was begun
    if not done:
        erase(bench)
        assert places(path) == []


@pytest.mark.parametrize("sync", range(1, 26, 2))
def test_after_a_power_cut_all_of_it_is_there_or_none(path: Path, sync: int) -> None:
    rng = random.Random(sync)
    bench = written(path)
    assert bench.journal.close()
    disk = Disk(path.parent, rng, cut_at=sync)
    with disk.plugged_in():
        try:
            bench = Bench(SqliteBackend(path))
            erase(bench)
            bench.pass_time()
        except StorageError:
            pass
        finally:
            bench.backend.abandon()
        disk.die()
        disk.reboot()
        try:
            bench = Bench(SqliteBackend(path))
        except CannotOpen:
            bench = Bench(SqliteBackend(path))
        try:
            told = bench.load("queue").head
            assert bench.load("task/1").head == (0 if told else 41)
            assert bench.load("task/2").head == 40
            if told:
                bench.pass_time()
                bench.pass_time()
                assert places(path) == []
        finally:
            bench.backend.abandon()
    with open_reader(path) as reader:
        assert reader.head("task/2") == 40
