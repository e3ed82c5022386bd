"""Every back end keeps the contract."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec
import psycopg
import pytest

from perdure.storage.folder import FolderBackend
from perdure.storage.folder_inbox import FolderInbox
from perdure.storage.inbox import Inbox
from perdure.storage.memory import MemoryBackend, MemoryStore
from perdure.storage.postgres import PostgresBackend
from perdure.storage.postgres_inbox import PostgresInbox
from perdure.storage.records import Command, snapshot_checksum
from perdure.storage.sqlite import SqliteBackend
from perdure.testing.journal_contract import ALL, Bench, JournalContract


class KeptWorld:
    """A store that outlives its back ends, and takes commands from beside them."""

    def __init__(self, backend: Callable[[], Any], inbox: Callable[[], Any]) -> None:
        self.backend = backend
        self.inbox = inbox
        self.benches: list[Bench] = []

    def open(self, **options: Any) -> Bench:
        bench = Bench(self.backend(), **options)
        self.benches.append(bench)
        return bench

    def kill(self, bench: Bench) -> None:
        bench.backend.abandon()

    def send(self, command: Command) -> None:
        with self.inbox() as inbox:
            inbox.send(command)

    def checksum(self, stream: str, version: int) -> int:
        """Of the one snapshot of a stream, were it of another version."""
        with self.backend().reader(lambda *_: None) as reader:
            (snapshot,) = reader.snapshots(stream)
        return snapshot_checksum(msgspec.structs.replace(snapshot, version=version))

    def close(self) -> None:
        for bench in self.benches:
            bench.backend.abandon()


class SqliteWorld(KeptWorld):
    def __init__(self, path: Path) -> None:
        super().__init__(lambda: SqliteBackend(path), lambda: Inbox(path))
        self.path = path

    def usurp(self) -> None:
        self._execute("UPDATE owner SET epoch = epoch + 1")

    def spoil_record(self, seq: int) -> None:
        self._execute("UPDATE records SET body = body || x'20' WHERE seq = ?", seq)

    def spoil_snapshot(self, stream: str, version: int) -> None:
        self._execute(
            "UPDATE snapshots SET body = body || x'20' WHERE version = ?", version
        )

    def advance_snapshot(self, stream: str, version: int, ahead: int) -> None:
        self._execute(
            "UPDATE snapshots SET version = ?, checksum = ?",
            ahead,
            self.checksum(stream, ahead),
        )

    def _execute(self, sql: str, *params: Any) -> None:
        connection = apsw.Connection(str(self.path))
        connection.execute(sql, params)
        connection.close()


class PostgresWorld(KeptWorld):
    def __init__(self, url: str) -> None:
        super().__init__(lambda: PostgresBackend(url), lambda: PostgresInbox(url))
        self.url = url

    def usurp(self) -> None:
        self._execute("UPDATE perdure_owner SET epoch = epoch + 1")

    def spoil_record(self, seq: int) -> None:
        self._execute(
            "UPDATE perdure_records SET body = body || ' ' WHERE seq = %s", seq
        )

    def spoil_snapshot(self, stream: str, version: int) -> None:
        self._execute(
            "UPDATE perdure_snapshots SET body = body || ' ' WHERE version = %s",
            version,
        )

    def advance_snapshot(self, stream: str, version: int, ahead: int) -> None:
        self._execute(
            "UPDATE perdure_snapshots SET version = %s, checksum = %s",
            ahead,
            self.checksum(stream, ahead),
        )

    def _execute(self, sql: str, *params: Any) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql, params)


def compact(value: Any) -> str:
    """As the store writes it, so that bodies keep their bytes."""
    return json.dumps(value, separators=(",", ":"))


class FolderWorld(KeptWorld):
    def __init__(self, path: Path) -> None:
        super().__init__(lambda: FolderBackend(path), lambda: FolderInbox(path))
        self.path = path

    def usurp(self) -> None:
        mark = json.loads((self.path / "store.json").read_text())
        mark["epoch"] += 1
        (self.path / "store.json").write_text(json.dumps(mark))

    def spoil_record(self, seq: int) -> None:
        for file in (self.path / "log").glob("*.json"):
            whole = json.loads(file.read_text())
            for record in whole["records"]:
                if record["seq"] == seq:
                    record["body"] = {"json": {"spoilt": True}}
            file.write_text(compact(whole))
        self._forget()

    def spoil_snapshot(self, stream: str, version: int) -> None:
        self._change(version, {"body": {"json": {"spoilt": True}}})

    def advance_snapshot(self, stream: str, version: int, ahead: int) -> None:
        checksum = self.checksum(stream, ahead)
        self._change(version, {"version": ahead, "checksum": checksum})

    def _change(self, version: int, fields: dict[str, Any]) -> None:
        for file in (self.path / "snapshots").glob("*.json"):
            kept = json.loads(file.read_text())
            kept = [one | fields if one["version"] == version else one for one in kept]
            file.write_text(compact(kept))
        self._forget()

    def _forget(self) -> None:
        """Have the owner read the files again, as the next one would."""
        for bench in self.benches:
            assert isinstance(bench.backend, FolderBackend)
            bench.backend._image.forget()


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


class TestSqliteJournal(JournalContract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[SqliteWorld]:
        world = SqliteWorld(tmp_path / "tasks.db")
        yield world
        world.close()


class TestPostgresJournal(JournalContract):
    @pytest.fixture
    def world(self, postgres: str) -> Iterator[PostgresWorld]:
        world = PostgresWorld(postgres)
        yield world
        world.close()


class TestFolderJournal(JournalContract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[FolderWorld]:
        world = FolderWorld(tmp_path / "tasks")
        yield world
        world.close()


class TestMemoryJournal(JournalContract):
    @pytest.fixture
    def world(self) -> MemoryWorld:
        return MemoryWorld()


class TestALesserJournal(JournalContract):
    """A back end that says what it lacks is held to the rest."""

    capabilities = ALL - {"erase", "inbox", "snapshots", "spoil"}

    @pytest.fixture
    def world(self) -> MemoryWorld:
        return MemoryWorld()
