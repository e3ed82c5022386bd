"""SIGKILL of a real writing process: what it was told is durable is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.storage.reader import open_reader
from perdure.storage.sqlite import SqliteBackend
from perdure.testing.journal_contract.bench import Bench

ROOT = Path(__file__).parents[2]

# Appends for ever on three streams; each acknowledged seq goes to stdout in one write.
# Kills itself at the nth pass of a point, or runs until it is killed.
WRITER = """
import os, signal, sys
store, root, point, nth = sys.argv[1:]
sys.path.insert(0, root)
from perdure.storage.sqlite import SqliteBackend
from perdure.testing.journal_contract.bench import Bench, row, snapshot_of
passed = 0
def hit(name, subject):
    global passed
    if name == point:
        passed += 1
        if passed == int(nth):
            os.kill(os.getpid(), signal.SIGKILL)
def acknowledged(seq):
    return lambda: os.write(1, b"%d\\n" % seq)
bench = Bench(SqliteBackend(store), hit=hit)
leases = [bench.lease(f"task/{n}") for n in range(3)]
heads = [bench.read(lambda r, s=lease.stream: r.head(s)) for lease in leases]
while True:
    for n, lease in enumerate(leases):
        heads[n] += 1
        value = row(lease.stream, b"%d" % heads[n])
        (record,) = bench.append(lease, heads[n], rows=(value,))
        bench.journal.when_durable(record.seq, acknowledged(record.seq))
    bench.journal.snapshot(snapshot_of(record))
    bench.commit()
"""


def run_until_killed(store: Path, point: str = "", nth: int = 1) -> list[int]:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, store, ROOT, point, str(nth)],
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        lines: list[bytes] = []
        for line in child.stdout:
            lines.append(line)
            if not point and len(lines) == 100:
                os.kill(child.pid, signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    return [int(line) for line in lines]


def check(store: Path, acknowledged: list[int]) -> int:
    """Check what the log promises, from outside; return its last seq."""
    with open_reader(store) as reader:
        log = reader.records(limit=100_000)
        assert [record.seq for record in log] == list(range(1, len(log) + 1))
        assert set(acknowledged) <= {record.seq for record in log}
        for stream in reader.streams():
            versions = [r.version for r in log if r.stream == stream]
            assert versions == list(range(1, len(versions) + 1))
            assert reader.row("tasks", stream) == b"%d" % len(versions)
            assert reader.load(stream).head == len(versions)
        return reader.durable_seq


POINTS = [
    ("journal.open.before", 1),
    ("journal.open.after", 1),
    ("journal.append.before", 2),
    ("journal.append.after", 5),
    ("journal.flush.before", 3),
    ("journal.flush.after", 3),
    ("journal.ack.before", 3),
    ("snapshot.write.before", 2),
    ("snapshot.write.after", 2),
]


@pytest.mark.parametrize(("point", "nth"), POINTS)
def test_a_kill_at_any_point_loses_nothing_acknowledged(
    tmp_path: Path, point: str, nth: int
) -> None:
    # P1
    store = tmp_path / "tasks.db"
    first = run_until_killed(store, "journal.ack.before", 4)
    assert check(store, first) == 12  # the fourth batch is there, though not heard of
    assert len(first) == 9
    second = run_until_killed(store, point, nth)
    last = check(store, first + second)
    assert last >= max(first + second)


def test_a_kill_from_outside_loses_nothing_acknowledged(tmp_path: Path) -> None:
    # P1
    store = tmp_path / "tasks.db"
    acknowledged: list[int] = []
    for _ in range(2):
        acknowledged += run_until_killed(store)
    assert check(store, acknowledged) >= 200
    bench = Bench(SqliteBackend(store))
    assert bench.journal.runtime_epoch == 3
    assert bench.lease("task/0").incarnation == 3
    assert bench.journal.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "tasks.db",
        "tasks.db.lock",
    ]


def test_reading_after_a_kill_changes_neither_file_nor_wal(tmp_path: Path) -> None:
    store = tmp_path / "tasks.db"
    run_until_killed(store, "journal.ack.before", 4)

    def bytes_on_disk() -> tuple[bytes, bytes]:
        return store.read_bytes(), (tmp_path / "tasks.db-wal").read_bytes()

    before = bytes_on_disk()
    assert check(store, []) == 12
    assert bytes_on_disk() == before
