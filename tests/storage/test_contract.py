"""Every back end keeps the contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from perdure.storage.inbox import Inbox
from perdure.storage.memory import MemoryBackend, MemoryStore
from perdure.storage.records import Command, snapshot_checksum
from perdure.storage.sqlite import SqliteBackend
from tests.storage.contract import AppendContract
from tests.storage.contract_erase import EraseContract
from tests.storage.contract_forget import ForgetContract
from tests.storage.contract_inbox import InboxContract
from tests.storage.contract_reading import ReadContract
from tests.storage.support import Bench


class SqliteWorld:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.benches: list[Bench] = []

    def open(self, **options: Any) -> Bench:
        bench = Bench(SqliteBackend(self.path), **options)
        self.benches.append(bench)
        return bench

    def kill(self, bench: Bench) -> None:
        bench.backend.abandon()

    def send(self, command: Command) -> None:
        with Inbox(self.path) as inbox:
            inbox.send(command)

    def usurp(self) -> None:
        self._execute("UPDATE owner SET epoch = epoch + 1")

    def spoil_record(self, seq: int) -> None:
        self._execute("UPDATE records SET body = body || x'20' WHERE seq = ?", seq)

    def spoil_snapshot(self, stream: str, version: int) -> None:
        self._execute(
            "UPDATE snapshots SET body = body || x'20' WHERE version = ?", version
        )

    def advance_snapshot(self, stream: str, version: int, ahead: int) -> None:
        with SqliteBackend(self.path).reader(lambda *_: None) as reader:
            (snapshot,) = reader.snapshots(stream)
        moved = msgspec.structs.replace(snapshot, version=ahead)
        self._execute(
            "UPDATE snapshots SET version = ?, checksum = ?",
            ahead,
            snapshot_checksum(moved),
        )

    def close(self) -> None:
        for bench in self.benches:
            bench.backend.abandon()

    def _execute(self, sql: str, *params: Any) -> None:
        connection = apsw.Connection(str(self.path))
        connection.execute(sql, params)
        connection.close()


class MemoryWorld:
    def __init__(self) -> None:
        self.store = MemoryStore()

    def open(self, **options: Any) -> Bench:
        return Bench(MemoryBackend(self.store), **options)

    def kill(self, bench: Bench) -> None:
        bench.backend.abandon()

    def send(self, command: Command) -> None:
        self.store.send(command)

    def usurp(self) -> None:
        self.store.runtime_epoch += 1

    def spoil_record(self, seq: int) -> None:
        for records in (self.store.log, *self.store.streams.values()):
            for place, record in enumerate(records):
                if record.seq == seq:
                    records[place] = msgspec.structs.replace(record, body=b"{}")

    def spoil_snapshot(self, stream: str, version: int) -> None:
        self._change(stream, version, spoil=True)

    def advance_snapshot(self, stream: str, version: int, ahead: int) -> None:
        self._change(stream, version, ahead=ahead)

    def close(self) -> None:
        return

    def _change(
        self, stream: str, version: int, *, ahead: int = 0, spoil: bool = False
    ) -> None:
        kept = self.store.snapshots[stream]
        for place, (snapshot, checksum) in enumerate(kept):
            if snapshot.version == version:
                if spoil:
                    kept[place] = (snapshot, checksum + 1)
                else:
                    moved = msgspec.structs.replace(snapshot, version=ahead)
                    kept[place] = (moved, snapshot_checksum(moved))


class TestSqliteJournal(
    AppendContract, EraseContract, ForgetContract, ReadContract, InboxContract
):
    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[SqliteWorld]:
        world = SqliteWorld(tmp_path / "tasks.db")
        yield world
        world.close()


class TestMemoryJournal(
    AppendContract, EraseContract, ForgetContract, ReadContract, InboxContract
):
    @pytest.fixture
    def world(self) -> MemoryWorld:
        return MemoryWorld()
