"""The files stay as short as what they hold, and who keeps one long is told of."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.storage import sqlite_tidy
from perdure.storage.erasure import Erasure
from perdure.storage.sqlite import SqliteBackend
from perdure.testing.journal_contract.bench import Bench, draft

HOLD = """
import sqlite3, sys
store = sqlite3.connect(sys.argv[1], isolation_level=None)
store.execute("BEGIN")
store.execute("SELECT max(seq) FROM records").fetchone()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


@contextmanager
def reader_of(path: Path) -> Iterator[int]:
    """Another process in the middle of a read; its id."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "held\n"
        yield process.pid
    finally:
        process.stdin.close()
        process.wait(30.0)
        process.stdout.close()


def grown(path: Path, records: int = 60) -> Bench:
    """A store with big records of a task, and as much room taken by another."""
    bench = Bench(SqliteBackend(path))
    big = b'"%s"' % (b"x" * 100_000)
    one, two = bench.lease("task/1"), bench.lease("task/2")
    for version in range(1, records + 1):
        bench.append(one, version, body=big)
        bench.append(two, version, body=big)
        bench.commit()
    return bench


def let_go(bench: Bench) -> None:
    """All records of task 1 but the first go, and no file is written anew."""
    seqs = tuple(one.seq for one in bench.load("task/1").records[1:])
    bench.journal.append(
        [(bench.lease("pool"), [draft("pool", 1)])],
        Erasure(gone={"task/1": seqs}, scrub=False),
    )
    bench.commit()


def test_the_file_shrinks_when_idle_by_what_went(path: Path) -> None:
    bench = grown(path)
    for _ in range(3):
        bench.pass_time()
    before = path.stat().st_size
    let_go(bench)
    sizes = [before]
    while bench.timers:
        bench.pass_time()
        sizes.append(path.stat().st_size)
    assert before > 12_000_000
    assert sizes[-1] < 0.55 * before
    assert bench.load("task/2").head == 60


def test_the_room_between_records_that_stay_is_given_back_too(path: Path) -> None:
    bench = Bench(SqliteBackend(path))
    one, two = bench.lease("task/1"), bench.lease("task/2")
    body = b'"%s"' % (b"x" * 400)
    for version in range(1, 6_001):
        bench.append(one, version, body=body)
        bench.append(two, version, body=body)
    bench.commit()
    kept = bench.load("task/2").records
    while bench.timers:
        bench.pass_time()
    before = path.stat().st_size
    let_go(bench)
    while bench.timers:
        bench.pass_time()
    assert path.stat().st_size < 0.6 * before
    assert bench.load("task/2").records == kept
    assert [one.seq for one in bench.load("task/1").records] == [1]
    bench.journal.close()
    again = Bench(SqliteBackend(path))
    assert again.load("task/2").records == kept
    assert again.read(lambda reader: reader.damage()) == []


def test_it_shrinks_in_small_steps(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_tidy, "VACUUM_STEP", 200)
    bench = grown(path)
    let_go(bench)
    sizes = []
    while bench.timers:
        bench.pass_time()
        sizes.append(path.stat().st_size)
    steps = [before - after for before, after in itertools.pairwise(sizes)]
    assert max(steps) <= 210 * 4096  # with the pages that map free ones
    assert sum(step > 0 for step in steps) > 5


def test_work_goes_on_between_two_steps(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_tidy, "VACUUM_STEP", 200)
    bench = grown(path)
    let_go(bench)
    pool = bench.lease("pool")
    for version in range(2, 12):
        bench.pass_time()
        bench.append(pool, version)
        bench.commit()
    while bench.timers:
        bench.pass_time()
    assert bench.load("pool").head == 11
    assert path.stat().st_size < 7_500_000


def test_a_wal_that_a_reader_holds_is_told_of_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_tidy, "WAL_HELD", 8 * 1024 * 1024)
    bench = grown(path, 2)
    lease, version = bench.lease("task/3"), 0

    def write(count: int) -> None:
        nonlocal version
        for _ in range(count):
            version += 1
            bench.append(lease, version, body=b'"%s"' % (b"y" * 200_000))
            bench.commit()

    write(100)  # nobody reads: the WAL starts over, and nothing is told
    assert bench.warnings == []
    with reader_of(path) as pid:
        write(60)
        write(20)
        ((event, fields),) = bench.warnings
        assert event == "journal.wal_held"
        size = fields["size"]
        assert isinstance(size, int)
        assert 8 * 1024 * 1024 < size < 14 * 1024 * 1024
        if sys.platform == "linux":
            assert fields["holders"] == [pid]
            assert pid != os.getpid()
    write(2)
    assert [event for event, _ in bench.warnings] == [
        "journal.wal_held",
        "journal.wal_free",
    ]
    most = bench.warnings[1][1]["size"]
    assert isinstance(most, int)
    assert most > size
    bench.warnings.clear()
    write(60)
    assert bench.warnings == []


def test_a_reader_that_ends_while_nothing_is_written_is_told_of(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_tidy, "WAL_HELD", 8 * 1024 * 1024)
    bench = grown(path, 2)
    with reader_of(path):
        lease = bench.lease("task/3")
        for version in range(1, 61):
            bench.append(lease, version, body=b'"%s"' % (b"y" * 200_000))
            bench.commit()
        bench.pass_time()
        assert [event for event, _ in bench.warnings] == ["journal.wal_held"]
    for _ in range(2):
        bench.pass_time()
    assert bench.warnings[-1][0] == "journal.wal_free"
    wal = path.with_name(path.name + "-wal")
    assert wal.stat().st_size == 0
