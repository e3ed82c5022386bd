"""Power cuts: what is there afterwards, and that a broken store would show."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from perdure.storage.backend import Opening
from perdure.storage.errors import CannotOpen, NewerLayout, NotAStore
from perdure.storage.layout import LAYOUT
from perdure.storage.reader import open_reader
from perdure.storage.sqlite import SqliteBackend
from perdure.testing.journal_contract.bench import Bench
from tests.storage.cuts import cut
from tests.storage.power import Disk
from tests.storage.promises import Load

CUTS = 50
CATCHING = 70  # seeds in which a broken store must show


@pytest.fixture
def load(tmp_path: Path) -> Load:
    return Load(tmp_path / "tasks.db", random.Random(11))


# -- power cuts --------------------------------------------------------------------


@pytest.mark.proof("cuts")
@pytest.mark.parametrize("seed", range(CUTS))
def test_a_power_cut_loses_nothing_acknowledged_and_leaves_nothing_half(
    seed: int,
) -> None:
    # P1
    assert cut(seed).wrong == ""


def test_most_cuts_do_damage() -> None:
    assert sum(cut(seed).damage.any for seed in range(20)) >= 10


def test_a_seed_is_enough_to_replay_a_cut() -> None:
    traces: list[list[str]] = [[], []]
    for trace in traces:
        cut(3, trace=trace.append)
    assert traces[0] == traces[1]
    assert "the power goes" in traces[0]


def never_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    relax(monkeypatch, "OFF")


def acknowledged_before_the_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    relax(monkeypatch, "NORMAL")


def relax(monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    real = SqliteBackend._open

    def opened(self: SqliteBackend) -> Opening:
        opening = real(self)
        self._db.pragma("synchronous", level)
        return opening

    monkeypatch.setattr(SqliteBackend, "_open", opened)


def rows_behind_their_records(monkeypatch: pytest.MonkeyPatch) -> None:
    real = SqliteBackend.write

    def write(self: SqliteBackend, batch: Any) -> None:
        real(self, msgspec.structs.replace(batch, rows=()))
        self.flush()
        real(self, msgspec.structs.replace(batch, records=()))

    monkeypatch.setattr(SqliteBackend, "write", write)


def trusting_what_a_failed_sync_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Disk, "_reread", lambda *_: None)


@pytest.mark.parametrize(
    "break_it",
    [
        never_synced,
        acknowledged_before_the_flush,
        rows_behind_their_records,
        trusting_what_a_failed_sync_shows,
    ],
)
def test_the_cuts_catch_a_store_that_is_broken(
    monkeypatch: pytest.MonkeyPatch,
    break_it: Callable[[pytest.MonkeyPatch], None],
) -> None:
    break_it(monkeypatch)
    assert any(cut(seed).wrong for seed in range(CATCHING))


# -- what a cut may leave ----------------------------------------------------------


def spoil_first_sector(path: Path, before: bytes) -> None:
    path.write_bytes(bytes(512) + path.read_bytes()[512:])


def lack_what_was_added(path: Path, before: bytes) -> None:
    path.write_bytes(path.read_bytes()[: len(before)])


@pytest.mark.parametrize("spoil", [spoil_first_sector, lack_what_was_added])
def test_a_checkpoint_that_was_cut_short_is_put_right(
    load: Load, spoil: Callable[[Path, bytes], None]
) -> None:
    bench = load.open()
    load.work(bench, 4)
    bench.backend.tidy(idle=True)
    before = load.path.read_bytes()
    load.work(bench, 4)
    wal = load.path.with_name("tasks.db-wal")
    whole = wal.read_bytes()
    bench.backend.tidy(idle=True)
    bench.backend.abandon()
    wal.write_bytes(whole)
    assert load.path.stat().st_size > len(before)
    spoil(load.path, before)
    with open_reader(load.path) as reader:
        load.check(reader)
    again = load.open()
    with open_reader(load.path) as reader:
        load.check(reader)
    assert again.journal.close()


def test_a_file_that_is_damaged_and_not_ours_stays_untouched(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    path.write_bytes(bytes(4096))
    path.with_name("tasks.db-wal").write_bytes(b"x" * 4096)
    for attempt in (lambda: Bench(SqliteBackend(path)), lambda: open_reader(path)):
        with pytest.raises(NotAStore):
            attempt()
    assert path.read_bytes() == bytes(4096)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tasks.db", "tasks.db-wal"]


def test_a_newer_layout_that_stands_in_the_wal_only_is_seen(load: Load) -> None:
    load.open().backend.abandon()
    connection = apsw.Connection(str(load.path))
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.pragma("wal_autocheckpoint", 0)
    connection.pragma("user_version", LAYOUT + 1)
    connection.close()
    for attempt in (load.open, lambda: open_reader(load.path)):
        with pytest.raises(NewerLayout):
            attempt()


def test_a_wal_without_its_store_is_not_copied_into_a_new_one(load: Load) -> None:
    load.open().backend.abandon()
    load.path.unlink()
    wal = load.path.with_name("tasks.db-wal")
    before = wal.read_bytes()
    with pytest.raises(CannotOpen, match=r"its tasks\.db-wal is there"):
        load.open()
    assert (wal.read_bytes(), load.path.exists()) == (before, False)


def test_a_reader_says_that_an_owner_must_end_what_a_cut_began(tmp_path: Path) -> None:
    said: list[str] = []
    for sync in range(1, 9):
        folder = tmp_path / str(sync)
        folder.mkdir()
        path = folder / "tasks.db"
        disk = Disk(folder, random.Random(sync))
        with disk.plugged_in():
            bench = Bench(SqliteBackend(path))
            bench.append(bench.lease("a"), 1)
            bench.commit()
            disk.cut_at = disk.syncs + sync
            bench.journal.close()
            disk.die()
            disk.reboot()
            try:
                open_reader(path).close()
            except CannotOpen as error:
                said.append(error.fix)
            again = Bench(SqliteBackend(path))
            assert again.load("a").head == 1
            assert again.journal.close()
            open_reader(path).close()
    assert set(said) == {"open it once with its runtime, which puts it right"}
