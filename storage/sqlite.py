"""The store as one SQLite file, written through WAL with a sync for each batch.

While it is owned, a ``-wal`` and a ``-shm`` file stand beside it; at rest it is one
plain file (and the lock's), which can be copied and read without making others.

Inside the owning process read it with `open_reader` only: a second SQLite library in
one process (the standard library's) drops the first one's locks when it closes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import apsw

from .backend import Batch, HeldUp, Opening, Warn
from .base_reader import Reader
from .errors import CannotOpen, Fenced, StoreFailed, StoreTrouble
from .posix import OwnerLock, forget_cached
from .records import JSON_CODEC, Record, Row, Snapshot, snapshot_checksum
from .sqlite_erase import erase, finish, is_scrub_due, rebuild
from .sqlite_file import (
    BUSY_TIMEOUT,
    cannot_open,
    connect,
    create,
    errors_of,
    is_missing,
    look,
    wal_of,
)
from .sqlite_pack import is_loose, pack
from .sqlite_places import BEHIND, note
from .sqlite_reader import SqliteReader
from .sqlite_tidy import Tidying, give_back, has_room

__all__ = ["SqliteBackend"]

CHUNK = 16  # rows of one INSERT, at most
NAMES_CACHED = 4_096  # streams; those of ended tasks are among them

_NAMES = {
    "streams": (
        "SELECT id FROM streams WHERE name = ?",
        "INSERT INTO streams (name) VALUES (?)",
    ),
    "types": (
        "SELECT id FROM types WHERE name = ?",
        "INSERT INTO types (name) VALUES (?)",
    ),
}
_BEGIN = "BEGIN IMMEDIATE; SELECT epoch FROM owner WHERE id = 1"
_KEEP_TWO_SNAPSHOTS = """
DELETE FROM snapshots WHERE stream_id = ?1 AND version NOT IN (
    SELECT version FROM snapshots WHERE stream_id = ?1 AND version <= ?2
    ORDER BY version DESC LIMIT 2
)
"""


@cache
def _insertion(verb: str, table: str, columns: int, rows: int) -> str:
    marks = "(" + ",".join("?" * columns) + ")"
    return f"{verb} INTO {table} VALUES " + ",".join([marks] * rows)


class SqliteBackend:
    """One opening of a store file.

    Args:
        path: the file, in a folder that exists.
        create: make the file on `open` where it does not exist. A runtime that opens
            its store again says False: an empty store in place of one that is away
            would look as if all tasks were lost.
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True) -> None:
        self._path = Path(os.path.realpath(path))
        self._create = create
        self._lock: OwnerLock | None = None
        self._connection: apsw.Connection | None = None
        self._readers: list[SqliteReader] = []
        self._epoch = 0
        self._data_version: object = None  # https://sqlite.org/pragma.html
        self._names: dict[str, dict[str, int]] = {"streams": {}, "types": {}}
        self._fresh: list[tuple[str, str, int]] = []
        self._tidying = Tidying(self._path)
        self._behind = 0  # records whose places are not noted
        self._scrub_due = False  # whether erased bytes may be left
        self._rebuilt = False  # whether they are in the WAL's past only

    @property
    def path(self) -> str:
        """How messages name this store."""
        return str(self._path)

    def open(self) -> Opening:
        """Look, lock, look again, and raise the runtime's epoch before any read.

        Raises:
            CannotOpen: the folder is missing or cannot be written, and the like.
            NotAStore: the file is something else.
            NewerLayout: a newer perdure wrote it.
            StoreLocked: another runtime owns it.
            StoreTrouble: it is full or busy just now.
        """
        if not self._create or not is_missing(self._path):
            look(self._path)
        try:
            self._lock = OwnerLock(self._path)
        except OSError as error:
            raise cannot_open(self._path, error) from error
        try:
            return self._open()
        except BaseException:
            self.abandon()
            raise

    def _open(self) -> Opening:
        try:
            if self._create and is_missing(self._path):
                create(self._path)
            look(self._path)
            if wal := wal_of(self._path):
                forget_cached(wal)
        except OSError as error:
            raise cannot_open(self._path, error) from error
        connection = self._connection = connect(self._path, write=True)
        if connection.readonly("main"):
            raise CannotOpen(
                self.path, "it is write-protected", "make it writable for this user"
            )
        with errors_of(self.path):
            if connection.pragma("journal_mode", "WAL") != "wal":
                raise CannotOpen(
                    self.path,
                    "its file system cannot share memory between processes",
                    "put it on a local disk",
                )
            connection.pragma("synchronous", "FULL")
            connection.pragma("fullfsync", 1)  # macOS: through the drive's cache too
            connection.pragma("wal_autocheckpoint", 0)
            connection.set_wal_hook(self._tidying.count)
            with connection:
                self._epoch = connection.execute(
                    "UPDATE owner SET epoch = epoch + 1 RETURNING epoch"
                ).get
                note(connection)
            last = connection.execute("SELECT max(seq) FROM records").get
            self._scrub_due = is_scrub_due(connection)
        if self._scrub_due:  # the process that erased it has died
            self._scrub_again()
        return Opening(runtime_epoch=self._epoch, last_seq=last or 0)

    def write(self, batch: Batch) -> None:
        """Begin a transaction, check the runtime's epoch in it, write the batch."""
        with errors_of(self.path):
            self._begin()
            if batch.erasure is not None:
                self._names["streams"].clear()
                self._rebuilt = False
                erase(self._db, batch.erasure)
            self._insert("records", [self._values(one) for one in batch.records])
            self._behind += len(batch.records)
            if self._behind >= BEHIND:
                note(self._db)
                self._behind = 0
            if batch.rows:
                self._write_rows(batch.rows)
            if batch.blobs:
                kept = list(batch.blobs.items())
                self._insert("blobs", kept, verb="INSERT OR IGNORE")

    def _values(self, record: Record) -> tuple[object, ...]:
        streams, types = self._names["streams"], self._names["types"]
        return (
            record.seq,
            streams.get(record.stream) or self._id("streams", record.stream),
            record.version,
            types.get(record.type) or self._id("types", record.type),
            record.schema_version,
            None if record.codec == JSON_CODEC else record.codec,
            record.at,
            record.epoch,
            record.incarnation,
            record.body,
            record.checksum,
        )

    def _write_rows(self, rows: Sequence[Row]) -> None:
        kept = [
            (one.space, one.key, one.value) for one in rows if one.value is not None
        ]
        gone = [(r.space, r.key) for r in rows if r.value is None]
        self._insert("rows", kept, verb="REPLACE")
        if gone:
            self._db.executemany("DELETE FROM rows WHERE space = ? AND key = ?", gone)

    def flush(self) -> None:
        """Commit what `write` began; durable when this returns."""
        with errors_of(self.path):
            self._db.execute("COMMIT")
        self._keep_names()

    def rollback(self) -> None:
        """Undo what `write` began."""
        self._fresh.clear()
        with errors_of(self.path):
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
                self._behind = BEHIND  # it may have noted them

    def scrub(self) -> None:
        """Rebuild the file without what a flushed erasure took out; see the protocol.

        Readers in other processes go on meanwhile; who writes commands waits.
        """
        self._scrub_due = True
        with errors_of(self.path):
            if not self._rebuilt:
                rebuild(self._db)
                self._rebuilt = True  # not again: a WAL that is read would grow by it
            finish(self._db)
        self._scrub_due = False

    def write_snapshots(self, snapshots: Sequence[Snapshot]) -> list[Snapshot]:
        """Store snapshots, the newest two a stream; return those not written.

        Their transaction is not synced: the next flush covers it, and a power cut
        before that costs a longer replay only.
        """
        connection = self._db
        with errors_of(self.path):
            connection.pragma("synchronous", "NORMAL")
            try:
                self._begin()
                refused = [s for s in snapshots if not self._store_snapshot(s)]
                connection.execute("COMMIT")
            finally:
                self.rollback()
                connection.pragma("synchronous", "FULL")
        return refused

    def reader(self, warn: Warn) -> Reader:
        """Return a reader on a connection of its own, closed with the backend."""
        reader = SqliteReader(self._path, warn, owned=True)
        self._readers.append(reader)
        return reader

    def watch(self, notice: Callable[[], object]) -> bool:
        """SQLite calls nobody: say that `changed` is to be asked."""
        return True

    def changed(self) -> bool:
        """Tell whether anybody else has written to the store since the last call."""
        with errors_of(self.path):
            version = self._db.pragma("data_version")
        before, self._data_version = self._data_version, version
        return bool(version != before)

    def tidy(self, *, idle: bool) -> bool:
        """Copy a long WAL into the file, so that it starts over from its beginning.

        When idle, copy whatever it holds and cut it to nothing, and then gather room
        that is free and give it back, a few pages at a time. Returns whether there is
        more to do.
        """
        if idle and self._scrub_due:
            self._scrub_again()
        elif idle:
            self._tidying.empty(self._db)
            if not self._tidying.used:
                self._give_back()
        else:
            self._tidying.copy(self._db)
        return self._tidying.used or self._scrub_due

    def held_up(self) -> HeldUp | None:
        """Say that the WAL is over 64 MiB, since somebody reads what stood there."""
        return self._tidying.held_up

    def close(self) -> None:
        """Bring the file to its resting form and give it up."""
        self._close_readers()
        try:
            with errors_of(self.path):
                self._db.pragma("journal_mode", "DELETE")
        except (StoreTrouble, StoreFailed):
            # Somebody reads it, it is full or it is broken: it rests with its WAL
            # beside it, which holds all that was acknowledged.
            pass
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Give the store up as it is; nothing more is written to it."""
        self._close_readers()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(True)
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    @property
    def _db(self) -> apsw.Connection:
        if self._connection is None:
            raise StoreFailed(self.path, "it is not open")
        return self._connection

    def _begin(self) -> None:
        current = self._db.execute(_BEGIN).get
        if current != self._epoch:
            self.rollback()
            raise Fenced(
                self.path,
                f"it was opened again (runtime epoch {current}, ours {self._epoch})",
            )

    def _insert(
        self, table: str, rows: Sequence[tuple[object, ...]], verb: str = "INSERT"
    ) -> None:
        # Several rows a statement, not executemany: each step lets the interpreter
        # go, and taking it back costs up to its switch interval on a busy host.
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            statement = _insertion(verb, table, len(part[0]), len(part))
            self._db.execute(statement, [value for row in part for value in row])

    def _id(self, table: str, name: str) -> int:
        """The number of a name that no earlier batch had, or of one not remembered."""
        find, add = _NAMES[table]
        found = self._db.execute(find, (name,)).get
        if found is None:
            self._db.execute(add, (name,))
            found = self._db.last_insert_rowid()
        self._fresh.append((table, name, found))
        return int(found)

    def _keep_names(self) -> None:
        for table, name, number in self._fresh:
            known = self._names[table]
            if len(known) >= NAMES_CACHED:
                known.clear()
            known[name] = number
        self._fresh.clear()

    def _store_snapshot(self, snapshot: Snapshot) -> bool:
        stream_id = self._db.execute(
            "SELECT stream_id FROM records WHERE seq = ? AND version = ? AND "
            "stream_id = (SELECT id FROM streams WHERE name = ?)",
            (snapshot.covers, snapshot.version, snapshot.stream),
        ).get
        if stream_id is None:
            return False
        self._db.execute(
            "INSERT OR REPLACE INTO snapshots (stream_id, version, covers, "
            "state_schema, at, reason, body, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                stream_id,
                snapshot.version,
                snapshot.covers,
                snapshot.state_schema,
                snapshot.at,
                snapshot.reason,
                snapshot.body,
                snapshot_checksum(snapshot),
            ),
        )
        self._db.execute(_KEEP_TWO_SNAPSHOTS, (stream_id, snapshot.version))
        return True

    def _close_readers(self) -> None:
        for reader in self._readers:
            reader.close()
        self._readers.clear()

    def _give_back(self) -> None:
        """Gather what is free, or cut some of it off; more when it is idle again."""
        try:
            with errors_of(self.path):
                step = pack if is_loose(self._db) else give_back
                if step is pack or has_room(self._db):
                    self._begin()
                    step(self._db)
                    self._db.execute("COMMIT")
        except StoreTrouble:
            self.rollback()  # it is tried again when idle

    def _scrub_again(self) -> None:
        self._db.set_busy_timeout(0)  # whoever reads just now goes first
        try:
            self.scrub()
        except StoreTrouble:
            pass  # it is tried again when idle
        finally:
            self._db.set_busy_timeout(BUSY_TIMEOUT)
