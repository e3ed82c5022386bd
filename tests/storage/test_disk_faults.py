"""A disk that is full, busy, read-only or broken: what is kept, and what is said."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from perdure.storage.errors import Rejected, StorageError, StoreFailed, StoreTrouble
from perdure.storage.reader import open_reader
from perdure.storage.sqlite import SqliteBackend
from perdure.testing.journal_contract.bench import Bench
from tests.storage.power import Disk, Fault
from tests.storage.promises import Load

FULL, READONLY = apsw.SQLITE_FULL, apsw.SQLITE_READONLY
ERRORS = [
    Fault(operation="write", code=apsw.SQLITE_IOERR_WRITE, but="done"),
    Fault(operation="write", code=apsw.SQLITE_IOERR_WRITE),
    Fault(operation="sync", code=apsw.SQLITE_IOERR_FSYNC),
    Fault(operation="sync", code=apsw.SQLITE_IOERR_FSYNC, but="done"),
    Fault(operation="sync", code=apsw.SQLITE_IOERR_FSYNC, but="lost"),
    Fault(operation="read", code=apsw.SQLITE_IOERR_READ),
]


def name_of(fault: Fault) -> str:
    return f"{fault.operation}-{fault.but}".replace(" ", "-")


class World:
    """A store with a few batches in it, on a disk that fails when it is told to."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.disk = Disk(folder, random.Random(7), **options)
        self.load = Load(folder / "tasks.db", random.Random(11))
        self.path = self.load.path
        self.failures: list[StorageError] = []

    def open(self) -> Bench:
        bench = self.load.open()
        bench.journal.on_failed(self.failures.append)
        return bench

    def kill(self, bench: Bench) -> None:
        bench.backend.abandon()

    def check(self) -> None:
        with open_reader(self.path) as reader:
            self.load.check(reader)

    def goes_on(self) -> None:
        """The store opens, holds what it promised, survives a cut, and takes more."""
        self.disk.heal()
        bench = self.open()
        self.check()  # what is there now counts as written
        self.kill(bench)
        self.disk.die()
        self.disk.reboot()
        bench = self.open()
        self.check()
        self.load.work(bench, 2)
        assert bench.journal.close()
        self.check()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    with made.disk.plugged_in():
        bench = made.open()
        made.load.work(bench, 5)
        made.kill(bench)
        yield made


def every_place(tmp_path: Path, run: Callable[[World, int], bool]) -> int:
    """Run once for each place a fault can hit, until it hits none; count them."""
    for place in range(1, 200):
        folder = tmp_path / str(place)
        folder.mkdir()
        made = World(folder)
        with made.disk.plugged_in():
            bench = made.open()
            made.load.work(bench, 3)
            made.kill(bench)
            if not run(made, place):
                return place - 1
    raise AssertionError("it never ends")


# -- full, read-only, busy ---------------------------------------------------------


@pytest.mark.parametrize(("code", "kind"), [(FULL, "full"), (READONLY, "readonly")])
def test_a_batch_that_cannot_be_written_is_kept_and_retried(
    tmp_path: Path, code: int, kind: str
) -> None:
    # R10: at every write of the batch, twice, before there is space again.
    def run(world: World, place: int) -> bool:
        bench = world.open()
        world.disk.fail(Fault(operation="write", code=code, nth=place, times=-1))
        append = world.load.append(bench)
        before = bench.journal.durable_seq
        bench.commit()
        if not world.disk.faults_hit:
            return False
        for retries in (1, 2):
            health = bench.journal.health()
            assert (health.state, health.retries) == ("trouble", retries)
            assert f"is {kind}" in health.detail
            assert bench.journal.durable_seq == before
            assert health.backlog == len(append.records)
            world.disk.fail(Fault(operation="write", code=code, times=-1))
            if retries == 1:
                bench.pass_time()
        assert not world.load.acked & {record.seq for record in append.records}
        world.disk.heal()
        bench.pass_time()
        assert bench.journal.health().state == "ok"
        assert world.load.acked >= {record.seq for record in append.records}
        world.kill(bench)
        world.goes_on()
        return True

    assert every_place(tmp_path, run) >= 4


@pytest.mark.parametrize("seconds", [3, 20])
def test_a_store_that_is_busy_for_long_is_waited_for(
    tmp_path: Path, seconds: float
) -> None:
    now = 0.0
    until = float(seconds)
    other: apsw.Connection | None = None

    def wait(delay: float) -> None:
        nonlocal now
        now += delay
        if other is not None and other.in_transaction and now >= until:
            other.execute("ROLLBACK")

    world = World(tmp_path, on_sleep=wait)
    with world.disk.plugged_in():
        bench = world.open()
        world.load.work(bench, 2)
        bench.timers.clear()
        other = apsw.Connection(str(world.path))
        other.execute("BEGIN IMMEDIATE")
        append = world.load.append(bench)
        bench.commit()
        seqs = {record.seq for record in append.records}
        while bench.journal.health().state == "trouble":
            assert now < until
            assert "busy" in bench.journal.health().detail
            assert not world.load.acked & seqs
            ((delay, retry),) = bench.timers
            bench.timers.clear()
            wait(delay)
            retry()
            bench.commit()
        assert world.load.acked >= seqs
        assert until <= now < until + 6  # the longest delay and one busy timeout
        other.close()
        world.kill(bench)
        world.goes_on()


# -- errors ------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ERRORS, ids=name_of)
def test_an_error_fails_the_journal_and_reopening_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    # At every write, sync and read of two batches, their snapshot and a checkpoint.
    monkeypatch.setattr("perdure.storage.sqlite_tidy.WAL_PAGES", 4)

    def run(world: World, place: int) -> bool:
        bench = world.open()
        world.disk.fail(msgspec.structs.replace(fault, nth=place))
        for _ in range(2):
            if bench.journal.health().state == "ok":
                append = world.load.append(bench)
                world.load.snapshot(bench, append.records[-1])
                bench.commit()
        if not world.disk.faults_hit:
            return False
        assert bench.journal.health().state == "failed"
        assert len(world.failures) == 1
        assert isinstance(world.failures[0], StoreFailed)
        acked = set(world.load.acked)
        with pytest.raises(StoreFailed):
            world.load.append(bench)
        bench.pass_time()
        assert not bench.journal.close()
        assert world.load.acked == acked
        world.goes_on()
        return True

    assert every_place(tmp_path, run) >= (1 if fault.operation == "read" else 3)


@pytest.mark.parametrize("fault", ERRORS[1:], ids=name_of)
def test_an_error_while_opening_lets_the_store_go_unharmed(
    tmp_path: Path, fault: Fault
) -> None:
    def run(world: World, place: int) -> bool:
        world.disk.fail(msgspec.structs.replace(fault, nth=place))
        bench = None
        try:
            bench = world.open()
        except (StoreFailed, StoreTrouble):
            assert world.disk.faults_hit
        if bench is not None:
            world.kill(bench)
        world.goes_on()
        return bool(world.disk.faults_hit)

    assert every_place(tmp_path, run) >= 1


@pytest.mark.parametrize("code", [FULL, READONLY, apsw.SQLITE_IOERR_WRITE])
def test_a_store_that_cannot_be_made_is_made_later(tmp_path: Path, code: int) -> None:
    disk = Disk(tmp_path, random.Random(7))
    path = tmp_path / "tasks.db"
    refused = 0
    with disk.plugged_in():
        for place in range(1, 100):
            disk.fail(Fault(operation="write", code=code, nth=place, times=-1))
            try:
                bench = Bench(SqliteBackend(path))
            except (StoreTrouble, StoreFailed):
                refused += 1
                continue
            assert bench.journal.close()
            break
        disk.heal()
        bench = Bench(SqliteBackend(path))
        bench.append(bench.lease("a"), 1)
        assert bench.journal.close()
    assert refused > 5


@pytest.mark.parametrize("fault", ERRORS[1:], ids=name_of)
def test_an_error_while_closing_harms_nothing_acknowledged(
    tmp_path: Path, fault: Fault
) -> None:
    def run(world: World, place: int) -> bool:
        bench = world.open()
        world.load.work(bench, 1)
        world.disk.fail(msgspec.structs.replace(fault, nth=place))
        assert bench.journal.close()
        world.goes_on()
        return bool(world.disk.faults_hit)

    assert every_place(tmp_path, run) >= 1


def test_a_commit_that_was_reported_as_failed_is_never_there_twice(
    world: World,
) -> None:
    bench = world.open()
    world.disk.fail(
        Fault(operation="sync", code=apsw.SQLITE_IOERR_FSYNC, file="-wal", but="done")
    )
    lease = bench.lease("task/9")
    heard: list[int] = []
    (record,) = bench.append(lease, 1)
    bench.journal.when_durable(record.seq, lambda: heard.append(record.seq))
    bench.commit()
    assert (bench.journal.health().state, heard) == ("failed", [])
    world.kill(bench)
    again = Bench(SqliteBackend(world.path))
    assert again.load("task/9").records == (record,)
    again.journal.when_durable(record.seq, lambda: heard.append(record.seq))
    assert heard == [record.seq]
    with pytest.raises(Rejected, match="2 is the next"):
        again.append(again.lease("task/9"), 1)
    again.append(again.lease("task/9"), 2)
    assert [r.version for r in again.load("task/9").records] == [1, 2]
    world.kill(again)


def test_a_read_that_the_disk_refuses_fails_the_journal(world: World) -> None:
    bench = world.open()
    world.disk.fail(Fault(operation="read", code=apsw.SQLITE_IOERR_READ, times=-1))
    with pytest.raises(StoreFailed):
        bench.load("pool")
    assert bench.journal.health().state == "failed"
    world.kill(bench)
    world.goes_on()
