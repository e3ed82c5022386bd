"""Full, busy, broken: what is kept, what is tried again, what is given up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from perdure.storage.errors import StorageError, StoreFailed, StoreTrouble
from perdure.storage.memory import MemoryBackend
from perdure.storage.sqlite import SqliteBackend
from perdure.testing.journal_contract.bench import Bench, OnThread, draft, snapshot_of


class Flaky(MemoryBackend):
    """A memory store whose flush raises the errors that a test has queued."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[Exception] = []
        self.snapshot_errors: list[Exception] = []
        self.flushes = 0

    def flush(self) -> None:
        self.flushes += 1
        if self.errors:
            raise self.errors.pop(0)
        super().flush()

    def write_snapshots(self, snapshots: Any) -> Any:
        if self.snapshot_errors:
            raise self.snapshot_errors.pop(0)
        return super().write_snapshots(snapshots)


def raise_unknown() -> None:
    raise StoreFailed("tasks.db", "IOError: disk I/O error")


def full() -> StoreTrouble:
    return StoreTrouble("in memory", "full", "database or disk is full")


def test_trouble_keeps_the_batch_and_acknowledges_nothing() -> None:
    # R10
    backend = Flaky()
    bench = Bench(backend)
    heard: list[int] = []
    backend.errors = [full()]
    bench.append(bench.lease("a"), 1)
    bench.journal.when_durable(1, lambda: heard.append(1))
    bench.commit()
    health = bench.journal.health()
    assert (health.state, health.retries, health.backlog) == ("trouble", 1, 1)
    assert "free some space" in health.detail
    assert (heard, bench.journal.durable_seq) == ([], 0)
    bench.timers.pop()[1]()
    bench.commit()
    assert (heard, bench.journal.durable_seq) == ([1], 1)
    assert bench.journal.health().state == "ok"
    assert [event for event, _ in bench.warnings] == [
        "journal.trouble",
        "journal.resumed",
    ]


def test_retries_wait_for_their_time_and_back_off() -> None:
    backend = Flaky()
    bench = Bench(backend)
    backend.errors = [full() for _ in range(8)]
    lease = bench.lease("a")
    bench.append(lease, 1)
    delays: list[float] = []
    for version in range(2, 10):
        bench.commit()
        bench.append(lease, version)
        bench.commit()  # an append in between does not hurry it
        delay, callback = bench.timers.pop()
        delays.append(delay)
        callback()
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    bench.commit()
    assert bench.flushed == list(range(1, 10))


def test_a_batch_in_trouble_is_not_left_out_by_a_fence() -> None:
    backend = Flaky()
    bench = Bench(backend)
    backend.errors = [full()]
    bench.append(bench.lease("task/1"), 1)
    bench.commit()
    assert bench.journal.raise_epoch("task/1", 2) == []
    bench.timers.pop()[1]()
    assert bench.load("task/1").head == 1


def test_closing_in_trouble_tries_once_more_and_says_what_it_left() -> None:
    backend = Flaky()
    bench = Bench(backend)
    backend.errors = [full(), full()]
    bench.append(bench.lease("a"), 1)
    bench.commit()
    assert not bench.journal.close()
    assert (backend.flushes, bench.journal.backlog) == (2, 1)
    assert backend.store.owner is None


def test_a_failed_sync_is_never_tried_again() -> None:
    backend = Flaky()
    bench = Bench(backend)
    failures: list[StorageError] = []
    bench.journal.on_failed(failures.append)
    backend.errors = [StoreFailed("in memory", "IOError: disk I/O error")]
    bench.append(bench.lease("a"), 1)
    bench.commit()
    bench.commit()
    bench.journal.close()
    assert backend.flushes == 1
    assert [str(error) for error in failures] == [bench.journal.health().detail]


def test_a_snapshot_in_trouble_costs_no_acknowledgement() -> None:
    backend = Flaky()
    bench = Bench(backend)
    backend.snapshot_errors = [full()]
    (record,) = bench.append(bench.lease("a"), 1)
    bench.journal.snapshot(snapshot_of(record))
    bench.commit()
    assert (bench.flushed, bench.journal.health().state) == ([1], "ok")
    assert [event for event, _ in bench.warnings] == ["snapshot.not_written"]


def test_a_read_that_finds_the_store_broken_fails_the_journal() -> None:
    bench = Bench(MemoryBackend())
    failures: list[StorageError] = []
    bench.journal.on_failed(failures.append)

    def broken(reader: object) -> None:
        raise StoreFailed("in memory", "IOError: disk I/O error")

    answers: list[object] = []
    bench.journal.read(broken, answers.append)
    bench.journal.serve_reads()
    assert answers == failures
    assert bench.journal.health().state == "failed"


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[tuple[Bench, Path]]:
    path = tmp_path / "tasks.db"
    bench = Bench(SqliteBackend(path))
    yield bench, path
    bench.backend.abandon()


def test_a_full_disk_is_trouble_and_passes(stored: tuple[Bench, Path]) -> None:
    # R10
    bench, _ = stored
    connection = bench.backend._connection  # type: ignore[attr-defined]
    lease = bench.lease("a")
    bench.append(lease, 1)
    bench.commit()
    connection.pragma("max_page_count", connection.pragma("page_count"))
    bench.append(lease, 2, body=b'"' + b"x" * 100_000 + b'"')
    bench.commit()
    assert bench.journal.health().state == "trouble"
    connection.pragma("max_page_count", 1_000_000)
    bench.timers.pop()[1]()
    assert [r.version for r in bench.load("a").records] == [1, 2]


def test_a_lock_held_elsewhere_is_trouble_and_passes(
    stored: tuple[Bench, Path],
) -> None:
    bench, path = stored
    bench.backend._connection.set_busy_timeout(0)  # type: ignore[attr-defined]
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    bench.append(bench.lease("a"), 1)
    bench.commit()
    assert bench.warnings[0][1]["kind"] == "busy"
    other.execute("ROLLBACK")
    other.close()
    bench.timers.pop()[1]()
    assert bench.load("a").head == 1


def test_a_record_written_behind_our_back_is_unknown_not_overwritten(
    stored: tuple[Bench, Path],
) -> None:
    bench, path = stored
    lease = bench.lease("a")
    bench.append(lease, 1)
    bench.commit()
    bench.append(lease, 2)
    other = apsw.Connection(str(path))
    other.execute(
        "INSERT INTO records SELECT 2, stream_id, 2, type_id, 1, codec, at, epoch,"
        " incarnation, x'7b7d', 0 FROM records"
    )
    other.close()
    bench.commit()
    assert bench.journal.health().state == "failed"
    assert "ConstraintError" in bench.journal.health().detail


def test_a_failed_journal_leaves_the_files_as_they_are(
    stored: tuple[Bench, Path],
) -> None:
    bench, path = stored
    lease = bench.lease("a")
    bench.append(lease, 1)
    bench.commit()
    bench.backend.flush = raise_unknown  # type: ignore[method-assign]
    bench.append(lease, 2)
    bench.commit()
    files = (path, path.with_name("tasks.db-wal"))
    before = [file.read_bytes() for file in files]
    assert not bench.journal.close()
    assert [file.read_bytes() for file in files] == before
    assert Bench(SqliteBackend(path)).load("a").head == 1


def test_a_store_that_is_busy_when_opened_is_trouble_and_let_go(
    stored: tuple[Bench, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, path = stored
    assert bench.journal.close()
    monkeypatch.setattr("perdure.storage.sqlite_file.BUSY_TIMEOUT", 0)
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreTrouble, match="busy"):
        Bench(SqliteBackend(path))
    other.close(True)
    assert Bench(SqliteBackend(path)).journal.close()


def test_threads_append_and_every_one_is_acknowledged_in_order(tmp_path: Path) -> None:
    # P1: what is heard as durable is on disk, in one order for all.
    bench = Bench(SqliteBackend(tmp_path / "tasks.db"), background=OnThread)
    journal = bench.journal
    writers, each = 6, 60
    done = threading.Semaphore(0)

    def work(number: int) -> None:
        lease = journal.acquire(f"s{number}", 1)
        for version in range(1, each + 1):
            (record,) = journal.append(
                [(lease, [draft(lease.stream, version, body=b"%d" % version)])]
            )
            heard = threading.Event()
            journal.when_durable(record.seq, heard.set)
            assert heard.wait(30)
            assert journal.durable_seq >= record.seq
        done.release()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert done.acquire(blocking=False)
    assert journal.close()
    assert bench.flushed == list(range(1, writers * each + 1))


def test_close_gives_up_on_a_thread_that_is_stuck_in_the_store() -> None:
    entered, leave = threading.Event(), threading.Event()

    def stuck(point: str, subject: str) -> None:
        if point == "journal.flush.before":
            entered.set()
            leave.wait(30)

    backend = Flaky()
    bench = Bench(backend, background=OnThread, hit=stuck)
    bench.append(bench.lease("a"), 1)
    assert entered.wait(30)
    assert not bench.journal.close(timeout=0.05)
    assert backend.store.owner is backend  # nobody else may open it meanwhile
    leave.set()


def test_the_power_cut_of_a_memory_store_drops_what_was_not_flushed() -> None:
    backend = MemoryBackend()
    bench = Bench(backend)
    lease = bench.lease("a")
    (first,) = bench.append(lease, 1)
    bench.commit()
    bench.journal.snapshot(snapshot_of(first))
    bench.commit()
    bench.append(lease, 2)
    backend.store.cut()
    again = Bench(MemoryBackend(backend.store))
    loaded = again.load("a")
    assert (loaded.snapshot, loaded.head) == (None, 1)
    bench.commit()
    assert bench.journal.health().state == "failed"
    assert again.load("a").head == 1
